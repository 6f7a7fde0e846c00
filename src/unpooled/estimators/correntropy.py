"""CorrentropyRegressor: kernel gradient descent with a loss that gross outliers hardly affect."""

from __future__ import annotations

import math
from collections.abc import Sized
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.model_selection import KFold

from .._base import threads
from .._base.arrays import Array, eps, is_foreign, like, namespace, take_rows, to_numpy
from .._base.checks import check_folds, check_kernel_matrix, check_weights, check_X, check_Y
from .._base.declared import Arrays, Header
from .._base.fits import undo_on_failure
from .._base.kinds import VERBOSITY, Folds, PerTarget, Real, Seed, Switch, declaration, parameter
from .._base.progress import Progress
from .._solvers.descent import robust
from .._solvers.descent.descent import JUMP, Task, operator_of, out_of_fold, run
from .._solvers.predictors import KernelExpansion
from ..kernels import Precomputed, as_kernel
from ..kernels.base import kappa_squared
from ..kernels.specs import KernelKind
from ..losses import Loss, LossKind, as_loss
from .facts import ModelFacts, describe, of_target
from .length_scales import resolve_kernel
from .paths import DescentPath
from .span import ExpansionModel
from .stored import Expansion, ForEachTarget, are_counts


class _DescentPart:
    """The path of a descent without its functions, as a file keeps it."""

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        path: DescentPath = model.path_
        arrays["path.n_iter"] = path.n_iter
        if path.score is not None and path.scales is not None and path.tried is not None:
            arrays |= {"path.scales": path.scales, "path.tried": path.tried, "path.score": path.score}

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        T, one = model.predictor_.coef.shape[1], model.one_target_
        n_iter = arrays["path.n_iter"]
        scales, tried, score = (arrays.get(f"path.{name}") for name in ("scales", "tried", "score"))
        good = are_counts(n_iter) and bool(np.all(np.diff(n_iter) > 0))
        known = [part is not None for part in (scales, tried, score)]
        if scales is not None and tried is not None and score is not None:
            S, tries = (*scales.shape, 0)[0], tried.size
            good = good and scales.shape == (S, T) and scales.dtype.kind == score.dtype.kind == "f"
            good = good and bool(np.all(scales > 0)) and are_counts(tried)
            good = good and score.shape == ((S, tries) if one else (S, tries, T))
        if not good or len(set(known)) > 1:
            raise ValueError("the arrays of its path of iterations do not match")
        model.path_ = DescentPath(n_iter=n_iter, one_target=one, scales=scales, tried=tried, score=score)


