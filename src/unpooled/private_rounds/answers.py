"""A question answered from rows: one pass, a block at a time. What comes back has no noise yet and must get it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import threads
from ..arrays import to_numpy
from ..blocks.base import Block, Source
from ..privacy.noise import triangle_weights
from ..summaries.accumulate import mapped, stretches
from ..summaries.compensated import Sum
from .frame import Frame
from .questions import Counts, Covariance, Question, Residuals


def answer(
    question: Question, source: Source, features: Any, frame: Frame | None, label_bound: float, engine: Any
) -> np.ndarray:
    """The sums over all rows of a source; ``features`` is the basis, or one that knows the rows' features already."""
    found: Sum = engine.map_reduce(
        part, stretches(source, features), _plus, args=(question, features, frame, label_bound), label="asking rows"
    )
    return found.high


def part(block: Block, question: Question, features: Any, frame: Frame | None, label_bound: float) -> Sum:
    """The sums over one block."""
    found = Sum.of(np.zeros(question.size))
    with np.errstate(all="ignore"):  # rows and labels may be of any size, and a word about one would tell of it
        for rows, phi in mapped(block, features):
            y = np.clip(np.asarray(to_numpy(rows.Y), dtype=np.float64)[:, 0], -label_bound, label_bound)
            with threads.one_blas_thread:  # blocks are small: several threads would wait for one another
                found = found + Sum.of(_of_rows(question, frame, phi, y))
    return found


def _plus(a: Sum, b: Sum) -> Sum:
    return a + b


def _of_rows(question: Question, frame: Frame | None, phi: np.ndarray, y: np.ndarray) -> np.ndarray:
    if isinstance(question, Counts):
        return counted(y, question.edges)
    if isinstance(question, Covariance):
        return _covariance(question, phi)
    assert frame is not None
    return _residuals(question, frame.coordinates(phi), y)


def _residuals(question: Residuals, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    lengths = np.sqrt((z * z) @ (question.weights**2))
    z = _finite(z, lengths)
    # ψ of what is beyond all numbers is that of the largest one: every record must add something finite.
    u = np.nan_to_num(y - z @ question.coef)
    push = np.asarray(question.loss.derivative(u)) * _shrinking(question.length, lengths)
    bins = counted(np.abs(u), question.edges)
    return np.concatenate([(push @ z) * question.weights, question.counts_weight * bins])


def _covariance(question: Covariance, phi: np.ndarray) -> np.ndarray:
    z = np.column_stack([np.full(len(phi), question.constant), phi])
    lengths = np.sqrt(np.sum(z * z, axis=1))
    z = _finite(z, lengths) * _shrinking(question.length, lengths)[:, None]
    rows, columns = np.tril_indices(z.shape[1])
    return (z.T @ z)[rows, columns] * triangle_weights(z.shape[1])


def _finite(z: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Rows whose length is no number, as that of features of an unbounded kernel far away, count as zero."""
    endless = ~np.isfinite(lengths)
    return np.where(endless[:, None], 0.0, z) if endless.any() else z


def _shrinking(length: float, lengths: np.ndarray) -> np.ndarray:
    """ω = min(1, B/|z|)."""
    return np.minimum(1.0, length / np.where(np.isfinite(lengths), np.maximum(lengths, 1e-300), 1e-300))


def counted(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many values lie in (-∞, e_1), [e_1, e_2), …, [e_k, ∞)."""
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1).astype(np.float64)
