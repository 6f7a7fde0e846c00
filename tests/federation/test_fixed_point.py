"""Numbers modulo 2^128: what is encoded is the nearest point of the grid, and sums of it are exact in any order."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unpooled._base.compensated import Sum
from unpooled.federation.secure.fixed_point import FixedPoint, add, add_all, subtract, sum_across

BITS = st.integers(40, 120)
WHOLE = st.integers(-(2**127), 2**127 - 1)


def words_of(wholes):
    return np.array([[k % 2**64, (k >> 64) % 2**64] for k in wholes], dtype=np.uint64).reshape(-1, 2)


def wholes_of(words):
    found = [int(low) | int(high) << 64 for low, high in words]
    return [k - 2**128 if k >= 2**127 else k for k in found]


def nearest(value, bits):
    return floor(value * 2**bits + Fraction(1, 2))


def scaled(draw, numbers):
    """A number up to the largest that may be sent, of any size."""
    return draw(st.floats(-1, 1)) * 2.0 ** draw(st.integers(-140, 0)) * numbers.largest


@st.composite
def pairs(draw):
    numbers = FixedPoint(draw(st.integers(1, 8)), draw(BITS))
    high = [scaled(draw, numbers) * 0.99 for _ in range(draw(st.integers(1, 5)))]
    low = [draw(st.floats(-0.5, 0.5)) * np.spacing(abs(h)) for h in high]
    return numbers, np.array(high), np.array(low)


@given(pairs())
def test_a_number_becomes_the_nearest_integer_on_the_grid(case):
    numbers, high, low = case
    got = wholes_of(numbers.encode(high, low))
    assert got == [nearest(Fraction(h) + Fraction(e), numbers.fraction_bits) for h, e in zip(high, low)]


@given(st.integers(-(2**30), 2**30), st.sampled_from([s * 2.0**-e for s in (-1, 0, 1) for e in (70, 90, 125, 300)]))
def test_halves_go_upwards_and_the_low_part_decides_beside_them(k, low):
    high = k * 2.0**-65
    assert wholes_of(FixedPoint(3).encode([high], [low])) == [nearest(Fraction(high) + Fraction(low), 64)]


@given(st.lists(st.lists(WHOLE, min_size=3, max_size=3), min_size=1, max_size=8), st.randoms())
def test_words_add_up_like_integers_in_any_order(vectors, random):
    order = random.sample(vectors, len(vectors))
    expected = [sum(column) % 2**128 for column in zip(*vectors)]
    assert [k % 2**128 for k in wholes_of(add_all(words_of(vector) for vector in order))] == expected


@given(st.lists(WHOLE, max_size=40))
@example([2**127 - 1] * 40)
def test_the_sum_of_all_entries_and_differences_are_those_of_integers(wholes):
    words = words_of(wholes)
    assert wholes_of(sum_across(words))[0] % 2**128 == sum(wholes) % 2**128
    assert np.array_equal(add(subtract(words, words[::-1]), words[::-1]), words)


@given(st.integers(-(2**126), 2**126), st.integers(0, 126), BITS)
def test_decoding_is_exact_to_106_bits_and_to_one_part_in_2_104_beyond(k, shift, bits):
    k >>= shift
    high, low = FixedPoint(4, bits).decode(words_of([k]))
    value, got = Fraction(k, 2**bits), Fraction(high[0]) + Fraction(low[0])
    assert got == value if abs(k) < 2**106 else abs(got - value) <= abs(value) / 2**104
    assert high[0] + low[0] == high[0]  # a pair as summaries hold them
    assert abs(Fraction(high[0]) - value) <= Fraction(np.spacing(abs(high[0]))) / 2


@given(pairs())
def test_what_was_encoded_comes_back_within_half_a_step(case):
    numbers, high, low = case
    back = numbers.decode(numbers.encode(high, low))
    for h, e, H, E in zip(high, low, *back):
        exact = Fraction(h) + Fraction(e)
        assert (
            abs(Fraction(H) + Fraction(E) - exact)
            <= Fraction(1, 2 ** (numbers.fraction_bits + 1)) + abs(exact) / 2**104
        )


@pytest.mark.parametrize("n_sites", [1, 3, 5, 8])
@pytest.mark.parametrize("bits", [40, 64, 120])
def test_the_largest_numbers_of_all_sites_do_not_wrap_and_larger_ones_are_refused(n_sites, bits):
    numbers = FixedPoint(n_sites, bits)
    for sign in (1.0, -1.0):
        words = numbers.encode([sign * numbers.largest])
        high, _ = numbers.decode(add_all([words] * n_sites))
        assert high[0] == pytest.approx(sign * n_sites * numbers.largest, rel=1e-15)
        with pytest.raises(ValueError, match="values must be at most"):
            numbers.encode([sign * np.nextafter(numbers.largest, np.inf) * (1 + 1e-15)])


def test_a_refusal_says_how_many_bits_would_do():
    with pytest.raises(ValueError, match=r"fraction_bits of at most (\d+)") as refused:
        FixedPoint(8).encode([0.0, 1e22])
    bits = int(str(refused.value).rsplit(" ", 1)[1])
    FixedPoint(8, bits).encode([1e22])
    with pytest.raises(ValueError, match="at most"):
        FixedPoint(8, bits + 1).encode([1e22])
    with pytest.raises(ValueError, match="a larger unit"):
        FixedPoint(8, 40).encode([1e30])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(bad):
    for high, low in (([1.0, bad], None), ([1.0, 2.0], [0.0, bad])):
        with pytest.raises(ValueError, match="values must be finite"):
            FixedPoint(3).encode(high, low)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FixedPoint(0), "n_sites must be"),
        (lambda: FixedPoint(3, 39), "fraction_bits must be a whole number from 40 to 120"),
        (lambda: FixedPoint(3, 64.0), "fraction_bits must be"),
        (lambda: FixedPoint(3).encode([[1.0]]), "values must be a vector"),
        (lambda: FixedPoint(3).encode(["1"]), "values must be a vector of real numbers"),
        (lambda: FixedPoint(3).encode([1.0], [0.0, 0.0]), "low must be as long as values, got 2 and 1"),
        (lambda: FixedPoint(3).decode(np.zeros((2, 3), np.uint64)), r"words must be .* got uint64 of shape \(2, 3\)"),
        (lambda: add_all([np.zeros((2, 2))]), "words must be .* got float64"),
        (lambda: add_all([[1, 2]]), "words must be"),
        (lambda: add_all([]), "nothing to add"),
        (lambda: add_all([words_of([1]), words_of([1, 2])]), "different lengths do not add up: 1 and 2"),
    ],
)
def test_bad_input_gets_one_sentence(call, words):
    with pytest.raises(ValueError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_a_sum_that_no_sites_can_have_is_not_decoded():
    numbers = FixedPoint(3)
    for k in (2**126 + 2**97, -(2**126) - 2**97, 2**127 - 1, -(2**127)):
        with pytest.raises(ValueError, match="1 of 2 sums are larger than those of 3 sites can be"):
            numbers.decode(words_of([0, k]))


def test_long_vectors_are_encoded_as_short_ones():
    rng = np.random.default_rng(0)
    values = rng.normal(size=40_000) * 10.0 ** rng.integers(-12, 9, size=40_000)
    numbers = FixedPoint(3)
    whole = numbers.encode(values)
    for start in range(0, len(values), 9973):
        assert np.array_equal(whole[start : start + 9973], numbers.encode(values[start : start + 9973]))
    high, low = numbers.decode(whole)
    assert np.max(np.abs((high - values) + low)) <= numbers.error


def test_sums_of_sites_equal_the_pooled_sum_within_the_stated_error():
    rng = np.random.default_rng(1)
    numbers = FixedPoint(8)
    sites = [
        Sum(high := rng.normal(size=500) * 1e6, rng.uniform(-0.5, 0.5, 500) * np.spacing(np.abs(high)))
        for _ in range(8)
    ]
    pooled = [sum(Fraction(s.high[i]) + Fraction(s.low[i]) for s in sites) for i in range(500)]
    high, low = numbers.decode(add_all(numbers.encode(s.high, s.low) for s in sites))
    off = max(abs(Fraction(high[i]) + Fraction(low[i]) - pooled[i]) for i in range(500))
    assert off <= numbers.error == 8 * 2.0**-65
    assert np.array_equal(high, [float(exact) for exact in pooled])  # as doubles they are the same bits
