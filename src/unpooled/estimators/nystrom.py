"""NystromRegressor: kernel ridge regression for very many rows, in the span of M kernel functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, cast

import numpy as np

from .._base.arrays import Array, Floats, is_foreign, namespace, to_numpy
from .._base.checks import check_positive_numbers
from .._base.declared import Arrays, Header
from .._base.fits import undo_on_failure
from .._base.kinds import VERBOSITY, CheckedValue, Numbers, Real, Seed, Switch, Whole, Word, declaration, parameter
from .._base.progress import Progress
from .._base.rows import KEPT, Rows, Source
from .._base.text import quote
from .._solvers.length_scales.search import MANY
from .._solvers.nystrom import fixed
from .._solvers.nystrom.machine import Machine
from .._solvers.nystrom.routes import (
    GRAM,
    PRECISIONS,
    PROBES,
    SOLVERS,
    Job,
    Work,
    choose_lams,
    choose_machine,
    find_device,
    make_machine,
    take_route,
)
from .._solvers.nystrom.solving import SpanSolution
from .._solvers.nystrom.sums import Chunks, Sums, sum_rows
from .._solvers.predictors import BasisPredictor
from .._solvers.spectral import criteria
from ..bases.maps import KernelMap, Scaling
from ..data.sources import is_stream, open_all, open_labeled, read_some, split_named_columns
from ..kernels import Kernel, Precomputed, as_kernel
from ..kernels.base import kappa_squared
from ..kernels.parts import find_free_parts
from ..kernels.specs import KernelKind
from .facts import ModelFacts, describe, if_fitted
from .length_scales import resolve_kernel
from .paths import SummaryPath
from .span import ReadsRows
from .stored import LAM_FOUND, Entries, SpanFunction, SpanPath

FEWEST_POINTS = 500  # what n_features="auto" begins with
MOST_POINTS = {"cpu": 2000, "cuda": 20_000}  # what n_features="auto" goes up to


DEVICE = CheckedValue(
    lambda _, value: find_device(value, None), "'cuda', 'cpu', a torch device or None", in_files=False
)


class _IterationsPart:
    """The passes over the rows after the first: none with the Gram matrix."""

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        header["n_iter"] = int(model._n_rounds)

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        Whole(0).check("its n_iter", header["n_iter"])
        model._n_rounds = header["n_iter"]


@declaration
@dataclass(eq=False, repr=False)
class NystromRegressor(ReadsRows):
    """Kernel ridge regression in the span of M kernel functions, for any number of rows.

    f = Σ_j c_j K(·, z_j) + b, with points z_j drawn from the rows, minimises (1/n) Σ (y_i - f(x_i))² + λ cᵀ𝕂_zz c.
    Memory does not grow with the rows: they are read a block at a time, from arrays, frames, Parquet, CSV or Dask.
    Either one pass sums the Gram matrix of the kernel functions, from which every λ follows, or a few passes solve for
    all λ at once by preconditioned conjugate gradients; the cheaper is taken. λ is chosen by generalised
    cross-validation.

    Parameters
    ----------
    kernel : Kernel, str or None
        None is ``Gaussian()``. A length scale "auto" is chosen by at most 12,000 rows and their labels.
    n_features : int or "auto"
        M. "auto" is √n·log n, at least 500 and at most 2000 on a CPU, 20,000 on a GPU.
    lam : "gcv", float or array
        "gcv" and an array choose by generalised cross-validation.
    fit_intercept : bool, default True
        Fit an intercept, which is not penalised: adding a constant to y moves it by this constant and changes nothing
        else.
    solver : {"auto", "gram", "rounds"}
        "auto" takes the faster of the two routes; ``solver_`` names it.
    device : None, "cuda", "cpu" or a torch device
        The device on which torch works on the rows; None is NumPy on all cores, or the device of the rows if they are
        tensors.
    precision : {"auto", "fixed", "single", "double"}
        The precision of kernel values; sums of them are in double precision, or exact. "auto" is single for rows of
        single precision and on a GPU, unless λ is too small for it. "fixed" rounds values to 16 bits, whose products
        torch sums on a CPU without error. It is twice as fast where the processor multiplies bytes (VNNI, AMX), for
        kernels of the distance and rows without weights, and warns if rounding has moved the function by a tenth of its
        error or more.
    standardize : bool, default False
        Bring every input to the mean and standard deviation it has over the points.
    tol : float, default 3e-3
        The iterations of a λ end when the remaining error of its equations has fallen to this share.
    max_iter : int, default 100
        The most passes over the rows after the first.
    grid : array or None
        The λ that lam="gcv" chooses from.
    random_state : int, default 0
        Draws the points.
    verbose : int, default 0
        1 shows a progress bar on standard error, once the work takes longer than a second.

    Attributes
    ----------
    lam_ : float
    coef_ : (M,) or (M, T), of the kernel functions
    intercept_ : float or (T,)
    path_ : SummaryPath, every λ with its score, if λ was chosen
    predictor_ : BasisPredictor
    kernel_ : the kernel with its length scale filled in
    targets_ : names of the labels, if they have names
    solver_ : "gram" or "rounds"
    precision_ : "fixed", "single" or "double"
    n_iter_ : int, passes over the rows after the first; 1 with the Gram matrix, which needs none
    jitter_ : float, the ε of the penalty λ cᵀ(𝕂_zz + εI)c, which keeps rounding errors harmless

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(5000, 2))
    >>> y = np.sin(6 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=5000)
    >>> model = up.NystromRegressor(up.kernels.Gaussian(0.3), n_features=200).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    kernel: Any = parameter(KernelKind(), None)
    n_features: Any = parameter(Whole(1, "auto"), "auto")
    lam: Any = parameter(Numbers("gcv"), "gcv")
    _: KW_ONLY
    fit_intercept: bool = parameter(Switch(), True)
    solver: str = parameter(Word(SOLVERS), "auto")
    device: Any = parameter(DEVICE, None)
    precision: str = parameter(Word(PRECISIONS), "auto")
    standardize: bool = parameter(Switch(), False)
    tol: float = parameter(Real("a number between 0 and 1", lambda value: 0 < value < 1), 3e-3)
    max_iter: int = parameter(Whole(), 100)
    grid: Any = parameter(Numbers(none=True), None)
    random_state: Any = parameter(Seed(), 0)
    verbose: int = parameter(VERBOSITY, 0)

    _saved: ClassVar = (
        SpanFunction(basis=False),
        Entries(
            lam_=LAM_FOUND,
            solver_=Word(SOLVERS[1:]),
            precision_=Word(PRECISIONS[1:]),
            jitter_=Real("a number that is not negative", lambda value: 0 <= value < math.inf, double=True),
        ),
        _IterationsPart(),
        SpanPath("gcv"),
    )

    @property
    def n_iter_(self) -> int:
        """Passes over the rows after the first; at least 1, as scikit-learn counts iterations."""
        return max(self._n_rounds, 1)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NystromRegressor:
        """Fit to rows and labels.

        Parameters
        ----------
        X : arrays, tensors, frames, a path to Parquet or CSV, a Dask collection
        y : labels, (n,) or (n, T); of a path or a frame, names of columns
        sample_weight : one weight per row, or the name of a column; a weight counts as repeated rows
        """
        with undo_on_failure(self):
            self._check_parameters()
            self._forget()
            self._fit(*self._open(X, y, sample_weight))
        return self

    def _fit(self, source: Source, one_target: bool, device: Any) -> None:
        source = self._start(source, device, one_target)
        lams, least = choose_lams(self._machine, self.precision_, self._kappa_sq, source.n_rows, self._named_lams)
        probes = 0 if self._has_one_lam else PROBES
        job = Job.on(self._machine, source.n_rows, self._n_labels, lams, len(lams) * (self._n_labels + probes), least)
        wanted = "gram" if self.precision == "fixed" else self.solver
        route = take_route(wanted, job, self._machine)
        with Progress(int(self.max_iter), "passes over the rows", self.verbose) as bar:
            work = self._work(source, lams, probes, lambda _: bar.advance())
            solved = route.solve(work)
            if solved is None:  # rows turn out to round a Gram matrix more than points let expect
                if wanted == "gram":
                    instead = "precision='single'" if self.precision == "fixed" else "solver='rounds'"
                    raise ValueError(f"{self._too_small(lams)}, or {instead}")
                route = take_route("rounds", job, self._machine)
                solved = route.solve(work)
        assert solved is not None
        assert work.sums is not None
        self.solver_, self.targets_ = route.name, tuple(source.target_names)
        self._choose(solved, work.sums)
        del self._machine

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> NystromRegressor:
        """Add rows to those seen so far and learn from all of them; the points are drawn from the first rows.

        Only sums over the rows are kept, so the Gram matrix is summed whatever ``solver`` says.

        Parameters
        ----------
        X, y, sample_weight : as :meth:`fit` takes them

        Returns
        -------
        self
        """
        with undo_on_failure(self, from_scratch=False):
            self._check_parameters()
            self._add(X, y, sample_weight)
        return self

    def _add(self, X: Any, y: Any, sample_weight: Any) -> None:
        if self.__dict__.get("_sums") is None:
            self._forget()
            source, one_target, device = self._open(X, y, sample_weight)
            source = self._start(source, device, one_target)
            self._sums: Sums | None = None
        else:
            source = open_labeled(self, X, y, sample_weight)
            if source.n_outputs != self._n_labels:
                raise ValueError(
                    f"y must have {self._n_labels} label(s), as the rows so far, and it has {source.n_outputs}"
                )
        if self._sums is not None and not self.fit_intercept:
            self._give_guess_back(self._sums)
        n = source.n_rows + (0 if self._sums is None else self._sums.n_rows)
        lams, least = choose_lams(self._machine, self.precision_, self._kappa_sq, n, self._named_lams)
        take_route("gram", Job.on(self._machine, n, self._n_labels, lams, len(lams), least), self._machine)
        work = self._work(source, lams, 0)
        new = sum_rows(self._machine, work.chunks, 0, True, self._guess)
        sums = new if self._sums is None else self._sums + new
        work.sums = sums
        solved = GRAM.solve(work)
        if solved is None:
            raise ValueError(f"{self._too_small(lams)}, or fit all rows at once with solver='rounds'")
        self.__dict__.pop("path_", None)  # of fewer rows
        self._choose(solved, sums)
        self._sums, self.solver_, self.targets_ = sums, "gram", tuple(source.target_names)

    def _values_for(self, X: Any) -> Callable[[Array], Array]:
        """f on the machine that learned it."""
        precision = "double" if self.precision_ == "double" else "single"
        machine = make_machine(cast(KernelMap, self.predictor_.map), find_device(self.device, X), precision)
        coef, intercept = machine.array(self.predictor_.coef), machine.array(self.predictor_.intercept)

        def values(rows: Array) -> Array:
            step = rows.shape[0] if is_stream(X) else machine.rows_at_once
            places = [machine.place(Rows(rows[i : i + step, :])) for i in range(0, rows.shape[0], max(step, 1))]
            parts = [machine.values(place, coef) for place in places]
            together = namespace(coef).concat(parts) + intercept if parts else coef[:0, :]
            return together if is_foreign(rows) else to_numpy(together)

        return values

    def _open(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, bool, Any]:
        """The rows, whether labels came as a vector, and where torch is to work."""
        device = find_device(self.device, X)
        if not is_stream(X):
            X, y, sample_weight = split_named_columns(self, X, y, sample_weight)
        opened = open_all(self, X, y, sample_weight, None, None, None)
        return opened.labeled, opened.one_target, device

    def _forget(self) -> None:
        """Forget all rows that were seen, and the names of their columns."""
        for name in ("path_", "_sums", "feature_names_in_"):
            self.__dict__.pop(name, None)

    def _start(self, source: Source, device: Any, one_target: bool) -> Source:
        """Points, kernel, and the machine that sums over rows; the source, with what was read for that kept."""
        place = "cpu" if device is None or device.type == "cpu" else "cuda"
        wanted = None if isinstance(self.n_features, str) else int(self.n_features)
        n = source.n_rows
        if n < 2 and not self._has_one_lam:
            raise ValueError(
                f"lam={quote(self.lam, 40)} needs at least 2 rows and X has n_samples = {n}: give lam as a number"
            )
        M = wanted or min(max(math.ceil(math.sqrt(n) * math.log(n)), FEWEST_POINTS), MOST_POINTS[place])
        kernel = as_kernel(self.kernel)
        if isinstance(kernel, Precomputed):
            raise ValueError(
                "kernel must be computable at new points, but it is precomputed: "
                "give the kernel as a function of two rows"
            )
        wanted_rows = [self._draw_rows(n, M)] + ([self._draw_rows(n, MANY)] if find_free_parts(kernel) else [])
        (few, *many), source = read_some(source, wanted_rows, KEPT)
        assert few.Y is not None
        rows_single = few.X.dtype == namespace(few.X).float32
        # Labels minus one in their middle: squaring a large offset would lose the digits that carry the variation.
        labels = np.sort(to_numpy(few.Y).astype(np.float64), axis=0)
        self._guess: np.ndarray = float(self.fit_intercept) * labels[len(labels) // 2]
        self.one_target_, self._n_labels = one_target, int(few.Y.shape[1])
        U = np.unique(to_numpy(few.X).astype(np.float64), axis=0)  # copies of a row add nothing to the span
        scaling = Scaling.of(U, None) if self.standardize else None
        Z = U if scaling is None else scaling.apply(U)
        self.kernel_ = self._with_labels(kernel, many[0], Z, scaling) if many else kernel.resolve(Z)
        self._kappa_sq = kappa_squared(self.kernel_, Z)
        map_ = KernelMap(self.kernel_, Z, scaling)
        machine_and_precision = choose_machine(
            map_, device, self.precision, rows_single, self._named_lams, self._kappa_sq
        )
        self._machine: Machine = machine_and_precision[0]
        self.precision_: str = machine_and_precision[1]
        return source

    def _give_guess_back(self, sums: Sums) -> None:
        """Turn the sums so far into sums of the labels themselves, where ``fit_intercept`` was True until now."""
        self._sums, self._guess = sums.shift_labels(self._guess), np.zeros(self._n_labels)

    def _with_labels(self, kernel: Kernel, some: Rows, Z: np.ndarray, scaling: Scaling | None) -> Kernel:
        """The kernel with its length scales chosen by some of the rows and their labels."""
        X, weights = to_numpy(some.X).astype(np.float64), some.weights
        X = X if scaling is None else scaling.apply(X)
        weights = None if weights is None else to_numpy(weights)
        return resolve_kernel(kernel, X, some.Y, weights, Z, verbose=self.verbose)

    def _draw_rows(self, n: int, count: int) -> np.ndarray:
        """Draw the numbers of so many of n rows at random, or return all of them."""
        if count >= n:
            return np.arange(n)
        return np.sort(np.random.default_rng(self.random_state).choice(n, count, replace=False))

    @property
    def _has_one_lam(self) -> bool:
        """Whether λ is given as one number, so that nothing has to be chosen."""
        return not isinstance(self.lam, str) and np.ndim(self.lam) == 0

    @property
    def _named_lams(self) -> Floats | None:
        """The λ that the user gave; None if they follow from the rows."""
        if not isinstance(self.lam, str):
            return np.atleast_1d(check_positive_numbers("lam", self.lam))
        return None if self.grid is None else np.atleast_1d(check_positive_numbers("grid", self.grid))

    def _work(
        self, source: Any, lams: Floats, probes: int, after_round: Callable[[int], None] = lambda _: None
    ) -> Work:
        return Work(
            self._machine,
            Chunks(source, self._machine),
            lams,
            self._kappa_sq,
            self._n_labels,
            bool(self.fit_intercept),
            self._guess,
            self._named_lams is not None,
            probes,
            lambda count: read_some(source, [self._draw_rows(source.n_rows, count)], 0)[0][0],
            float(self.tol),
            int(self.max_iter),
            after_round,
        )

    def _too_small(self, lams: Floats) -> str:
        named = "λ of the grid" if self._named_lams is None else f"lam={np.min(lams):.1e}"
        return (
            f"{named} is too small for the Gram matrix of these rows, whose rounding errors are larger than usual: "
            "use a larger lam"
        )

    def _choose(self, solved: SpanSolution, sums: Sums) -> None:
        lams, map_, index = solved.lam, self._machine.map, np.zeros(1, dtype=int)
        intercepts = solved.intercept + self._guess
        criterion = criteria.gcv(
            solved.error, solved.df, max(sums.weight, float(sums.n_rows))
        )  # weights count as repeated rows
        if not self._has_one_lam:
            index = criteria.best_index(criterion, lams, per_target=False)
        chosen = int(index[0])
        if isinstance(self._machine, fixed.FixedPointMachine):  # before anything is changed: a warning may be an error
            fixed.warn_of_harm(self._machine.rounding_error(solved.coef[chosen]), solved.error[chosen])
        if not self._has_one_lam:
            scores = criterion[:, 0] if self.one_target_ else criterion
            self.path_ = SummaryPath(lams, scores, solved.df, "gcv", index, map_, solved.coef, intercepts)
        self.lam_, self._n_rounds, self.jitter_ = float(lams[chosen]), solved.rounds, solved.jitter
        coef, intercept = solved.coef[chosen].copy(), intercepts[chosen].copy()
        self._settle_span(BasisPredictor(map_, coef, intercept), coef, self.one_target_)

    def _check_together(self) -> None:
        if self.precision == "fixed" and self.solver == "rounds":
            raise ValueError(
                "precision='fixed' works only with the Gram matrix: use solver='gram', or precision='single'"
            )

    def facts(self, target: int = 0) -> ModelFacts:
        """Return the facts of the fitted model; ``target`` is the position of the label."""
        path: SummaryPath | None = if_fitted(self, "path_")
        return describe(
            self,
            target,
            "Kernel ridge regression in the span of kernel functions at a few points",
            kernel=self.kernel_,
            lam=self.lam_,
            path=path,
            tune=None if path is None else lambda: path.tuning(target),
            n_iter=self.n_iter_,
            solver=self.solver_,
            fit_intercept=bool(self.fit_intercept),
        )
