"""Gram matrices of kernel values in fixed point: exact products of bytes, twice as fast as double precision.

Processors multiply bytes many times as fast as numbers of double precision (VNNI, AMX), and add them up in integers
without any rounding. So a value k(r) in [0, 1] is rounded to q/65535, which is two bytes, a label is the eight bytes of
an integer, and one product ZᵀZ of all bytes contains every sum that is needed. The values are rounded, and nothing
after them is: the Gram matrix belongs to features that are off by at most 1/131070, it stays positive semi-definite,
and a function Σ c_j K(·, z_j) fitted to such features is off by Σ c_j e_j(x) elsewhere, which
:meth:`FixedPointMachine.rounding_error` estimates. A Gram matrix summed in single precision has neither property,
although its entries are as accurate.

A digit is a signed byte. The bytes of a two's complement integer are unsigned but for the last; flipping the first bit
of those takes 128 from each, so an integer is Σ_b 256^b·digit_b plus the mask that flips them.
"""

from __future__ import annotations

import sys
import warnings
from functools import cache
from typing import Any

import numpy as np

from ..._base import threads
from ..._base.arrays import Floats, fill_lower
from ..._base.rows import Rows
from ...bases.maps import KernelMap
from ...kernels.stationary import Stationary
from .machine import CACHED, EPS, Costs, NumpyMachine, PlacedRows
from .on_torch import torch

STEPS = 65535  # of the interval from 0 to 1 that a value is rounded to
FLIP, FLIP_LABEL = 0x80, 0x0080808080808080  # the first bits of all bytes but the last, of two and of eight
SHIFT = 32768 + FLIP  # the difference between q and the value of its digits
LARGEST = 2.0**62  # the integer that the largest label becomes
PLACES = 256.0 ** np.arange(8)
# Rows that a thread may add up: 2¹⁷ products of at most 2¹⁴ each would fill an integer of 32 bits, and if rows do not
# divide evenly a thread gets one more in each of at most 33 turns.
RUN = (1 << 17) - 64
BLOCK = 4096  # rows of a product
LEAF = 300  # columns of a triangle that are not cut further
STRIPE = 256  # kernel functions whose sums are combined at once
HARM = 0.01  # how far rounding may move a function, squared, as a share of its mean squared error
LEAST = 1.9e-7  # λ: below it the rounding of values would matter


#: Every thread has its own number of torch threads, and a new thread gets the number that was set last. So the threads
#: that work here set one for themselves, and whoever started them restores the number that was set before.
torch_threads = threads.SharedSetting(
    lambda: int(torch().get_num_threads()), lambda before: torch().set_num_threads(before), always=True
)


@cache
def is_exact() -> bool:
    """Return whether products of bytes are exact on this processor.

    Processors without the instructions add pairs of products in 16 bits, which overflow for two large ones.
    """
    if sys.byteorder != "little" or not hasattr(torch(), "_int_mm"):
        return False
    extremes = np.where(np.random.default_rng(0).random((2 * LEAF, LEAF)) < 0.5, -128, 127).astype(np.int8)
    for A in (extremes, np.full_like(extremes, 127), extremes[:7, :9], extremes[:, 64:128]):
        Z = torch().from_numpy(A)
        for columns in (slice(None), slice(0, 5)):
            expected = A[:, columns].T.astype(float) @ A.astype(float)  # whole numbers, exact in double precision too
            if not np.array_equal(torch()._int_mm(Z[:, columns].T, Z).numpy(), expected):
                return False
    return True


