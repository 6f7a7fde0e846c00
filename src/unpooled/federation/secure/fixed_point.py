"""Numbers as integers modulo 2¹²⁸ on the grid 2⁻ᶠ, whose sum is exact in any order and can be masked.

A number v = high + low becomes the integer k nearest to v·2ᶠ (halves upwards), kept as k mod 2¹²⁸ in two words of 64
bits, the low one first. Adding words modulo 2¹²⁸ adds the integers exactly as long as their sum stays within ±2¹²⁷.
This is checked before a number is encoded: each of n sites may send at most 2¹²⁶⁻ᶠ/n. That leaves one bit unused, so
most wrong sums are detected when they are decoded.

With the default f = 64 the error of an encoded number is at most 2⁻⁶⁵ ≈ 2.7·10⁻²⁰, that of a sum of n numbers n times
as much, and sums reach 2⁶² ≈ 4.6·10¹⁸.

The sums of a statistic are sent as one vector: the number of rows first, then the fields of the statistic one after
the other.

Sums whose noise is made in shares are added up as whole numbers, because their secure sum must not round. The noisy
sums of each site are multiples k·g/w of a public grid g, divided by public weights w. As doubles each of them is
rounded differently, and the many digits of a sum could reveal these rounding errors; the proof that shares of noise are
enough is for Σk alone (docs/privacy/summaries.md). So the sites' k are added up, and the server divides once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import frexp
from typing import Any

import numpy as np

from ..._base.compensated import Sum, two_sum
from ..._base.text import quote
from ...privacy.sensitivity import WeightedSums

LARGEST_WHOLE = 2.0**51  # whole numbers up to this come back exactly from k·g/w in double precision


Shapes = dict[str, tuple[int, ...]]


FEWEST_BITS = 40  #: the fewest fraction bits of a study
_MOST_BITS = 120

_AT_ONCE = 1 << 14  # numbers
_HALF = np.uint64(32)
_LOWER = np.uint64(2**32 - 1)


@dataclass(frozen=True)
class FixedPoint:
    """Numbers of ``n_sites`` sites on the grid 2^-fraction_bits.

    >>> numbers = FixedPoint(n_sites=3)
    >>> words = add_all([numbers.encode([0.5, -2.5]), numbers.encode([0.25, 1e9]), numbers.encode([0.0, 1.0])])
    >>> high, low = numbers.decode(words)
    >>> high.tolist()
    [0.75, 999999998.5]
    """

    n_sites: int
    fraction_bits: int = 64

    def __post_init__(self) -> None:
        if type(self.n_sites) is not int or not 1 <= self.n_sites <= 2**20:
            raise ValueError(f"n_sites must be a whole number from 1 to 2^20, got {quote(self.n_sites)}")
        if type(self.fraction_bits) is not int or not FEWEST_BITS <= self.fraction_bits <= _MOST_BITS:
            given = quote(self.fraction_bits)
            raise ValueError(f"fraction_bits must be a whole number from {FEWEST_BITS} to {_MOST_BITS}, got {given}")

    @property
    def largest(self) -> float:
        """The largest magnitude that one site may send, so that no sum of ``n_sites`` numbers overflows."""
        return float(2.0 ** (126 - self.fraction_bits) / self.n_sites)

    @property
    def error(self) -> float:
        """The largest error of a sum of ``n_sites`` encoded numbers."""
        return float(self.n_sites * 2.0 ** -(self.fraction_bits + 1))

    def encode(self, values: Any, low: Any = None) -> np.ndarray:
        """Return the words, shape (n, 2), of a vector of numbers or pairs high + low.

        A number that is too large raises a ValueError.
        """
        high = _check_vector(values, "values")
        rest = np.zeros_like(high) if low is None else _check_vector(low, "low")
        if rest.shape != high.shape:
            raise ValueError(f"low must be as long as values, got {len(rest)} and {len(high)} numbers")
        self._check(high, rest)
        words = np.empty((len(high), 2), dtype=np.uint64)
        for part in split_into_slices(len(high)):
            words[part] = self._encode(high[part], rest[part])
        return words

    def _encode(self, high: np.ndarray, rest: np.ndarray) -> np.ndarray:
        high_fraction, high_whole = np.modf(np.ldexp(high, self.fraction_bits))
        rest_fraction, rest_whole = np.modf(np.ldexp(rest, self.fraction_bits))
        # Both fractions are exact, and so is s + e. As e is below the last bit of s, it only matters if s is a half.
        s, e = two_sum(high_fraction, rest_fraction)
        nearest = np.rint(s)
        left = s - nearest
        nearest += (left == 0.5) & (e >= 0)
        nearest -= (left == -0.5) & (e < 0)
        return add(add(_words_of_whole(high_whole), _words_of_whole(rest_whole)), _words_of_whole(nearest))

    def decode(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers as pairs high + low, where high is the number rounded to a double.

        The result is exact for magnitudes below 2^(106-f), and accurate to one part in 2^104 above. A number that
        cannot be a sum of ``n_sites`` encoded numbers raises a ValueError: a message is missing or was changed.
        """
        words = check_words(words)
        limit = (1 << 62) + (1 << 32)  # limit of the upper word: sums reach 2^126, and little more by rounding
        upper = words[:, 1].view(np.int64)
        beyond = (upper >= limit) | (upper < -limit)
        if np.any(beyond):
            raise ValueError(
                f"{np.count_nonzero(beyond)} of {len(words)} sums are larger than those of {self.n_sites} sites can be:"
                " a message is missing, or was changed on its way"
            )
        high, low = np.empty(len(words)), np.empty(len(words))
        for part in split_into_slices(len(words)):
            first = _round_to_doubles(words[part])
            second = _round_to_doubles(subtract(words[part], _words_of_whole(first)))
            for target, value in zip((high, low), two_sum(first, second)):
                target[part] = np.ldexp(value, -self.fraction_bits)
        return high, low

    def _check(self, high: np.ndarray, rest: np.ndarray) -> None:
        magnitude = np.abs(high) + np.abs(rest)
        if not np.all(np.isfinite(magnitude)):
            raise ValueError("values must be finite, and at least one is infinite or NaN: leave out such rows")
        most = float(np.max(magnitude, initial=0.0))
        if most > self.largest:
            bits = 126 - frexp(most * self.n_sites)[1]
            fewer = f"choose fraction_bits of at most {bits}"
            advice = fewer if bits >= FEWEST_BITS else "measure the labels in a larger unit"
            raise ValueError(
                f"values must be at most {self.largest:.3g} for {self.n_sites} sites and {self.fraction_bits} bits of"
                f" fraction, got {most:.3g}: {advice}"
            )


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a + b modulo 2¹²⁸, entry by entry."""
    words = np.empty_like(a)
    np.add(a[:, 0], b[:, 0], out=words[:, 0])
    np.add(a[:, 1], b[:, 1], out=words[:, 1])
    words[:, 1] += words[:, 0] < b[:, 0]  # the carry
    return words


def subtract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a - b modulo 2¹²⁸, entry by entry."""
    words = np.empty_like(a)
    np.subtract(a[:, 0], b[:, 0], out=words[:, 0])
    np.subtract(a[:, 1], b[:, 1], out=words[:, 1])
    words[:, 1] -= a[:, 0] < b[:, 0]  # the borrow
    return words


