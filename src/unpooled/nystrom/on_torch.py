"""The same sums by torch, on a CPU or a GPU: whole blocks of kernel values, products in double precision."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..arrays import Array, to_numpy
from ..bases.maps import KernelMap
from ..blocks.base import Rows
from ..kernels.stationary import Stationary
from ..messages import shown
from .machine import LOOKED_AT, Machine, Placed
from .span import Span

ALONE = {False: 512, True: 1 << 14}  # rows summed by themselves, on a CPU and on a GPU: fewer would leave that idle
PANELS = 8  # of columns into which the triangle of a Gram matrix is cut: 9/16 of all products are computed


def torch(what: str = "device=") -> Any:
    """The library, or a sentence about it."""
    try:
        import torch
    except ImportError:
        raise ImportError(f"{what} works with torch: pip install 'unpooled[gpu]'") from None
    return torch


def device_of(device: Any, X: Any) -> Any:
    """Where torch is to work: where the user says, where the rows are if they are tensors, else nowhere (None)."""
    if device is None:
        loaded = sys.modules.get("torch")
        return X.device if loaded is not None and isinstance(X, loaded.Tensor) else None
    try:
        found = torch().device(device)
        torch().empty(0, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"device={shown(device)} cannot be used: {reason}") from None
    return found


class OnTorch(Machine):
    """Blocks of kernel values as tensors on one device."""

    def __init__(self, map_: KernelMap, device: Any, single: bool) -> None:
        self.map, self.device, self.on_gpu = map_, device, device.type == "cuda"
        self.dtype = torch().float32 if single else torch().float64
        # Distances do not change when everything is moved, and digits are not lost to a large offset then.
        self.middle = np.median(map_.points, axis=0) if isinstance(map_.kernel, Stationary) else np.zeros(1)
        self.points = self._moved(map_.points - self.middle, self.dtype)

    @property
    def costs(self) -> tuple[float, float, float]:  # type: ignore[override]
        return (2.5e-14, 2.4e-11, 3e-14) if self.on_gpu else (6e-12, 8e-10, 2.5e-11)

    gram_matrices = 2.0

    @property
    def rows_at_once(self) -> int:
        return 1 << 21 if self.on_gpu else 1 << 17

    @property
    def room(self) -> int:
        return int(torch().cuda.mem_get_info(self.device)[0]) // 4 if self.on_gpu else 0

    def place(self, rows: Rows) -> Placed:
        weights = None if rows.weights is None else self.array(rows.weights)
        X = self.map.scaled(self.array(rows.X)) - self.array(self.middle)
        return Placed(X.to(self.dtype), None if rows.Y is None else self.array(rows.Y), weights)

    def array(self, values: Any) -> Array:
        return self._moved(values, torch().float64)

    def _moved(self, values: Any, dtype: Any) -> Array:
        if not isinstance(values, torch().Tensor):
            values = np.ascontiguousarray(to_numpy(values))
            values = torch().from_numpy(values if values.flags.writeable else values.copy())
        return values.to(device=self.device).to(dtype)

    def points_matrix(self) -> Array:
        return self.map.kernel(self.array(self.map.points))

    def values_at_points(self) -> Array:
        return self._values(self.points[:: max(1, self.map.size // LOOKED_AT)])

    def cross(self, rows: Placed, V: Array) -> Array:
        total = torch().zeros((self.map.size, V.shape[1]), dtype=torch().float64, device=self.device)
        for block in self._blocks(rows):
            total.addmm_(self._values(rows.X[block]).T, V[block])
        return total

    def twice(self, rows: Placed, U: Array) -> Array:
        total = torch().zeros_like(U)
        for block in self._blocks(rows):
            K = self._values(rows.X[block])
            values = K @ U
            if rows.weights is not None:
                values *= rows.weights[block, None]
            total.addmm_(K.T, values)
        return total

    def values(self, rows: Placed, U: Array) -> Array:
        parts = [self._values(rows.X[block]) @ U for block in self._blocks(rows)]
        return torch().cat(parts) if parts else U[:0]

    def covariance(self, rows: Placed, span: Span) -> Array:
        total = self._nothing()
        for block in self._blocks(rows):
            phi = span.whitened(self._values(rows.X[block]).T).T
            if rows.weights is not None:
                phi = phi * rows.weights[block, None].sqrt()
            _add_products(total, phi, ALONE[self.on_gpu])
        return self.gram(total).div_(rows.mass)

    def add_gram(self, rows: Placed, V: Array, so_far: Array | None) -> tuple[Array, Array]:
        total, means = self._nothing() if so_far is None else so_far, self.means
        cross = torch().zeros((self.map.size, V.shape[1]), dtype=torch().float64, device=self.device)
        for block in self._blocks(rows):
            K = self._values(rows.X[block]).sub_(means)
            cross.addmm_(K.T, V[block])
            if rows.weights is not None:
                K *= rows.weights[block, None].sqrt()
            _add_products(total, K, ALONE[self.on_gpu])
        return cross, total

    def gram(self, so_far: Array) -> Array:
        so_far.tril_()  # what panels left above the diagonal; only what is below is ever added to
        so_far += so_far.tril(-1).T
        return so_far

    def for_lapack(self, values: Array) -> Array:
        return values if self.on_gpu else to_numpy(values)

    def _nothing(self) -> Array:
        return torch().zeros((self.map.size, self.map.size), dtype=torch().float64, device=self.device)

    def _values(self, X: Array) -> Array:
        return self.map.kernel.block(X, self.points).to(torch().float64)

    def _blocks(self, rows: Placed) -> list[slice]:
        step = max(1, (1 << 27 if self.on_gpu else 1 << 20) // self.map.size)
        return [slice(i, i + step) for i in range(0, len(rows), step)]


def _add_products(total: Array, K: Array, rows: int) -> None:
    """The lower triangle of KᵀK, by panels of columns, added to what there is.

    So many rows are summed by themselves before they are added: libraries that add row after row to what there is round
    to the size of all of it every time.
    """
    M = K.shape[1]
    step = max(-(-M // PANELS), 256)
    for start in range(0, K.shape[0], rows):
        part = K[start : start + rows]
        for i in range(0, M, step):
            total[i : i + step, : i + step] += part[:, i : i + step].T @ part[:, : i + step]
