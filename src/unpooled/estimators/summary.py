"""SummaryRegressor: a model from sums. LESS at first order, ridge regression on the pooled rows at second.

LESS cannot be better than the likeness of its public sample to the rows allows. This floor is reported and not hidden:
``floor_`` says in the units of y how much the public sample costs, and ``fit_summary`` warns where that matters.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .._base.arrays import Floats
from .._base.checks import check_center, check_choice, check_fitted, positive_numbers
from .._base.savable import digest_of
from .._base.text import shown
from .._solvers.span.moments import Solutions, System, gcv, limited, mismatch, risk, solve, system
from .._solvers.span.noisy_moments import noisy_gcv
from .._solvers.span.residual_rounds import (
    STEPS,
    Rounds,
    centred_message,
    from_mean,
    from_point,
    preconditioners,
    public_system,
    ridge_term,
)
from .._solvers.spectral import criteria
from ..bases.base import Basis
from ..filters import Tikhonov, as_filter
from ..privacy.composition import Guarantee
from ..summaries.candidates import Candidates, Scores
from ..summaries.summary import Summary
from . import summary_storage
from .paths import SummaryPath
from .span import SpanModel
from .summary_private import check_round, check_usable, guarantee_of, means_of, widened

FLOOR_WORTH_A_WARNING = 0.1  # of the spread of y


class SummaryRegressor(SpanModel):
    """Kernel regression from a sum of summaries, without any row.

    With d = (1/n) Σ y_j φ(x_j) the model is f = Σ_i a_i φ_i + b, a = g_λ(C) d, where C is

    - at order 1 diag(λ^u) of the public sample: LESS (Qin and Guo 2019), a_i = d_i/(λ_i^u + λ) with Tikhonov. It cannot
      be better than the public sample's likeness to the rows allows; ``floor_`` says what that costs.
    - at order 2 the covariance of the rows: regression on the pooled rows in the span of the basis, exactly.

    Parameters
    ----------
    filter : {"tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu"} or Filter
    lam : float, array or "auto"
        "auto", and an array, choose by GCV at order 2 and by an estimate of the risk at order 1, both from the summary
        alone; or by leave-one-out, where ``fit_summary`` gets the scores of a second exchange. From private summaries
        both take the noise into account, whose size is public: more noise, more regularisation.
    center : False, True or "public"
        True fits an intercept, with features and labels centred at their means over the rows: adding a constant to y
        then moves the intercept by it and changes nothing else. "public" centres the features at their mean over the
        public sample, which at order 1 needs no Σφ(x).
    n_features : "all", "rule" or int
        "rule" keeps at order 1, for each λ, the eigenvalues above κ²λ: the paper's choice of N. An int keeps so many.
    ridge : bool, default False
        In rounds of residuals keep a term -λa, so that they converge to ridge regression and not to least squares.
    steps : {"plain", "conjugate"}
        How rounds step: the paper's full steps, held back where they would overshoot, or conjugate gradients, which
        need far fewer rounds.
    grid : array or None
        The λ to choose from. None is κ²·10⁰ ... κ²·10⁻⁹, three a decade.

    Attributes
    ----------
    lam_ : float
    coef_ : (M,) or (M, T), of the features of the basis
    intercept_ : float or (T,)
    path_ : SummaryPath
        Score and degrees of freedom of every λ, where λ was chosen.
    floor_ : Mismatch
        What the public sample costs LESS: exact at order 2, expected at order 1.
    n_features_rule_ : int, the N of the paper's rule at the chosen λ
    summary_ : Summary, the sum that was learned from
    n_rounds_ : int, how many exchanges the model has seen
    privacy_ : Guarantee
        What holds for every record, where the summaries are private; else None.

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> rng = np.random.default_rng(0)
    >>> X, U = rng.uniform(size=(400, 1)), rng.uniform(size=(100, 1))
    >>> y = np.sin(6 * X[:, 0])
    >>> basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.2)).fit(U)
    >>> sites = [up.Summary.of(basis, X[i::4], y[i::4], order=2) for i in range(4)]
    >>> model = up.SummaryRegressor().fit_summary(sum(sites))
    >>> bool(abs(model.predict(X) - y).max() < 0.01)
    True
    """

    privacy_: Guarantee | None

    def __init__(
        self,
        filter: Any = "tikhonov",
        lam: Any = "auto",
        center: Any = False,
        *,
        n_features: Any = "all",
        ridge: bool = False,
        steps: str = "plain",
        grid: Any = None,
    ) -> None:
        self.filter = filter
        self.lam = lam
        self.center = center
        self.n_features = n_features
        self.ridge = ridge
        self.steps = steps
        self.grid = grid

    def fit_summary(
        self, summary: Summary, *, scores: Scores | None = None, basis: Basis | None = None
    ) -> SummaryRegressor:
        """Learn from a summary, in general the sum of the sites'.

        ``scores`` are what sites answered to :meth:`candidates`, added up. ``basis`` is found by the summary itself
        where it lives in this process or lies beside the file.

        Parameters
        ----------
        summary : of all rows
        scores : of the candidates on all rows, where there was a second exchange
        basis : where it is not found by itself

        Returns
        -------
        self
        """
        if not isinstance(summary, Summary):
            raise ValueError(f"summary must be a Summary, got {shown(summary)}")
        if summary.contents.model is not None:
            raise ValueError("this is a summary of residuals: give it to update() of the model they are of")
        check_usable(summary, scores)
        self._fit(summary, summary.basis(basis), scores, own=False)
        return self

    def partial_fit(self, summary: Summary, *, basis: Basis | None = None) -> SummaryRegressor:
        """Add a summary to those seen so far, and learn from them all.

        Parameters
        ----------
        summary : of rows that no summary before it has
        basis : where it is not found by itself

        Returns
        -------
        self
        """
        so_far = getattr(self, "summary_", None)
        return self.fit_summary(summary if so_far is None else so_far + summary, basis=basis)

    def candidates(self, *, basis: Basis | None = None) -> Candidates:
        """The models of every λ of the grid, for sites to score; their scores go to :meth:`fit_summary`.

        Parameters
        ----------
        basis : where it is not found by itself

        Returns
        -------
        Candidates
        """
        check_fitted(self)
        found = self.summary_.basis(basis)
        equations, solutions = self._solutions(self.summary_, found, own=False)
        return self._candidates(self.summary_, found, equations, solutions)

    def _candidates(self, summary: Summary, basis: Basis, equations: System, found: Solutions) -> Candidates:
        how = f"{as_filter(self.filter)!r}, n_features {self.n_features!r}"
        return Candidates.of(basis.digest, equations, found, summary.targets, how)

    def update(self, residuals: Summary, *, basis: Basis | None = None) -> SummaryRegressor:
        """One more round: learn from the summary of this model's residuals.

        Sites make it with ``Summary.of(basis, X, y, residuals_of=model)``, and with the loss of the first summary.

        Parameters
        ----------
        residuals : of all rows, the sum of the sites'
        basis : where it is not found by itself

        Returns
        -------
        self
        """
        check_fitted(self)
        if not isinstance(residuals, Summary):
            raise ValueError(f"residuals must be a Summary, got {shown(residuals)}")
        of, mine = residuals.contents.model, digest_of(self)
        if of != mine:
            what = "labels" if of is None else f"the residuals of model {of[:12]}"
            raise ValueError(f"this is a summary of {what}, and this model is {mine[:12]}")
        if residuals.contents.loss != self.loss_:
            raise ValueError(f"the residuals are of the loss {residuals.contents.loss}, the model's is {self.loss_}")
        if residuals.digest != self.basis_digest_:
            names = f"{residuals.digest[:12]}, and the model of {self.basis_digest_[:12]}"
            raise ValueError(f"the residuals are of the basis {names}: summarise them in the model's own")
        if self.targets_ and residuals.targets and residuals.targets != self.targets_:
            names = f"{', '.join(residuals.targets)}, and the model of {', '.join(self.targets_)}"
            raise ValueError(f"the residuals are of the label {names}")
        check_round(residuals, self.privacy_ is not None)
        found = residuals.basis(basis)
        rounds = self._rounds(found)
        rounds.receive(*self._message(residuals))
        coef, intercept = from_point(rounds.result, self.shift_, self.centering_ != "none")
        self._settle(found, coef, intercept, self.one_target_)
        self.privacy_ = guarantee_of(residuals, self.privacy_)
        self._keep_rounds(rounds)
        return self

    def _fit(self, summary: Summary, basis: Basis, scores: Scores | None, own: bool) -> None:
        center = check_center(self.center)
        check_choice("steps", self.steps, STEPS)
        as_filter(self.filter)
        equations, found = self._solutions(summary, basis, own)
        chosen, path = 0, None
        if len(found.lam) > 1 or not _is_number(self.lam):
            chosen, path = self._choose(summary, basis, equations, found, scores)
        for name in ("path_", "rounds_", "_asked"):
            self.__dict__.pop(name, None)
        self.lam_ = float(found.lam[chosen])
        self.summary_, self.n_rounds_ = summary, 1
        self.privacy_ = guarantee_of(summary)
        self.loss_, self.targets_ = summary.contents.loss, summary.targets
        self.shift_, self.centering_ = equations.shift, equations.centering
        self._settle(basis, found.coef[chosen], found.intercept[chosen], summary.one_target)
        if path is not None:
            self.path_ = path
        fitted = (self.coef_matrix_, self.predictor_.intercept)
        self.floor_ = mismatch(means_of(summary), basis, self.lam_, as_filter(self.filter), center, fitted)
        self.n_features_rule_ = int(np.sum(basis.eigenvalues_ > basis.kappa_sq_ * self.lam_))
        if summary.order == 1:
            self._begin_rounds(summary, basis)
            if not own:
                self._warn_of_floor(equations, found, chosen)

    def _solutions(self, summary: Summary, basis: Basis, own: bool) -> tuple[System, Solutions]:
        equations = system(means_of(summary), basis, check_center(self.center), own)
        equations = self._limited(equations)
        by_rule = isinstance(self.n_features, str) and self.n_features == "rule" and summary.order == 1
        return equations, solve(equations, as_filter(self.filter), self._grid(basis, summary), by_rule)

    def _limited(self, equations: System) -> System:
        """Only so many features, where a number of them is given."""
        if isinstance(self.n_features, str) and self.n_features in ("all", "rule"):
            return equations
        if (
            isinstance(self.n_features, bool)
            or not isinstance(self.n_features, (int, np.integer))
            or self.n_features < 1
        ):
            raise ValueError(
                f"n_features must be 'all', 'rule' or a positive whole number, got {shown(self.n_features)}"
            )
        return limited(equations, int(self.n_features))

    def _grid(self, basis: Basis, summary: Summary) -> Floats:
        if isinstance(self.lam, str):
            if self.lam != "auto":
                raise ValueError(f"lam must be a positive number, an array of them or 'auto', got {shown(self.lam)}")
            if self.grid is not None:
                return np.atleast_1d(positive_numbers("grid", self.grid))
            grid = criteria.default_grid(basis.kappa_sq_, float(np.finfo(float).eps))
            return widened(grid, basis.kappa_sq_, as_filter(self.filter), summary)
        return np.atleast_1d(positive_numbers("lam", self.lam))

    def _choose(
        self, summary: Summary, basis: Basis, equations: System, found: Solutions, scores: Scores | None
    ) -> tuple[int, SummaryPath]:
        if scores is not None:
            # By what they were made from: the models of another machine, or on more threads, differ in the last digit.
            asked = self._candidates(summary, basis, equations, found)
            if scores.question != asked.question:
                raise ValueError(
                    f"the scores are of the candidates {scores.candidates[:12]}, which were not made from this summary "
                    "with these choices: score the candidates of this very summary"
                )
            name, criterion = "loo", scores.mean
        elif equations.own and equations.noise is not None:
            name, criterion = "gcv", noisy_gcv(equations, found, isinstance(as_filter(self.filter), Tikhonov))
        elif equations.own:
            name, criterion = "gcv", gcv(equations, found)
        else:
            name, criterion = "risk", risk(equations, found, rounds_follow=bool(self.ridge))
        # Beyond half as many degrees of freedom as rows the estimates from sums are small differences of large numbers.
        trusted = (found.df <= 0.5 * equations.n) if scores is None else np.ones(len(found.lam), dtype=bool)
        judged = np.where(trusted[:, None] if np.any(trusted) else True, criterion, np.inf)
        index = criteria.best_index(judged, found.lam, per_target=False)
        path = SummaryPath(
            found.lam,
            criterion[:, 0] if summary.one_target else criterion,
            found.df,
            name,
            index,
            basis.map_,
            np.stack([basis.coefficients_ @ coef for coef in found.coef]),
            found.intercept,
        )
        return int(index[0]), path

    def _warn_of_floor(self, equations: System, found: Solutions, chosen: int) -> None:
        spread = float(np.sqrt(np.max(equations.y_square)))
        noise = float(np.max(np.sqrt(equations.y_square * found.df[chosen] / equations.n)))
        rounding = 1e-8 * float(np.max(np.abs(equations.y_mean)))
        added = np.sqrt(np.sum((equations.spread * found.g[chosen] ** 2)[:, None] * equations.d_variance))
        if self.floor_.error > max(FLOOR_WORTH_A_WARNING * spread, noise, rounding, float(added)):
            warnings.warn(
                f"{self.floor_.n_public} public rows stand for {equations.n:.0f}: predictions will be off by about "
                f"{self.floor_.error:.2g} for that reason alone; use more public rows, order=2, or rounds of residuals",
                UserWarning,
                stacklevel=4,
            )

    def _begin_rounds(self, summary: Summary, basis: Basis) -> None:
        rounds = self._rounds(basis, begun=False)
        message, square, loss = self._message(summary)
        if self.centering_ == "rows" and self.loss_ == "squared":
            message = from_mean(rounds, message)
        rounds.receive(message, square, loss)
        self._keep_rounds(rounds)

    def _rounds(self, basis: Basis, begun: bool = True) -> Rounds:
        """The rounds so far, ready for the next message."""
        if self.summary_order_ != 1:
            raise ValueError("a model of second order is exact already: rounds of residuals are for order 1")
        with_intercept = self.centering_ != "none"
        M, T = basis.n_features_, self.summary_.contents.n_outputs
        lams = np.full(T, self.lam_)
        public = public_system(basis, check_center(self.center), self.n_features)
        plain, careful = preconditioners(public, as_filter(self.filter), lams, self.n_features, with_intercept)
        rounds = Rounds(
            plain,
            np.zeros((M + with_intercept, T)),
            ridge_term(lams if self.ridge else 0.0 * lams, M, with_intercept),
            quadratic=self.loss_ == "squared",
            steps=self.steps,
            careful=careful if self.ridge or self.privacy_ is not None else None,
            kappa=float(np.sqrt(basis.kappa_sq_)),
            n_rows=float(self.summary_.n_rows),
            noisy=self.privacy_ is not None,
        )
        return rounds.restored(self.rounds_, self.n_rounds_) if begun else rounds

    @property
    def summary_order_(self) -> int:
        """1 or 2."""
        return self.summary_.order

    def _message(self, summary: Summary) -> tuple[Floats, Floats, Floats | None]:
        loss, means = summary.loss_sum, means_of(summary)
        message = centred_message(means, self.shift_, self.centering_ != "none")
        return message, np.maximum(means.yy, 0.0), None if loss is None else loss / summary.weight

    def _keep_rounds(self, rounds: Rounds) -> None:
        self.rounds_, self.n_rounds_ = rounds.to_arrays(), rounds.n_received
        self._asked = from_point(rounds.point, self.shift_, self.centering_ != "none")

    def coefficients_in(self, basis: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """a and b where residuals are to be taken next: the model itself, or, once plain steps have proved too long,
        the point that rounds ask about next.

        Parameters
        ----------
        basis : a fitted basis

        Returns
        -------
        (array, array) or None
        """
        known = super().coefficients_in(basis)
        return known if known is None or self.summary_order_ != 1 else self._asked

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        check_fitted(self)
        return summary_storage.to_parts(self)

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> SummaryRegressor:
        model: SummaryRegressor = summary_storage.from_parts(cls, header, arrays)
        return model


def _is_number(value: Any) -> bool:
    return not isinstance(value, str) and np.ndim(value) == 0