def add_all(vectors: Iterable[np.ndarray]) -> np.ndarray:
    """Return the sum modulo 2¹²⁸ of one or more vectors of words; it does not depend on their order."""
    total: np.ndarray | None = None
    for vector in vectors:
        words = check_words(vector)
        if total is not None and words.shape != total.shape:
            raise ValueError(f"vectors of different lengths do not add up: {len(total)} and {len(words)} numbers")
        total = words.copy() if total is None else add(total, words)
    if total is None:
        raise ValueError("there is nothing to add: give at least one vector of words")
    return total


def sum_across(words: np.ndarray) -> np.ndarray:
    """Return the sum modulo 2¹²⁸ of all entries of one vector, shape (1, 2)."""
    sums = [int(np.sum(half, dtype=np.uint64)) for column in words.T for half in (column & _LOWER, column >> _HALF)]
    whole = sum(part << (32 * place) for place, part in enumerate(sums)) % 2**128  # sums of 2³² halves fit in 64 bits
    return np.array([[whole % 2**64, whole >> 64]], dtype=np.uint64)


def split_into_slices(n: int) -> Iterator[slice]:
    """Split 0 to n into slices that are short enough for the processor's cache."""
    return (slice(start, min(start + _AT_ONCE, n)) for start in range(0, n, _AT_ONCE))


