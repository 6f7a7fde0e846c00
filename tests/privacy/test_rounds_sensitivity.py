"""A search finds no neighbours that move an answer of private rounds beyond its bound, and some that nearly reach it.

Proofs: docs/privacy/rounds.md. Every distance here is between answers of the code that a fit runs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from tests.cases.private_rounds import answered, basis_of, frame_of
from unpooled.kernels import Gaussian, Polynomial
from unpooled.losses import Correntropy, Huber
from unpooled.privacy.rounds.custodian import _sum_block, noise_for
from unpooled.privacy.rounds.questions import (
    Calibration,
    ClippedErrors,
    InputCounts,
    LabelCounts,
    Residuals,
)
from unpooled.privacy.sensitivity import PLANNED_ROWS, ROUNDING
from unpooled.summaries.passes import FeatureRows

EXACT = 1 + 1e-9
BASIS = basis_of()
FRAME = frame_of(BASIS)
FEATURES = FeatureRows(
    FRAME
)  # rows that are features already, as a fit keeps them: a search may then choose any features
M = FRAME.n_features_
EDGES = np.asarray([0.3, 0.6, 1.0, 1.3, 2.0, 4.0])
LOSSES = {"huber": Huber(0.8), "correntropy": Correntropy(1.3)}


def residuals(loss, length=1.5, v=0.4, longest=2.5):
    at = np.linspace(-0.5, 0.7, M + 1)
    return Residuals(at, loss, 0.5 / np.sqrt(FRAME.moments), length, longest, EDGES, v)


QUESTIONS = {
    "counts": LabelCounts(np.linspace(-2, 2, 9)),
    "huber": residuals(LOSSES["huber"]),
    "correntropy": residuals(LOSSES["correntropy"]),
    "huber, few counts": residuals(LOSSES["huber"], v=0.05),
    "huber, all rows shrunk": residuals(LOSSES["huber"], longest=0.4),
    "calibration": Calibration(np.linspace(-0.5, 0.7, M + 1), -0.5, 0.8, LOSSES["huber"], 1.2),
    "calibration, correntropy": Calibration(np.linspace(-0.5, 0.7, M + 1), -0.5, 0.8, LOSSES["correntropy"], 1.2),
    "losses": ClippedErrors(np.linspace(-0.5, 0.7, M + 1)[:, None] * [0.0, 0.9, 1.0], 1.5),
    "marginals": InputCounts(np.tile(np.linspace(-2, 2, 6), (M, 1))),  # of rows that are M columns wide here
}


def apart(question, features, frame, X, y, record, label_bound=np.inf):
    """Return the distance by which an answer moves when the last record is replaced."""
    other_X, other_y = np.concatenate([X[:-1], [record[:-1]]]), np.append(y[:-1], record[-1])
    one = answered(question, X, y, features, frame, label_bound)
    other = answered(question, other_X, other_y, features, frame, label_bound)
    assert np.isfinite(one).all()
    assert np.isfinite(other).all()
    assert max(np.linalg.norm(one), np.linalg.norm(other)) <= EXACT * len(y) * question.largest
    return float(np.linalg.norm(one - other))


def climbed(question, *, starts=12, rounds=160, seed=0):
    """The largest move that is found by walking uphill from random records, among two that stay."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(3, M)), rng.normal(size=3)

    def distance(pair):
        X[-1], y[-1] = pair[0, :-1], pair[0, -1]
        return apart(question, FEATURES, FRAME, X, y, pair[1])

    found = 0.0
    for _ in range(starts):
        pair = rng.normal(size=(2, M + 1))
        best, width = distance(pair), 1.0
        for _ in range(rounds):
            tried = pair + width * rng.normal(size=pair.shape) * (rng.random(pair.shape) < 0.4)
            value = distance(tried)
            if value > best:
                pair, best, width = tried, value, min(1.5 * width, 3.0)
            else:
                width = max(0.93 * width, 1e-2)
        found = max(found, best)
    return found


@pytest.mark.parametrize("kind", QUESTIONS)
def test_the_search_comes_close_to_what_is_proved_and_no_further(kind):
    question = QUESTIONS[kind]
    found = climbed(question, starts=3 if kind in ("counts", "marginals") else 12)
    assert 0.9 * question.sensitivity < found <= EXACT * question.sensitivity


def test_a_round_of_hubers_loss_reaches_what_is_proved():
    """One row with labels far above and below, at distances that lie in different bins."""
    question = QUESTIONS["huber"]
    X = np.full((4, M), 2.0)
    at = float(FRAME.coordinates(X[:1])[0] @ question.coef)
    y = np.asarray([0.0, 0.0, 0.0, at + 3.0])
    found = apart(question, FEATURES, FRAME, X, y, [*X[0], at - 9.0])
    assert found == pytest.approx(question.sensitivity, rel=1e-8)
    assert found <= question.sensitivity


def test_half_of_the_proved_sensitivity_would_be_found_out():
    """The search is not blind: counts at the price of residuals alone, or lengths that are not cut off, show."""
    question = QUESTIONS["huber"]
    without_counts = 2.0 * question.loss.bound * question.length
    assert climbed(question, starts=6) > without_counts
    unshrunk = residuals(LOSSES["huber"], length=100.0)
    assert climbed(unshrunk, starts=3) > question.sensitivity


