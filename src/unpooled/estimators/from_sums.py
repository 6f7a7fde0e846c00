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
class SumsFit:
    """The outcome of learning from a sum: the function with the chosen λ, its path, and the error it may have."""

    lam: float
    coef: Floats
    intercept: Floats
    path: SummaryPath | None  #: None if λ was given
    floor: Mismatch
    n_features_rule: int
    equations: System
    warning: str  #: what to tell the user of a public sample that is too small; else nothing


@dataclass(frozen=True)
class FromSums:
    """The rules for learning from sums: the parameters of SummaryRegressor, all checked."""

    filter: Filter
    lam: Any
    fit_intercept: Any
    n_features: Any
    ridge: bool
    grid: Any

    @property
    def is_choosing(self) -> bool:
        """Whether λ is to be chosen, and not given as one number."""
        return isinstance(self.lam, str) or np.ndim(self.lam) > 0

    def solutions(self, summary: Summary, basis: Basis, same_sample: bool) -> tuple[System, Solutions]:
        """The equations, and their solution for every λ of the grid."""
        equations = make_system(means_of(summary), basis, self.fit_intercept, same_sample)
        if not isinstance(self.n_features, str):
            equations = limit_rank(equations, int(self.n_features))
        by_rule = isinstance(self.n_features, str) and self.n_features == "rule" and summary.order == 1
        return equations, solve(equations, self.filter, self._grid(basis, summary), by_rule)

    def candidates(self, summary: Summary, basis: Basis, equations: System, solutions: Solutions) -> Candidates:
        """The models of every λ, for sites to score."""
        how = f"{self.filter!r}, n_features {self.n_features!r}"
        return Candidates.of(basis.digest, equations, solutions, summary.targets, how)

    def learn(self, summary: Summary, basis: Basis, scores: Scores | None, same_sample: bool) -> SumsFit:
        """Solve for every λ, choose one, and say what the public sample costs.

        ``scores`` are what sites answered to the candidates of this very summary; ``same_sample`` says that the public
        sample is the rows themselves, so that there is no floor to warn of.
        """
        equations, solutions = self.solutions(summary, basis, same_sample)
        chosen, path = 0, None
        if self.is_choosing:
            chosen, path = self._choose(summary, basis, equations, solutions, scores)
        lam, coef, intercept = float(solutions.lam[chosen]), solutions.coef[chosen], solutions.intercept[chosen]
        floor = mismatch(means_of(summary), basis, lam, self.filter, self.fit_intercept, (coef, np.asarray(intercept)))
        warning = "" if same_sample or summary.order != 1 else _warning(floor, equations, solutions, chosen)
        by_rule = int(np.sum(basis.eigenvalues_ > basis.kappa_sq_ * lam))
        return SumsFit(lam, coef, intercept, path, floor, by_rule, equations, warning)

    def _grid(self, basis: Basis, summary: Summary) -> Floats:
        if not isinstance(self.lam, str):
            return np.atleast_1d(check_positive_numbers("lam", self.lam))
        if self.grid is not None:
            return np.atleast_1d(check_positive_numbers("grid", self.grid))
        grid = criteria.default_grid(basis.kappa_sq_, float(np.finfo(float).eps))
        return _widen_grid(grid, basis.kappa_sq_, self.filter, summary)

    def _choose(
        self, summary: Summary, basis: Basis, equations: System, solutions: Solutions, scores: Scores | None
    ) -> tuple[int, SummaryPath]:
        if scores is not None:
            # By what they were made from: the models of another machine, or on more threads, differ in the last digit.
            asked = self.candidates(summary, basis, equations, solutions)
            if scores.question != asked.question:
                raise ValueError(
                    f"the scores are of the candidates {scores.candidates[:12]}, which were not made from this summary "
                    "with these choices: score the candidates of this very summary"
                )
            name, criterion = "loo", scores.mean
        elif equations.same_sample and equations.noise is not None:
            name, criterion = "gcv", noisy_gcv(equations, solutions, self.filter.ridge_times == 1)
        elif equations.same_sample:
            name, criterion = "gcv", gcv(equations, solutions)
        else:
            name, criterion = "risk", risk(equations, solutions, rounds_follow=self.ridge)
        # Beyond half as many degrees of freedom as rows the estimates from sums are small differences of large numbers.
        trusted = (solutions.df <= 0.5 * equations.n) if scores is None else np.ones(len(solutions.lam), dtype=bool)
        norms = np.linalg.norm(solutions.coef, axis=1)
        path = make_path(basis, solutions, criterion, name, trusted, summary.one_target, norms)
        return int(path.index[0]), path


