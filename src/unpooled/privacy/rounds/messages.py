"""Questions as messages: a header of names and numbers, and arrays, checked as if whoever wrote them were hostile.

No check here is needed for privacy, for which every question enforces its own bound on every row. They make sure that
this bound is a number of ordinary size, so that the noise can be planned, and that the sums fit the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._base.text import quote
from ...bases.maps import read_array
from ...losses import Correntropy, Huber, Loss
from ...summaries.contents import loss_of, spec_of
from .frame import Frame
from .questions import Calibration, ClippedErrors, InputCounts, LabelCounts, Question, Residuals

_Parts = tuple[dict[str, Any], dict[str, np.ndarray]]

SMALLEST, LARGEST = 1e-100, 1e100  # positive numbers of a question, and its sensitivity
_MOST_EDGES = 4096
_MOST_FUNCTIONS = 64

# The fields of each question: of arrays the number of dimensions, of numbers whether they must be positive.
_ARRAYS: dict[type[Question], dict[str, int]] = {
    LabelCounts: {"edges": 1},
    InputCounts: {"edges": 2},
    Residuals: {"coef": 1, "weights": 1, "edges": 1},
    Calibration: {"coef": 1},
    ClippedErrors: {"coefs": 2},
}
_NUMBERS: dict[type[Question], dict[str, bool]] = {
    Residuals: {"length": True, "longest": True, "counts_weight": True},
    Calibration: {"middle": False, "spread": True, "length": True},
    ClippedErrors: {"limit": True},
}
NAMES: dict[type[Question], str] = {
    LabelCounts: "labels",
    InputCounts: "inputs",
    Residuals: "residuals",
    Calibration: "calibration",
    ClippedErrors: "errors",
}


def to_parts(question: Question) -> _Parts:
    """Return the header and the arrays of a question."""
    cls = type(question)
    header: dict[str, Any] = {"question": NAMES[cls]}
    header |= {name: float(getattr(question, name)) for name in _NUMBERS.get(cls, {})}
    if isinstance(question, (Residuals, Calibration)):
        header["loss"] = spec_of(question.loss)
    return header, {name: np.asarray(getattr(question, name), dtype=np.float64) for name in _ARRAYS[cls]}


def from_parts(header: Any, arrays: dict[str, np.ndarray], frame: Frame | None, n_inputs: int) -> Question:
    """Return the question in a message, about rows with so many inputs and these coordinates, or raise a ValueError.

    Parameters
    ----------
    header, arrays : as :func:`to_parts` made them, or anything else
    frame : the coordinates; None if only counts may be asked for
    n_inputs : the number of inputs of a row
    """
    by_name = {name: cls for cls, name in NAMES.items()}
    name = header.get("question") if isinstance(header, dict) else None
    if not isinstance(name, str) or name not in by_name:
        raise ValueError(f"{quote(name)} is not among the questions of private rounds: {', '.join(by_name)}")
    cls = by_name[name]
    with_loss = cls in (Residuals, Calibration)
    wanted = {"question", *_NUMBERS.get(cls, {}), *(["loss"] if with_loss else [])}
    if set(header) != wanted or set(arrays) != set(_ARRAYS[cls]):
        raise ValueError(f"the question about {name} must have exactly {', '.join(sorted(wanted | set(_ARRAYS[cls])))}")
    values: dict[str, Any] = {field: read_array(field, arrays, ndim) for field, ndim in _ARRAYS[cls].items()}
    values |= {field: _read_number(field, header[field], positive) for field, positive in _NUMBERS.get(cls, {}).items()}
    if with_loss:
        values["loss"] = _read_loss(header["loss"])
    _check_shapes(values, frame, n_inputs)
    make: Callable[..., Question] = cls
    question = make(**values)
    for what, size in (("sensitivity", question.sensitivity), ("bound on one record", question.largest)):
        if not SMALLEST <= size <= LARGEST:
            raise ValueError(f"the {what} of the question must lie between {SMALLEST:g} and {LARGEST:g}, got {size:g}")
    return question


def _read_number(name: str, value: Any, positive: bool) -> float:
    if type(value) is not float or not math.isfinite(value) or (positive and not SMALLEST <= value <= LARGEST):
        words = f"a number from {SMALLEST:g} to {LARGEST:g}" if positive else "a finite number"
        raise ValueError(f"{name} must be {words}, got {quote(value)}")
    return value


def _read_loss(spec: Any) -> Loss:
    loss: Loss = loss_of(spec)
    if type(loss) not in (Huber, Correntropy) or not SMALLEST <= loss.bound <= LARGEST:
        raise ValueError(f"the loss must be huber or correntropy with a scale of ordinary size, got {quote(spec)}")
    return loss


def _check_shapes(values: dict[str, Any], frame: Frame | None, n_inputs: int) -> None:
    coordinates = 0 if frame is None else frame.n_features_ + 1
    for name in ("coef", "weights", "coefs"):
        if name in values and (not coordinates or len(values[name]) != coordinates):
            raise ValueError(f"{name} must have {coordinates} rows, one for each coordinate, got {len(values[name])}")
    if "coefs" in values and not 1 <= values["coefs"].shape[1] <= _MOST_FUNCTIONS:
        raise ValueError(f"coefs must hold 1 to {_MOST_FUNCTIONS} functions, got {values['coefs'].shape[1]}")
    if "weights" in values and not np.all((values["weights"] >= SMALLEST) & (values["weights"] <= LARGEST)):
        raise ValueError(f"weights must be numbers from {SMALLEST:g} to {LARGEST:g}")
    edges = values.get("edges")
    if edges is None:
        return
    if not 1 <= edges.shape[-1] <= _MOST_EDGES or (edges.ndim == 2 and len(edges) != n_inputs):
        raise ValueError(f"edges must be 1 to {_MOST_EDGES} numbers, for each of {n_inputs} inputs if of those")
    # Edges may coincide, as they do if all labels do: the bin between them is empty.
    if np.any(edges[..., 1:] < edges[..., :-1]):
        raise ValueError("edges must increase")
