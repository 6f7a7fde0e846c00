"""Private: what a site asks for when its sums are to be differentially private. Public facts, all of them."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

from ..messages import shown
from .checks import budget, count, positive
from .events import Gaussian
from .gaussian import mu_for
from .guarantee import Guarantee, Spent
from .ledger import check_ledger
from .noise import GridGaussian
from .noised import MECHANISM, Noised, condition
from .summaries import ROOM, Released

PLANNED_ROWS = 2**22  # noise is planned for so many rows at least: it does not tell n, and sites of one study agree
UNIT = 2.0**-53  # half a unit in the last place


@dataclass(frozen=True)
class Private:
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
        epsilon, delta = budget(self.epsilon, self.delta)
        found: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
        for name in ("label_bound", "kappa"):
            value = getattr(self, name)
            found[name] = None if value is None else positive(name, value)
        found |= {"means": positive("means", self.means, zero=True), "labels": positive("labels", self.labels)}
        found |= {"parties": count("parties", self.parties), "missing": count("missing", self.missing, 0)}
        for name, value in found.items():
            object.__setattr__(self, name, value)
        if self.missing >= self.parties:
            raise ValueError(f"missing must be less than the {self.parties} parties, got {self.missing}")
        if not (self.purpose is None or (isinstance(self.purpose, str) and self.purpose)):
            raise ValueError(f"purpose must say what is released, got {shown(self.purpose)}")
        check_ledger(self.ledger)

    def bounds(self, kernel: Any, n_features: int, order: int, loss_bound: float) -> Bounds:
        """What is made sure of for these sums, or a sentence that says why it cannot be."""
        kappa = self.kappa
        if kappa is None:
            kappa = float(kernel.kappa())
            if not 0 < kappa < math.inf:
                raise ValueError(
                    f"the kernel {type(kernel).__name__} has no bound, so one record could move the sums by any amount:"
                    " use a bounded one (Gaussian, Laplacian, Matern), or shrink features with Private(kappa=...)"
                )
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
