"""One pass over rows, a block at a time: their features, and the target that is summed in place of their labels."""

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

MOST_FEATURES_KEPT = 1 << 26  # the most feature values kept in memory between passes, 512 MiB
STRETCH = 32  # blocks of rows per task: enough tasks to balance the work, and few enough to keep their overhead small


@dataclass(frozen=True)
class Target:
    """The quantity summed in place of y: ψ(y - f(x)), and ρ too; y itself without a model and with the squared loss."""

    loss: Loss
    coef: np.ndarray | None = None  #: the coefficients of f, if it is in the span of the basis
    intercept: np.ndarray | None = None
    predictor: Any = None  #: f, if it is not in the span of the basis
    probes: int = 0  #: the number of additional labels of random signs
    with_loss: bool = True  #: whether Σρ is summed

    tells_share: ClassVar[bool] = True  #: whether the largest share of one record in the total may be known

    def reading_context(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager for all code that reads rows, in its own thread and process."""
        return contextlib.nullcontext()

    def push(self, u: np.ndarray, residual: bool) -> np.ndarray:
        """Return ψ(u) of residuals, or u itself if it is a label."""
        return self.loss.derivative(u) if residual else u

    def features(self, phi: np.ndarray) -> np.ndarray:
        """Return the features in the form in which they are summed."""
        return phi

    def residual(self, X: Array, phi: np.ndarray, Y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Return y - f(x); for several functions per label, one after the other."""
        if self.probes:
            Y = np.column_stack([Y, _draw_signs(phi, weights, self.probes)])
        if self.coef is not None:
            Y = np.tile(Y, (1, self.coef.shape[1] // Y.shape[1]))
            return np.asarray(Y - phi @ self.coef - self.intercept)
        if self.predictor is None:
            return Y
        predicted = to_numpy(self.predictor.predict(namespace(X).astype(X, namespace(X).float64)))
        if predicted.shape != Y.shape:
            raise ValueError(f"residuals_of predicts {predicted.shape[1]} label(s), and y has {Y.shape[1]}")
        return np.asarray(Y - predicted)


def _draw_signs(phi: np.ndarray, weights: np.ndarray | None, count: int) -> np.ndarray:
    """Draw random signs for every row, divided by √w; fitting them as labels estimates the degrees of freedom.

    The signs follow from the content of a row, so they do not depend on the site, the order or the number of rows.
    Copies of a row in one block are numbered, so that each has signs of its own.
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


def map_block(block: Block, basis: Any) -> Iterator[tuple[Rows, np.ndarray]]:
    """Yield the rows of a block with their features in double precision, as many as the basis maps at once."""
    step = basis.rows_at_once
    for stretch in block.labeled:
        for rows in stretch.chunks(STRETCH * step):
            rows = rows.drop_weightless()
            for i in range(0, len(rows), step):
                few = rows.cut(slice(i, i + step))
                yield few, _compute_features(basis, few.X)


def _compute_features(basis: Any, X: Array) -> np.ndarray:
    """Return φ in double precision as a NumPy array."""
    if not is_numpy(X) or isinstance(basis, FeatureRows):
        return to_numpy(basis.features(X)).astype(np.float64, copy=False)
    X = basis.in_safe_precision(X)
    with threads.one_blas_thread:  # several threads would split the block differently and so round differently
        return basis.padded_block(X, like(basis.coefficients_, X)).astype(np.float64, copy=False)


def split_source(source: Source, basis: Any) -> list[Block]:
    """Split the rows of a source into tasks: stretches of arrays, and pieces of files."""
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
    """The largest share of one record in the total of |w·y|; the shares of several pieces of rows add up."""

    def __init__(self) -> None:
        self.largest: np.ndarray = np.zeros(0)
        self.total: np.ndarray = np.zeros(0)

    def add(self, y: Any, weights: Any = None) -> LabelShare:
        """Include more rows: y of shape (n,) or (n, T), weights of shape (n,)."""
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
        """The share; NaN without rows, or if a label or the total is not finite."""
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
    """Functions in the span of a basis, several for each label, such as candidates for different λ."""

    coef: np.ndarray  #: (M, L·T)
    intercept: np.ndarray  #: (L·T,)

    @property
    def digest(self) -> str:
        """The digest that identifies the functions."""
        return files.digest({}, {"coef": self.coef, "intercept": self.intercept})


class FeatureRows:
    """A stand-in for a basis, for rows that are features already, so that several passes map rows only once."""

    def __init__(self, basis: Basis) -> None:
        self.digest, self.n_features_, self.rows_at_once = basis.digest, basis.n_features_, basis.rows_at_once

    def features(self, X: np.ndarray) -> np.ndarray:
        """Return the rows themselves."""
        return X


def map_once(source: Source, basis: Any) -> tuple[Source, Any]:
    """Return a source and basis with the same features, which are kept in memory if there are few enough."""
    if not isinstance(source, ArraySource) or source.n_rows * basis.n_features_ > MOST_FEATURES_KEPT:
        return source, basis
    rows = source.rows
    phi = np.asarray(to_numpy(basis.features(rows.X)), dtype=np.float64)
    about: dict[str, Any] = {"target_names": source.target_names, "one_target": source.one_target}
    return ArraySource(Rows(phi, rows.Y, rows.weights), **about), FeatureRows(basis)


def make_target(basis: Any, model: Any, loss: Loss) -> tuple[str | None, Target]:
    """Return the digest of a model, and the target of its residuals."""
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
            ", ".join(map(str, listed)) or f"{owner.n_features_in_} columns"
            for listed, owner in ((own, model), (names, basis))
        ]
        raise ValueError(f"residuals_of is a model of {columns[0]}, but the basis maps {columns[1]}")
    return digest, Target(loss, predictor=model.predictor_)


# --- Medians from counts alone: residuals are counted in a few hundred intervals, which then become narrower ---------

BINS = 256
CLOSE = 1e-8  # the relative width at which an interval is narrow enough
_PASSES = 20  # each pass narrows the interval by a factor BINS; if the median lies outside, the interval is widened


def median(source: Source, basis: Any, functions: Functions, absolute: bool, engine: Any = None) -> np.ndarray:
    """Return the weighted median of y - f(x), or of |y - f(x)|, for every function; only counts are exchanged."""
    n = functions.coef.shape[1]
    low = np.zeros(n) if absolute else np.full(n, -1.0)
    high = np.ones(n)
    share = as_engine(engine)
    parts = split_source(source, basis)
    passes = 0
    while passes < _PASSES:
        counts = share.map_reduce(_count, parts, _add, args=(basis, functions, absolute, low, high), label="counting")
        total = counts.sum(axis=1)
        before = np.cumsum(counts, axis=1)
        cell = np.asarray([int(np.searchsorted(b, 0.5 * t * (1 - 1e-12))) for b, t in zip(before, total)])
        outside = (cell == 0) | (cell == BINS + 1)
        if np.any(outside) and np.all(high - low < 1e30):
            # The median of these columns lies outside: make their intervals a hundred times wider.
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
    """Count residuals below low, in BINS intervals from low to high, and above high: (n, BINS + 2)."""
    target = Target(Squared(), functions.coef, functions.intercept)
    counts = np.zeros((len(low), BINS + 2))
    for rows, phi in map_block(block, basis):
        u = target.residual(rows.X, phi, np.asarray(to_numpy(rows.Y), dtype=np.float64))
        u = np.abs(u) if absolute else u
        # The lower end belongs to the first interval, so |u| = 0 is not counted as lying below it.
        cells = np.clip(np.floor((u - low) / (high - low) * BINS) + 1, 0, BINS + 1).astype(int)
        for column in range(len(low)):
            counts[column] += np.bincount(cells[:, column], weights=rows.weights, minlength=BINS + 2)
    return counts


def _add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a + b
