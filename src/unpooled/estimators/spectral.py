"""SpectralRegressor: kernel regression with any spectral filter on one machine."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.model_selection import KFold

from .._base import threads
from .._base.arrays import Floats, eps, like, namespace, take_rows
from .._base.checks import check_folds, check_kernel_matrix, check_positive_numbers, check_weights, check_X, check_Y
from .._base.declared import Arrays, Header
from .._base.fits import undo_on_failure
from .._base.kinds import VERBOSITY, Folds, Numbers, Seed, Switch, Word, declaration, parameter
from .._base.progress import Progress
from .._base.text import quote
from .._solvers.predictors import KernelExpansion
from .._solvers.spectral import criteria, routes
from .._solvers.spectral.problem import PathSolution, Problem
from .._solvers.spectral.routes import SOLVERS, can_serve, fit_one, fit_path
from ..filters import FilterKind, as_filter
from ..kernels import Precomputed, as_kernel
from ..kernels.base import kappa_squared
from ..kernels.parts import find_free_parts
from ..kernels.specs import KernelKind
from .facts import ModelFacts, describe, if_fitted, method_name, of_target
from .length_scales import resolve_kernel
from .paths import RegularizationPath
from .span import ExpansionModel
from .stored import Expansion, ForEachTarget, are_counts, is_table, path_arrays


class _SpectralPathPart:
    """The path of a spectral regression, as a file keeps it: without the functions of other λ."""

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        if "path_" not in vars(model):
            return
        path: RegularizationPath = model.path_
        header["path"] = {"criterion": path.criterion_name, "exact": path.exact}
        arrays["path.lam"], arrays["path.criterion"] = path.lam, path.scored
        arrays["path.df"], arrays["path.index"] = path.freedom, path.index
        if path.iterations is not None:
            arrays["path.iterations"] = path.iterations

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        if "path" not in header:
            return
        about, T = header["path"], model.predictor_.coef.shape[1]
        if not is_table(about, criterion=str, exact=bool) or about["criterion"] not in criteria.CRITERIA:
            raise ValueError("its path of λ does not name its criterion")
        lam, df, scored, index = path_arrays(arrays, T, model.one_target_)
        iterations = arrays.get("path.iterations")
        iterates = as_filter(model.filter).iterations(1.0) is not None
        if iterates != (iterations is not None and iterations.shape == lam.shape and are_counts(iterations)):
            raise ValueError("the arrays of its path of λ do not match")
        model.path_ = RegularizationPath(
            lam=lam,
            scored=scored,
            freedom=df,
            criterion_name=about["criterion"],
            exact=about["exact"],
            iterations=iterations,
            index=index,
        )


@declaration
@dataclass(eq=False, repr=False)
class SpectralRegressor(ExpansionModel):
    """Kernel regression with a spectral filter, λ chosen on the whole path from one decomposition.

    With the empirical operator L_D f = (1/N) Σ f(x_i) K_{x_i} the estimator is

        f = g_λ(L_D) (1/N) Σ y_i K_{x_i} = Σ c_i K_{x_i},    c = (1/N) g_λ(𝕂/N) y

    (Guo, Lin and Zhou 2017, (1)). λ is on the scale of the eigenvalues of 𝕂/N: Tikhonov with λ is
    ``KernelRidge(alpha=N * λ)``.

    Parameters
    ----------
    kernel : Kernel, str, scikit-learn kernel, callable or None
        None is ``Gaussian()``. A name is one of :func:`unpooled.kernels.as_kernel`, "precomputed" among them.
    filter : {"tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu"} or Filter
        The filter that regularises; ``unpooled.filters`` has all of them, some with parameters.
    lam : float, array, "loo", "gcv" or "cv"
        A number is used as it is. "loo" (leave-one-out), "gcv" and "cv" (k folds) choose from ``grid``. An array
        means "loo" with this array as the grid. Leave-one-out is exact for Tikhonov (N·λ held fixed). For the other
        filters it is a shortcut: within a few per cent near its minimum, and badly off where λ is far too small or, for
        cut-off, next to an eigenvalue; "cv" is the plain alternative.
    fit_intercept : bool, default True
        Fit an intercept with the centred kernel of Wang (2018): adding a constant to y then moves the intercept by
        this constant and changes nothing else. False gives the formulas of the papers.
    grid : array or None
        The λ to choose from. None is κ²·10⁰ ... κ²·10⁻⁹, three per decade (to 10⁻⁵ in single precision).
    per_target : bool, default False
        One λ for each target instead of one for all.
    cv : int or splitter, default 5
        The folds of ``lam="cv"``; a number is that many shuffled folds.
    random_state : int, RandomState or None, default 0
        Shuffles the folds; nothing else is random.
    solver : {"auto", "low-rank", "cholesky", "products", "mixed", "banded", "eigh"}
        "auto" takes the cheapest route that gives the right function; ``solver_`` names it.
    verbose : int, default 0
        1 shows a progress bar on standard error, once the work takes longer than a second.

    Attributes
    ----------
    lam_ : float, or array of one per target
    path_ : RegularizationPath
        Score, degrees of freedom and predictions of every λ, if λ was chosen from a grid.
    predictor_ : KernelExpansion
        The fitted function: kernel, points, coefficients, intercept.
    dual_coef_ : (n,) or (n, T)
        c_i, the coefficients of the rows in ``predictor_.points``.
    intercept_ : float or array
        The b of the centred regression, the (weighted) mean of y; 0 without ``fit_intercept``.
    solver_ : str
    kernel_ : the kernel with its length scale filled in

    Notes
    -----
    ``sample_weight`` acts as repeated rows at a given λ, centring included; only ratios matter. Leave-one-out leaves a
    row out with all its weight, GCV counts rows and weights errors, and folds are drawn over rows.

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + 100
    >>> model = up.SpectralRegressor(up.kernels.Gaussian(0.2)).fit(X, y)
    >>> bool(abs(model.predict(X) - y).max() < 0.01)
    True
    """

    kernel: Any = parameter(KernelKind(), None)
    filter: Any = parameter(FilterKind(), "tikhonov")
    lam: Any = parameter(Numbers(*criteria.CRITERIA), "loo")
    fit_intercept: bool = parameter(Switch(), True)
    _: KW_ONLY
    grid: Any = parameter(Numbers(none=True), None)
    per_target: bool = parameter(Switch(), False)
    cv: Any = parameter(Folds(), 5)
    random_state: Any = parameter(Seed(), 0)
    solver: str = parameter(Word(SOLVERS), "auto")
    verbose: int = parameter(VERBOSITY, 0)

    _saved: ClassVar = (Expansion(*SOLVERS[1:]), ForEachTarget("lam_", "lam", "one_lam"), _SpectralPathPart())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SpectralRegressor:
        """Fit to rows ``X`` and labels ``y``, of shape (N,) or (N, T).

        Parameters
        ----------
        X : array or frame of shape (N, d); the N×N matrix for "precomputed"
        y : (N,) or (N, T)
        sample_weight : (N,) non-negative numbers; they count as repeated rows
        """
        with undo_on_failure(self):
            self._check_parameters()
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        X = check_X(self, X, reset=True)
        Y, one_target = check_Y(y, X)
        weights = check_weights(sample_weight, X)
        kernel = as_kernel(self.kernel)
        if isinstance(kernel, Precomputed):
            check_kernel_matrix(X)
        # Rows of weight zero are as if they were not there.
        least = float(namespace(X).finfo(X.dtype).smallest_normal)
        kept = None if weights is None or np.all(weights > least) else np.flatnonzero(weights > least)
        folds = self._user_folds(X.shape[0], kept)
        if weights is not None and kept is not None:
            X, Y, weights = take_rows(X, kept), take_rows(Y, kept), check_weights(weights[kept], kept)
            kernel = Precomputed(columns=kept.tolist()) if isinstance(kernel, Precomputed) else kernel
        kernel = (
            resolve_kernel(kernel, X, Y, weights, verbose=self.verbose)
            if find_free_parts(kernel)
            else kernel.resolve(X, weights)
        )
        if not isinstance(kernel, Precomputed):
            X = namespace(X).asarray(X, copy=True)  # the model keeps its rows, whatever becomes of the caller's
        filter_ = as_filter(self.filter)
        problem = Problem(
            kernel,
            X,
            Y,
            None if weights is None else like(weights, X),
            bool(self.fit_intercept),
            filter_,
            kappa_squared(kernel, X),
        )
        criterion, lams = self._criterion_and_grid(problem)
        self._check_solver(problem, criterion)
        with threads.limit_blas_for(problem.n):
            solution = (
                fit_one(problem, float(lams[0]), self.solver)
                if criterion is None
                else self._fit_path(problem, criterion, lams, one_target, folds)
            )
        self._filter, self.solver_ = filter_, solution.solver
        if criterion is None:
            self.lam_ = float(lams[0])
        expansion = KernelExpansion(kernel, kernel.anchors(X), solution.coef, solution.intercept)
        self._settle_expansion(expansion, kernel, solution.b, one_target)

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        model = super()._from_parts(header, arrays)
        model._filter = as_filter(model.filter)
        return model

    def _criterion_and_grid(self, problem: Problem) -> tuple[str | None, Floats]:
        """("loo", grid) and so on, or (None, [λ]) for a fixed λ."""
        n = problem.X.shape[0]
        if isinstance(self.lam, str):
            criterion: str | None = self.lam
            given = self.grid
        else:
            values = check_positive_numbers("lam", self.lam)
            if values.ndim == 0:
                return None, values[None]
            criterion, given = "loo", values
        if n < 2:
            raise ValueError(
                f"lam={quote(criterion)} needs at least 2 rows and X has n_samples = {n}: give lam as a number"
            )
        if given is None:
            return criterion, criteria.default_grid(problem.kappa_sq, eps(problem.X))
        grid = check_positive_numbers("grid", given)
        return criterion, np.atleast_1d(grid)

    def _fit_path(
        self, problem: Problem, criterion: str, lams: Floats, one_target: bool, folds: routes.Folds | None
    ) -> PathSolution:
        if criterion == "cv" and folds is None:
            shuffled = KFold(int(self.cv), shuffle=True, random_state=self.random_state)
            folds = list(shuffled.split(np.empty((problem.n, 0))))
        splits = list(folds or ())
        with Progress(len(splits), "folds", self.verbose) as bar:
            counted = bar.counting(splits)
            solution = fit_path(problem, lams, criterion, bool(self.per_target), self.solver, counted)
        chosen = lams[solution.index]
        self.lam_ = chosen.copy() if self.per_target and not one_target else float(chosen[0])
        steps = [problem.filter.iterations(lam, problem.kappa_sq) for lam in lams]
        self.path_ = RegularizationPath(
            lam=lams,
            scored=solution.criterion[:, 0] if one_target else solution.criterion,
            freedom=solution.df,
            criterion_name=criterion,
            exact=criterion != "loo" or problem.ridge_times == 1,
            iterations=None if steps[0] is None else np.asarray(steps),
            index=solution.index,
            problem=problem,
            coefs=solution.coefs,
            intercepts=solution.intercepts,
        )
        return solution

    def _user_folds(self, n: int, kept: np.ndarray | None) -> routes.Folds | None:
        """The folds of a splitter or a list of splits, over all rows given, then without those of weight zero."""
        if not (isinstance(self.lam, str) and self.lam == "cv"):
            return None
        if isinstance(self.cv, (int, np.integer)) and not isinstance(self.cv, bool):
            rows = n if kept is None else len(kept)
            if rows >= 2 and not 2 <= self.cv <= rows:
                raise ValueError(f"cv must be between 2 and the number of rows, {rows}; got {quote(self.cv)}")
            return None
        return check_folds(self.cv, n, kept)

    def _check_solver(self, problem: Problem, criterion: str | None) -> None:
        if not can_serve(self.solver, problem, criterion):
            raise ValueError(
                f"solver={self.solver!r} does not serve filter={quote(self.filter, 40)} with lam={quote(self.lam, 40)} "
                "on these data: use solver='auto'"
            )

    def facts(self, target: int = 0) -> ModelFacts:
        """Return the facts of the fitted model; ``target`` is the position of the label."""
        path: RegularizationPath | None = if_fitted(self, "path_")
        return describe(
            self,
            target,
            method_name(self._filter),
            kernel=self.kernel_,
            lam=of_target(self.lam_, target),
            path=path,
            tune=None if path is None else lambda: path.tuning(target),
            solver=self.solver_,
            fit_intercept=bool(self.fit_intercept),
            filter=self._filter,
            n_rows=int(self.predictor_.points.shape[0]),
        )
