"""Exponents, ratios and verdicts of experiments: intervals that cover as often as they say, verdicts that can fail."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from unpooled.reproduce.inference import (
    Estimate,
    _root_mean_squares,
    above,
    below,
    exponent,
    is_so,
    mean,
    no_slower,
    ratio,
    together,
    typical_ratio,
)
from unpooled.reproduce.outcome import FAILS, HOLDS, UNDECIDED, Verdict

SIZES = [64, 128, 256, 512, 1024]
LAWS = {
    "many directions": lambda rng, shape: rng.chisquare(12, shape) / 12,
    "a few directions": lambda rng, shape: rng.chisquare(4, shape) / 4,
    "lognormal": lambda rng, shape: rng.lognormal(-0.08, 0.4, shape),
}


def power_law(true, law, seed, repetitions=16, sizes=SIZES):
    """Squared errors whose mean is size^(-2·true)."""
    noise = LAWS[law](np.random.default_rng(seed), (repetitions, len(sizes)))
    return np.asarray(sizes, dtype=float) ** (-2 * true) * noise


@given(st.floats(-2, 2), st.floats(1e-3, 1e3), st.integers(2, 6))
def test_an_exact_power_law_has_its_exponent_and_no_width(true, start, count):
    sizes = 10.0 * 2.0 ** np.arange(count)
    squares = np.tile((start * sizes**-true) ** 2, (3, 1))
    result = exponent(sizes, squares)
    assert result.value == pytest.approx(true, abs=1e-9)
    assert result.half_width == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_the_interval_of_an_exponent_covers_as_often_as_it_says(law):
    true, runs = 0.4, 600
    result = [exponent(SIZES, power_law(true, law, [1, seed])) for seed in range(runs)]
    covered = np.mean([estimate.low <= true <= estimate.high for estimate in result])
    assert 0.92 <= covered <= 0.98  # 95 %, and three standard errors of 600 runs
    assert abs(np.mean([estimate.value for estimate in result]) - true) < 0.01


def test_the_interval_of_a_ratio_covers_as_often_as_it_says_and_pairing_makes_it_narrow():
    rng = np.random.default_rng(2)
    covered, narrower = [], []
    for _ in range(600):
        shared = rng.chisquare(6, 16) / 6
        first, second = 4.0 * shared * rng.chisquare(40, 16) / 40, shared * rng.chisquare(40, 16) / 40
        paired, crossed = ratio(first, second), ratio(first, np.roll(second, 1))
        covered.append(paired.low <= 2.0 <= paired.high)
        narrower.append(paired.half_width < crossed.half_width)
    assert 0.92 <= np.mean(covered) <= 0.98
    assert np.mean(narrower) > 0.9


@pytest.mark.parametrize(("true", "least", "most"), [(0.4, 0.0, 0.06), (0.3, 0.85, 1.0), (0.5, 0.0, 0.005)])
def test_a_rate_that_is_too_slow_is_rejected_and_one_at_the_boundary_hardly_ever(true, least, most):
    """Theory says 0.4. At 0.3 nearly every run must object, at 0.4 one in forty may, at 0.5 none."""
    verdicts = [
        no_slower("rate", exponent(SIZES, power_law(true, "many directions", [3, seed])), 0.4, 0.1).status
        for seed in range(400)
    ]
    assert least <= np.mean([status == FAILS for status in verdicts]) <= most


def test_an_interval_too_wide_to_tell_decides_nothing_unless_all_of_it_is_on_one_side():
    assert no_slower("rate", Estimate(0.4, 0.2, 0.6), 0.4, 0.1).status == UNDECIDED
    assert no_slower("rate", Estimate(0.4, 0.35, 0.45), 0.4, 0.1).status == HOLDS
    assert no_slower("rate", Estimate(0.7, 0.45, 0.95), 0.4, 0.1).status == HOLDS
    assert no_slower("rate", Estimate(0.1, -0.2, 0.39), 0.4, 0.1).status == FAILS


@given(st.floats(-5, 5), st.floats(0.01, 3), st.floats(-5, 5))
def test_comparisons_hold_only_beyond_the_interval(value, width, bound):
    result = Estimate(value, value - width, value + width)
    expected = HOLDS if result.low > bound else FAILS if result.high < bound else UNDECIDED
    assert above("more", result, bound, "gain").status == expected
    mirrored = Estimate(-value, -result.high, -result.low)
    assert below("less", mirrored, -bound, "loss").status == expected


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.integers(0, 50))
def test_units_of_errors_and_sizes_do_not_matter(error_unit, size_unit, seed):
    squares = power_law(0.3, "lognormal", seed)
    result = exponent(SIZES, squares)
    other = exponent(np.asarray(SIZES) * size_unit, squares * error_unit**2)
    assert (other.value, other.low, other.high) == pytest.approx((result.value, result.low, result.high), abs=1e-9)


@given(st.integers(0, 50))
def test_independent_columns_may_be_shuffled_and_paired_ones_may_not(seed):
    rng = np.random.default_rng(seed)
    shared = rng.lognormal(0, 0.5, (12, 1))
    squares = shared * power_law(0.3, "many directions", seed, repetitions=12)
    shuffled = np.stack([rng.permutation(column) for column in squares.T], axis=1)
    first, second = exponent(SIZES, squares), exponent(SIZES, shuffled)
    assert (first.low, first.high) == pytest.approx((second.low, second.high))
    paired = exponent(SIZES, squares, paired=True)
    assert paired.value == pytest.approx(first.value)
    assert paired.half_width != pytest.approx(exponent(SIZES, shuffled, paired=True).half_width, rel=1e-3)


def test_errors_over_those_of_another_method_have_the_difference_of_the_exponents():
    slow, fast = power_law(0.3, "lognormal", 4), power_law(0.5, "lognormal", 5)
    gap = exponent(SIZES, fast, over=slow)
    assert gap.value == pytest.approx(exponent(SIZES, fast).value - exponent(SIZES, slow).value)
    assert exponent(SIZES, fast, over=fast).half_width == pytest.approx(0, abs=1e-12)


def test_root_mean_squares_and_means_are_what_they_say():
    squares = power_law(0.3, "lognormal", 6)
    middle, low, high = _root_mean_squares(squares)
    assert middle == pytest.approx(np.sqrt(squares.mean(axis=0)))
    assert np.all((low < middle) & (middle < high))
    values = np.asarray([1.0, 2.0, 4.0, 5.0])
    assert mean(values).value == 3.0
    assert mean(values).half_width == pytest.approx(3.1824463 * values.std(ddof=1) / 2)  # Student's t, 3 degrees


def test_a_typical_ratio_is_not_ruled_by_one_repetition():
    second = np.ones(9)
    first = np.full(9, 4.0)
    first[0] = 1e12
    assert ratio(first, second).value > 1e5
    assert typical_ratio(np.full(9, 4.0), second).value == pytest.approx(2.0)
    assert typical_ratio(first, second).value < 60


def test_several_verdicts_are_as_good_as_the_worst():
    good, unclear, bad = (Verdict(f"case {s}", s, "figures") for s in (HOLDS, UNDECIDED, FAILS))
    assert together("all", [good, good]).status == HOLDS
    assert together("all", [good, unclear]).status == UNDECIDED
    both = together("all", [good, unclear, bad])
    assert both.status == FAILS
    assert "case does not hold: figures" in both.evidence
    assert together("all", [bad]).evidence == "case does not hold: figures"
    assert is_so("identity", False, "off by one", known_wrong=True) == Verdict("identity", FAILS, "off by one", True)


@pytest.mark.parametrize("made", ["exponent", "ratio", "mean"])
def test_chance_is_what_the_interval_says_and_uniform_where_the_claim_only_just_holds(made):
    rng = np.random.default_rng(7)
    chances = []
    for seed in range(400):
        if made == "exponent":
            result, truth = exponent(SIZES, power_law(0.4, "many directions", [7, seed])), 0.4
        elif made == "ratio":
            shared = rng.chisquare(6, 16) / 6
            result, truth = ratio(4 * shared * rng.chisquare(40, 16) / 40, shared * rng.chisquare(40, 16) / 40), 2.0
        else:
            result, truth = mean(rng.standard_normal(8) + 3), 3.0
        assert result.chance_of_less(result.high) == pytest.approx(0.025)
        assert result.chance_of_less(result.low) == pytest.approx(0.975)
        assert result.times(2.0).chance_of_less(2 * truth) == pytest.approx(result.chance_of_less(truth))
        chances.append(result.chance_of_less(truth))
    assert kstest(chances, "uniform").pvalue > 0.001
    both = (above("more", result, truth, "x").chance, below("less", result, truth, "x").chance)
    assert sum(both) == pytest.approx(1)


@pytest.mark.parametrize("cases", [1, 3, 12])
def test_one_of_many_cases_has_to_be_off_beyond_what_as_many_tries_of_chance_explain(cases):
    """All cases at the boundary: a joint verdict may fail in one of forty runs, and not in one of forty for each."""
    failed = 0
    for seed in range(300):
        squares = [power_law(0.4, "many directions", [8, seed, case], sizes=SIZES[:3]) for case in range(cases)]
        parts = [no_slower(f"{k}", exponent(SIZES[:3], own), 0.4, 0.2) for k, own in enumerate(squares)]
        failed += together("all", parts).status == FAILS
    assert failed / 300 < 0.025 + 3 * np.sqrt(0.025 / 300)
    slow = no_slower("slow", exponent(SIZES, power_law(0.2, "many directions", 9)), 0.4, 0.1)
    fine = no_slower("fine", exponent(SIZES, power_law(0.5, "many directions", 9)), 0.4, 0.1)
    assert together("all", [slow] + [fine] * (cases - 1)).status == FAILS  # far enough off to survive the correction


def test_a_case_that_chance_explains_leaves_the_joint_verdict_open_and_the_closest_case_is_told():
    near = Verdict("near", FAILS, "a little off", chance=0.02)
    far = Verdict("far", FAILS, "far off", chance=1e-6)
    good, better = Verdict("good", HOLDS, "just", chance=0.3), Verdict("better", HOLDS, "by far", chance=0.99)
    joint = together("all", [near, good, better])
    assert joint.status == UNDECIDED
    assert "near: a little off" in joint.evidence
    assert "one of 3 cases" in joint.evidence
    assert together("all", [near, far, good]).status == FAILS
    assert together("all", [far, good]).evidence == "far: far off"
    assert together("all", [good, better]).evidence == "in all 2 cases; the closest is good: just"
    assert together("all", [near]).status == FAILS  # one case, one try


def test_a_ratio_over_several_settings_is_the_geometric_mean_of_theirs():
    first, second = power_law(0.3, "lognormal", 10), power_law(0.5, "lognormal", 11)
    each = [ratio(first[:, k], second[:, k]).value for k in range(len(SIZES))]
    assert ratio(first, second).value == pytest.approx(np.exp(np.mean(np.log(each))))


def test_what_cannot_be_fitted_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="two sizes or more, got 2 at 1 sizes"):
        exponent([10], np.ones((3, 2)))
    with pytest.raises(ValueError, match="two sizes or more"):
        exponent([10, 10], np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"two repetitions or more, got shape \(1, 2\)"):
        exponent([10, 20], np.ones((1, 2)))
