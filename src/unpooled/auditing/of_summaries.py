"""Mechanisms that audit noise and private summaries: alone, in shares, as rounds of residuals, and through one ledger.

The noise itself comes first, without a summary around it. ``release`` is the call that a user makes. ``many`` computes
the sums once, because the sums before noise are identical in every run, and draws the noise of all runs together.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..bases import Basis, RandomFeatures
from ..data.sources import open_labeled
from ..kernels import Gaussian
from ..losses import Huber
from ..privacy import Ledger, Overspend, PrivacyRequest, calibrate_noise, epsilon_of, mu_for
from ..privacy.ledger import Spending
from ..privacy.noise import GridGaussian
from ..privacy.release import CheckedRequest, check_request
from ..summaries import Summary
from .mechanism import DELTA, EPSILON, QUICK_RUNS, RUNS, Mechanism, Neighbours, Rows, with_noise, worst_neighbours


def grid_noise(epsilon: float = EPSILON, delta: float = DELTA, size: int = 3) -> Mechanism:
    """Audit discrete Gaussian noise on M numbers, of which one record changes all by Δ in ℓ2 norm."""
    planned = calibrate_noise(size, 1.0, mu_for(epsilon, delta), bound=10.0)
    return _noise_mechanism(f"discrete Gaussian noise, M = {size}", planned, epsilon, delta)


def half_the_noise() -> Mechanism:
    """Audit noise of half the scale that is needed, a planted fault. A small ε shows it in the fewest runs."""
    planned = calibrate_noise(2, 1.0, mu_for(1.0, DELTA), bound=10.0)
    halved = _noise_mechanism("half the noise", replace(planned, scale=planned.scale / 2), 1.0, DELTA)
    return replace(halved, fault=True, quick_runs=4 * QUICK_RUNS)


def _noise_mechanism(name: str, planned: GridGaussian, epsilon: float, delta: float) -> Mechanism:
    """Audit noise on numbers that lie Δ apart in ℓ2 norm, neither along an axis nor on the grid."""
    direction = np.random.default_rng(0).standard_normal(planned.size)
    direction *= planned.sensitivity / np.linalg.norm(direction)
    middle = np.full(planned.size, 0.123)

    def release(values: Any) -> np.ndarray:
        return planned.add(values)

    return Mechanism(
        name,
        release,
        (middle + direction / 2, middle - direction / 2),
        epsilon,
        delta,
        many=lambda values, runs: with_noise(planned, values, runs),
        direction=direction,
        runs=RUNS,
        quick_runs=QUICK_RUNS,
        note="the numbers are fixed, the noise of all runs is drawn in one call",
    )


ROWS = 4
LABEL_BOUND = 1.0
PARTIES, MISSING = 3, 1
ROUNDS = 3
NOTE = "the rows are added up once, the noise of all runs is drawn together"


def first_order(epsilon: float = EPSILON) -> Mechanism:
    """Audit a first-order summary: Σyφ, Σφ, Σy and Σy²."""
    return _summary("summary of order 1", 1, PrivacyRequest(epsilon, DELTA, LABEL_BOUND))


def second_order() -> Mechanism:
    """Audit a second-order summary, which also contains Σφφᵀ."""
    return _summary("summary of order 2", 2, PrivacyRequest(EPSILON, DELTA, LABEL_BOUND))


def residual_round() -> Mechanism:
    """Audit a round of residuals: Σψ(y - f(x))φ(x), with no bound on the labels."""
    basis = _fit_public_basis()
    X, y = np.linspace(-1, 1, 50)[:, None], np.sin(3 * np.linspace(-1, 1, 50))
    from ..estimators import SummaryRegressor

    model = SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(Summary.of(basis, X, y, loss=Huber(0.5)))
    return _summary(
        "round of residuals, Huber's loss", 1, PrivacyRequest(EPSILON, DELTA), residuals_of=model, loss=Huber(0.5)
    )


def in_shares() -> Mechanism:
    """Audit the sum of sites that add noise in shares, when one of them sends nothing."""
    basis = _fit_public_basis()
    privacy = PrivacyRequest(EPSILON, DELTA, LABEL_BOUND, means=0.0, parties=PARTIES, missing=MISSING)
    question = check_request(basis, 1, None, "squared", None, privacy)
    others = [(np.full((2, 1), 0.5 * site), np.full(2, 0.3)) for site in range(1, PARTIES - MISSING)]
    pair = _find_furthest(question)

    def release(data: Rows) -> np.ndarray:
        messages = [Summary.of(basis, *rows, privacy=privacy) for rows in (data, *others)]
        total = sum(messages[1:], messages[0])
        assert total.privacy is not None
        total.privacy.check_complete()
        return whiten(question, total)

    def many(data: Rows, runs: int) -> np.ndarray:
        return sum(
            (with_noise(question.noise, sums(question, *rows), runs) for rows in (data, *others)),
            np.zeros((runs, question.noise.size)),
        )

    name = f"noise in {PARTIES} shares, {MISSING} missing"
    return _mechanism(name, release, many, pair, runs=RUNS // (PARTIES - MISSING))


def through_a_ledger() -> Mechanism:
    """Audit summaries of the same rows until the ledger refuses another: the claim is the ledger's budget.

    Each costs so much that ``ROUNDS`` of them use up the budget.
    """
    basis = _fit_public_basis()
    each = epsilon_of(mu_for(EPSILON, DELTA) / math.sqrt(ROUNDS), DELTA)
    question = check_request(basis, 1, None, "squared", None, PrivacyRequest(each, DELTA, LABEL_BOUND, means=0.0))
    pair = _find_furthest(question)

    def release(data: Rows) -> np.ndarray:
        messages = []
        for ledger in _ledgers():
            try:
                while True:
                    privacy = PrivacyRequest(each, DELTA, LABEL_BOUND, means=0.0, ledger=ledger)
                    messages.append(whiten(question, Summary.of(basis, *data, privacy=privacy)))
            except Overspend:
                pass
        return np.concatenate(messages)

    def many(data: Rows, runs: int) -> np.ndarray:
        rounds = 0
        for ledger in _ledgers():  # a real one, once: what it allows does not depend on the data
            try:
                while True:
                    with Spending(ledger, question.noise.event, "a round") as spending:
                        before = spending.read(lambda: sums(question, *data))
                    rounds += 1
            except Overspend:
                pass
        return np.concatenate([with_noise(question.noise, before, runs) for _ in range(rounds)], axis=1)

    name = f"{ROUNDS} summaries until the ledger refuses"
    note = f"{NOTE}; the ledger is asked once"
    return _mechanism(name, release, many, pair, rounds=ROUNDS, runs=RUNS // ROUNDS, note=note)


def _fit_public_basis() -> Basis:
    """Fit a basis of one cosine and one sine: φ(x) can take any direction, and |φ(x)| = κ for all x."""
    return RandomFeatures(Gaussian(1.0), 2).fit(np.linspace(-2.0, 2.0, 50)[:, None])


def sums(question: CheckedRequest, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute the sums that would be released, before noise is added."""
    return question.sum_before_noise(open_labeled(question.basis, X, y, None))[1]