def check_possible(kernel: Any, device: Any, lams: Floats | None) -> None:
    """Raise an error of one sentence if precision="fixed" cannot be used here."""
    torch("precision='fixed'")
    if device is not None and device.type != "cpu":
        raise ValueError(f"precision='fixed' needs a CPU, but device is {device}: use precision='single'")
    if not is_exact():
        raise ValueError(
            "precision='fixed' needs a processor with instructions for products of bytes (VNNI, AMX), and torch finds "
            "none on this one: use precision='single'"
        )
    if not (isinstance(kernel, Stationary) and kernel.nonnegative):
        raise ValueError(
            f"precision='fixed' needs kernel values from 0 to 1, but those of {type(kernel).__name__} are not: "
            "use precision='double'"
        )
    if lams is not None and np.min(lams) < LEAST * (1 - 1e-9):
        raise ValueError(
            f"precision='fixed' is accurate for lam down to {LEAST:.1e}, but lam={np.min(lams):.1e} was given: "
            "use precision='single'"
        )


def warn_of_harm(off: np.ndarray, error: np.ndarray) -> None:
    """Warn if rounding has moved a function by more than a small share of its mean squared error."""
    if np.any(off > HARM * error):
        share = float(np.sqrt(np.max(off / error)))
        warnings.warn(
            f"precision='fixed' has moved the function by {share:.2g} times its error, because this kernel "
            "and λ need large coefficients: use precision='single'",
            stacklevel=4,
        )


