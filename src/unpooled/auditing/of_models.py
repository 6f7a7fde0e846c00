"""Private estimators to audit, by the coefficients that they show."""

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
    plan, noise = tight_plan(model, basis, ROWS, *features_to_plan_with(model, basis, None))

    def before(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return weights_before_noise(model, UnreadRows.of(basis, X, y), basis, plan)

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


def rounds() -> Mechanism:
    """PrivateRegressor from one end to the other, with a label bound and a public basis."""
    return _rounds("PrivateRegressor", PrivateRegressor(FEW_RUNS_EPSILON, DELTA, LABEL_BOUND, _basis(), rounds=2))


def rounds_without_public_rows() -> Mechanism:
    """The same with features of made-up rows: noised counts of the input are asked for first, and shown by the basis.

    The record changes sides with its label. It takes more rows before anything is asked of inputs at this ε.
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
    """The same without a label bound: counts of labels are asked for first, and the loss is correntropy.

    The other labels spread as far as that of the record: beside nothing but zeros it would be an outlier, and ignored.
    """
    model = PrivateRegressor(FEW_RUNS_EPSILON, DELTA, None, _basis(), rounds=2)
    return _rounds("PrivateRegressor, no label bound", model, labels=LABEL_BOUND)


def rounds_at_sites() -> Mechanism:
    """The same at two sites, each of which adds all the noise that its sums need.

    What is shown is the model, which has the noise of both; it is audited as what it is, and not a site's message.
    """
    model = PrivateRegressor(FEW_RUNS_EPSILON, DELTA, LABEL_BOUND, _basis(), rounds=2, noise="site")
    return _rounds("PrivateRegressor, noise of 2 sites", model, sites=2)


def _rounds(name: str, model: PrivateRegressor, sites: int = 1, labels: float = 0.0) -> Mechanism:
    """Neighbours by hand, because every round asks what the answers before suggest.

    The record is the one whose features are furthest from their mean, its label at the bound and then at the opposite
    one; all other labels are 0, so that residuals stay small beside it, or reach from -``labels`` to ``labels``.
    """
    basis = model.kernel
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
