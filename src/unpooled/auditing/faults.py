"""Planted faults, of kinds that have been made in real code. An audit that does not catch them is worth nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .._solvers.descent.sgd import descend_one_by_one, draw_rows
from ..bases import Basis, RandomFeatures
from ..kernels import Gaussian
from ..privacy import PrivacyRequest, mu_for, noise, sgd
from ..privacy.release import check_request
from ..summaries import Summary
from .mechanism import DELTA, EPSILON, QUICK_RUNS, RUNS, Mechanism, Rows, with_noise
from .of_summaries import LABEL_BOUND, half_the_noise, sums, weighted

PUBLIC = np.linspace(-2.0, 2.0, 50)[:, None]


def theorem_2_as_printed() -> Mechanism:
    """Algorithm 1 of Wang and Guo (2024) with Δ_SGD as their (17) prints it, at n = T = 1000, c = 1, η = 10⁻⁵.

    One feature, √2 for all records, as the bound of cosine features allows; all labels are 0 but that of the record.
    """
    n = steps = 1000
    step, kappa, epsilon, delta = 1e-5, math.sqrt(2.0), 1.0, 1e-3
    printed = sgd.wang_guo_as_printed(n, steps, step, 1.0, kappa, delta / 2)
    planned = noise.calibrate_noise(1, printed, mu_for(epsilon, delta / 2), bound=1.0)
    phi = np.full((n, 1), kappa)
    label = np.zeros(n)
    label[0] = 1.0

    def release(y: np.ndarray) -> np.ndarray:
        return planned.add(descend_one_by_one(phi, y, draw_rows(n, steps), step))

    def many(y: np.ndarray, runs: int) -> np.ndarray:
        w = np.zeros(runs)
        for rows in draw_rows(n, steps * runs).reshape(steps, runs):  # one_by_one, a step of all runs at a time
            w -= step * (kappa * w - y[rows]) * kappa
        return with_noise(planned, w[:, None])

    return Mechanism(
        "Theorem 2 of paper 004 as printed",
        release,
        (label, -label),
        epsilon,
        delta,
        many=many,
        direction=np.ones(1),
        runs=30_000,
        quick_runs=QUICK_RUNS,
        fault=True,
        note="indices are drawn and descent is made in every run; noise of all runs together",
    )


def private_length_scale() -> Mechanism:
    """A summary whose kernel takes its length scale, the median distance, from the private rows.

    Two clusters far apart: where one record changes sides, most pairs lie in different clusters and no longer in the
    same one. The median jumps, and every record's features with it.
    """
    n, few = 16, 5  # 65 pairs within the clusters and 55 across; one more on the other side makes that 60 and 60
    near = np.linspace(0.0, 0.1, n)

    def data(n_right: int) -> Rows:
        return (near + 5.0 * (np.arange(n) < n_right))[:, None], np.full(n, LABEL_BOUND)

    def basis_of(X: np.ndarray) -> Basis:
        return RandomFeatures(Gaussian("median").resolve(X), 4).fit(PUBLIC)  # THE FAULT: X is private

    return _summary(
        "a length scale from private rows",
        lambda X, y: (basis_of(X), X, y),
        (data(few), data(few + 1)),
        PrivacyRequest(EPSILON, DELTA, LABEL_BOUND),
    )


def intercept_without_noise() -> Mechanism:
    """Sums of centred labels with noise, and the mean of the labels without: the intercept of the model to be."""
    centred = labels_centred_in_private()

    def with_mean(data: Rows, outputs: np.ndarray) -> np.ndarray:
        return np.concatenate([outputs, np.full((len(outputs), 1), data[1].mean())], axis=1)  # THE FAULT

    assert centred.many is not None
    many = centred.many
    return replace(
        centred,
        name="an intercept without noise",
        release=lambda data: with_mean(data, centred.release(data)[None])[0],
        many=lambda data, runs: with_mean(data, many(data, runs)),
        direction=None,
        runs=2_000,
        quick_runs=1_000,
    )


def labels_centred_in_private() -> Mechanism:
    """The same, and nothing but the noisy sums is shown: the mean of the labels was used, and that is enough.

    One record moves its own label and, through the mean, everybody's: about twice as far as the noise allows for.
    """
    basis = RandomFeatures(Gaussian(1.0), 2).fit(PUBLIC)

    def centred(X: np.ndarray, y: np.ndarray) -> tuple[Basis, np.ndarray, np.ndarray]:
        return basis, X, y - y.mean()  # THE FAULT: no noise on the mean

    n = 40
    X = np.full((n, 1), _opposite(basis))
    X[0] = 0.0
    labels = np.zeros(n)
    labels[0] = LABEL_BOUND
    privacy = PrivacyRequest(1.0, DELTA, LABEL_BOUND, means=0.0)  # it takes the fewest runs to see at a small ε
    found = _summary("labels centred by their private mean", centred, ((X, labels), (X, -labels)), privacy)
    return replace(found, quick_runs=4 * QUICK_RUNS)


def _summary(
    name: str,
    prepared: Callable[[np.ndarray, np.ndarray], tuple[Basis, np.ndarray, np.ndarray]],
    neighbours: tuple[Rows, Rows],
    privacy: PrivacyRequest,
) -> Mechanism:
    """A private summary of order 1 of what was made of private rows before it looked."""

    def release(data: Rows) -> np.ndarray:
        basis, X, y = prepared(*data)
        question = check_request(basis, 1, None, "squared", None, privacy)
        return weighted(question, Summary.of(basis, X, y, privacy=privacy))

    def many(data: Rows, runs: int) -> np.ndarray:
        basis, X, y = prepared(*data)
        question = check_request(basis, 1, None, "squared", None, privacy)
        return with_noise(question.noise, sums(question, X, y), runs)

    return Mechanism(
        name,
        release,
        neighbours,
        privacy.epsilon,
        privacy.delta,
        many=many,
        runs=RUNS // 4,
        quick_runs=QUICK_RUNS,
        fault=True,
        note="the rows are added up once, the noise of all runs is drawn together",
    )


def _opposite(basis: Basis) -> float:
    """The x whose features point most against those of 0."""
    tried = np.linspace(-20.0, 20.0, 4001)[:, None]
    return float(tried[int(np.argmin(basis.features(tried) @ basis.features(np.zeros((1, 1)))[0])), 0])


FAULTS: dict[str, Callable[[], Mechanism]] = {
    "half-noise": half_the_noise,
    "printed-theorem": theorem_2_as_printed,
    "private-length-scale": private_length_scale,
    "open-intercept": intercept_without_noise,
    "private-centring": labels_centred_in_private,
}
