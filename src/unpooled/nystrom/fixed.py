"""Gram matrices of kernel values in fixed point: products of bytes, exact, at twice the speed of double precision.

Processors multiply bytes many times as fast as numbers of double precision (VNNI, AMX), and add them up in integers
without any rounding. So a value k(r) in [0, 1] is rounded to q/65535, which is two bytes, a label is the eight bytes of
an integer, and one product ZᵀZ of all bytes holds every sum that is wanted. What rounds is the values and nothing
after them: the Gram matrix is that of features off by at most 1/131070, it stays positive semi-definite, and a function
Σ c_j K(·, z_j) fitted to such features is off by Σ c_j e_j(x) elsewhere, which can be looked at (:meth:`off`). A Gram
matrix summed in single precision has neither property, although its entries are as good.

A digit is a signed byte. The bytes of a two's complement integer are unsigned but for the last; flipping the first bit
of those takes 128 from each, so an integer is Σ_b 256^b·digit_b plus the mask that flips them.
"""

from __future__ import annotations

import sys
import threading
import warnings
from typing import Any

import numpy as np

from .. import threads
from ..arrays import fill_lower
from ..bases.maps import KernelMap
from ..blocks.base import Rows
from ..kernels.stationary import Stationary
from .machine import CACHED, OnCores, Placed
from .on_torch import torch

STEPS = 65535  # of the interval from 0 to 1 that a value is rounded to
FLIP, FLIP_LABEL = 0x80, 0x0080808080808080  # the first bits of all bytes but the last, of two and of eight
SHIFT = 32768 + FLIP  # q less what its digits say
LARGEST = 2.0**62  # what the largest label becomes
PLACES = 256.0 ** np.arange(8)
RUN = (1 << 17) - 1  # rows until an integer of 32 bits may be full: products of digits are at most 2¹⁴
BLOCK = 4096  # rows of a product
LEAF = 200  # columns of a triangle that are not cut further
STRIPE = 256  # kernel functions whose sums are put together at once
HARM = 0.01  # of the mean squared error: how far rounding may move a function, squared
LOOKED_AT = 512  # points at which that is found out


