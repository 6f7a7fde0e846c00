"""Local learners made ready for blocks: from what the user gives to one with kernel, κ and candidates filled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .._base.arrays import eps, is_numpy, like, to_numpy
from .._base.checks import check_positive_numbers
from .._base.declared import DeclaredEstimator
from .._base.kinds import Kind, to_plain
from .._base.rows import Rows
from .._base.text import quote
from .._solvers.averaging.descent import DescentLocal
from .._solvers.averaging.local import Local, OpaqueLocal, SpectralLocal
from .._solvers.descent import robust
from .._solvers.spectral import criteria
from .._solvers.spectral.problem import Problem
from .._solvers.spectral.routes import can_serve
from ..filters import as_filter
from ..kernels import Kernel, Precomputed, as_kernel
from ..kernels.base import sample_frequencies, square_kappa
from ..losses import as_loss
from .correntropy import CorrentropyRegressor, choices_for
from .length_scales import resolve_kernel
from .spectral import SpectralRegressor

NORM_ROWS = 500  # rows from which the size of the kernel matrix is estimated


class LocalKind(Kind):
    """A local learner; files keep SpectralRegressor and CorrentropyRegressor."""

    words = "a regressor"

    def holds(self, value: Any) -> bool:
        return value is None or (not isinstance(value, type) and callable(getattr(value, "fit", None)))

    def check(self, name: str, value: Any) -> None:
        super().check(name, value)
        if isinstance(value, DeclaredEstimator):
            value._check_parameters()

    def to_plain(self, value: Any) -> Any:
        if value is None:
            return None
        if type(value) not in KEPT.values():
            raise ValueError(
                f"estimator is a {type(value).__name__}, and unpooled saves its own models only: "
                "use a SpectralRegressor or a CorrentropyRegressor, or that library's own way of saving"
            )
        return {"class": type(value).__name__, "params": to_plain(value)}

    def from_plain(self, written: Any) -> Any:
        if written is None:
            return None
        if not (isinstance(written, dict) and written.keys() == {"class", "params"} and written["class"] in KEPT):
            raise ValueError(f"its local learner cannot be {quote(written)}")
        return KEPT[written["class"]]._from_plain(written["params"])


KEPT: dict[Any, type[DeclaredEstimator]] = {cls.__name__: cls for cls in (SpectralRegressor, CorrentropyRegressor)}


@dataclass
class SampleFacts:
    """Facts about the whole sample: some of its rows, and κ of a kernel over all blocks where it must be computed."""

    sample: Rows
    kappa: Callable[[Kernel], float]
    one_target: bool
    n_rows: int  #: of the largest block
    verbose: int = 0


def prepare(estimator: Any, facts: SampleFacts, lam: Any, grid: Any) -> Local:
    """Return a learner with its candidates, or with one candidate if nothing is left to choose."""
    if type(estimator) is SpectralRegressor:
        return _spectral(estimator, facts, lam, grid)
    if type(estimator) is CorrentropyRegressor:
        return _descent(estimator, facts, lam, grid)
    _refuse_lam(estimator, lam, grid)
    return OpaqueLocal(estimator, facts.one_target)


def _refuse_lam(estimator: Any, lam: Any, grid: Any) -> None:
    if not (isinstance(lam, str) and lam in ("rule13", "local")) or grid is not None:
        raise ValueError(
            f"lam and grid belong to SpectralRegressor, and estimator is a {type(estimator).__name__}: "
            "set its own parameters and leave lam='rule13'"
        )


def _share_kernel(kernel: Any, facts: SampleFacts, wrong_labels: bool = False) -> tuple[Kernel, float]:
    """Return the kernel that all blocks use, and its κ²; ``wrong_labels`` says that labels may be wrong."""
    kernel = as_kernel(kernel)
    if isinstance(kernel, Precomputed):
        raise ValueError("a precomputed kernel cannot be cut into blocks: give the kernel as a function of two rows")
    rows, weights = facts.sample, facts.sample.weights
    points_weights = None if weights is None else like(weights / weights.max(), rows.X)
    kernel = resolve_kernel(
        kernel, rows.X, rows.Y, weights, rows.X, points_weights, wrong_labels=wrong_labels, verbose=facts.verbose
    )
    kappa = kernel.kappa()
    return kernel, square_kappa(kappa if np.isfinite(kappa) else facts.kappa(kernel))


def _spectral(estimator: SpectralRegressor, facts: SampleFacts, lam: Any, grid: Any) -> Local:
    kernel, kappa_sq = _share_kernel(estimator.kernel, facts)
    if isinstance(lam, str) and lam == "local":
        return OpaqueLocal(clone(estimator).set_params(kernel=kernel), facts.one_target, kernel)
    filter_, center = as_filter(estimator.filter), bool(estimator.fit_intercept)
    solver = "auto" if estimator.solver in ("mixed", "banded") else estimator.solver  # those are for paths
    few = Problem(kernel, facts.sample.X, facts.sample.Y, None, center, filter_, kappa_sq)
    if not can_serve(solver, few, None):
        raise ValueError(
            f"solver={solver!r} does not serve filter={quote(estimator.filter, 40)} in blocks: use solver='auto'"
        )
    given = lam
    if isinstance(lam, str):
        own = estimator.lam if not isinstance(estimator.lam, str) else None
        given = next((g for g in (grid, own, estimator.grid) if g is not None), None)
    named = "lam" if grid is None else "grid"
    lams = (
        criteria.default_grid(kappa_sq, eps(facts.sample.X)) if given is None else check_positive_numbers(named, given)
    )
    resolution, origin = _single_precision(kernel, facts.sample)
    return SpectralLocal(
        kernel, filter_, center, kappa_sq, np.atleast_1d(lams), bool(estimator.per_target), solver, resolution, origin
    )


def _descent(estimator: CorrentropyRegressor, facts: SampleFacts, lam: Any, grid: Any) -> Local:
    _refuse_lam(estimator, lam, grid)
    kernel, kappa_sq = _share_kernel(estimator.kernel, facts, wrong_labels=True)
    if lam == "local":
        return OpaqueLocal(clone(estimator).set_params(kernel=kernel), facts.one_target, kernel)
    Y, loss, center = to_numpy(facts.sample.Y).astype(float), as_loss(estimator.loss), bool(estimator.fit_intercept)
    scale, n_iter = choices_for(estimator, Y)
    scales = robust.scale_grid(Y, facts.sample.weights, center, loss) if scale is None else scale[None, :]
    if n_iter is None:
        single = eps(facts.sample.X) > 1e-10
        options = robust.product(scales, robust.stops_up_to(robust.most_iterations(facts.n_rows, single), 1))
    elif scale is None:
        if len(set(n_iter.tolist())) > 1:
            raise ValueError("with scale='auto' in blocks n_iter must be one number for all targets, or 'auto'")
        options = robust.product(scales, [int(n_iter[0])])
    else:  # nothing to choose: one option a target, as after a choice
        options = robust.Candidates(np.tile(scale, (len(n_iter), 1)), n_iter)
    return DescentLocal(
        kernel,
        center,
        kappa_sq,
        loss,
        float(estimator.step),
        float(estimator.decay),
        float(estimator.jump),
        robust.weighted_median(Y, facts.sample.weights),
        options,
        scale is not None and n_iter is not None,
    )


def _single_precision(kernel: Kernel, sample: Rows) -> tuple[float, np.ndarray | float]:
    """The λ below which single precision no longer tells K/n from its rounding, and the origin rows are measured from.

    The rounding is that of the factorisation, eps·‖K‖/n, and that of the kernel values, which is measured: rows far
    from each other on the scale of the kernel, or from the origin of a kernel that has one, lose more digits.
    """
    if not is_numpy(sample.X) or eps(sample.X) > 1e-10:
        return np.inf, 0.0
    few = sample.X[np.sort(np.random.default_rng(0).permutation(len(sample))[:NORM_ROWS])]
    origin = np.mean(few, axis=0) if _has_no_origin(kernel, few.shape[1]) else 0.0
    K = kernel(few)
    with np.errstate(all="ignore"):
        gap = np.linalg.norm(kernel((few - origin).astype(np.float32)) - K)
    # Where values are off by more than a hundred roundings, rows themselves have lost their digits: no λ is safe then.
    lost = not gap <= 1e-5 * len(few) * float(np.max(np.abs(K)))
    rounding = float(np.finfo(np.float32).eps * np.linalg.norm(K) + gap)
    return (np.inf if lost else rounding / len(few)), origin


def _has_no_origin(kernel: Kernel, d: int) -> bool:
    """Whether K(x, z) depends on x - z alone: then it has random frequencies."""
    try:
        sample_frequencies(kernel, 1, d, np.random.default_rng(0))
    except ValueError:
        return False
    return True
