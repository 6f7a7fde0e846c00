"""Mechanisms that audit the private estimators through the coefficients that they publish."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._solvers.descent.sgd import clip_rows, descend_one_by_one, draw_rows
from ..bases import CosineFeatures, RandomFeatures
from ..data.sources import UnreadRows
from ..estimators import PrivateRegressor, PrivateSGDRegressor
from ..estimators.private_sgd import features_to_plan_with, weights_before_noise
from ..estimators.private_sgd_plan import paper_plan, tight_plan
from ..kernels import Gaussian
from .mechanism import DELTA, EPSILON, FEW_RUNS_EPSILON, QUICK_RUNS, RUNS, Mechanism, Rows, with_noise, worst_neighbours

PUBLIC = np.linspace(-2.0, 2.0, 50)[:, None]
LABEL_BOUND = 1.0
ROWS = 6


def tight_descent(epsilon: float = EPSILON) -> Mechanism:
    """PrivateSGDRegressor(method="tight"): a record that is clipped at every visit reaches its sensitivity.

    ``shrink`` is off, because it acts only on the noisy weights and could hide a fault from the audit.
    """
    basis = RandomFeatures(Gaussian(1.0), 2).fit(PUBLIC)
    model = PrivateSGDRegressor(
        epsilon,
        DELTA,
        LABEL_BOUND,
        n_features=2,
        basis=basis,
        passes=3,
        batch_size=2,
        step=0.1,
        clip=0.2,
        precondition=None,
        shrink=False,
    )
    plan, noise = tight_plan(model, basis, ROWS, *features_to_plan_with(model, basis, None))

    def before(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return weights_before_noise(model, UnreadRows.of(basis, X, y), basis, plan)

    def as_shown(weights: np.ndarray) -> np.ndarray:
        """coef_ and intercept_; the first weight is that of the constant."""
        return np.concatenate([weights[..., 1:], weights[..., :1] * plan.constant], axis=-1)

    def release(data: Rows) -> np.ndarray:
        model.fit(*data)
        return np.append(np.ravel(model.coef_), model.intercept_)

    pair = worst_neighbours(before, ROWS, 1, LABEL_BOUND)
    assert pair.direction is not None
    return Mechanism(
        "PrivateSGDRegressor, tight",
        release,
        (pair.first, pair.second),
        epsilon,
        DELTA,
        many=lambda data, runs: as_shown(with_noise(noise, before(*data), runs)),
        direction=as_shown(pair.direction) / np.append(np.ones(basis.n_features_), plan.constant**2),
        runs=RUNS,
        quick_runs=QUICK_RUNS,
        note="the order of visits is public and always the same, so descent is made once; noise of all runs together",
    )


def paper_descent() -> Mechanism:
    """PrivateSGDRegressor(method="paper"): its bound is loose, so the audit finds little."""
    basis = CosineFeatures(Gaussian(1.0), 2).fit(PUBLIC)
    model = PrivateSGDRegressor(
        EPSILON,
        DELTA,
        LABEL_BOUND,
        n_features=2,
        basis=basis,
        method="paper",
        fit_intercept=False,
        n_steps=12,
        step=0.05,
    )
    plan, noise = paper_plan(model, basis, ROWS)

    def features(X: np.ndarray, y: np.ndarray) -> Rows:
        return clip_rows(basis.features(X), plan.kappa), np.clip(y, -LABEL_BOUND, LABEL_BOUND)

    def in_turn(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return descend_one_by_one(*features(X, y), np.arange(plan.steps) % ROWS, plan.step)

    def release(data: Rows) -> np.ndarray:
        return np.ravel(model.fit(*data).coef_)

    def many(data: Rows, runs: int) -> np.ndarray:
        phi, y = features(*data)
        return with_noise(
            noise, [descend_one_by_one(phi, y, draw_rows(ROWS, plan.steps), plan.step) for _ in range(runs)]
        )

    pair = worst_neighbours(in_turn, ROWS, 1, LABEL_BOUND)
    return Mechanism(
        "PrivateSGDRegressor, paper",
        release,
        (pair.first, pair.second),
        EPSILON,
        DELTA,
        many=many,
        direction=pair.direction,
        runs=RUNS // 2,
        quick_runs=QUICK_RUNS,
        note="features are made once, indices are drawn and descent is made in every run; noise of all runs together",
    )


def rounds() -> Mechanism:
    """Audit a whole fit of PrivateRegressor with a label bound and a public basis."""
    return _rounds("PrivateRegressor", PrivateRegressor(FEW_RUNS_EPSILON, DELTA, LABEL_BOUND, basis=_basis(), rounds=2))


def rounds_without_public_rows() -> Mechanism:
    """Audit PrivateRegressor without public rows: it first releases noisy counts of inputs, which the basis shows.

    The replaced record changes its inputs together with its label. At this ε more rows are needed before the estimator
    asks for counts of inputs.
    """
    kernel = Gaussian(1.0)  # without a length scale to look for it is three times as fast
    model = PrivateRegressor(FEW_RUNS_EPSILON, DELTA, LABEL_BOUND, kernel, n_features=2, rounds=2)
    X = np.tile(PUBLIC, (2, 1))
    X[0] = PUBLIC[-1]
    label = np.zeros(len(X))
    label[0] = LABEL_BOUND
    other = X.copy()
    other[0] = PUBLIC[0]

    def shown(fitted: PrivateRegressor) -> np.ndarray:
        points = np.asarray(fitted.basis_.features(PUBLIC[::24]))
        return np.concatenate([_coefficients(fitted), points.ravel()])

    return _calls("PrivateRegressor, no public rows", model, ((X, label), (other, -label)), shown)


def rounds_without_bound() -> Mechanism:
    """Audit PrivateRegressor without a label bound: it first releases counts of labels.

    Its loss is then correntropy. The other labels vary as much as the replaced one: among zeros alone it would be an
    outlier with no influence.
    """
    model = PrivateRegressor(FEW_RUNS_EPSILON, DELTA, None, basis=_basis(), rounds=2)
    return _rounds("PrivateRegressor, no label bound", model, labels=LABEL_BOUND)


def rounds_at_sites() -> Mechanism:
    """Audit PrivateRegressor at two sites, each of which adds all the noise that its sums need.

    The audit looks at the model, which contains the noise of both sites, and not at the message of one site.
    """
    model = PrivateRegressor(FEW_RUNS_EPSILON, DELTA, LABEL_BOUND, basis=_basis(), rounds=2, noise="site")
    return _rounds("PrivateRegressor, noise of 2 sites", model, sites=2)


def _rounds(name: str, model: PrivateRegressor, sites: int = 1, labels: float = 0.0) -> Mechanism:
    """Audit rounds on neighbours made by hand, because every question depends on the answers before it.

    The replaced record is the one whose features are furthest from their mean; its label is at the bound, and then at
    the opposite bound. All other labels are 0, so that residuals stay small, or range from -``labels`` to ``labels``.
    """
    basis = model.basis
    X = np.tile(PUBLIC[::5], (2, 1))
    X[0] = PUBLIC[int(np.argmax(np.linalg.norm(basis.features(PUBLIC) - basis.mean_, axis=1)))]
    label, opposite = (np.append(end, np.linspace(-labels, labels, len(X) - 1)) for end in (LABEL_BOUND, -LABEL_BOUND))
    names = None if sites == 1 else np.arange(len(X)) % sites
    return _calls(name, model, ((X, label), (X, opposite)), _coefficients, names)


def _calls(
    name: str,
    model: PrivateRegressor,
    neighbours: tuple[Rows, Rows],
    shown: Callable[[PrivateRegressor], np.ndarray],
    sites: np.ndarray | None = None,
) -> Mechanism:
    return Mechanism(
        name,
        lambda data: shown(model.fit(data[0], data[1], sites=sites)),
        neighbours,
        model.epsilon,
        model.delta,
        runs=3_000,
        quick_runs=120,
        note="the call that a user makes, in every run",
    )


def _coefficients(model: PrivateRegressor) -> np.ndarray:
    return np.append(np.ravel(model.coef_), model.intercept_)


def _basis() -> RandomFeatures:
    return RandomFeatures(Gaussian(1.0), 2).fit(PUBLIC)