class _OneTorchThread:
    """Torch on one thread for every thread that begins inside; what was allowed before comes back with the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = self._before = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = torch().get_num_threads()
                torch().set_num_threads(1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                torch().set_num_threads(self._before)


one_torch_thread = _OneTorchThread()


def require(kernel: Any, device: Any) -> None:
    """What precision="fixed" cannot do, in a sentence."""
    possible = sys.byteorder == "little" and hasattr(torch(), "_int_mm")
    if not (possible and (device is None or device.type == "cpu")):
        raise ValueError("precision='fixed' is for a CPU, with torch's product of bytes: take precision='single'")
    if not isinstance(kernel, Stationary):
        raise ValueError(
            f"precision='fixed' needs kernel values from 0 to 1, and {type(kernel).__name__} has others: "
            "take precision='double'"
        )


def warn_if_harmed(off: np.ndarray, error: np.ndarray) -> None:
    """Say so if rounding has moved a function by more than a small share of its mean squared error."""
    if np.any(off > HARM * error):
        share = float(np.sqrt(np.max(off / np.maximum(error, np.finfo(float).tiny))))
        warnings.warn(
            f"precision='fixed' has moved the function by {min(share, 10.0):.2g} times its error, because this kernel "
            "and λ want large coefficients: take precision='single'",
            stacklevel=4,
        )


class InFixedPoint(OnCores):
    """NumPy on all cores, with Gram matrices of rounded kernel values by torch's product of bytes."""

    costs = (3.2e-12, 8e-10, 2.5e-11)

    def __init__(self, map_: KernelMap) -> None:
        super().__init__(map_, single=True)

    @property
    def gram_matrices(self) -> float:
        """A sum; for every thread four integers of 32 bits a pair, the largest product of bytes, a block of digits."""
        return 1.0 + threads.allowed_threads() * (2.5 + BLOCK / (4.0 * self.map.size))

    def place(self, rows: Rows) -> Placed:
        if rows.weights is not None:
            raise ValueError("precision='fixed' takes no sample_weight: take precision='single'")
        return super().place(rows)

    def add_gram(  # type: ignore[override]
        self, rows: Placed, V: np.ndarray, so_far: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        M = self.map.size  # and V is [1, Y], for rows have no weights
        total = np.zeros((M, M)) if so_far is None else so_far
        cross = np.zeros((M, V.shape[1]))
        n_runs = -(-len(rows) // RUN)
        for run in threads.stretches(len(rows), -(-len(rows) // n_runs)):
            Y = V[run, 1:]
            largest = np.max(np.abs(Y), axis=0, initial=0.0)
            shares = Y / np.where(largest > 0, largest, 1.0)
            digits = self._digits(rows.X[run], np.rint(LARGEST * shares).astype(np.int64))
            cross += self._sums(digits, total, largest, len(Y))
        return cross, total

    def gram(self, so_far: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return fill_lower(so_far)

    def off(self, coef: np.ndarray) -> np.ndarray:
        """The mean over points of (Σ_j c_j e_j)², for e what rounding takes from the values there: (T,)."""
        few = self.map.points[:: max(1, self.map.size // LOOKED_AT)].astype(np.float32)
        K = self.map.kernel.block(few, self.map.points.astype(np.float32))
        errors = K.astype(np.float64)
        errors -= (rounded(K) + 32768.0) / STEPS
        return np.asarray(np.mean((errors @ coef) ** 2, axis=0))

    def _digits(self, X: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """ZᵀZ, its lower triangle, for Z = [digits of values, digits of labels, 1, 0]: integers of 32 bits."""
        M, T = self.map.size, labels.shape[1]
        width = M + 4 * T + 1
        label_digits = np.ascontiguousarray(labels ^ FLIP_LABEL).view(np.int8)
        turns = -(-len(X) // (BLOCK * threads.allowed_threads()))  # as many blocks for each thread
        blocks = threads.stretches(len(X), -(-len(X) // (turns * threads.allowed_threads())))
        n_threads = min(threads.allowed_threads(), len(blocks))
        totals = [torch().zeros((2 * width, 2 * width), dtype=torch().int32) for _ in range(n_threads)]

        def work(stripe: slice) -> None:
            values = np.zeros((blocks[0].stop, width), dtype=np.int16)
            Z = values.view(np.int8)
            Z[:, 2 * M + 8 * T] = 1
            for block in blocks[stripe]:
                rows = block.stop - block.start
                self._fill_digits(values[:rows, :M], X[block])
                Z[:rows, 2 * M : 2 * M + 8 * T] = label_digits[block]
                _add_triangle(totals[stripe.start], torch().from_numpy(Z[:rows]), 0, 2 * width)

        with one_torch_thread:
            threads.for_each(work, [slice(t, None, n_threads) for t in range(n_threads)])
        for other in totals[1:]:
            totals[0] += other
        return np.asarray(totals[0].numpy())

    def _fill_digits(self, values: np.ndarray, X: np.ndarray) -> None:
        """The digits of kernel values, a piece that stays in cache at a time."""
        for piece in threads.stretches(len(X), max(1, CACHED // self.map.size)):
            values[piece] = rounded(self.map.block(X[piece]))
        values ^= FLIP

    def _sums(self, digits: np.ndarray, gram: np.ndarray, largest: np.ndarray, n: int) -> np.ndarray:
        """Σ r [1, Y]ᵀ; the upper triangle of Σ r rᵀ is added to ``gram``. Integers up to the divisions by STEPS."""
        M, T = self.map.size, len(largest)
        values, labels, ones = slice(0, 2 * M), slice(2 * M, 2 * M + 8 * T), 2 * M + 8 * T
        t = _joined(digits[ones, values])  # Σ t, for values (t + SHIFT)/STEPS
        for part in threads.stretches(M, STRIPE):
            pairs = _joined(digits[2 * part.start : 2 * part.stop, : 2 * part.stop])
            products = _joined(pairs.T)
            products += SHIFT * (t[: part.stop, None] + t[part]) + float(n) * SHIFT**2
            gram[: part.stop, part] += products / STEPS**2
        with_values = np.einsum("b,tbm->tm", PLACES, _joined(digits[labels, values]).reshape(T, 8, M)) + FLIP_LABEL * t
        alone = digits[ones, labels].reshape(T, 8) @ PLACES + float(n) * FLIP_LABEL
        of_labels = largest[:, None] * ((with_values + SHIFT * alone[:, None]) / LARGEST)
        return np.concatenate([(t + float(n) * SHIFT)[None], of_labels]).T / STEPS


def rounded(K: np.ndarray) -> np.ndarray:
    """q - 32768 for values q/STEPS: whole numbers of 16 bits, in the memory of the values."""
    K *= K.dtype.type(STEPS)
    K -= K.dtype.type(32768)
    return np.rint(K, out=K)


def _joined(pairs: np.ndarray) -> np.ndarray:
    """Two digits a number, in the last axis, as one."""
    return pairs[..., 0::2] + 256.0 * pairs[..., 1::2]


def _add_triangle(total: Any, Z: Any, first: int, last: int) -> None:
    """The lower triangle of ZᵀZ between two columns, by squares that halve; both digits of a number stay together."""
    if last - first <= LEAF:
        total[first:last, first:last] += torch()._int_mm(Z[:, first:last].T, Z[:, first:last])
        return
    middle = first + -(-(last - first) // 128) * 64  # a whole line of memory
    _add_triangle(total, Z, first, middle)
    _add_triangle(total, Z, middle, last)
    total[middle:last, first:middle] += torch()._int_mm(Z[:, middle:last].T, Z[:, first:middle])