def whiten(question: CheckedRequest, summary: Summary) -> np.ndarray:
    """Scale the released sums so that the noise has the same standard deviation on all of them."""
    return question.bounds.weighted_sums.pack({name: value.high for name, value in summary.sums.items()})


def _find_furthest(question: CheckedRequest, label_bound: float = LABEL_BOUND) -> Neighbours:
    """Search for neighbours whose sums are far apart."""
    return worst_neighbours(lambda X, y: sums(question, X, y), ROWS, 1, label_bound, spread=2.0)


def _summary(name: str, order: int, privacy: PrivacyRequest, **how: Any) -> Mechanism:
    basis = _fit_public_basis()
    question = check_request(basis, order, how.get("residuals_of"), how.get("loss", "squared"), None, privacy)
    pair = _find_furthest(question, 5.0 * LABEL_BOUND)  # labels beyond the bound, which has to hold by force
    return _mechanism(
        name,
        lambda data: whiten(question, Summary.of(basis, data[0], data[1], order, privacy=privacy, **how)),
        lambda data, runs: with_noise(question.noise, sums(question, *data), runs),
        pair,
        epsilon=privacy.epsilon,
    )


def _mechanism(
    name: str,
    release: Any,
    many: Any,
    pair: Neighbours,
    *,
    epsilon: float = EPSILON,
    rounds: int = 1,
    runs: int = RUNS,
    note: str = NOTE,
) -> Mechanism:
    assert pair.direction is not None
    return Mechanism(
        name,
        release,
        (pair.first, pair.second),
        epsilon,
        DELTA,
        many=many,
        direction=np.tile(pair.direction, rounds),
        runs=runs,
        quick_runs=QUICK_RUNS,
        note=note,
    )


def _ledgers() -> Iterator[Ledger]:
    """Yield a new ledger, which is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield Ledger.create(Path(folder) / "audit.ledger", EPSILON, DELTA, "an audit")
