"""PrivacyRequest, the request for sums with differential privacy, and the release that it leads to.

A request holds only public facts, and is checked before any data are read. A ``NoiseRecord`` says afterwards what was
done.

The order is always the same: everything that can be checked without looking at a record is checked first (the shape of
the rows, their column names, the schema of a file), then the ledger is charged, and only then are rows read.

The noise scale assumes 2²² rows, or the next power of two if there are more. It therefore does not depend on the number
of rows, σ is known before data are read, and all sites that share the noise use one grid.
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
from ..summaries.contents import Contents, NoiseRequest, field_shapes, loss_of, spec_of
from ..summaries.passes import Target, make_target
from ..summaries.summary import Summary, check_order, summarize_target
from .composition import Expense, Guarantee
from .gaussian import GaussianEvent, mu_for
from .ledger import Spending, check_ledger
from .noise import GridGaussian
from .noise_record import MECHANISM, NoiseRecord, share_condition
from .sensitivity import PLANNED_ROWS, ROOM, WeightedSums, require_kernel_bound

_UNIT = 2.0**-53  # half a unit in the last place


@dataclass(frozen=True)
class PrivacyRequest(NoiseRequest):
    """Request for sums with noise: ``Summary.of(..., privacy=PrivacyRequest(1.0, 1e-6, label_bound=3.0))``.

    Everything in a request is public, and is checked before data are read and before the ledger is charged.

    Parameters
    ----------
    epsilon, delta : the guarantee of this one summary; neighbours replace one record, and n is public
    label_bound : c; labels outside [−c, c] are clipped silently (or residuals, in a round of residuals). None if the
        loss is bounded: the bound is then sup|ψ|
    ledger : a Ledger or the path of one, which is charged before the data are read; None charges no ledger
    means : the weight of Σφ and Σy, which an intercept needs: a larger weight makes them more accurate, and with 0 they
        are not released
    labels : at order 2, the weight of Σyφ (see :class:`WeightedSums`)
    parties, missing : the noise is made in shares by ``parties`` sites, of which ``missing`` may be absent; see
        docs/privacy/summaries.md. A single party makes all its noise itself
    purpose : the purpose that the ledger and the guarantee name
    kappa : the norm to which features are shrunk; None takes sup √K(x, x), which is infinite for an unbounded kernel
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
        checked: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
        for name in ("label_bound", "kappa"):
            value = getattr(self, name)
            checked[name] = None if value is None else check_positive(name, value)
        checked |= {
            "means": check_positive("means", self.means, zero=True),
            "labels": check_positive("labels", self.labels),
        }
        checked |= {"parties": check_whole("parties", self.parties), "missing": check_whole("missing", self.missing, 0)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.missing >= self.parties:
            raise ValueError(f"missing must be less than the {self.parties} parties, got {self.missing}")
        if not (self.purpose is None or (isinstance(self.purpose, str) and self.purpose)):
            raise ValueError(f"purpose must say what is released, got {quote(self.purpose)}")
        check_ledger(self.ledger)

    def bounds(self, kernel: Any, n_features: int, order: int, loss_bound: float) -> _Bounds:
        """Return the bounds that are enforced for these sums; raise a ValueError if there are none."""
        kappa = self.kappa
        if kappa is None:
            advice = (
                "use a bounded kernel (Gaussian, Laplacian, Matern), or shrink the features with "
                "PrivacyRequest(kappa=...)"
            )
            kappa = require_kernel_bound(kernel, "the sums", advice)
        c = min(math.inf if self.label_bound is None else self.label_bound, loss_bound)
        if not c < math.inf:
            raise ValueError(
                "labels and residuals of the squared loss have no bound, so one record could move the sums by any "
                "amount: give label_bound, or a loss with bounded influence (Huber or Correntropy)"
            )
        # A norm that rounds to just above κ, or a label above sup|ψ|, is within the bounds that the noise assumes.
        released = WeightedSums(n_features, kappa * (1 + ROOM), c * (1 + ROOM), order, self.means, self.labels, True)
        return _Bounds(kappa, c, released)

    def calibrate_noise(self, bounds: _Bounds, rows_at_once: int, n: int = 0) -> GridGaussian:
        """Return the noise for sums of up to 2²² rows, or up to the next power of two if there are more.

        BLAS sums m = ``rows_at_once`` products in double precision, and these sums are added in twice that precision;
        Σφφᵀ is added in double precision for a stretch of rows at a time. Whatever the order, the error of such a sum
        is at most (m + 2n/m + 8)·2⁻⁵³ times the sum of absolute values (Higham 2002, section 3.1), which is at most n
        times that of the largest record. No number here depends on n below 2²², so sites that make shares of one noise
        make them alike, on one grid.
        """
        n = max(PLANNED_ROWS, 1 << (n - 1).bit_length())
        depth = rows_at_once + 2 * n / rows_at_once + 8
        inexact = 1.01 * depth * _UNIT * n * bounds.weighted_sums.largest
        mu = mu_for(self.epsilon, self.delta)
        return bounds.weighted_sums.calibrate_noise(n, mu, inexact=inexact, parties=self.parties, missing=self.missing)

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
        """Return the summary of ``X`` and ``y`` with noise."""
        question = check_request(basis, order, residuals_of, loss, sample_weight, self)
        with question.spending() as spending:
            summary = question.release(question.read(spending, X, y), engine, verbose)
            spending.note(n_rows=summary.n_rows, basis=summary.digest)
        return summary

    def purpose_of(self, bounds: _Bounds) -> str:
        """Return the purpose that was given, or the names of the released sums."""
        return self.purpose or ", ".join(NAMES[name] for name in bounds.weighted_sums.weights)

    def record(self, bounds: _Bounds, noise: GridGaussian, purpose: str) -> NoiseRecord:
        """Return the record of the noise in the summary."""
        r = bounds.weighted_sums
        public = ("the number of records", "the basis", f"κ = {bounds.kappa:.6g}", f"c = {bounds.label_bound:.6g}")
        expenses = (Expense(purpose, GaussianEvent(noise.mu)),)
        conditions = (share_condition(self.parties, self.missing),) if self.parties > 1 else ()
        promise = Guarantee(self.epsilon, self.delta, MECHANISM, expenses, public=public, conditions=conditions)
        sigma = {name: noise.own_sigma / float(weights[0]) for name, weights in r.weights.items()}
        facts = (bounds.kappa, bounds.label_bound, r.order, r.means, r.labels)
        return NoiseRecord(((1, promise),), sigma, *facts, self.parties, self.missing, 1, noise.grid)


@dataclass(frozen=True)
class _Bounds:
    """The bounds that are enforced: features are shrunk to norm ``kappa``, labels clipped to ±``label_bound``."""

    kappa: float
    label_bound: float
    weighted_sums: WeightedSums  #: the sums with these bounds, slightly widened for rounding


NAMES = {"phi_y": "Σyφ", "phi": "Σφ", "y": "Σy", "yy": "Σy²", "gram": "Σφφᵀ"}


def _check_one_label(n: int) -> None:
    """Raise a ValueError unless there is one label, as the noise scale assumes."""
    if n != 1:
        raise ValueError(
            f"a private summary has one label, and y has {n}: make one summary per label; each is charged separately"
        )


@dataclass(frozen=True)
class BoundedTarget(Target):
    """A target that brings each record within the bounds without looking at any other record."""

    kappa: float = np.inf
    label_bound: float = np.inf

    tells_share: ClassVar[bool] = False

    def reading_context(self) -> contextlib.AbstractContextManager[None]:
        """Suppress all warnings, because a warning could reveal something about a record."""
        return silence_warnings()

    def push(self, u: np.ndarray, residual: bool) -> np.ndarray:
        """Return ψ(u) clipped to [−c, c], and 0 if a label is so large that ψ is not a number."""
        with np.errstate(all="ignore"):
            psi = np.nan_to_num(super().push(u, residual), nan=0.0, posinf=np.inf, neginf=-np.inf)
        return np.clip(psi, -self.label_bound, self.label_bound)

    def features(self, phi: np.ndarray) -> np.ndarray:
        """Return φ shrunk to norm κ, and 0 where inputs are so large that φ is not a number."""
        with np.errstate(all="ignore"):
            phi = np.where(np.all(np.isfinite(phi), axis=1)[:, None], phi, 0.0)
            largest = np.max(np.abs(phi), axis=1, initial=0.0)
            scale = np.where(largest > 0, largest, 1.0)  # dividing by it keeps the squares from overflowing
            lengths = np.linalg.norm(phi / scale[:, None], axis=1)  # from 1 to √M
            shrink = np.minimum(1.0, self.kappa / scale / np.maximum(lengths, 1.0))
            return np.asarray(phi * shrink[:, None])


@dataclass(frozen=True)
class CheckedRequest:
    """A request for a private summary that has passed all checks, none of which looked at a record."""

    privacy: PrivacyRequest
    basis: Any
    contents: Contents
    target: BoundedTarget
    bounds: _Bounds
    noise: GridGaussian

    @property
    def purpose(self) -> str:
        """The purpose for the ledger and the guarantee."""
        return self.privacy.purpose_of(self.bounds)

    def spending(self) -> Spending:
        """Return the context manager for the one release that is paid for."""
        return Spending(self.privacy.ledger, self.noise.event, self.purpose)

    def open_unread(self, X: Any, y: Any) -> UnreadRows:
        """Return the rows unread, after refusing everything that can be refused without reading them."""
        rows = UnreadRows.of(self.basis, X, y)
        if rows.n_labels is not None:
            _check_one_label(rows.n_labels)
        return rows

    def read(self, spending: Spending, X: Any, y: Any) -> Source:
        """Refuse everything that can be refused without reading the rows, charge the ledger, and only then read."""
        rows = self.open_unread(X, y)
        n = rows.n_rows
        check_budget(self.privacy.epsilon, self.privacy.delta, n)
        source = spending.read(rows.read)
        if n is None and source.n_rows > 0:
            check_budget(self.privacy.epsilon, self.privacy.delta, source.n_rows)
        return source

    def sum_before_noise(self, source: Source, engine: Any = None, verbose: int = 0) -> tuple[Summary, np.ndarray]:
        """Return the bounded sums before noise, and the vector that gets the noise.

        Neither may leave this machine: only this file and tests call this method.
        """
        _check_one_label(source.n_outputs)
        with silence_warnings():
            exact = summarize_target(self.basis, source, self.contents, self.target, engine, verbose)
            return exact, self.bounds.weighted_sums.pack({name: value.high for name, value in exact.sums.items()})

    def release(self, source: Source, engine: Any = None, verbose: int = 0) -> Summary:
        """Return the summary with its noise; the ledger must have been charged."""
        exact, vector = self.sum_before_noise(source, engine, verbose)
        noise = self.noise
        if exact.n_rows > noise.bound / self.bounds.weighted_sums.largest:  # more rows than the noise scale assumes
            noise = self.privacy.calibrate_noise(self.bounds, self.basis.rows_at_once, exact.n_rows)
        record = self.privacy.record(self.bounds, noise, self.purpose)
        fields = field_shapes(exact.contents, record)
        with silence_warnings():
            noisy = self.bounds.weighted_sums.unpack(noise.add(vector))
        sums = {"weight": Sum.of(np.asarray([float(exact.n_rows)]))}
        sums |= {name: Sum.of(values.reshape(fields[name])) for name, values in noisy.items()}
        return replace(exact, sums={name: sums[name] for name in fields}, privacy=record)


def check_request(
    basis: Any, order: int, residuals_of: Any, loss: Any, sample_weight: Any, privacy: Any
) -> CheckedRequest:
    """Check everything public about a request; raise a ValueError with one sentence if it cannot be answered."""
    if not isinstance(privacy, PrivacyRequest):
        raise ValueError(f"privacy must be up.privacy.PrivacyRequest(epsilon, delta, ...), got {quote(privacy)}")
    if sample_weight is not None:
        raise ValueError(_WEIGHTS)
    spec = spec_of(loss)
    loss = loss_of(spec)
    digest, target = make_target(basis, residuals_of, loss)
    if target.coef is not None and target.coef.shape[1] != 1:
        raise ValueError(f"a private summary has one label, and residuals_of predicts {target.coef.shape[1]}")
    contents = Contents(basis.digest, basis.n_features_, order, 1, spec, digest)
    check_order(contents)
    bounds = privacy.bounds(basis.kernel_, basis.n_features_, order, loss.bound)
    bounded = BoundedTarget(
        loss,
        target.coef,
        target.intercept,
        target.predictor,
        with_loss=False,
        kappa=bounds.kappa,
        label_bound=bounds.label_bound,
    )
    return CheckedRequest(
        privacy, basis, contents, bounded, bounds, privacy.calibrate_noise(bounds, basis.rows_at_once)
    )


_WEIGHTS = (
    "sample_weight counts as repeated rows, so a record with a large weight would move the sums further than the noise "
    "hides: leave sample_weight out of a private summary"
)
