"""Private, the request for sums with differential privacy, and the release that it leads to.

A request holds public facts only, and it is checked before any data are read. The record of what was done is another
class (:mod:`.noised`).

Rows that nobody has looked at can still be refused: by their shape, by their names, or by the schema of a file. For
sums with noise everything is checked first, then the ledger is charged, and only then are the rows looked at.

The noise scale assumes 2²² rows, or the next power of two where there are more. So it does not depend on how many rows
there are, σ is known before data are read, and sites that make shares of one noise use one grid.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._base.checks import check_budget, check_positive, check_whole
from .._base.compensated import Sum
from .._base.rows import Source
from .._base.text import quote
from .._base.threads import silence_warnings
from ..data.sources import UnreadRows
from ..summaries.contents import Contents, NoiseRequest, loss_of, shapes, spec_of
from ..summaries.passes import Target, residual_target
from ..summaries.summary import Summary, check_order, of_target
from .composition import Guarantee, Spent
from .gaussian import Gaussian, mu_for
from .ledger import Spending, check_ledger
from .noise import GridGaussian
from .noised import MECHANISM, Noised, condition
from .sensitivity import ROOM, Released, bound_of

PLANNED_ROWS = 2**22  # noise is planned for so many rows at least: it does not tell n, and sites of one study agree
UNIT = 2.0**-53  # half a unit in the last place


@dataclass(frozen=True)
class Private(NoiseRequest):
    """Ask for sums with noise: ``Summary.of(..., privacy=Private(1.0, 1e-6, label_bound=3.0))``.

    Everything here is public, and is checked before data are read and before budget is charged.

    Parameters
    ----------
    epsilon, delta : the guarantee of this one summary; neighbours replace one record, n is public
    label_bound : c; what stands in the place of y (labels, or residuals) is moved into [-c, c], and nobody is told of
        how many. None where a loss bounds it: sup|ψ| is then the bound
    ledger : a Ledger or the path of one, to be charged before the data are looked at; None keeps no books
    means : how much of the noise is kept from Σφ and Σy, which an intercept needs; 0 leaves them out
    labels : at order 2, how much of it is kept from Σyφ (see :class:`Released`)
    parties, missing : the noise is made in shares by so many sites, of which so many may be missing; see
        docs/privacy/summaries.md. One party makes all its noise itself
    purpose : what the ledger and the guarantee say that this is for
    kappa : features are shrunk to this norm; None is sup √K(x, x), which an unbounded kernel does not have
    """

    epsilon: float
    delta: float
    label_bound: float | None = None
    _: KW_ONLY
    ledger: Any = None
    means: float = 0.25
    labels: float = 1.0
    parties: int = 1
    missing: int = 0
    purpose: str | None = None
    kappa: float | None = None

    def __post_init__(self) -> None:
        epsilon, delta = check_budget(self.epsilon, self.delta)
        found: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
        for name in ("label_bound", "kappa"):
            value = getattr(self, name)
            found[name] = None if value is None else check_positive(name, value)
        found |= {
            "means": check_positive("means", self.means, zero=True),
            "labels": check_positive("labels", self.labels),
        }
        found |= {"parties": check_whole("parties", self.parties), "missing": check_whole("missing", self.missing, 0)}
        for name, value in found.items():
            object.__setattr__(self, name, value)
        if self.missing >= self.parties:
            raise ValueError(f"missing must be less than the {self.parties} parties, got {self.missing}")
        if not (self.purpose is None or (isinstance(self.purpose, str) and self.purpose)):
            raise ValueError(f"purpose must say what is released, got {quote(self.purpose)}")
        check_ledger(self.ledger)

    def bounds(self, kernel: Any, n_features: int, order: int, loss_bound: float) -> Bounds:
        """What is made sure of for these sums, or a sentence that says why it cannot be."""
        kappa = self.kappa
        if kappa is None:
            advice = "use a bounded one (Gaussian, Laplacian, Matern), or shrink features with Private(kappa=...)"
            kappa = bound_of(kernel, "the sums", advice)
        c = min(math.inf if self.label_bound is None else self.label_bound, loss_bound)
        if not c < math.inf:
            raise ValueError(
                "labels and squared residuals have no bound, so one record could move the sums by any amount: give "
                "label_bound, or a loss that has one (Huber or Correntropy)"
            )
        # What rounds above κ, or above sup|ψ|, is within the bounds that the noise is planned for.
        released = Released(n_features, kappa * (1 + ROOM), c * (1 + ROOM), order, self.means, self.labels, True)
        return Bounds(kappa, c, released)

    def planned(self, bounds: Bounds, rows_at_once: int, n: int = 0) -> GridGaussian:
        """The noise for sums of up to 2²² rows, or up to the next power of two where there are more.

        Sums of m = ``rows_at_once`` products are made by BLAS in double precision and added up to twice that, Σφφᵀ in
        double precision a stretch of rows at a time. In any order such a sum is off by at most (m + 2n/m + 8)·2⁻⁵³ of
        the sum of sizes (Higham 2002, section 3.1), which is at most n times the largest record's. No number here
        depends on n below 2²², so sites that make shares of one noise make them alike, on one grid.
        """
        n = max(PLANNED_ROWS, 1 << (n - 1).bit_length())
        depth = rows_at_once + 2 * n / rows_at_once + 8
        inexact = 1.01 * depth * UNIT * n * bounds.released.largest
        mu = mu_for(self.epsilon, self.delta)
        return bounds.released.plan(n, mu, inexact=inexact, parties=self.parties, missing=self.missing)

    def summarize(
        self,
        basis: Any,
        X: Any,
        y: Any,
        order: int,
        residuals_of: Any,
        loss: Any,
        sample_weight: Any,
        engine: Any,
        verbose: int,
    ) -> Summary:
        """The summary of everything ``X`` and ``y`` hold, with noise."""
        question = asked(basis, order, residuals_of, loss, sample_weight, self)
        with question.spending() as spending:
            summary = question.release(question.read(spending, X, y), engine, verbose)
            spending.note(n_rows=summary.n_rows, basis=summary.digest)
        return summary

    def purpose_of(self, bounds: Bounds) -> str:
        """What was asked to be said of it, or the sums by their names."""
        return self.purpose or ", ".join(NAMES[name] for name in bounds.released.weights)

    def record(self, bounds: Bounds, noise: GridGaussian, purpose: str) -> Noised:
        """What the summary says of its noise."""
        r = bounds.released
        public = ("the number of records", "the basis", f"κ = {bounds.kappa:.6g}", f"c = {bounds.label_bound:.6g}")
        spent = (Spent(purpose, Gaussian(noise.mu)),)
        conditions = (condition(self.parties, self.missing),) if self.parties > 1 else ()
        promise = Guarantee(self.epsilon, self.delta, MECHANISM, spent, public=public, conditions=conditions)
        sigma = {name: noise.own_sigma / float(weights[0]) for name, weights in r.weights.items()}
        facts = (bounds.kappa, bounds.label_bound, r.order, r.means, r.labels)
        return Noised(((1, promise),), sigma, *facts, self.parties, self.missing, 1, noise.grid)


@dataclass(frozen=True)
class Bounds:
    """Features are shrunk to ``kappa``, what stands in the place of y is moved into ±``label_bound``."""

    kappa: float
    label_bound: float
    released: Released  #: the sums, with these bounds and room for rounding


NAMES = {"phi_y": "Σyφ", "phi": "Σφ", "y": "Σy", "yy": "Σy²", "gram": "Σφφᵀ"}


def one_label(n: int) -> None:
    """Noise is planned for one."""
    if n != 1:
        raise ValueError(f"a private summary is of one label, and y has {n}: make one for each, and pay for each")


@dataclass(frozen=True)
class Bounded(Target):
    """A target whose every record is within the bounds by force; what it does to one looks at no other."""

    kappa: float = np.inf
    label_bound: float = np.inf

    tells_share: ClassVar[bool] = False

    def looking(self) -> contextlib.AbstractContextManager[None]:
        """Without a word about any record."""
        return silence_warnings()

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

    def spending(self) -> Spending:
        """The context of the one release that this pays for."""
        return Spending(self.privacy.ledger, self.noise.event, self.purpose)

    def unread(self, X: Any, y: Any) -> UnreadRows:
        """Refuse what can be refused with the rows unread; they are read after the charge."""
        rows = UnreadRows.of(self.basis, X, y)
        if rows.n_labels is not None:
            one_label(rows.n_labels)
        return rows

    def read(self, spending: Spending, X: Any, y: Any) -> Source:
        """Refuse what can be refused with the rows unread, charge, and only then read what has to be read."""
        rows = self.unread(X, y)
        n = rows.n_rows
        check_budget(self.privacy.epsilon, self.privacy.delta, n)
        source = spending.read(rows.read)
        if n is None and source.n_rows > 0:
            check_budget(self.privacy.epsilon, self.privacy.delta, source.n_rows)
        return source

    def before_noise(self, source: Source, engine: Any = None, verbose: int = 0) -> tuple[Summary, np.ndarray]:
        """The bounded sums, and the vector of them that gets the noise. Neither may leave: for this file, and tests."""
        one_label(source.n_outputs)
        with silence_warnings():
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
        with silence_warnings():
            noised = noise.add(vector)
        noisy = self.bounds.released.unpack(noised)
        sums = {"weight": Sum.of(np.asarray([float(exact.n_rows)]))}
        sums |= {name: Sum.of(values.reshape(fields[name])) for name, values in noisy.items()}
        return replace(exact, sums={name: sums[name] for name in fields}, privacy=record)


def asked(basis: Any, order: int, residuals_of: Any, loss: Any, sample_weight: Any, privacy: Any) -> Asked:
    """Check all that is public; a ValueError says in a sentence what cannot be."""
    if not isinstance(privacy, Private):
        raise ValueError(f"privacy must be up.privacy.Private(epsilon, delta, ...), got {quote(privacy)}")
    if sample_weight is not None:
        raise ValueError(_WEIGHTS)
    spec = spec_of(loss)
    found = loss_of(spec)
    digest, target = residual_target(basis, residuals_of, found)
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


_WEIGHTS = (
    "sample_weight counts as repeated rows, and a record that counts often moves the sums further than the noise hides:"
    " leave it out of a private summary"
)
