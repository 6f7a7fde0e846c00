"""A question answered from rows: one pass, a block at a time. What comes back has no noise yet and must get it."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    for rows, phi in mapped(block, features):
        y = np.clip(np.asarray(to_numpy(rows.Y), dtype=np.float64)[:, 0], -label_bound, label_bound)
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
    with np.errstate(over="ignore", invalid="ignore"):  # labels without a bound may be of any size
        u = y - z @ question.coef
        lengths = np.sqrt((z * z) @ (question.weights**2))
        push = np.asarray(question.loss.derivative(u)) * np.minimum(1.0, question.length / np.maximum(lengths, 1e-300))
        bins = counted(np.abs(u), question.edges)
    return np.concatenate([(push @ z) * question.weights, question.counts_weight * bins])


def _covariance(question: Covariance, phi: np.ndarray) -> np.ndarray:
    z = np.column_stack([np.full(len(phi), question.constant), phi])
    lengths = np.linalg.norm(z, axis=1)
    z *= np.minimum(1.0, question.length / np.maximum(lengths, 1e-300))[:, None]
    rows, columns = np.tril_indices(z.shape[1])
    return (z.T @ z)[rows, columns] * triangle_weights(z.shape[1])


def counted(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many values lie in (-∞, e_1), [e_1, e_2), …, [e_k, ∞)."""
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1).astype(np.float64)
