"""NystromRegressor: kernel ridge regression for very many rows, in the span of M kernel functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from .._base.arrays import Array, Floats, is_foreign, namespace, to_numpy
from .._base.checks import check_choice, check_count, check_fitted, check_size, check_X, positive_numbers
from .._base.rows import Rows, concatenate
from .._base.text import shown
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
    chosen_machine,
    device_of,
    lams_for,
    machine_for,
    take_route,
)
from .._solvers.nystrom.solving import Solved
from .._solvers.nystrom.sums import Chunks, Sums, summed
from .._solvers.predictors import BasisPredictor
from .._solvers.spectral import criteria
from ..bases.maps import KernelMap, Scaling
from ..data.sources import is_stream, named_columns, open_all, open_labeled, stream_rows
from ..engines.progress import Progress
from ..kernels import Kernel, Precomputed, as_kernel
from ..kernels.base import kappa_squared
from ..kernels.parts import free_parts
from . import nystrom_storage
from .choices import ShowsChoices
from .length_scales import resolved
from .paths import SummaryPath
from .span import ScoresRows

FEWEST_POINTS = 500  # what n_features="auto" begins with
MOST_POINTS = {"cpu": 2000, "cuda": 20_000}  # what n_features="auto" goes up to


class NystromRegressor(ShowsChoices, ScoresRows, BaseEstimator):
    """Kernel ridge regression in the span of M kernel functions, for as many rows as there are.

    f = Σ_j c_j K(·, z_j) + b, with points z_j drawn from the rows, minimises (1/n) Σ (y_i - f(x_i))² + λ cᵀ𝕂_zz c.
    Memory does not grow with the rows: they are read a block at a time, from arrays, frames, Parquet, CSV or Dask.
    Either one pass sums the Gram matrix of the kernel functions, from which every λ follows, or a few passes solve for
    all λ at once by preconditioned conjugate gradients; the cheaper is taken. λ is chosen by generalised
    cross-validation.

    Parameters
    ----------
    kernel : Kernel, str or None
        None is ``Gaussian("median")``. A length scale "auto" is chosen by at most 12,000 rows and their labels.
    n_features : int or "auto"
        M. "auto" is √n·log n, at least 500 and at most 2000 on a CPU, 20,000 on a GPU.
    lam : "gcv", float or array
        "gcv" and an array choose by generalised cross-validation.
    center : bool, default False
        Fit an intercept.
    solver : {"auto", "gram", "rounds"}
    device : None, "cuda", "cpu" or a torch device
        Where torch works on the rows; None is NumPy on all cores, or where the rows are if they are tensors.
    precision : {"auto", "fixed", "single", "double"}
        Of kernel values; sums of them are double, or exact. "auto" is single for rows of single precision and on a GPU,
        unless λ is too small for it. "fixed" rounds values to 16 bits, whose products torch sums on a CPU without
        error: twice as fast where the processor multiplies bytes (VNNI, AMX), for kernels of the distance and rows
        without weights; there is a warning if rounding has moved the function by a tenth of its error or more.
    standardize : bool, default False
        Bring every input to the mean and standard deviation it has over the points.
    tol : float, default 3e-3
        Rounds of a λ end when what is left of its equations has fallen to this share.
    max_rounds : int, default 100
    grid : array or None
        The λ that lam="gcv" chooses from.
    random_state : int, default 0
        Draws the points.
    verbose : int, default 0

    Attributes
    ----------
    lam_ : float
    coef_ : (M,) or (M, T), of the kernel functions
    intercept_ : float or (T,)
    path_ : SummaryPath, every λ with its score, where λ was chosen
    predictor_ : BasisPredictor
    kernel_ : the kernel with its length scale filled in
    solver_ : "gram" or "rounds"
    precision_ : "fixed", "single" or "double"
    n_rounds_ : int, passes over the rows after the first
    jitter_ : float, the ε of the penalty λ cᵀ(𝕂_zz + εI)c, which rounding asks for

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

    def __init__(
        self,
        kernel: Any = None,
        n_features: Any = "auto",
        lam: Any = "gcv",
        *,
        center: bool = False,
        solver: str = "auto",
        device: Any = None,
        precision: str = "auto",
        standardize: bool = False,
        tol: float = 3e-3,
        max_rounds: int = 100,
        grid: Any = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.lam = lam
        self.center = center
        self.solver = solver
        self.device = device
        self.precision = precision
        self.standardize = standardize
        self.tol = tol
        self.max_rounds = max_rounds
        self.grid = grid
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NystromRegressor:
        """Fit to rows and labels.

        Parameters
        ----------
        X : arrays, tensors, frames, a path to Parquet or CSV, a Dask collection
        y : labels, (n,) or (n, T); of a path or a frame, names of columns
        sample_weight : one a row, or the name of a column; weights count as repeated rows
        """
        self._check_parameters()
        source, one_target = self._open(X, y, sample_weight)
        self._start(source, device_of(self.device, X), one_target)
        lams, least = lams_for(self._machine, self.precision_, self._kappa_sq, source.n_rows, self._asked)
        probes = 0 if self._given else PROBES
        job = Job.on(self._machine, source.n_rows, self._n_labels, lams, len(lams) * (self._n_labels + probes), least)
        wanted = "gram" if self.precision == "fixed" else self.solver
        route = take_route(wanted, job, self._machine)
        with Progress(int(self.max_rounds), "rounds over the rows", self.verbose) as bar:
            work = self._work(source, lams, probes, lambda _: bar.advance())
            found = route.solve(work)
            if found is None:  # rows turn out to round a Gram matrix more than points let expect
                if wanted == "gram":
                    instead = "precision='single'" if self.precision == "fixed" else "solver='rounds'"
                    raise ValueError(f"{self._too_small(lams)}, or {instead}")
                route = take_route("rounds", job, self._machine)
                found = route.solve(work)
        assert found is not None
        assert work.sums is not None
        self.solver_, self.targets_ = route.name, tuple(source.target_names)
        self._choose(found, work.sums)
        del self._machine
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> NystromRegressor:
        """Add rows to those seen so far, and learn from them all; the points are drawn from the first rows.

        Of the rows only sums are kept, so this is the route of the Gram matrix whatever ``solver`` says.

        Parameters
        ----------
        X, y, sample_weight : as :meth:`fit` takes them

        Returns
        -------
        self
        """
        self._check_parameters()
        if getattr(self, "_sums", None) is None:
            source, one_target = self._open(X, y, sample_weight)
            self._start(source, device_of(self.device, X), one_target)
            self._sums: Sums | None = None
        else:
            source = open_labeled(self, X, y, sample_weight)
            if source.n_outputs != self._n_labels:
                raise ValueError(f"y has {source.n_outputs} label(s), and the rows so far have {self._n_labels}")
        if self._sums is not None and not self.center:
            self._give_guess_back(self._sums)
        n = source.n_rows + (0 if self._sums is None else self._sums.n_rows)
        lams, least = lams_for(self._machine, self.precision_, self._kappa_sq, n, self._asked)
        take_route("gram", Job.on(self._machine, n, self._n_labels, lams, len(lams), least), self._machine)
        work = self._work(source, lams, 0)
        new = summed(self._machine, work.chunks, 0, True, self._guess)
        sums = new if self._sums is None else self._sums + new
        work.sums = sums
        found = GRAM.solve(work)
        if found is None:
            raise ValueError(f"{self._too_small(lams)}, or fit all rows at once with solver='rounds'")
        self._choose(found, sums)
        self._sums = sums  # only now: a failure leaves the model as it was
        self.solver_, self.targets_ = "gram", tuple(source.target_names)
        return self

    def predict(self, X: Any) -> Array:
        """f(X), in the order of the rows, on the machine that learned it.

        Parameters
        ----------
        X : rows without labels: arrays, tensors, frames, a path to Parquet or CSV, a Dask collection

        Returns
        -------
        array or tensor of shape (n,), or (n, T) for several targets
        """
        check_fitted(self)
        device = device_of(self.device, X)
        precision = "double" if self.precision_ == "double" else "single"
        machine = machine_for(cast(KernelMap, self.predictor_.map), device, precision)
        coef = machine.array(self.predictor_.coef)
        if is_stream(X):
            parts = list(stream_rows(self, X))
        else:
            X = check_X(self, X, reset=False)
            step = machine.rows_at_once
            parts = [Rows(X[i : i + step, :]) for i in range(0, X.shape[0], step)]
        found = [machine.values(machine.place(rows), coef) for rows in parts]
        tensors = not is_stream(X) and is_foreign(X)
        values = namespace(coef).concat(found) if found else coef[:0, :]
        values = values + machine.array(self.predictor_.intercept)
        values = values if tensors else to_numpy(values)
        return values[:, 0] if self.one_target_ else values

    def _open(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, bool]:
        self.__dict__.pop("feature_names_in_", None)
        if not is_stream(X):
            X, y, sample_weight = named_columns(self, X, y, sample_weight)
        opened = open_all(self, X, y, sample_weight, None, None, None)
        return opened.labeled, opened.one_target

    def _start(self, source: Any, device: Any, one_target: bool) -> None:
        """Points, kernel, and the machine that sums over rows."""
        for name in ("path_", "_sums"):
            self.__dict__.pop(name, None)
        place = "cpu" if device is None or device.type == "cpu" else "cuda"
        wanted = check_size(self.n_features, auto=True)
        n = source.n_rows
        if n < 2 and not self._given:
            raise ValueError(
                f"lam={shown(self.lam, 40)} needs at least 2 rows and X has n_samples = {n}: give lam as a number"
            )
        M = wanted or min(max(math.ceil(math.sqrt(n) * math.log(n)), FEWEST_POINTS), MOST_POINTS[place])
        few = self._drawn(source, M)
        assert few.Y is not None
        rows_single = few.X.dtype == namespace(few.X).float32
        # Labels less one in their middle: squares of a large offset would take the digits of what varies.
        labels = np.sort(to_numpy(few.Y).astype(np.float64), axis=0)
        self._guess: np.ndarray = float(self.center) * labels[len(labels) // 2]
        self.one_target_, self._n_labels = one_target, int(few.Y.shape[1])
        U = np.unique(to_numpy(few.X).astype(np.float64), axis=0)  # copies of a row add nothing to the span
        scaling = Scaling.of(U, None) if self.standardize else None
        Z = U if scaling is None else scaling.apply(U)
        kernel = as_kernel(self.kernel)
        if isinstance(kernel, Precomputed):
            raise ValueError("the span needs a kernel that can be computed at new points, and kernel is precomputed")
        self.kernel_ = kernel.resolve(Z) if not free_parts(kernel) else self._with_labels(kernel, source, Z, scaling)
        self._kappa_sq = kappa_squared(self.kernel_, Z)
        map_ = KernelMap(self.kernel_, Z, scaling)
        found = chosen_machine(map_, device, self.precision, rows_single, self._asked, self._kappa_sq)
        self._machine: Machine = found[0]
        self.precision_: str = found[1]

    def _give_guess_back(self, sums: Sums) -> None:
        """Sums so far become those of the labels as they are, where ``center`` was True until now."""
        self._sums, self._guess = sums.moved(self._guess), np.zeros(self._n_labels)

    def _with_labels(self, kernel: Kernel, source: Any, Z: np.ndarray, scaling: Scaling | None) -> Kernel:
        """The kernel with its length scales chosen by some of the rows and their labels."""
        some = self._drawn(source, MANY)
        X, weights = to_numpy(some.X).astype(np.float64), some.weights
        X = X if scaling is None else scaling.apply(X)
        weights = None if weights is None else to_numpy(weights)
        return resolved(kernel, X, some.Y, weights, Z, verbose=self.verbose)

    def _drawn(self, source: Any, count: int) -> Rows:
        """So many rows at random, or all."""
        rows = np.arange(source.n_rows)
        if count < len(rows):
            rows = np.sort(np.random.default_rng(self.random_state).choice(len(rows), count, replace=False))
        return concatenate([part.read() for part in source.slices(rows)])

    @property
    def _given(self) -> bool:
        """Whether λ is one number, and nothing is to be chosen."""
        return not isinstance(self.lam, str) and np.ndim(self.lam) == 0

    @property
    def _asked(self) -> Floats | None:
        """The λ that the user has named; None leaves them to the rows."""
        if not isinstance(self.lam, str):
            return np.atleast_1d(positive_numbers("lam", self.lam))
        return None if self.grid is None else np.atleast_1d(positive_numbers("grid", self.grid))

    def _work(
        self, source: Any, lams: Floats, probes: int, after_round: Callable[[int], None] = lambda _: None
    ) -> Work:
        return Work(
            self._machine,
            Chunks(source, self._machine),
            lams,
            self._kappa_sq,
            self._n_labels,
            bool(self.center),
            self._guess,
            self._asked is not None,
            probes,
            lambda count: self._drawn(source, count),
            float(self.tol),
            int(self.max_rounds),
            after_round,
        )

    def _too_small(self, lams: Floats) -> str:
        named = "λ of the grid" if self._asked is None else f"lam={np.min(lams):.1e}"
        return f"{named} is too small for a Gram matrix of these rows, which rounds more than usual: take a larger lam"

    def _choose(self, found: Solved, sums: Sums) -> None:
        lams, map_, index = found.lam, self._machine.map, np.zeros(1, dtype=int)
        intercepts = found.intercept + self._guess
        criterion = criteria.gcv(
            found.error, found.df, max(sums.weight, float(sums.n_rows))
        )  # weights count as repeated rows
        if not self._given:
            index = criteria.best_index(criterion, lams, per_target=False)
        chosen = int(index[0])
        if isinstance(self._machine, fixed.InFixedPoint):  # before anything is changed: a warning may be an error
            fixed.warn_if_harmed(self._machine.off(found.coef[chosen]), found.error[chosen])
        if not self._given:
            scores = criterion[:, 0] if self.one_target_ else criterion
            self.path_ = SummaryPath(lams, scores, found.df, "gcv", index, map_, found.coef, intercepts)
        self.lam_, self.n_rounds_, self.jitter_ = float(lams[chosen]), found.rounds, found.jitter
        coef, intercept = found.coef[chosen].copy(), intercepts[chosen].copy()
        self.predictor_ = BasisPredictor(map_, coef, intercept)
        self.coef_ = coef[:, 0] if self.one_target_ else coef
        self.intercept_ = float(intercept[0]) if self.one_target_ else intercept

    def _check_parameters(self) -> None:
        if isinstance(self.lam, str):
            check_choice("lam", self.lam, ("gcv",))
        else:
            positive_numbers("lam", self.lam)
        check_choice("solver", self.solver, SOLVERS)
        check_choice("precision", self.precision, PRECISIONS)
        if self.precision == "fixed" and self.solver == "rounds":
            raise ValueError("precision='fixed' is for the Gram matrix: take solver='gram', or precision='single'")
        check_size(self.n_features, auto=True)
        if not isinstance(self.center, (bool, np.bool_)):
            raise ValueError(f"center must be True or False, got {shown(self.center)}")
        if isinstance(self.tol, bool) or not isinstance(self.tol, (int, float, np.number)) or not 0 < self.tol < 1:
            raise ValueError(f"tol must be a number between 0 and 1, got {shown(self.tol)}")
        check_count("max_rounds", self.max_rounds)

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        check_fitted(self)
        return nystrom_storage.to_parts(self)

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> NystromRegressor:
        model: NystromRegressor = nystrom_storage.from_parts(cls, header, arrays)
        return model
