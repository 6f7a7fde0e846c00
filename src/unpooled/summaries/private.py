"""Sums with noise. Everything is checked, then the ledger is charged, and only then are the rows looked at."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..blocks.base import Source
from ..messages import shown
from ..privacy.checks import budget
from ..privacy.ledger import Reservation, opened
from ..privacy.noise import GridGaussian
from ..privacy.private import Bounds, Private
from ..quiet import quietly
from ..sources import open_labeled
from .accumulate import Target, _target, check_order, of_target
from .compensated import Sum
from .summary import Contents, Summary, loss_of, shapes, spec_of
from .unread import checked, one_label


@dataclass(frozen=True)
class Bounded(Target):
    """A target whose every record is within the bounds by force; what it does to one looks at no other."""

    kappa: float = np.inf
    label_bound: float = np.inf

    def looking(self) -> contextlib.AbstractContextManager[None]:
        """Without a word about any record."""
        return quietly()

    def pushed(self, u: np.ndarray, residual: bool) -> np.ndarray:
        """ψ(u) moved into [-c, c]; where a label is so large that ψ is not a number, 0."""
        with np.errstate(all="ignore"):
            psi = np.nan_to_num(super().pushed(u, residual), nan=0.0, posinf=np.inf, neginf=-np.inf)
        return np.clip(psi, -self.label_bound, self.label_bound)

    def features(self, phi: np.ndarray) -> np.ndarray:
        """φ shrunk to norm κ; 0 where inputs are so large that φ is not a number."""
        with np.errstate(all="ignore"):
            phi = np.where(np.all(np.isfinite(phi), axis=1)[:, None], phi, 0.0)
            largest = np.max(np.abs(phi), axis=1, initial=0.0)
            scale = np.where(largest > 0, largest, 1.0)  # so that no square overflows
            lengths = np.linalg.norm(phi / scale[:, None], axis=1)  # from 1 to √M
            shrink = np.minimum(1.0, self.kappa / scale / np.maximum(lengths, 1.0))
            return np.asarray(phi * shrink[:, None])


@dataclass(frozen=True)
class Asked:
    """A private summary that was checked: nothing of it has looked at a record."""

    privacy: Private
    basis: Any
    contents: Contents
    target: Bounded
    bounds: Bounds
    noise: GridGaussian

    @property
    def purpose(self) -> str:
        """For the ledger and the guarantee."""
        return self.privacy.purpose_of(self.bounds)

    def charge(self) -> Reservation | None:
        """Spend the budget, where there is a ledger."""
        ledger = opened(self.privacy.ledger)
        return None if ledger is None else ledger.charge(self.noise.event, self.purpose)

    def checked(self, X: Any, y: Any) -> Source | None:
        """Refuse what can be refused with the rows unread; the rows as a source where they stay unread in it."""
        return checked(self.basis, X, y)

    def opened(self, X: Any, y: Any) -> Source:
        """The rows, read and checked, after the charge."""
        with quietly():
            return open_labeled(self.basis, X, y, None, any_size=True)

    def before_noise(self, source: Source, engine: Any = None, verbose: int = 0) -> tuple[Summary, np.ndarray]:
        """The bounded sums, and the vector of them that gets the noise. Neither may leave: for this file, and tests."""
        one_label(source.n_outputs)
        with quietly():
            exact = of_target(self.basis, source, self.contents, self.target, engine, verbose)
            return exact, self.bounds.released.pack({name: value.high for name, value in exact.sums.items()})

    def release(self, source: Source, engine: Any = None, verbose: int = 0) -> Summary:
        """The summary with its noise, for which budget has been spent."""
        exact, vector = self.before_noise(source, engine, verbose)
        noise = self.noise
        if exact.n_rows > noise.bound / self.bounds.released.largest:  # rows beyond what was planned for: round again
            noise = self.privacy.planned(self.bounds, self.basis.rows_at_once, exact.n_rows)
        record = self.privacy.record(self.bounds, noise, self.purpose)
        fields = shapes(exact.contents, record)
        with quietly():
            noised = noise.add(vector)
        noisy = self.bounds.released.unpack(noised)
        sums = {"weight": Sum.of(np.asarray([float(exact.n_rows)]))}
        sums |= {name: Sum.of(values.reshape(fields[name])) for name, values in noisy.items()}
        return replace(exact, sums={name: sums[name] for name in fields}, privacy=record)


def asked(basis: Any, order: int, residuals_of: Any, loss: Any, sample_weight: Any, privacy: Any) -> Asked:
    """Check all that is public; a ValueError says in a sentence what cannot be."""
    if not isinstance(privacy, Private):
        raise ValueError(f"privacy must be up.privacy.Private(epsilon, delta, ...), got {shown(privacy)}")
    if sample_weight is not None:
        raise ValueError(_WEIGHTS)
    spec = spec_of(loss)
    found = loss_of(spec)
    digest, target = _target(basis, residuals_of, found)
    if target.coef is not None and target.coef.shape[1] != 1:
        raise ValueError(f"a private summary is of one label, and residuals_of predicts {target.coef.shape[1]}")
    contents = Contents(basis.digest, basis.n_features_, order, 1, spec, digest)
    check_order(contents)
    bounds = privacy.bounds(basis.kernel_, basis.n_features_, order, found.bound)
    bounded = Bounded(
        found,
        target.coef,
        target.intercept,
        target.predictor,
        with_loss=False,
        kappa=bounds.kappa,
        label_bound=bounds.label_bound,
    )
    return Asked(privacy, basis, contents, bounded, bounds, privacy.planned(bounds, basis.rows_at_once))


def private(
    basis: Any,
    X: Any,
    y: Any,
    order: int,
    residuals_of: Any,
    loss: Any,
    sample_weight: Any,
    engine: Any,
    verbose: int,
    privacy: Any,
) -> Summary:
    """The summary of everything ``X`` and ``y`` hold, with noise."""
    question = asked(basis, order, residuals_of, loss, sample_weight, privacy)
    source = question.checked(X, y)
    shape = getattr(X, "shape", None)  # of an array or a frame, known without looking at a value
    n = shape[0] if isinstance(shape, tuple) and shape and type(shape[0]) is int and shape[0] > 0 else None
    n = n if source is None else source.n_rows
    budget(privacy.epsilon, privacy.delta, n)
    reservation = question.charge()
    source = question.opened(X, y) if source is None else source
    if n is None and source.n_rows > 0:
        budget(privacy.epsilon, privacy.delta, source.n_rows)
    summary = question.release(source, engine, verbose)
    if reservation is not None:
        reservation.commit(n_rows=summary.n_rows, basis=summary.digest)
    return summary


_WEIGHTS = (
    "sample_weight counts as repeated rows, and a record that counts often moves the sums further than the noise hides:"
    " leave it out of a private summary"
)
