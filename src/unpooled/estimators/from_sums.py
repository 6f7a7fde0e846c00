"""Learning from a sum of summaries: the equations of every λ, the choice among them, and what the choice gives.

SummaryRegressor and LESSRegressor both learn so. With d = (1/n) Σ y_j φ(x_j) the model is f = Σ_i a_i φ_i + b,
a = g_λ(C) d, where C is diag(λ^u) of the public sample at order 1 (LESS, Qin and Guo 2019) and the covariance of the
rows at order 2. From noised sums, the noise is taken into account in the equations, the grid and the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .._base.arrays import Floats
from .._base.checks import check_positive_numbers
from .._solvers.span.moments import (
    Means,
    Mismatch,
    Solutions,
    System,
    gcv,
    limit_rank,
    make_system,
    mismatch,
    risk,
    solve,
)
from .._solvers.span.noisy_moments import Noise, noisy_gcv
from .._solvers.spectral import criteria
from ..bases.base import Basis
from ..filters import Filter
from ..privacy.composition import Guarantee
from ..privacy.noise_record import compose_guarantees
from ..summaries.candidates import Candidates, Scores
from ..summaries.summary import Summary
from .paths import SummaryPath

FLOOR_WORTH_A_WARNING = 0.1  # of the spread of y
STRONGER = 10.0 ** (np.arange(1, 13) / 3.0)  # λ beyond κ², for sums that are mostly noise: three a decade


@dataclass(frozen=True)
class Learned:
    """What a sum has taught: the function with the chosen λ, the path it was chosen from, and what it may be off by."""

    lam: float
    coef: Floats
    intercept: Floats
    path: SummaryPath | None  #: None where λ was given
    floor: Mismatch
    n_features_rule: int
    equations: System
    warning: str  #: what to tell the user of a public sample that is too small; else nothing


@dataclass(frozen=True)
class FromSums:
    """How to learn from sums; the parameters of SummaryRegressor, all checked."""

    filter: Filter
    lam: Any
    center: Any
    n_features: Any
    ridge: bool
    grid: Any

    @property
    def is_choosing(self) -> bool:
        """Whether λ is to be chosen, and not given as one number."""
        return isinstance(self.lam, str) or np.ndim(self.lam) > 0

    def solutions(self, summary: Summary, basis: Basis, same_sample: bool) -> tuple[System, Solutions]:
        """The equations, and their solution for every λ of the grid."""
        equations = make_system(means_of(summary), basis, self.center, same_sample)
        if not isinstance(self.n_features, str):
            equations = limit_rank(equations, int(self.n_features))
        by_rule = isinstance(self.n_features, str) and self.n_features == "rule" and summary.order == 1
        return equations, solve(equations, self.filter, self._grid(basis, summary), by_rule)

    def candidates(self, summary: Summary, basis: Basis, equations: System, found: Solutions) -> Candidates:
        """The models of every λ, for sites to score."""
        how = f"{self.filter!r}, n_features {self.n_features!r}"
        return Candidates.of(basis.digest, equations, found, summary.targets, how)

    def learn(self, summary: Summary, basis: Basis, scores: Scores | None, same_sample: bool) -> Learned:
        """Solve for every λ, choose one, and say what the public sample costs.

        ``scores`` are what sites answered to the candidates of this very summary; ``same_sample`` says that the public
        sample is the rows themselves, so that there is no floor to warn of.
        """
        equations, found = self.solutions(summary, basis, same_sample)
        chosen, path = 0, None
        if self.is_choosing:
            chosen, path = self._choose(summary, basis, equations, found, scores)
        lam, coef, intercept = float(found.lam[chosen]), found.coef[chosen], found.intercept[chosen]
        floor = mismatch(means_of(summary), basis, lam, self.filter, self.center, (coef, np.asarray(intercept)))
        warning = "" if same_sample or summary.order != 1 else _warning(floor, equations, found, chosen)
        by_rule = int(np.sum(basis.eigenvalues_ > basis.kappa_sq_ * lam))
        return Learned(lam, coef, intercept, path, floor, by_rule, equations, warning)

    def _grid(self, basis: Basis, summary: Summary) -> Floats:
        if not isinstance(self.lam, str):
            return np.atleast_1d(check_positive_numbers("lam", self.lam))
        if self.grid is not None:
            return np.atleast_1d(check_positive_numbers("grid", self.grid))
        grid = criteria.default_grid(basis.kappa_sq_, float(np.finfo(float).eps))
        return widened(grid, basis.kappa_sq_, self.filter, summary)

    def _choose(
        self, summary: Summary, basis: Basis, equations: System, found: Solutions, scores: Scores | None
    ) -> tuple[int, SummaryPath]:
        if scores is not None:
            # By what they were made from: the models of another machine, or on more threads, differ in the last digit.
            asked = self.candidates(summary, basis, equations, found)
            if scores.question != asked.question:
                raise ValueError(
                    f"the scores are of the candidates {scores.candidates[:12]}, which were not made from this summary "
                    "with these choices: score the candidates of this very summary"
                )
            name, criterion = "loo", scores.mean
        elif equations.same_sample and equations.noise is not None:
            name, criterion = "gcv", noisy_gcv(equations, found, self.filter.ridge_times == 1)
        elif equations.same_sample:
            name, criterion = "gcv", gcv(equations, found)
        else:
            name, criterion = "risk", risk(equations, found, rounds_follow=self.ridge)
        # Beyond half as many degrees of freedom as rows the estimates from sums are small differences of large numbers.
        trusted = (found.df <= 0.5 * equations.n) if scores is None else np.ones(len(found.lam), dtype=bool)
        norms = np.linalg.norm(found.coef, axis=1)
        path = path_in_span(basis, found, criterion, name, trusted, summary.one_target, norms)
        return int(path.index[0]), path


class Functions(Protocol):
    """Functions for every λ in the span of a basis."""

    @property
    def lam(self) -> Floats: ...  #: (L,)
    @property
    def coef(self) -> Floats: ...  #: (L, M, T)
    @property
    def intercept(self) -> Floats: ...  #: (L, T)
    @property
    def df(self) -> Floats: ...  #: (L,)


def path_in_span(
    basis: Basis,
    found: Functions,
    criterion: Floats,
    name: str,
    trusted: np.ndarray,
    one_target: bool,
    norms: Floats | None = None,
) -> SummaryPath:
    """The path on which the λ with the best score is taken, of those with scores to be trusted if there are any."""
    judged = np.where(trusted[:, None] if np.any(trusted) else True, criterion, np.inf)
    return SummaryPath(
        found.lam,
        criterion[:, 0] if one_target else criterion,
        found.df,
        name,
        criteria.best_index(judged, found.lam, per_target=False),
        basis.map_,
        np.stack([basis.coefficients_ @ coef for coef in found.coef]),
        found.intercept,
        norms,
    )


def take_from_sums(model: Any, learned: Learned, summary: Summary, basis: Basis) -> None:
    """Give a model in the span of the basis what it has learned from a sum."""
    model._settle(basis, learned.coef, learned.intercept, summary.one_target)
    model.lam_, model.summary_, model.floor_, model.n_rounds_ = learned.lam, summary, learned.floor, 1
    model.loss_, model.targets_ = summary.contents.loss, summary.targets
    model.n_features_rule_ = learned.n_features_rule
    if learned.path is not None:
        model.path_ = learned.path


def _warning(floor: Mismatch, equations: System, found: Solutions, chosen: int) -> str:
    """A sentence where a small public sample costs more than what noise and rounding cost anyway."""
    spread = float(np.sqrt(np.max(equations.y_square)))
    noise = float(np.max(np.sqrt(equations.y_square * found.df[chosen] / equations.n)))
    rounding = 1e-8 * float(np.max(np.abs(equations.y_mean)))
    added = np.sqrt(np.sum((equations.spread * found.g[chosen] ** 2)[:, None] * equations.d_variance))
    if floor.error <= max(FLOOR_WORTH_A_WARNING * spread, noise, rounding, float(added)):
        return ""
    return (
        f"{floor.n_public} public rows stand for {equations.n:.0f}: predictions will be off by about "
        f"{floor.error:.2g} for that reason alone; use more public rows, order=2, or rounds of residuals"
    )


# --- Private sums: the noise in their means, the λ to choose from, and the guarantee --------------------------------


def means_of(summary: Summary) -> Means:
    """The sums divided by the weight, with the noise that is in them.

    Means with noise are moved to where means without noise must be: y into [-c, c], y² below c², φ and yφ to norms of
    at most κ and cκ. Whatever the truth is in there, that moves them towards it.
    """
    W, gram = summary.weight, summary.gram
    M, T = summary.contents.n_features, summary.contents.n_outputs
    centred = "phi" in summary.sums  # a private summary may do without
    y = summary.label_sum / W if centred else np.zeros(T)
    phi = summary.feature_sum / W if centred else np.zeros(M)
    yy, phi_y = summary.label_square_sum / W, summary.feature_label_sum / W
    if summary.privacy is not None:
        kappa, c = summary.privacy.kappa, summary.privacy.label_bound
        y, yy = np.clip(y, -c, c), np.minimum(yy, c * c)
        phi, phi_y = _shrunk(phi, kappa), _shrunk(phi_y, c * kappa)
    return Means(
        max(W, float(summary.n_rows)),
        W,
        y,
        yy,
        phi,
        phi_y,
        None if gram is None else gram / W,
        noise_of(summary),
        centred,
    )


def _shrunk(vector: Floats, most: float) -> Floats:
    norm = float(np.linalg.norm(vector))
    return vector * (most / norm) if norm > most else vector


def noise_of(summary: Summary) -> Noise | None:
    """The noise of the means; None where there is none."""
    if summary.privacy is None:
        return None
    sigma, W = summary.privacy.sigma, summary.weight
    return Noise(**{name: sigma.get(name, 0.0) / W for name in ("phi_y", "phi", "y", "yy", "gram")})


def check_usable(summary: Summary, scores: Any) -> None:
    """That a model may be made of a summary, if it is private."""
    if summary.privacy is None:
        return
    summary.privacy.check_complete()
    if scores is not None:
        raise ValueError(
            "scores have no noise: to choose lam by them would undo the guarantee of a private summary, leave them out"
        )


def guarantee_of(summary: Summary, before: Guarantee | None = None) -> Guarantee | None:
    """What holds for every record of a model made of a summary, and of others before."""
    if summary.privacy is None:
        return None
    new = summary.privacy.guarantee
    return new if before is None else compose_guarantees((before, new))


def check_round(residuals: Summary, private: bool) -> None:
    """Rounds are all private or none is."""
    if (residuals.privacy is not None) != private:
        which = "the model is private, and the residuals are" if private else "the residuals are private, the model is"
        raise ValueError(f"{which} not: nothing could be promised of both together")
    check_usable(residuals, None)


def widened(grid: Floats, kappa_sq: float, filter: Filter, summary: Summary) -> Floats:
    """A grid of λ with larger ones, where noise may ask for them and the filter has them."""
    if summary.privacy is None or filter.ridge_times == 0:
        return grid
    return np.concatenate([kappa_sq * STRONGER[::-1], grid])