# Numbers of all sizes, those that overflow when squared or summed among them, and the same ones again and again.
ANY = st.one_of(
    st.floats(-3, 3),
    st.sampled_from([0.0, 1e300, -1e300, 1.7e308, -1.7e308, 1e160, 1e51, 1e50, 1e40, 5e-324, 1e-170, 0.3, 1.0, 2.0]),
)
DATA = arrays(float, (4, 3), elements=ANY)
RECORD = arrays(float, 3, elements=ANY)
KERNELS = {"gaussian": Gaussian(0.7), "polynomial": Polynomial(3)}
MADE = {name: (basis, frame_of(basis)) for name, basis in ((name, basis_of(k, 5)) for name, k in KERNELS.items())}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=DATA, record=RECORD, bounded=st.booleans())
def test_no_rows_or_labels_move_a_round_further(kernel, loss, data, record, bounded):
    _, frame = MADE[kernel]
    weights = 1.0 / np.sqrt(frame.moments)
    question = Residuals(np.full(len(weights), 0.3), LOSSES[loss], weights, 2.0, 5.0, EDGES, 0.2)
    label_bound = 1.5 if bounded else np.inf
    compared = ClippedErrors(np.full((len(weights), 3), [0.0, 0.3, -1e3]), 0.7)
    stretched = Calibration(np.full(len(weights), 0.3), 0.3, 0.1, LOSSES[loss], 1.2)
    tiny = Calibration(np.full(len(weights), 1e100), 0.3, 1.0, LOSSES[loss].at(1e-150), 1.2)
    for asked in (question, stretched, tiny, compared):
        found = apart(asked, frame, frame, data[:, :2], data[:, 2], record, label_bound)
        assert found <= EXACT * asked.sensitivity


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=DATA, record=RECORD)
def test_no_rows_or_labels_move_counts_further(data, record):
    edges = np.asarray([-1e300, -1.0, 0.0, 1.0])
    for question in (LabelCounts(edges), InputCounts(np.stack([edges, 0.3 * edges]))):
        found = apart(question, None, None, data[:, :2], data[:, 2], record)
        assert found <= EXACT * question.sensitivity


@pytest.mark.parametrize("kind", QUESTIONS)
def test_copies_of_a_record_are_records_and_no_row_feels_its_neighbours(kind):
    """The contribution of a row does not depend on the other rows to the last bit: only the sum is inexact."""
    question, rng = QUESTIONS[kind], np.random.default_rng(3)
    X, y = rng.normal(size=(3000, M)), rng.normal(size=3000)
    one = answered(question, X[:1], y[:1], FEATURES, FRAME)
    many = answered(question, np.repeat(X[:1], 1000, axis=0), np.repeat(y[:1], 1000), FEATURES, FRAME)
    assert np.linalg.norm(many - 1000 * one) <= 1000 * ROUNDING * question.largest
    exact = np.asarray([answered(question, X[i : i + 1], y[i : i + 1], FEATURES, FRAME) for i in range(300)])
    total = np.asarray([math.fsum(column) for column in exact.T])
    found = answered(question, X[:300], y[:300], FEATURES, FRAME)
    assert np.linalg.norm(found - total) <= 300 * ROUNDING * question.largest
    far_X, far_y = X.copy(), y.copy()
    far_X[1:], far_y[1:] = 1e200, -1e300
    alone = answered(question, far_X[1:2], far_y[1:2], FEATURES, FRAME)
    beside = answered(question, far_X, far_y, FEATURES, FRAME) - 2999 * alone
    assert np.linalg.norm(beside - one) <= 3000 * ROUNDING * question.largest


@pytest.mark.parametrize("kind", QUESTIONS)
def test_noise_is_planned_for_the_sensitivity_with_room_for_rounding(kind):
    question = QUESTIONS[kind]
    noise = noise_for(question, 1000, 0.2)
    assert noise.size == question.size == len(answered(question, np.ones((2, M)), np.ones(2), FEATURES, FRAME))
    assert noise.sensitivity == question.sensitivity
    assert noise.inexact == ROUNDING * PLANNED_ROWS * question.largest
    assert noise.bound == PLANNED_ROWS * question.largest
    assert noise.mu <= 0.2
    assert noise.sigma == pytest.approx(question.sensitivity / 0.2, rel=2e-4)
    assert noise_for(question, 1, 0.2) == noise_for(question, PLANNED_ROWS, 0.2) == noise
    shares = noise_for(question, 1000, 0.2, parties=5, missing=2)
    assert (shares.own_sigma, shares.sigma) == pytest.approx((noise.sigma / 3**0.5, noise.sigma * (5 / 3) ** 0.5), 1e-4)
    assert shares.mu <= 0.2
    assert noise_for(question, PLANNED_ROWS + 1, 0.2).bound == 2 * noise.bound


def test_labels_beyond_the_bound_count_as_at_the_bound():
    question = QUESTIONS["huber"]
    X = np.random.default_rng(0).normal(size=(9, M))
    far = np.where(np.arange(9) % 2, 1e300, -1e300)
    assert_array_equal(
        answered(question, X, far, FEATURES, FRAME, 2.0), answered(question, X, 2.0 * np.sign(far), FEATURES, FRAME)
    )


def test_a_block_without_rows_adds_nothing():
    from unpooled._base.rows import Block

    found = _sum_block(Block("none", [], []), QUESTIONS["huber"], FRAME, FEATURES, np.inf)
    assert not np.any(found.high)