@declaration
@dataclass(eq=False, repr=False)
class CorrentropyRegressor(ExpansionModel):
    """Kernel regression for labels, some of which are wrong: gradient descent on the correntropy loss, stopped early.

    With φ_σ(u) = σ²(1 - exp(-u²/(2σ²))), ψ = φ_σ', and weights w that sum to one, from f = 0,

        f ← f - η_t Σ w_i ψ(f(x_i) - y_i) K_{x_i},      η_t = (step/κ²)·t^{-decay},   t = 1 ... n_iter

    (Xie, Hu, Wang and Wang 2022, (5); the step is divided by κ² so that any kernel will do). A label that is wrong by
    more than a few σ has almost no influence. σ = ∞ is least squares, and then n_iter = t steps give
    ``SpectralRegressor(filter="landweber", lam=κ²/t)``.

    Parameters
    ----------
    kernel : Kernel, str, scikit-learn kernel, callable or None
        None is ``Gaussian()``. A name is one of :func:`unpooled.kernels.as_kernel`, "precomputed" among them.
    scale : float, array of one per target, or "auto"
        σ, in the unit of y; infinity is least squares. "auto" chooses it for each target, see Notes.
    n_iter : int, array of one per target, or "auto"
        The number of steps, which is the regularisation: 1/n_iter plays the part of λ/κ².
    step : float in (0, 1], default 1
        The size of the first step, in units of 1/κ².
    decay : float in [0, 1), default 0
        θ of η_t = η t^{-θ}.
    loss : {"correntropy", "huber", "squared"} or Loss
        "huber" is linear from the residual ``scale`` on. "squared" has no scale. A Loss object has its own scale, and
        ``scale`` is ignored.
    fit_intercept : bool, default True
        Fit an intercept beside the centred kernel: adding a constant to y then moves the intercept by this constant
        and changes nothing else. Without an intercept the descent starts at zero, and labels far from zero look wrong.
    cv : int or splitter, default 5
        The folds of the choice; a number is that many shuffled folds (fewer if there are fewer rows).
    random_state : int, RandomState or None, default 0
        Shuffles the folds; nothing else is random.
    jump : float in [0, 0.5], default 0.02
        After 500 single steps, this share of the steps done is taken at once, with an error of about its square:
        n_iter = 10⁵ costs as much as a few thousand steps. 0 takes every step.
    verbose : int, default 0
        1 shows a progress bar on standard error, once the work takes longer than a second.

    Attributes
    ----------
    scale_, n_iter_ : float and int, or arrays of one per target if they were chosen or given for each
    predictor_ : KernelExpansion
        The fitted function: kernel, points (unlabeled ones too), coefficients, intercept.
    dual_coef_ : (n,) or (n, T)
        c_i, the coefficients of the rows in ``predictor_.points``.
    intercept_ : float or array
        The b of the centred regression; 0 without ``fit_intercept``.
    path_ : DescentPath
        The iterations kept and their predictions, the scales and iterations tried and their scores.
    solver_ : str
        "low-rank", "eigh", or "products" (every step a product with the kernel matrix).
    kernel_, loss_ : the kernel with its length scale filled in, and the loss with its scale

    Notes
    -----
    "auto" compares errors on held-out rows, and never their squares: see ``unpooled/_solvers/descent/robust.py``. It
    works with up to 40 % of gross outliers, even if all are on one side, and uses least squares if the labels give no
    reason not to.

    ``sample_weight`` acts as repeated rows at a given scale and n_iter. ``unlabeled`` rows, of weight 1 each, inform
    about the distribution of x and not about y: see ``unpooled/_solvers/descent/descent.py``. They are there for
    averages over many small blocks, where they lower the bias (Wang 2018); in a single fit inflated labels cost more
    variance than they save.

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> X = np.linspace(0, 1, 90)[:, None]
    >>> truth = np.sin(6 * X[:, 0])
    >>> y = np.where(np.arange(90) % 3 == 0, 20.0, truth)  # every third label is wrong
    >>> model = up.CorrentropyRegressor(up.kernels.Gaussian(0.2)).fit(X, y)
    >>> bool(abs(model.predict(X) - truth).max() < 0.05)
    True
    """

    kernel: Any = parameter(KernelKind(), None)
    scale: Any = parameter(PerTarget("'auto' or a positive number", infinite=True), "auto")
    n_iter: Any = parameter(PerTarget("'auto' or a whole number of at least 1", whole=True), "auto")
    step: float = parameter(Real("a number in (0, 1]", lambda v: 0 < v <= 1), 1.0)
    decay: float = parameter(Real("a number in [0, 1)", lambda v: 0 <= v < 1), 0.0)
    _: KW_ONLY
    loss: Any = parameter(LossKind(), "correntropy")
    fit_intercept: bool = parameter(Switch(), True)
    cv: Any = parameter(Folds(), 5)
    random_state: Any = parameter(Seed(), 0)
    jump: float = parameter(Real("a number in [0, 0.5]", lambda v: 0 <= v <= 0.5), JUMP)
    verbose: int = parameter(VERBOSITY, 0)

    _saved: ClassVar = (
        Expansion("low-rank", "eigh", "products"),
        ForEachTarget("scale_", "scale", "one_scale", infinite=True),
        ForEachTarget("n_iter_", "n_iter", "one_n_iter", whole=True),
        _DescentPart(),
    )

    def fit(self, X: Any, y: Any, sample_weight: Any = None, unlabeled: Any = None) -> CorrentropyRegressor:
        """Fit to rows ``X`` and labels ``y``, of shape (N,) or (N, T), and rows without labels if there are any.

        Parameters
        ----------
        X : array or frame of shape (N, d)
        y : (N,) or (N, T)
        sample_weight : (N,) non-negative numbers; they count as repeated rows
        unlabeled : rows without labels
        """
        with undo_on_failure(self):
            self._check_parameters()
            self._fit(X, y, sample_weight, unlabeled)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, unlabeled: Any) -> None:
        X = check_X(self, X, reset=True)
        Y, one_target = check_Y(y, X)
        weights = check_weights(sample_weight, X)
        heaviest = 1.0 if sample_weight is None else float(np.max(to_numpy(sample_weight)))
        kernel = as_kernel(self.kernel)
        if isinstance(kernel, Precomputed):
            check_kernel_matrix(X)
        extra = self._check_unlabeled(unlabeled, X, kernel)
        scale, n_iter = choices_for(self, Y)
        # Rows of weight zero are as if they were not there.
        least = float(namespace(X).finfo(X.dtype).smallest_normal)
        kept = None if weights is None or np.all(weights > least) else np.flatnonzero(weights > least)
        searching = scale is None or n_iter is None
        folds = self._folds(X.shape[0], kept) if searching else []
        if weights is not None and kept is not None:
            X, Y, weights = take_rows(X, kept), take_rows(Y, kept), check_weights(weights[kept], kept)
            kernel = Precomputed(columns=kept.tolist()) if isinstance(kernel, Precomputed) else kernel
        if not isinstance(kernel, Precomputed):
            X = namespace(X).asarray(X, copy=True)  # the model keeps its rows, whatever becomes of the caller's
        task = Task(
            kernel,
            X,
            Y,
            None if weights is None else like(weights, X),
            bool(self.fit_intercept),
            1.0,
            as_loss(self.loss),
            float(self.step),
            float(self.decay),
            extra,
            1.0 / heaviest,
            float(self.jump),
        )
        kernel = resolve_kernel(
            kernel, X, Y, weights, task.points(), task.weights_of_points(), wrong_labels=True, verbose=self.verbose
        )
        task = replace(task, kernel=kernel, kappa_sq=kappa_squared(kernel, task.points()))
        with threads.limit_blas_for(int(task.points().shape[0])):
            search = self._search(task, weights, folds, scale, n_iter) if searching else None
            if search is not None:
                scale, n_iter = search[0], search[1]
            assert scale is not None
            assert n_iter is not None
            self._descend(task, scale, n_iter, one_target, search)
        self.loss_ = task.loss.at(self.scale_)

    def _descend(
        self, task: Task, scale: np.ndarray, n_iter: np.ndarray, one_target: bool, search: tuple[Any, ...] | None
    ) -> None:
        """The descent at one scale and iteration a target, its stops kept."""
        xp = namespace(task.X)
        stops = sorted({*robust.stops_up_to(int(n_iter.max())), *n_iter.tolist()})
        operator = operator_of(task, stops[-1])
        with Progress(len(stops), "descent", self.verbose) as bar:
            reached = list(bar.counting(run(task, operator, scale[None, :], stops)))
        last = [stops.index(int(n)) for n in n_iter]
        coef = xp.stack([reached[i].coef[:, 0, t] for t, i in enumerate(last)], axis=1)
        intercept = xp.stack([reached[i].intercept[0, t] for t, i in enumerate(last)])
        b = xp.stack([reached[i].b[0, t] for t, i in enumerate(last)])
        kernel, points = task.kernel, task.kernel.anchors(task.points())
        self.solver_ = operator.name
        self._settle_expansion(KernelExpansion(kernel, points, coef, intercept), kernel, b, one_target)
        each_scale = not one_target and (isinstance(self.scale, str) or np.ndim(self.scale) > 0) and task.loss.has_scale
        each_n_iter = not one_target and (isinstance(self.n_iter, str) or np.ndim(self.n_iter) > 0)
        self.scale_ = scale.copy() if each_scale else float(scale[0])
        self.n_iter_ = n_iter.copy() if each_n_iter else int(n_iter[0])
        scales, tried, score = (None, None, None) if search is None else search[2:]
        self.path_ = DescentPath(
            n_iter=np.asarray(stops),
            one_target=one_target,
            scales=scales,
            tried=tried,
            score=score[:, :, 0] if one_target and score is not None else score,
            kernel=kernel,
            points=points,
            coefs=[stop.coef[:, 0, :] for stop in reached],
            intercepts=[stop.intercept[0, :] for stop in reached],
            index=np.asarray(last),
        )

    def _search(
        self,
        task: Task,
        weights: np.ndarray | None,
        folds: list[tuple[np.ndarray, np.ndarray]],
        scale: np.ndarray | None,
        n_iter: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(scale (T,), n_iter (T,)), and what was tried: scales (S, T), iterations (I,), scores (S, I, T)."""
        Y = to_numpy(task.Y).astype(float)
        scales = robust.scale_grid(Y, weights, task.center, task.loss) if scale is None else scale[None, :]
        most = robust.most_iterations(task.n, eps(task.X) > 1e-10)
        stops = robust.stops_up_to(most) if n_iter is None else sorted(set(n_iter.tolist()))
        if isinstance(task.kernel, Precomputed):
            task = replace(task, X=task.kernel(task.X), kernel=Precomputed())
        enough = robust.RiseDetector(weights) if n_iter is None else lambda _: False
        with Progress(len(stops), "descents of the folds", self.verbose) as bar:

            def after_stop(residuals: np.ndarray) -> bool:
                bar.advance()
                return bool(enough(residuals))

            residuals, stops = out_of_fold(task, folds, scales, stops, after_stop)
        known = ~np.isnan(residuals[:, 0, 0, 0])
        candidates = robust.product(scales, stops)
        flat = residuals[known].reshape(int(known.sum()), len(candidates.n_iter), -1)
        w = None if weights is None else weights[known]
        index, score = robust.score_candidates(flat, w, candidates, task.loss)
        if n_iter is not None:  # one per target: each may choose among its own only
            own = [np.flatnonzero(candidates.n_iter == n) for n in n_iter]
            parts = [robust.Candidates(candidates.scale[i, t : t + 1], candidates.n_iter[i]) for t, i in enumerate(own)]
            chosen = [robust.choose(flat[:, i, t : t + 1], w, parts[t], task.loss)[0] for t, i in enumerate(own)]
            index = np.asarray([i[j] for i, j in zip(own, chosen)])
        targets = np.arange(Y.shape[1])
        return (
            candidates.scale[index, targets],
            candidates.n_iter[index],
            scales,
            np.asarray(stops),
            score.reshape(len(scales), len(stops), -1),
        )

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        model = super()._from_parts(header, arrays)
        model.loss_ = as_loss(model.loss).at(model.scale_)
        return model

    def _check_unlabeled(self, unlabeled: Any, X: Array, kernel: Any) -> Array | None:
        if unlabeled is None or (isinstance(unlabeled, Sized) and len(unlabeled) == 0):
            return None
        if isinstance(kernel, Precomputed):
            raise ValueError("unlabeled rows need a kernel to be compared with: a precomputed matrix has no rows")
        try:
            checked = check_X(self, unlabeled, reset=False)
        except (TypeError, ValueError) as error:
            raise type(error)(f"unlabeled cannot be used: {error}") from None
        # The caller's array may change later, and the model keeps its rows.
        return namespace(X).asarray(like(checked, X), copy=True)

    def _folds(self, n: int, kept: np.ndarray | None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the folds: of a number over the rows of positive weight, of a splitter over all rows."""
        if not isinstance(self.cv, (int, np.integer)) or isinstance(self.cv, bool):
            return check_folds(self.cv, n, kept)
        rows = n if kept is None else len(kept)
        if rows < 2:
            raise ValueError(f"'auto' needs at least 2 rows of positive weight, but there are n_samples = {rows}")
        seed = self.random_state
        seed = int(seed.integers(2**31)) if isinstance(seed, np.random.Generator) else seed  # scikit-learn takes none
        shuffled = KFold(min(int(self.cv), rows), shuffle=True, random_state=seed)
        return list(shuffled.split(np.empty((rows, 0))))

    def facts(self, target: int = 0) -> ModelFacts:
        """Return the facts of the fitted model; ``target`` is the position of the label."""
        gentle = np.all(np.isinf(self.scale_))
        loss = (
            "squared errors, since the labels gave no reason to expect gross errors"
            if gentle
            else "a loss that gross errors in the labels hardly affect"
        )
        scale, n_iter = of_target(self.scale_, target), of_target(self.n_iter_, target)
        return describe(
            self,
            target,
            f"Kernel gradient descent on {loss}",
            kernel=self.kernel_,
            scale=scale,
            n_iter=n_iter,
            path=self.path_,
            tune=lambda: self.path_.tuning(target, scale, n_iter),
            solver=self.solver_,
            fit_intercept=bool(self.fit_intercept),
            n_rows=int(self.predictor_.points.shape[0]),
        )


def choices_for(model: CorrentropyRegressor, Y: Array) -> tuple[np.ndarray | None, np.ndarray | None]:
    """scale and n_iter as one number per target, None if they are to be chosen."""
    loss, n_targets = as_loss(model.loss), int(Y.shape[1])
    scale: np.ndarray | None = None
    if not loss.has_scale:
        scale = np.full(n_targets, math.inf)
    elif isinstance(model.loss, Loss):
        scale = _for_each_target("scale", loss.scale, n_targets)
    elif not isinstance(model.scale, str):
        scale = _for_each_target("scale", model.scale, n_targets)
    n_iter = None if isinstance(model.n_iter, str) else _for_each_target("n_iter", model.n_iter, n_targets).astype(int)
    if (scale is None or n_iter is None) and Y.shape[0] < 2:
        raise ValueError(
            f"'auto' needs at least 2 rows, but X has n_samples = {Y.shape[0]}: give scale and n_iter as numbers"
        )
    return scale, n_iter


def _for_each_target(name: str, value: Any, n_targets: int) -> np.ndarray:
    """One number for each target."""
    numbers = np.asarray(to_numpy(value) if is_foreign(value) else value)
    if numbers.ndim == 1 and numbers.shape != (n_targets,):
        raise ValueError(
            f"{name} must be one number, or a list of one per target: y has {n_targets}, got {numbers.shape[0]}"
        )
    return np.full(n_targets, numbers, dtype=float)