class _Functions(Protocol):
    """Functions for every λ in the span of a basis."""

    @property
    def lam(self) -> Floats: ...  #: (L,)
    @property
    def coef(self) -> Floats: ...  #: (L, M, T)
    @property
    def intercept(self) -> Floats: ...  #: (L, T)
    @property
    def df(self) -> Floats: ...  #: (L,)


def make_path(
    basis: Basis,
    functions: _Functions,
    criterion: Floats,
    name: str,
    trusted: np.ndarray,
    one_target: bool,
    norms: Floats | None = None,
) -> SummaryPath:
    """The path on which the λ with the best score is taken, of those with scores to be trusted if there are any."""
    judged = np.where(trusted[:, None] if np.any(trusted) else True, criterion, np.inf)
    return SummaryPath(
        functions.lam,
        criterion[:, 0] if one_target else criterion,
        functions.df,
        name,
        criteria.best_index(judged, functions.lam, per_target=False),
        basis.map_,
        np.stack([basis.coefficients_ @ coef for coef in functions.coef]),
        functions.intercept,
        norms,
    )


def become_fit(model: Any, learned: SumsFit, summary: Summary, basis: Basis) -> None:
    """Make a model in the span of the basis the function that was learned from a sum."""
    model._settle(basis, learned.coef, learned.intercept, summary.one_target)
    model.lam_, model.summary_, model.floor_, model.n_rounds_ = learned.lam, summary, learned.floor, 1
    model.loss_, model.targets_ = summary.contents.loss, summary.targets
    model.n_features_rule_ = learned.n_features_rule
    if learned.path is not None:
        model.path_ = learned.path


def _warning(floor: Mismatch, equations: System, solutions: Solutions, chosen: int) -> str:
    """A sentence if a small public sample costs more than what noise and rounding cost anyway."""
    spread = float(np.sqrt(np.max(equations.y_square)))
    noise = float(np.max(np.sqrt(equations.y_square * solutions.df[chosen] / equations.n)))
    rounding = 1e-8 * float(np.max(np.abs(equations.y_mean)))
    added = np.sqrt(np.sum((equations.spread * solutions.g[chosen] ** 2)[:, None] * equations.d_variance))
    if floor.error <= max(FLOOR_WORTH_A_WARNING * spread, noise, rounding, float(added)):
        return ""
    return (
        f"{floor.n_public} public rows stand in for {equations.n:.0f}: predictions will be off by about "
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
        phi, phi_y = _shrink(phi, kappa), _shrink(phi_y, c * kappa)
    return Means(
        max(W, float(summary.n_rows)),
        W,
        y,
        yy,
        phi,
        phi_y,
        None if gram is None else gram / W,
        _noise_of(summary),
        centred,
    )


def _shrink(vector: Floats, most: float) -> Floats:
    norm = float(np.linalg.norm(vector))
    return vector * (most / norm) if norm > most else vector


def _noise_of(summary: Summary) -> Noise | None:
    """The noise of the means; None if there is none."""
    if summary.privacy is None:
        return None
    sigma, W = summary.privacy.sigma, summary.weight
    return Noise(**{name: sigma.get(name, 0.0) / W for name in ("phi_y", "phi", "y", "yy", "gram")})


def check_usable(summary: Summary, scores: Any) -> None:
    """Raise a ValueError if a model of a private summary would break its promise."""
    if summary.privacy is None:
        return
    summary.privacy.check_complete()
    if scores is not None:
        raise ValueError(
            "scores carry no noise, so choosing lam by them would break the guarantee of a private summary: "
            "leave scores out"
        )


def guarantee_of(summary: Summary, before: Guarantee | None = None) -> Guarantee | None:
    """Return the promise to every record of a model of this summary and of those before; None without privacy."""
    if summary.privacy is None:
        return None
    new = summary.privacy.guarantee
    return new if before is None else compose_guarantees((before, new))


def check_round(residuals: Summary, private: bool) -> None:
    """Raise a ValueError unless the rounds are all private or all without noise."""
    if (residuals.privacy is not None) != private:
        which = "the model is private, and the residuals are" if private else "the residuals are private, the model is"
        raise ValueError(
            f"{which} not: no guarantee holds for both together, so make either all rounds private or none"
        )
    check_usable(residuals, None)


def _widen_grid(grid: Floats, kappa_sq: float, filter: Filter, summary: Summary) -> Floats:
    """Return the grid with larger λ, where noise may require them and the filter has them."""
    if summary.privacy is None or filter.ridge_times == 0:
        return grid
    return np.concatenate([kappa_sq * STRONGER[::-1], grid])
