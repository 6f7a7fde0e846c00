"""The last question of private rounds: a function that is too flat, or too low, is mended as a whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases.private_rounds import basis_of, exact, frame_of, source_of
from tests.made_up import CUBE, points
from unpooled.privacy.rounds import learner as calibrating
from unpooled.privacy.rounds.belief import ResidualLaw
from unpooled.privacy.rounds.custodian import run_learner

FRAME = frame_of(basis_of(n_features=15))
X = points(4, 800, between=CUBE)
TRUTH = np.concatenate([[0.4], np.random.default_rng(5).normal(size=15) * FRAME.moments[1:] ** -0.25])
Z = FRAME.coordinates(FRAME.features(X))


def calibrated(coef, labels, mu=1e6, *, scale=1.0, loss="huber"):
    """Return the function that the calibration question gives, with exact answers."""
    told = exact(source_of(X, labels), len(X), FRAME, FRAME, np.inf)
    law = ResidualLaw.normal(scale, np.inf)
    found, spent = run_learner(calibrating.calibrate(FRAME, coef, law, len(X), mu, loss), told)
    assert [item.event.mu for item in spent] == [mu]
    return found


@settings(max_examples=40)
@given(stretch=st.floats(0.4, 2.5), shift=st.floats(-2, 2))
def test_a_function_that_is_too_flat_or_too_low_becomes_better_and_only_along_itself(stretch, shift):
    coef = TRUTH * stretch
    coef[0] = TRUTH[0] + shift
    found = calibrated(coef, Z @ TRUTH, scale=4.0)
    before, after = (np.mean((Z @ (a - TRUTH)) ** 2) for a in (coef, found))
    # Second moments are those of other rows, so it is not all made good.
    assert after <= 0.25 * before + 1e-12
    ratio = found[1:] / coef[1:]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


def test_labels_with_a_long_tail_are_met_in_the_mean():
    """Cut off early, residuals of skewed noise have their median at zero and not their mean."""
    noise = np.random.default_rng(6).lognormal(sigma=1.0, size=len(X)) - 1.0  # of median zero
    labels = Z @ TRUTH + noise
    found = calibrated(TRUTH, labels, scale=0.5)
    assert abs(np.mean(labels - Z @ TRUTH)) > 0.4
    assert abs(np.mean(labels - Z @ found)) < 0.1


def test_outliers_stay_outliers_where_the_loss_is_correntropy():
    labels = Z @ TRUTH
    labels[::10] += 1000.0
    np.testing.assert_allclose(calibrated(TRUTH, labels, scale=0.3, loss="correntropy"), TRUTH, rtol=1e-6)


@pytest.mark.parametrize("mu", [1e-5, 1e-3, 1e-1, 10.0])
def test_where_there_is_nothing_but_noise_little_is_believed(mu):
    """A function that is right already is moved by less than the noise, and by little whatever the noise is."""
    rng = np.random.default_rng(7)
    spread = np.sqrt(FRAME.moments[1:] @ TRUTH[1:] ** 2)
    heard = []

    def told(question, price):
        sigma = question.sensitivity / (len(X) * price)
        heard.append(sigma)
        return sigma * rng.normal(size=2), sigma

    law = ResidualLaw.normal(0.1, np.inf)
    moved = []
    for _ in range(300):
        found, _ = run_learner(calibrating.calibrate(FRAME, TRUTH, law, len(X), mu, "huber"), told)
        moved.append([found[0] - TRUTH[0], (found[1] / TRUTH[1] - 1.0) * spread])
    noise = heard[0]  # what is seen of it is at most all of it, so this is the least that it comes to
    assert np.all(np.std(moved, axis=0) < min(1.2 * noise, 0.3 * spread))


def test_a_constant_is_not_asked_about():
    law = ResidualLaw.normal(1.0, np.inf)
    constant = np.zeros_like(TRUTH)
    constant[0] = 3.0
    found, spent = run_learner(calibrating.calibrate(FRAME, constant, law, 100, 1.0, "huber"), None)
    assert spent == []
    np.testing.assert_array_equal(found, constant)


def test_the_question_is_paid_for_where_it_is_asked():
    assert calibrating.calibration_share(100.0) == 0.0
    assert calibrating.calibration_share(300.0) == calibrating.CALIBRATION_SHARE
