"""Noise in shares: the secure sum tells the sum of whole numbers, and not how it came about."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unpooled as up
from tests.federation.secure_cases import consortium, names_of, secure_total
from unpooled.federation.secure.fixed_point import (
    FEWEST_BITS,
    LARGEST_WHOLE,
    FixedPoint,
    add_all,
    from_whole_numbers,
    to_whole_numbers,
)
from unpooled.federation.site.statistics import Sums
from unpooled.federation.study.study import Study, StudyPrivacy
from unpooled.privacy import WeightedSums

NUMBERS = FixedPoint(3, FEWEST_BITS)


def shapes(order):
    return WeightedSums(6, kappa=1.3, label_bound=7.1, order=order, means=0.25, squares=True)


@st.composite
def noised(draw):
    """The whole numbers of three sites on a grid, and the same total made up otherwise."""
    released = shapes(draw(st.sampled_from([1, 2])))
    grid = 2.0 ** draw(st.integers(-80, 20))
    seed = draw(st.integers(0, 2**32))
    largest = 2 ** draw(st.integers(1, 49))
    rng = np.random.default_rng(seed)
    sites = rng.integers(-largest, largest, size=(3, released.size))
    moved = rng.integers(-largest, largest, size=released.size)
    return released, grid, sites, sites + np.array([moved, -moved, 0 * moved])


@given(noised())
def test_whole_numbers_come_back_from_the_sums_exactly(case):
    released, grid, sites, _ = case
    for k in sites:
        assert np.array_equal(to_whole_numbers(released.unpack(k * grid), released, grid), k)


@given(noised())
def test_how_a_sum_came_about_does_not_show_in_it(case):
    released, grid, *ways = case
    outcomes = []
    for sites in ways:
        words = add_all(NUMBERS.encode(to_whole_numbers(released.unpack(k * grid), released, grid)) for k in sites)
        outcomes.append((words, from_whole_numbers(NUMBERS.decode(words)[0], released, grid)))
    (words, sums), (other_words, other_sums) = outcomes
    assert np.array_equal(words, other_words)
    assert all(np.array_equal(sums[name], other_sums[name]) for name in sums)
    expected = released.unpack(np.sum(ways[0], axis=0) * grid)
    assert all(np.array_equal(sums[name], expected[name]) for name in expected)


def test_with_sums_that_are_rounded_first_it_would_show():
    released, grid, rng = shapes(2), 2.0**-20, np.random.default_rng(0)
    sites = rng.integers(-(2**40), 2**40, size=(3, released.size))
    moved = rng.integers(-(2**40), 2**40, size=released.size)
    numbers, told = FixedPoint(3), []
    for way in (sites, sites + np.array([moved, -moved, 0 * moved])):
        vectors = [np.concatenate(list(released.unpack(k * grid).values())) for k in way]
        told.append(add_all(numbers.encode(vector) for vector in vectors))
    assert np.mean(np.any(told[0] != told[1], axis=1)) > 0.5


def test_masks_change_nothing(tmp_path):
    released, rng = shapes(1), np.random.default_rng(1)
    sites = rng.integers(-(2**40), 2**40, size=(3, released.size))
    words = {name: NUMBERS.encode(k.astype(float)) for name, k in zip(names_of(3), sites)}
    high, low = NUMBERS.decode(secure_total(consortium(tmp_path, 3), words))
    assert np.array_equal(high, sites.sum(axis=0))
    assert not low.any()


def test_a_private_study_adds_up_whole_numbers():
    rng = np.random.default_rng(2)
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 5).fit(rng.normal(size=(40, 2)))
    privacy = StudyPrivacy(1.0, 1e-6, label_bound=3.0)
    study = Study(
        "noise in shares", basis, "y", names_of(3), 3, 10.0, kind="second-order", secure=True, privacy=privacy
    )
    statistic = Sums(study, order=2)
    private = study.privacy_request(0)
    rows = [(rng.normal(size=(n, 2)), rng.normal(size=n)) for n in (200, 300, 400)]
    summaries = [up.Summary.of(basis, *one, order=2, privacy=private) for one in rows]
    vectors = [statistic.to_vector(summary) for summary in summaries]
    assert all(np.array_equal(high, np.rint(high)) and not low.any() for high, low in vectors)
    numbers = FixedPoint(3)
    n_rows, sums = statistic.from_vector(*numbers.decode(add_all(numbers.encode(*vector) for vector in vectors)))
    assert n_rows == 900 == sums["weight"].high[0]
    added = sum(summaries)
    assert {name: value.high.shape for name, value in sums.items()} == statistic.shapes()
    for name, value in sums.items():  # added as doubles they are the same but for rounding
        assert value.high == pytest.approx(added.sums[name].high, rel=1e-12)


def test_sums_that_are_not_on_the_grid_are_refused():
    released, grid = shapes(1), 2.0**-10
    sums = released.unpack(np.arange(released.size) * grid)
    to_whole_numbers(sums, released, grid)
    with pytest.raises(ValueError, match="not multiples of the grid of their noise"):
        to_whole_numbers({**sums, "phi": sums["phi"] + 0.3 * grid}, released, grid)
    with pytest.raises(ValueError, match="too large for the grid"):
        to_whole_numbers(released.unpack(np.full(released.size, 2 * LARGEST_WHOLE) * grid), released, grid)
