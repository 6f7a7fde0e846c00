"""The price of Gaussian noise is exact: it agrees with dp_accounting, with the definition, and with composition."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from unpooled.privacy import Approximate, Expense, Gaussian, Guarantee, composition, gaussian

EPSILONS, DELTAS = np.geomspace(1e-3, 100, 11), np.geomspace(1e-12, 0.1, 8)
epsilons = st.floats(1e-3, 100.0)
deltas = st.floats(-12.0, -1.0).map(lambda power: 10.0**power)


def accounting():
    reason = "dp_accounting is not installed: pip install 'unpooled[privacy]'"
    return pytest.importorskip("dp_accounting", reason=reason)


def test_sigma_and_epsilon_agree_with_dp_accounting():
    accounting()
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian, get_sigma_gaussian

    for epsilon in EPSILONS:
        for delta in DELTAS:
            sigma = gaussian.sigma_for(epsilon, delta)
            assert sigma == pytest.approx(get_sigma_gaussian(epsilon, delta), rel=1e-6)
            assert gaussian.epsilon_of(1 / sigma, delta) == pytest.approx(get_epsilon_gaussian(sigma, delta), rel=1e-6)


@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0, 12.0])
@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.1, 1.0])
def test_delta_is_the_hockey_stick_divergence(mu, epsilon):
    def excess(x):
        return max(norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), 0.0)

    start = mu / 2 + epsilon / mu
    by_definition, _ = quad(excess, max(start, -10.0), mu + 12.0, epsabs=1e-14, points=[mu], limit=200)
    assert gaussian.delta_of(epsilon, mu) == pytest.approx(by_definition, abs=1e-9, rel=1e-7)


@given(epsilon=epsilons, delta=deltas, more=st.floats(1.001, 3.0))
def test_more_noise_costs_less_and_a_tighter_promise_takes_more_noise(epsilon, delta, more):
    sigma = gaussian.sigma_for(epsilon, delta)
    assert gaussian.sigma_for(epsilon * more, delta) < sigma
    assert gaussian.sigma_for(epsilon, min(delta * more, 0.9)) < sigma
    assert gaussian.epsilon_of(1 / (sigma * more), delta) < gaussian.epsilon_of(1 / sigma, delta) or sigma > 1e9
    assert gaussian.sigma_for(epsilon, delta, sensitivity=more) == pytest.approx(more * sigma)


@given(epsilon=epsilons, delta=deltas)
def test_calibration_keeps_its_promise_and_wastes_nothing(epsilon, delta):
    mu = gaussian.mu_for(epsilon, delta)
    assert gaussian.delta_of(epsilon, mu) <= delta * (1 + 1e-12)
    assert gaussian.delta_of(epsilon, mu * (1 + 1e-9)) > delta
    assert gaussian.epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1.0, 700.0, 1e6])
def test_extremes_are_numbers(mu, epsilon):
    assert 0.0 <= gaussian.delta_of(epsilon, mu) <= 1.0
    assert 0.0 <= gaussian.delta_of(-epsilon, mu) <= 1.0


def test_no_noise_and_no_release():
    assert gaussian.delta_of(1.0, 0.0) == 0.0
    assert gaussian.epsilon_of(0.0, 1e-6) == 0.0
    assert gaussian.epsilon_of(1e-9, 1e-6) == 0.0
    assert composition.epsilon([], 1e-6) == 0.0


def test_the_classical_calibration_is_no_theorem_above_one():
    """√(2 ln(1.25/δ))Δ/ε, as printed in Wang and Guo (2024), does not give the promised privacy for large ε."""
    epsilon, delta = 20.0, 1e-6
    classical = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert classical < gaussian.sigma_for(epsilon, delta)
    assert gaussian.delta_of(epsilon, 1 / classical) > 3 * delta


@given(mus=st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=6))
def test_gaussians_compose_to_a_gaussian(mus):
    total = gaussian.compose(mus)
    assert total == pytest.approx(math.sqrt(sum(mu**2 for mu in mus)))
    assert composition.delta([Gaussian(mu) for mu in mus], 1.0) == pytest.approx(
        gaussian.delta_of(1.0, total), rel=1e-9
    )
    assert sum(gaussian.rho_of(mu, 1.0) for mu in mus) == pytest.approx(total**2 / 2)
    assert gaussian.compose(composition.split(0.7, mus)) == pytest.approx(0.7)


MIXES = [
    [Gaussian(0.3)] * 5,
    [Gaussian(0.2), Approximate(0.1)],
    [Gaussian(0.2), Approximate(0.1), Approximate(0.3, 1e-7), Approximate(0.05)],
    [Approximate(0.1)] * 20,
    [Gaussian(0.5), *(Approximate(0.01 * i, 1e-9) for i in range(1, 18))],
]


@pytest.mark.parametrize("events", MIXES)
def test_composition_agrees_with_dp_accounting(events):
    accounting()
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = pld.identity()
    for event in events:
        if isinstance(event, Gaussian):
            found = pld.from_gaussian_mechanism(1 / event.mu)
        else:
            found = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(event.epsilon, event.delta))
        total = total.compose(found)
    assert composition.epsilon(events, 1e-6) == pytest.approx(total.get_epsilon_for_delta(1e-6), rel=1e-4)


@settings(max_examples=20, deadline=None)
@given(
    others=st.lists(st.tuples(st.floats(0.0, 1.0), st.sampled_from([0.0, 1e-9])), max_size=16),
    mu=st.floats(0.01, 1.0),
)
def test_composition_never_costs_more_than_basic_composition(others, mu):
    events = [Gaussian(mu), *(Approximate(*other) for other in others)]
    delta = 1e-6
    basic = gaussian.epsilon_of(mu, delta - sum(d for _, d in others)) + sum(e for e, _ in others)
    spent = composition.epsilon(events, delta)
    assert spent <= basic * (1 + 1e-9)
    assert spent >= max([gaussian.epsilon_of(mu, delta), 0.0]) * (1 - 1e-9)


@pytest.mark.parametrize("events", MIXES)
def test_what_is_left_fits_and_a_little_more_does_not(events):
    epsilon, delta = 10.0, 1e-6
    mu = composition.mu_left(events, epsilon, delta)
    assert composition.delta([*events, Gaussian(mu)], epsilon) <= delta * (1 + 1e-9)
    assert composition.delta([*events, Gaussian(mu * 1.001)], epsilon) > delta
    assert composition.mu_left(events, 0.01, delta) == 0.0


def test_a_spent_delta_leaves_nothing():
    assert composition.epsilon([Approximate(0.1, 2e-6)], 1e-6) == math.inf


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "1", None, True])
def test_a_budget_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="epsilon must be a positive, finite number"):
        gaussian.sigma_for(value, 1e-6)
    with pytest.raises(ValueError, match="delta must lie between 0 and 1"):
        gaussian.sigma_for(1.0, -1.0 if value == math.inf else value)


def test_a_delta_above_one_in_n_is_warned_of():
    from unpooled._base.checks import check_budget

    assert check_budget(1.0, 1e-6, n_rows=1000) == (1.0, 1e-6)
    with pytest.warns(UserWarning, match="delta = 0.01 is above 1/n = 0.001"):
        check_budget(1.0, 0.01, n_rows=1000)


def test_a_guarantee_says_everything_in_a_sentence_and_survives_a_header():
    spent = (Expense("Σyφ", Gaussian(0.1)), Expense("the choice of λ", Approximate(0.1)))
    promise = Guarantee(1.0, 1e-6, "noise on sums", spent, conditions=("no site tells its noise",))
    said = str(promise)
    for part in ("ε = 1", "δ = 1e-06", "replace one record, n public", "noise on sums", "choice of λ", "no site tells"):
        assert part in said
    assert said.endswith(".")
    assert "\n" not in said
    assert Guarantee.from_dict(promise.to_dict()) == promise
    assert Guarantee.of(spent, 1e-6, "noise").epsilon < 1.0
    assert "rounds (9 times Gaussian noise, μ = 0.01)" in str(
        Guarantee(1.0, 1e-6, "noise", (Expense("rounds", Gaussian(0.01)),) * 9)
    )
    with pytest.raises(ValueError, match="which is more than the promised"):
        Guarantee(0.1, 1e-6, "noise on sums", spent)
    with pytest.raises(AttributeError):
        promise.epsilon = 0.1
    for wrong in ({}, None, promise.to_dict() | {"epsilon": -1}, promise.to_dict() | {"spent_on": [{"purpose": "x"}]}):
        with pytest.raises(ValueError, match="guarantee|epsilon|not an event"):
            Guarantee.from_dict(wrong)


def test_without_the_extra_everything_but_noise_works(monkeypatch):
    from unpooled.privacy import draw

    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ImportError, match=r"not installed: pip install 'unpooled\[privacy\]'"):
        draw(3, 2000.0)
