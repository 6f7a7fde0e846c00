"""To audit: private estimators, by the coefficients that they show."""

from __future__ import annotations

import numpy as np

from ..bases import CosineFeatures, RandomFeatures
from ..estimators import PrivateRegressor, PrivateSGDRegressor
from ..estimators.private_rows import described
from ..estimators.private_sgd_plan import paper_plan, tight_plan
from ..kernels import Gaussian
from ..solvers.sgd import drawn, one_by_one, within
from .batches import DELTA, EPSILON, QUICK_RUNS, RUNS, with_noise
from .mechanism import Mechanism
from .neighbours import Rows, worst_neighbours

PUBLIC = np.linspace(-2.0, 2.0, 50)[:, None]
LABEL_BOUND = 1.0
ROWS = 6


def tight_descent(epsilon: float = EPSILON) -> Mechanism:
    """PrivateSGDRegressor(method="tight"): a record that is clipped at every visit reaches its sensitivity.

    ``shrink`` is off: it works on the noisy weights alone and could only hide something from the audit.
    """
    basis = RandomFeatures(Gaussian(1.0), 2).fit(PUBLIC)
    model = PrivateSGDRegressor(
        epsilon,
        DELTA,
        LABEL_BOUND,
        basis,
        2,
        passes=3,
        batch_size=2,
        step=0.1,
        clip=0.2,
        precondition=None,
        shrink=False,
    )
    plan, noise = tight_plan(model, basis, ROWS, *model._public_features(basis, None))

    def before(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return model._descent(described(basis, X, y, reset=False), basis, plan)

    def as_shown(weights: np.ndarray) -> np.ndarray:
        """coef_ and intercept_; the first weight is that of the constant."""
        return np.concatenate([weights[..., 1:], weights[..., :1] * plan.constant], axis=-1)

    def release(data: Rows) -> np.ndarray:
        model.fit(*data)
        return np.append(np.ravel(model.coef_), model.intercept_)

    found = worst_neighbours(before, ROWS, 1, LABEL_BOUND)
    assert found.direction is not None
    return Mechanism(
        "PrivateSGDRegressor, tight",
        release,
        (found.first, found.second),
        epsilon,
        DELTA,
        many=lambda data, runs: as_shown(with_noise(noise, before(*data), runs)),
        direction=as_shown(found.direction) / np.append(np.ones(basis.n_features_), plan.constant**2),
        runs=RUNS,
        quick_runs=QUICK_RUNS,
        note="the order of visits is public and always the same, so descent is made once; noise of all runs together",
    )


def paper_descent() -> Mechanism:
    """PrivateSGDRegressor(method="paper"): its bound is loose, so an audit finds next to nothing."""
    basis = CosineFeatures(Gaussian(1.0), 2).fit(PUBLIC)
    model = PrivateSGDRegressor(EPSILON, DELTA, LABEL_BOUND, basis, 2, method="paper", n_steps=12, step=0.05)
    plan, noise = paper_plan(model, basis, ROWS)

    def features(X: np.ndarray, y: np.ndarray) -> Rows:
        X, y = described(basis, X, y, reset=False).read(LABEL_BOUND)
        return within(basis.features(X), plan.kappa), y

    def in_turn(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return one_by_one(*features(X, y), np.arange(plan.steps) % ROWS, plan.step)

    def release(data: Rows) -> np.ndarray:
        return np.ravel(model.fit(*data).coef_)

    def many(data: Rows, runs: int) -> np.ndarray:
        phi, y = features(*data)
        return with_noise(noise, [one_by_one(phi, y, drawn(ROWS, plan.steps), plan.step) for _ in range(runs)])

    found = worst_neighbours(in_turn, ROWS, 1, LABEL_BOUND)
    return Mechanism(
        "PrivateSGDRegressor, paper",
        release,
        (found.first, found.second),
        EPSILON,
        DELTA,
        many=many,
        direction=found.direction,
        runs=RUNS // 2,
        quick_runs=QUICK_RUNS,
        note="features are made once, indices are drawn and descent is made in every run; noise of all runs together",
    )


def rounds(epsilon: float = 8.0) -> Mechanism:
    """PrivateRegressor from one end to the other, by its coefficients and intercept.

    Every round asks what the answers before suggest, so nothing can be made once for all runs. The record is the one
    whose features are furthest from their mean, its label at the bound and then at the opposite one; all other labels
    are 0, so that residuals stay small beside it.
    """
    basis = RandomFeatures(Gaussian(1.0), 2).fit(PUBLIC)
    model = PrivateRegressor(epsilon, DELTA, LABEL_BOUND, basis, rounds=3)
    X = np.tile(PUBLIC[::5], (2, 1))
    X[0] = PUBLIC[int(np.argmax(np.linalg.norm(basis.features(PUBLIC) - basis.mean_, axis=1)))]
    label = np.zeros(len(X))
    label[0] = LABEL_BOUND

    def release(data: Rows) -> np.ndarray:
        model.fit(*data)
        return np.append(np.ravel(model.coef_), model.intercept_)

    return Mechanism(
        "PrivateRegressor",
        release,
        ((X, label), (X, -label)),
        epsilon,
        DELTA,
        runs=3_000,
        quick_runs=120,
        note="the call that a user makes, in every run",
    )
