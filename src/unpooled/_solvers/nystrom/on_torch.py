"""Machines that sum kernel products by torch, on a CPU or a GPU: in whole blocks, or in the registers of a GPU.

:class:`TorchMachine` computes whole blocks of kernel values and takes their products in double precision.

:class:`FusedMachine` takes products of a kernel matrix with a few columns on a GPU without any kernel value reaching
memory (Triton). Plain torch takes two kernels for this, which write a block of values, read it to take its exponential,
write it again and read it twice for the products. Here a tile of values lives in registers: it is computed in single
precision, multiplied in double by the tensor cores, and discarded. For few features that leaves the exponential as the
main cost, and a pass over 10¹⁰ values takes about as long as reading them once would.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ..._base.arrays import Array, to_numpy
from ..._base.rows import Rows
from ...bases.maps import KernelMap
from ...kernels import Gaussian, Laplacian, Matern
from ...kernels.stationary import Stationary
from .machine import LOOKED_AT, Costs, Machine, NumpyMachine, PlacedRows, Span

ALONE = {False: 512, True: 1 << 14}  # rows per partial sum, on a CPU and on a GPU, which fewer would leave idle
PANELS = 8  # of columns into which the triangle of a Gram matrix is cut: 9/16 of all products are computed


def torch(what: str = "device=") -> Any:
    """Import torch; raise an ImportError of one sentence if it is not installed."""
    try:
        import torch
    except ImportError:
        raise ImportError(f"{what} needs torch: pip install 'unpooled[gpu]'") from None
    return torch


class TorchMachine(Machine):
    """A machine that computes blocks of kernel values as tensors on one device."""

    def __init__(self, map_: KernelMap, device: Any, single: bool) -> None:
        self.map, self.device, self.on_gpu = map_, device, device.type == "cuda"
        self.dtype = torch().float32 if single else torch().float64
        # Moving all rows changes no distance, and digits are not lost to a large offset.
        self.middle = np.median(map_.points, axis=0) if isinstance(map_.kernel, Stationary) else np.zeros(1)
        self.points = self._move(map_.points - self.middle, self.dtype)

    @property
    def costs(self) -> Costs:  # type: ignore[override]
        if self.on_gpu:
            return Costs(product=2.5e-14, value=2.4e-11, column=3e-14)
        return NumpyMachine.costs

    gram_matrices = 2.0

    @property
    def rows_at_once(self) -> int:
        return 1 << 21 if self.on_gpu else 1 << 17

    @property
    def room(self) -> int:
        return int(torch().cuda.mem_get_info(self.device)[0]) // 4 if self.on_gpu else 0

    def place(self, rows: Rows) -> PlacedRows:
        weights = None if rows.weights is None else self.array(rows.weights)
        X = self.map.scaled(self.array(rows.X)) - self.array(self.middle)
        return PlacedRows(X.to(self.dtype), None if rows.Y is None else self.array(rows.Y), weights)

    def array(self, values: Any) -> Array:
        return self._move(values, torch().float64)

    def _move(self, values: Any, dtype: Any) -> Array:
        if not isinstance(values, torch().Tensor):
            values = np.ascontiguousarray(to_numpy(values))
            values = torch().from_numpy(values if values.flags.writeable else values.copy())
        return values.to(device=self.device).to(dtype)

    def points_matrix(self) -> Array:
        return self.map.kernel(self.array(self.map.points))

    def values_at_points(self) -> Array:
        return self._values(self.points[:: max(1, self.map.size // LOOKED_AT)])

    def cross(self, rows: PlacedRows, V: Array) -> Array:
        total = torch().zeros((self.map.size, V.shape[1]), dtype=torch().float64, device=self.device)
        for block in self._blocks(rows):
            total.addmm_(self._values(rows.X[block]).T, V[block])
        return total

    def gram_times(self, rows: PlacedRows, U: Array) -> Array:
        total = torch().zeros_like(U)
        for block in self._blocks(rows):
            K = self._values(rows.X[block])
            values = K @ U
            if rows.weights is not None:
                values *= rows.weights[block, None]
            total.addmm_(K.T, values)
        return total

    def values(self, rows: PlacedRows, U: Array) -> Array:
        parts = [self._values(rows.X[block]) @ U for block in self._blocks(rows)]
        return torch().cat(parts) if parts else U[:0]

    def covariance(self, rows: PlacedRows, span: Span) -> Array:
        total = self._nothing()
        for block in self._blocks(rows):
            phi = span.whiten(self._values(rows.X[block]).T).T
            if rows.weights is not None:
                phi = phi * rows.weights[block, None].sqrt()
            _add_products(total, phi, ALONE[self.on_gpu])
        return self.gram(total).div_(rows.mass)

    def add_gram(self, rows: PlacedRows, V: Array, so_far: Array | None) -> tuple[Array, Array]:
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
        so_far.tril_()  # clears what panels left above the diagonal; only the lower triangle is ever added to
        so_far += so_far.tril(-1).T
        return so_far

    def for_lapack(self, values: Array) -> Array:
        return values if self.on_gpu else to_numpy(values)

    def _nothing(self) -> Array:
        return torch().zeros((self.map.size, self.map.size), dtype=torch().float64, device=self.device)

    def _values(self, X: Array) -> Array:
        return self.map.kernel.block(X, self.points).to(torch().float64)

    def _blocks(self, rows: PlacedRows) -> list[slice]:
        step = max(1, (1 << 27 if self.on_gpu else 1 << 20) // self.map.size)
        return [slice(i, i + step) for i in range(0, len(rows), step)]


def _add_products(total: Array, K: Array, rows: int) -> None:
    """Add the lower triangle of KᵀK to ``total``, by panels of columns.

    ``rows`` rows are summed separately before they are added: libraries that add row after row to the total round each
    time to the size of the total.
    """
    M = K.shape[1]
    step = max(-(-M // PANELS), 256)
    for start in range(0, K.shape[0], rows):
        part = K[start : start + rows]
        for i in range(0, M, step):
            total[i : i + step, : i + step] += part[:, i : i + step].T @ part[:, : i + step]


MOST_FEATURES = 48  # with more of them, differences cost more than a matrix product
COLUMNS = (16, 32, 64)  # of V: tiles are of these widths
TILE = (128, 64)


def is_fusable(kernel: Any, n_features: int, device: Any) -> bool:
    """Return whether the kernel, the rows and the device allow values to be computed in registers."""
    possible = device.type == "cuda" and n_features <= MOST_FEATURES and _shape(kernel) is not None
    return possible and _triton() is not None


def _shape(kernel: Any) -> tuple[int, float] | None:
    """Return the number of the function of the squared distance, and the factor of the distance; None if unknown."""
    # Exactly these classes: a subclass may have another function.
    if type(kernel) is Gaussian:
        return 0, math.sqrt(0.5 * math.log2(math.e))  # 2 to the power of -r²
    nu = 0.5 if type(kernel) is Laplacian else float(kernel.nu) if type(kernel) is Matern else None
    return None if nu not in (0.5, 1.5, 2.5) else ({0.5: 1, 1.5: 2, 2.5: 3}[nu], math.sqrt(2.0 * nu))


@cache
def _triton() -> Any:
    try:
        import triton
    except ImportError:
        return None
    return triton


@cache
def _kernel() -> Any:
    """Return the compiled function; it is made on first use, because only machines with a GPU have Triton."""
    import triton.language as tl

    @_triton().jit  # type: ignore[untyped-decorator]
    def products(  # type: ignore[no-untyped-def]
        A, B, V, OUT, n, m, per, SHAPE: tl.constexpr, D: tl.constexpr, R: tl.constexpr, N: tl.constexpr, M: tl.constexpr
    ):
        rows = tl.program_id(0) * N + tl.arange(0, N)
        columns = tl.arange(0, R)
        first = tl.program_id(1) * per
        last = tl.minimum(first + per, m)
        total = tl.zeros((N, R), dtype=tl.float64)
        for j in range(first, last, M):
            others = j + tl.arange(0, M)
            square = tl.zeros((N, M), dtype=tl.float32)
            for k in tl.static_range(D):
                a = tl.load(A + k * n + rows, mask=rows < n, other=0.0)
                b = tl.load(B + k * m + others, mask=others < last, other=0.0)
                difference = a[:, None] - b[None, :]
                square += difference * difference
            if SHAPE == 0:
                values = tl.exp2(-square)
            else:
                r = tl.sqrt(square)
                values = tl.exp(-r)
                if SHAPE == 2:
                    values *= 1.0 + r
                if SHAPE == 3:
                    values *= 1.0 + r + r * r / 3.0
            v = tl.load(V + others[:, None] * R + columns[None, :], mask=(others < last)[:, None], other=0.0)
            total = tl.dot(values.to(tl.float64), v, total, out_dtype=tl.float64)
        place = OUT + tl.program_id(1).to(tl.int64) * n * R + rows.to(tl.int64)[:, None] * R + columns[None, :]
        tl.store(place, total, mask=(rows < n)[:, None])

    return products


class FusedMachine(TorchMachine):
    """A torch machine with products by tiles in registers; Gram matrices are those of plain torch."""

    costs = Costs(product=2.5e-14, value=2.5e-12, column=1.2e-13)

    def __init__(self, map_: KernelMap, device: Any) -> None:
        super().__init__(map_, device, single=True)
        shape = _shape(map_.kernel)
        assert shape is not None
        self._shape, self._factor = shape
        self._points = self._flat(self.points)

    def cross(self, rows: PlacedRows, V: Array) -> Array:
        return self._times(self._points, self._flat(rows.X), V)

    def gram_times(self, rows: PlacedRows, U: Array) -> Array:
        flat = self._flat(rows.X)
        values = self._times(flat, self._points, U)
        if rows.weights is not None:
            values *= rows.weights[:, None]
        return self._times(self._points, flat, values)

    def values(self, rows: PlacedRows, U: Array) -> Array:
        return self._times(self._flat(rows.X), self._points, U)

    def _flat(self, X: Array) -> Array:
        """Return x/ℓ times the kernel's factor of distances.

        One feature follows another, so that neighbouring threads read neighbouring numbers.
        """
        length_scale = torch().as_tensor(self.map.kernel.length_scale, dtype=torch().float64, device=self.device)
        return (X.to(torch().float64) * (self._factor / length_scale)).to(torch().float32).T.contiguous()

    def _times(self, A: Array, B: Array, V: Array) -> Array:
        """Return 𝕂(a, b) V, at most 64 columns at a time; if rows are few, more programs share the other rows."""
        width, parts = V.shape[1], []
        for start in range(0, width, COLUMNS[-1]):
            part = V[:, start : start + COLUMNS[-1]]
            wide = next(c for c in COLUMNS if c >= part.shape[1])
            if part.shape[1] < wide:
                part = torch().nn.functional.pad(part, (0, wide - part.shape[1]))
            products = self._launch(A, B, part.contiguous(), wide)
            parts.append(products[:, : min(COLUMNS[-1], width - start)])
        return parts[0] if len(parts) == 1 else torch().cat(parts, dim=1)

    def _launch(self, A: Array, B: Array, V: Array, width: int) -> Array:
        (d, n), m = A.shape, B.shape[1]
        tiles = -(-n // TILE[0])
        splits = max(1, min(-(-8192 // tiles), -(-m // (8 * TILE[1]))))
        per = -(-m // (splits * TILE[1])) * TILE[1]
        out = torch().empty((splits, n, width), dtype=torch().float64, device=self.device)
        with torch().cuda.device(self.device):
            _kernel()[tiles, splits](A, B, V, out, n, m, per, self._shape, d, width, *TILE, num_warps=4)
        return out[0] if splits == 1 else out.sum(dim=0)