def check_words(words: Any) -> np.ndarray:
    """Return the words unchanged if they have the type and shape that ``encode`` gives, or raise a ValueError."""
    if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != 2:
        what = f"{words.dtype} of shape {words.shape}" if isinstance(words, np.ndarray) else quote(words)
        raise ValueError(f"words must be an array of unsigned 64-bit integers, shape (n, 2), got {what}")
    return words


def _check_vector(values: Any, name: str) -> np.ndarray:
    vector = np.asarray(values)
    if vector.ndim != 1 or vector.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be a vector of real numbers, got {vector.dtype} of shape {vector.shape}")
    return vector.astype(np.float64)


def _words_of_whole(whole: np.ndarray) -> np.ndarray:
    """Return the words of doubles that are whole numbers below 2¹²⁷ in magnitude."""
    magnitude = np.abs(whole)
    upper = np.floor(np.ldexp(magnitude, -64))
    words = np.empty((len(whole), 2), dtype=np.uint64)
    words[:, 0] = (magnitude - np.ldexp(upper, 64)).astype(np.uint64)
    words[:, 1] = upper.astype(np.uint64)
    return np.where((whole < 0)[:, None], _negate(words), words)


def _negate(words: np.ndarray) -> np.ndarray:
    return subtract(np.zeros_like(words), words)


def _round_to_doubles(words: np.ndarray) -> np.ndarray:
    """Return doubles within one unit in the last place of the integers, and equal to those that doubles can hold."""
    negative = words[:, 1] >= np.uint64(1 << 63)
    magnitude = np.where(negative[:, None], _negate(words), words)
    halves = [column.astype(np.float64) for column in (magnitude[:, 0], magnitude[:, 1])]
    size = halves[0] + np.ldexp(halves[1], 64)
    return np.where(negative, -size, size)


def flatten(n_rows: int, sums: dict[str, Sum], fields: Shapes) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers as pairs high + low; raise a ValueError if the sums do not have these fields."""
    if {name: value.high.shape for name, value in sums.items()} != fields:
        raise ValueError("the sums do not have the fields of the statistic")
    high = [np.asarray([float(n_rows)]), *(sums[name].high.ravel() for name in fields)]
    low = [np.zeros(1), *(sums[name].low.ravel() for name in fields)]
    return np.concatenate(high), np.concatenate(low)


def vector_length(fields: Shapes) -> int:
    """Return the length of the vector."""
    return 1 + sum(int(np.prod(shape)) for shape in fields.values())


def restore(high: np.ndarray, low: np.ndarray, fields: Shapes) -> tuple[int, dict[str, Sum]]:
    """Return the number of rows and the sums from a vector."""
    if len(high) != vector_length(fields):
        raise ValueError(f"the vector has {len(high)} numbers, and the statistic has {vector_length(fields)}")
    n_rows, start, sums = int(high[0]), 1, {}
    if high[0] != n_rows or low[0] or n_rows < 1:
        raise ValueError("the number of rows in the sum is not a positive whole number")
    for name, shape in fields.items():
        end = start + int(np.prod(shape))
        sums[name] = Sum(high[start:end].reshape(shape), low[start:end].reshape(shape))
        start = end
    return n_rows, sums


def to_whole_numbers(sums: Mapping[str, np.ndarray], weighted: WeightedSums, grid: float) -> np.ndarray:
    """Return the whole numbers k behind the noisy sums of one site, as one vector."""
    k = np.rint(weighted.pack(dict(sums)) / grid)
    if not np.all(np.abs(k) < LARGEST_WHOLE):
        raise ValueError("the sums are too large for the grid of their noise: measure the labels in a larger unit")
    again = weighted.unpack(k * grid)
    if any(not np.array_equal(again[name], np.ravel(sums[name])) for name in again):
        raise ValueError("the sums are not multiples of the grid of their noise, so no share of noise protects them")
    return k


def from_whole_numbers(total: np.ndarray, weighted: WeightedSums, grid: float) -> dict[str, np.ndarray]:
    """Return the noisy sums over all sites, by name, from Σk."""
    return weighted.unpack(np.asarray(total, dtype=np.float64) * grid)