class FixedPointMachine(NumpyMachine):
    """A machine for all cores whose Gram matrices are torch's products of bytes, from rounded kernel values."""

    costs = Costs(product=3.2e-12, value=8e-10, column=2.5e-11)

    def __init__(self, map_: KernelMap) -> None:
        super().__init__(map_, single=True)
        self.means = np.zeros(map_.size)  # sums without rounding need no means subtracted

    def rounding(self, n: int) -> float:
        return EPS  # every sum is converted to double precision only once, at the end

    @property
    def gram_matrices(self) -> float:
        """Count one sum and, per thread, four 32-bit integers a pair, the largest product of bytes, a digit block."""
        return 1.0 + threads.count_threads() * (2.5 + BLOCK / (4.0 * self.map.size))

    def place(self, rows: Rows) -> PlacedRows:
        if rows.weights is not None:
            raise ValueError("precision='fixed' does not support sample_weight: use precision='single'")
        return super().place(rows)

    def add_gram(  # type: ignore[override]
        self, rows: PlacedRows, V: np.ndarray, so_far: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        M, n_threads = self.map.size, threads.count_threads()  # V is [1, Y], because rows have no weights here
        total = np.zeros((M, M)) if so_far is None else so_far
        cross = np.zeros((M, V.shape[1]))
        n_runs = -(-len(rows) // (RUN * n_threads))
        for run in threads.cut_stretches(len(rows), -(-len(rows) // n_runs)):
            Y = V[run, 1:]
            n, T = Y.shape
            largest = np.max(np.abs(Y), axis=0, initial=0.0)
            labels = np.rint(LARGEST * (Y / np.where(largest > 0, largest, 1.0))).astype(np.int64)
            digits, crosses = self._digits(rows.X[run], labels, n_threads)
            with_labels = _join_digits(_add_threads(crosses))
            t = with_labels[8 * T]  # Σ t for values (t + SHIFT)/STEPS
            self._add_products(digits, t, n, total)
            cross[:, 0] += (t + float(n) * SHIFT) / STEPS
            of_labels = np.einsum("b,tbm->mt", PLACES, with_labels[: 8 * T].reshape(T, 8, M)) + FLIP_LABEL * t[:, None]
            of_labels += SHIFT * labels.sum(axis=0, dtype=np.float64)
            cross[:, 1:] += of_labels / (LARGEST * STEPS) * largest
        return cross, total

    def gram(self, so_far: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return fill_lower(so_far)

    def rounding_error(self, coef: np.ndarray) -> np.ndarray:
        """Return the mean over points of (Σ_j c_j e_j)², (T,), where e is the rounding of the kernel values there."""
        K = self.values_at_points().astype(self.dtype)
        errors = K.astype(np.float64)
        errors -= (round_values(K) + 32768.0) / STEPS
        return np.asarray(np.mean((errors @ coef) ** 2, axis=0))

    def _digits(self, X: np.ndarray, labels: np.ndarray, n_threads: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return each thread's lower triangle of DᵀD for the digits D of values, and its [digits of labels, 1, 0]ᵀD."""
        M, T = self.map.size, labels.shape[1]
        label_digits = np.ascontiguousarray(labels ^ FLIP_LABEL).view(np.int8)
        turns = -(-len(X) // (BLOCK * n_threads))  # the same number of blocks for each thread
        blocks = threads.cut_stretches(len(X), -(-len(X) // (turns * n_threads)))
        n_threads = min(n_threads, len(blocks))
        grams, crosses = ([np.empty((0, 0), dtype=np.int32)] * n_threads for _ in range(2))

        def work(stripe: slice) -> None:
            torch().set_num_threads(1)
            values = np.zeros((blocks[0].stop, M + 4 * T + 1), dtype=np.int16)
            bytes_ = values.view(np.int8)
            bytes_[:, 2 * M + 8 * T] = 1
            gram, cross = (torch().zeros((k, 2 * M), dtype=torch().int32, device="cpu") for k in (2 * M, 8 * T + 2))
            for block in blocks[stripe]:
                rows = block.stop - block.start
                self._fill_digits(values[:rows, :M], X[block])
                bytes_[:rows, 2 * M : 2 * M + 8 * T] = label_digits[block]
                D, others = (torch().from_numpy(part) for part in np.split(bytes_[:rows], [2 * M], axis=1))
                _add_triangle(gram, D, 0, 2 * M)
                cross += torch()._int_mm(others.T, D)
            grams[stripe.start], crosses[stripe.start] = gram.numpy(), cross.numpy()

        with torch_threads:
            threads.for_each(work, [slice(t, None, n_threads) for t in range(n_threads)])
        return grams, crosses

    def _fill_digits(self, values: np.ndarray, X: np.ndarray) -> None:
        """Write the digits of kernel values, piece by piece so that each piece stays in cache."""
        for piece in threads.cut_stretches(len(X), max(1, CACHED // self.map.size)):
            values[piece] = round_values(self.block(X[piece]))
        values ^= FLIP

    def _add_products(self, digits: list[np.ndarray], t: np.ndarray, n: int, gram: np.ndarray) -> None:
        """Add Σ r rᵀ for r = (t + SHIFT)/STEPS to the upper triangle: whole numbers until they are divided."""
        for part in threads.cut_stretches(self.map.size, STRIPE):
            pairs = _add_threads([own[2 * part.start : 2 * part.stop, : 2 * part.stop] for own in digits])
            products = _join_digits(_join_digits(pairs).T)
            products += SHIFT * (t[: part.stop, None] + t[part]) + float(n) * SHIFT**2
            gram[: part.stop, part] += products / STEPS**2


def round_values(K: np.ndarray) -> np.ndarray:
    """Return q - 32768 for values q/STEPS: whole numbers of 16 bits, in the memory of the values."""
    K *= K.dtype.type(STEPS)
    K -= K.dtype.type(32768)
    return np.rint(K, out=K)


def _add_threads(of_threads: list[np.ndarray]) -> np.ndarray:
    """Add up the sums of all threads, which no longer fit in 32 bits."""
    return np.asarray(sum(own.astype(np.int64) for own in of_threads))


def _join_digits(pairs: np.ndarray) -> np.ndarray:
    """Join pairs of digits along the last axis to one number each."""
    return pairs[..., 0::2] + 256.0 * pairs[..., 1::2]


def _add_triangle(total: Any, Z: Any, first: int, last: int) -> None:
    """Add the lower triangle of ZᵀZ between two columns, by halving squares; both digits of a number stay together."""
    if last - first <= LEAF:
        total[first:last, first:last] += torch()._int_mm(Z[:, first:last].T, Z[:, first:last])
        return
    middle = first + -(-(last - first) // 128) * 64  # a whole line of memory
    _add_triangle(total, Z, first, middle)
    _add_triangle(total, Z, middle, last)
    total[middle:last, first:middle] += torch()._int_mm(Z[:, middle:last].T, Z[:, first:middle])
