"""One pass over rows, a block at a time: their features, and what stands in the place of their labels."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._base import files, threads
from .._base.arrays import Array, is_numpy, like, namespace, to_numpy
from .._base.declared import digest_of
from .._base.rows import ArraySource, Block, MemoryPiece, Rows, Slice, Source, hash_rows
from .._solvers.spectral.criteria import random_signs
from ..bases.base import Basis
from ..engines import as_engine
from ..losses import Loss, Squared

KEPT = 1 << 26  # features kept in memory between passes, 512 MiB of them
STRETCH = 32  # blocks of rows that one part of the work has: enough to share the work out, and to vanish in it


@dataclass(frozen=True)
class Target:
    """What stands in the place of y: ψ(y - f(x)), with ρ beside it; y itself without a model and with squared loss."""

    loss: Loss
    coef: np.ndarray | None = None  #: of f in the basis, where f is of this basis
    intercept: np.ndarray | None = None
    predictor: Any = None  #: f, where it is not
    probes: int = 0  #: so many more labels, of random signs
    with_loss: bool = True  #: whether Σρ is summed

    tells_share: ClassVar[bool] = True  #: whether it may be known how much of the total is one record's

    def looking(self) -> contextlib.AbstractContextManager[None]:
        """What is around every look at rows, on the thread and in the process that looks."""
        return contextlib.nullcontext()

    def pushed(self, u: np.ndarray, residual: bool) -> np.ndarray:
        """ψ(u), or u itself where it is a label."""
        return self.loss.derivative(u) if residual else u

    def features(self, phi: np.ndarray) -> np.ndarray:
        """The features as they are summed."""
        return phi

    def residual(self, X: Array, phi: np.ndarray, Y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """y - f(x); of several functions a label, one after the other."""
        if self.probes:
            Y = np.column_stack([Y, signs(phi, weights, self.probes)])
        if self.coef is not None:
            Y = np.tile(Y, (1, self.coef.shape[1] // Y.shape[1]))
            return np.asarray(Y - phi @ self.coef - self.intercept)
        if self.predictor is None:
            return Y
        predicted = to_numpy(self.predictor.predict(namespace(X).astype(X, namespace(X).float64)))
        if predicted.shape != Y.shape:
            raise ValueError(f"residuals_of predicts {predicted.shape[1]} label(s), and y has {Y.shape[1]}")
        return np.asarray(Y - predicted)


def signs(phi: np.ndarray, weights: np.ndarray | None, count: int) -> np.ndarray:
    """Random signs for every row, over √w: labels from whose fit the degrees of freedom can be told.

    Rows draw their signs by what is in them, so that they do not depend on the site, the order or the number of rows;
    copies of a row in one block are counted, for signs of their own.
    """
    few = phi[:, :4]
    constants = np.random.default_rng(0).integers(0, 2**63, size=(few.shape[1] + 1,), dtype=np.uint64)
    hashes = hash_rows(few, constants[:-1])
    order = np.argsort(hashes, kind="stable")
    new = np.concatenate([[True], np.diff(hashes[order]) != 0])
    place = np.arange(len(order))
    copies = np.empty(len(order))
    copies[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    drawn = hashes ^ hash_rows(copies[:, None], constants[-1:])
    bits = drawn[:, None] >> np.arange(63, 63 - count, -1, dtype=np.uint64)
    return random_signs(bits & np.uint64(1), weights)


def mapped(block: Block, basis: Any) -> Iterator[tuple[Rows, np.ndarray]]:
    """The rows of a block with their features in double precision, as many at a time as the basis maps at once."""
    step = basis.rows_at_once
    for stretch in block.labeled:
        for rows in stretch.chunks(STRETCH * step):
            rows = rows.drop_weightless()
            for i in range(0, len(rows), step):
                few = rows.cut(slice(i, i + step))
                yield few, features(basis, few.X)


def features(basis: Any, X: Array) -> np.ndarray:
    """φ in double precision, as a NumPy array."""
    if not is_numpy(X) or isinstance(basis, Mapped):
        return to_numpy(basis.features(X)).astype(np.float64, copy=False)
    X = basis.in_safe_precision(X)
    with threads.one_blas_thread:  # more would cut the block elsewhere, and round otherwise
        return basis.padded_block(X, like(basis.coefficients_, X)).astype(np.float64, copy=False)


def stretches(source: Source, basis: Any) -> list[Block]:
    """The rows of a source as parts: stretches of arrays, pieces of what is read."""
    parts, size = [], STRETCH * basis.rows_at_once
    for number, piece in enumerate(source.pieces):
        if not isinstance(piece, MemoryPiece):
            parts.append(Block(f"piece {number}", [Slice(piece)], []))
            continue
        for start in range(0, piece.n_rows, size):
            end = min(start + size, piece.n_rows)
            parts.append(Block(f"rows {start} to {end}", [Slice(MemoryPiece(piece.data.cut(slice(start, end))))], []))
    return parts


class LabelShare:
    """The largest share that one record has of the total of |w·y|, of rows that come in pieces; pieces add up."""

    def __init__(self) -> None:
        self.largest: np.ndarray = np.zeros(0)
        self.total: np.ndarray = np.zeros(0)

    def add(self, y: Any, weights: Any = None) -> LabelShare:
        """More rows: y (n,) or (n, T), weights (n,)."""
        Y = np.abs(np.asarray(y, dtype=np.float64))
        Y = Y[:, None] if Y.ndim == 1 else Y
        with np.errstate(over="ignore", invalid="ignore"):
            if weights is not None:
                Y = Y * np.abs(np.asarray(weights, dtype=np.float64))[:, None]
            if len(Y):
                self._include(np.max(Y, axis=0), np.sum(Y, axis=0))
        return self

    def __add__(self, other: LabelShare) -> LabelShare:
        both = LabelShare()
        for part in (self, other):
            if len(part.total):
                both._include(part.largest, part.total)
        return both

    @property
    def value(self) -> float:
        """The share; NaN without rows, or where a label or their total is not finite."""
        if not len(self.total) or not np.all(np.isfinite(self.total)):
            return math.nan
        shares = np.divide(self.largest, self.total, out=np.zeros_like(self.total), where=self.total > 0)
        return float(min(1.0, np.max(shares)))

    def _include(self, largest: np.ndarray, total: np.ndarray) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self.largest = np.maximum(self.largest, largest) if len(self.total) else largest
            self.total = self.total + total if len(self.total) else total


@dataclass(frozen=True)
class Functions:
    """Functions in the span of a basis, several a label: candidates that are worked on side by side."""

    coef: np.ndarray  #: (M, L·T)
    intercept: np.ndarray  #: (L·T,)

    @property
    def digest(self) -> str:
        """What tells them from others."""
        return files.digest({}, {"coef": self.coef, "intercept": self.intercept})


class Mapped:
    """A basis for rows that are features already, so that several passes map them once."""

    def __init__(self, basis: Basis) -> None:
        self.digest, self.n_features_, self.rows_at_once = basis.digest, basis.n_features_, basis.rows_at_once

    def features(self, X: np.ndarray) -> np.ndarray:
        """The rows themselves."""
        return X


def mapped_once(source: Source, basis: Any) -> tuple[Source, Any]:
    """A source and basis that give the same features, kept in memory where they are few enough."""
    if not isinstance(source, ArraySource) or source.n_rows * basis.n_features_ > KEPT:
        return source, basis
    rows = source.rows
    phi = np.asarray(to_numpy(basis.features(rows.X)), dtype=np.float64)
    about: dict[str, Any] = {"target_names": source.target_names, "one_target": source.one_target}
    return ArraySource(Rows(phi, rows.Y, rows.weights), **about), Mapped(basis)


def residual_target(basis: Any, model: Any, loss: Loss) -> tuple[str | None, Target]:
    """The digest of a model, and its residuals as a target."""
    if model is None:
        return None, Target(loss)
    if isinstance(model, Functions):
        return model.digest, Target(loss, model.coef, model.intercept)
    digest = digest_of(model)
    coefficients = getattr(model, "coefficients_in", lambda _: None)(basis)
    if coefficients is not None:
        return digest, Target(loss, *coefficients)
    names, own = (list(getattr(owner, "feature_names_in_", [])) for owner in (basis, model))
    if model.n_features_in_ != basis.n_features_in_ or (names and own and names != own):
        columns = [
            ", ".join(map(str, found)) or f"{owner.n_features_in_} columns"
            for found, owner in ((own, model), (names, basis))
        ]
        raise ValueError(f"residuals_of is a model of {columns[0]}, and the basis is of {columns[1]}")
    return digest, Target(loss, predictor=model.predictor_)


# --- Quantiles from counts alone: how many residuals lie in each of a few hundred intervals, then closer in ----------

BINS = 256
CLOSE = 1e-8  # an interval is narrow enough beside the numbers in it
PASSES = 20  # each narrows the interval by BINS; numbers beyond it are counted at its ends, and widen it


def median(source: Source, basis: Any, functions: Functions, absolute: bool, engine: Any = None) -> np.ndarray:
    """The weighted median of y - f(x), or of |y - f(x)|, for every function: only counts are exchanged."""
    n = functions.coef.shape[1]
    low = np.zeros(n) if absolute else np.full(n, -1.0)
    high = np.ones(n)
    share = as_engine(engine)
    parts = stretches(source, basis)
    passes = 0
    while passes < PASSES:
        counts = share.map_reduce(_count, parts, _add, args=(basis, functions, absolute, low, high), label="counting")
        total = counts.sum(axis=1)
        before = np.cumsum(counts, axis=1)
        cell = np.asarray([int(np.searchsorted(b, 0.5 * t * (1 - 1e-12))) for b, t in zip(before, total)])
        outside = (cell == 0) | (cell == BINS + 1)
        if np.any(outside) and np.all(high - low < 1e30):
            # Not in sight yet: a hundred times wider, for those columns.
            middle, half = (high + low) / 2, (high - low) / 2
            low = np.where(outside, 0.0 if absolute else middle - 100 * half, low)
            high = np.where(outside, 100 * high if absolute else middle + 100 * half, high)
            continue
        width = (high - low) / BINS
        coarse = high - low > CLOSE * np.maximum(np.abs(low), np.abs(high))
        if not np.any(coarse):
            break
        low, high = np.where(coarse, [low + (cell - 1) * width, low + cell * width], [low, high])
        passes += 1
    return (low + high) / 2


def _count(
    block: Block, basis: Any, functions: Functions, absolute: bool, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Counts below, in BINS intervals from low to high, and above: (n, BINS + 2)."""
    target = Target(Squared(), functions.coef, functions.intercept)
    counts = np.zeros((len(low), BINS + 2))
    for rows, phi in mapped(block, basis):
        u = target.residual(rows.X, phi, np.asarray(to_numpy(rows.Y), dtype=np.float64))
        u = np.abs(u) if absolute else u
        # |u| = 0 lies in the first interval and not below it.
        cells = np.clip(np.floor((u - low) / (high - low) * BINS) + 1, 0, BINS + 1).astype(int)
        for column in range(len(low)):
            counts[column] += np.bincount(cells[:, column], weights=rows.weights, minlength=BINS + 2)
    return counts


def _add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a + b
