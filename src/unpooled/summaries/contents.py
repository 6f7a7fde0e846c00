"""The fields of a summary: what two must have in common to add up, their shapes, and how a file holds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import html
from .._base.compensated import Sum
from .._base.text import quote
from ..losses import as_loss, from_spec, to_spec
from ..privacy.noised import Noised

if TYPE_CHECKING:
    from .summary import Summary


def size(summary: Summary, field: str) -> int:
    """How many numbers a field has."""
    return int(summary.sums[field].high.size)


def numbers(summary: Summary) -> int:
    """How many numbers are in a summary."""
    return 1 + sum(size(summary, field) for field in summary.sums)


@dataclass(frozen=True)
class Contents:
    """What two summaries must have in common to add up."""

    basis: str  #: the digest of the basis
    n_features: int
    order: int
    n_outputs: int
    loss: str = "squared"  #: of the residuals, with its scale
    model: str | None = None  #: the digest of the model whose residuals they are; None where they are the labels

    @property
    def residual(self) -> bool:
        """Whether ψ(y - f(x)) stands in the place of y."""
        return self.model is not None or self.loss != "squared"


class NoiseRequest(ABC):
    """The contract of a request for sums with noise; ``up.privacy.Private`` is one."""

    @abstractmethod
    def summarize(
        self,
        basis: Any,
        X: Any,
        y: Any,
        order: int,
        residuals_of: Any,
        loss: Any,
        sample_weight: Any,
        engine: Any,
        verbose: int,
    ) -> Any:
        """The summary of everything ``X`` and ``y`` hold, with noise: checked, then charged, and only then read."""


def shapes(contents: Contents, noised: Noised | None = None) -> dict[str, tuple[int, ...]]:
    """The fields of a summary and their shapes; with noise, those that have noise, and the number of rows."""
    M, T = contents.n_features, contents.n_outputs
    fields: dict[str, tuple[int, ...]] = {"weight": (1,), "y": (T,), "yy": (T,), "phi": (M,), "phi_y": (M, T)}
    if contents.residual:
        fields["loss"] = (T,)
    if contents.order == 2:
        fields["gram"] = (M * (M + 1) // 2,)
    if noised is None:
        return fields
    if not set(noised.sigma) <= set(fields) or ("gram" in noised.sigma) != (contents.order == 2):
        raise ValueError("the fields it has noise for are not those of its order")
    return {name: shape for name, shape in fields.items() if name == "weight" or name in noised.sigma}


def packed(matrix: np.ndarray) -> np.ndarray:
    """The lower triangle of a symmetric matrix, row after row."""
    return matrix[np.tril_indices(len(matrix))]


def unpacked(triangle: np.ndarray, n: int) -> np.ndarray:
    """The symmetric matrix."""
    matrix = np.empty((n, n))
    rows, columns = np.tril_indices(n)
    matrix[rows, columns] = triangle
    matrix[columns, rows] = triangle
    return matrix


def to_arrays(sums: dict[str, Sum]) -> dict[str, np.ndarray]:
    """Sums as a file holds them: rounded to doubles, and what that leaves where it is not nothing."""
    arrays = {name: value.high for name, value in sums.items()}
    return arrays | {f"{name}.low": value.low for name, value in sums.items() if not value.is_double}


def from_arrays(arrays: dict[str, np.ndarray], fields: dict[str, tuple[int, ...]], prefix: str = "") -> dict[str, Sum]:
    """The inverse of :func:`to_arrays`, every field checked; ``prefix`` stands before the names in a model's file."""
    sums = {}
    for name, shape in fields.items():
        high = arrays.get(f"{prefix}{name}", np.empty((0, 0, 0)))
        low = arrays.get(f"{prefix}{name}.low", np.zeros_like(high))
        for part in (high, low):
            if part.shape != shape or part.dtype != np.float64 or not np.all(np.isfinite(part)):
                raise ValueError(f"the array {name!r} must hold finite numbers of double precision, of shape {shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.array_equal(high + low, high):
                raise ValueError(f"the array {name!r} and its low part do not belong together")
        sums[name] = Sum(high, low)
    return sums


def noised_of(content: Any, contents: Contents) -> Noised | None:
    """What a header says of the noise; a ValueError where it contradicts itself or the rest."""
    if content is None:
        return None
    if contents.n_outputs != 1:
        raise ValueError("it claims noise for privacy, and more than one label")
    return Noised.from_dict(content, contents.n_features)


def check_sums(sums: dict[str, Sum], n_rows: int, privacy: Noised | None) -> None:
    """Noise may make any sum negative; without it squares, losses and weights are not."""
    weight = float(sums["weight"].high[0])
    if privacy is not None:
        if weight != n_rows:
            raise ValueError("it claims noise for privacy, and its weight is not its number of rows")
    elif not weight > 0 or any(np.any(sums[name].high < 0) for name in ("yy", "loss") if name in sums):
        raise ValueError("a sum of weights, squares or losses in it is negative")


def is_digest(value: Any) -> bool:
    """Whether a value is a SHA-256 in hexadecimal."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def spec_of(loss: Any) -> str:
    """A loss in a few characters: "squared", "huber 2.0"."""
    loss = as_loss(loss)
    if not loss.bound > 0:  # the bound looks at the scale, and refuses what is none
        raise ValueError(f"a loss must let labels push: {quote(loss)} does not")
    spec = to_spec(loss)
    if "scale" not in spec:
        return str(spec["loss"])
    if not isinstance(spec["scale"], float):
        raise ValueError("a loss in a summary has one scale, a number")
    if spec["scale"] < 0:
        return "squared"  # an infinite scale is least squares
    return f"{spec['loss']} {spec['scale']!r}"


def loss_of(spec: Any) -> Any:
    """The loss that :func:`spec_of` described."""
    if not isinstance(spec, str):
        raise ValueError(f"{quote(spec)} does not describe a loss")
    name, _, scale = spec.partition(" ")
    return from_spec({"loss": name, **({"scale": float(scale)} if scale else {})})


# --- In words --------------------------------------------------------------------------------------------------------


def describe(summary: Summary) -> str:
    """Say in words for a data steward what every field of a summary is, and how many numbers it has."""
    c = summary.contents
    label = ", ".join(summary.targets) or "the label"
    if c.residual:
        of = f"model {c.model[:12]}" if c.model else "zero"
        what = f"how far {label} is from {of}" + ("" if c.loss == "squared" else f", limited by the loss {c.loss}")
    else:
        what = label
    lines = [
        f"A summary of order {c.order} of {summary.n_rows} rows in the basis {c.basis[:12]}, without any row.",
        f"In it, y is {what}; φ are the {c.n_features} functions of the inputs that the basis names.",
        "",
        f"{'rows':>12}  {1:>9}  the number of rows: {summary.n_rows}",
    ]
    lines += [f"{field:>12}  {size(summary, field):>9}  {words}" for field, words in _fields(summary).items()]
    lines += ["", f"{numbers(summary)} numbers in all. {_privacy(summary)}"]
    return "\n".join(lines)


def as_html(summary: Summary) -> str:
    """Describe a summary for notebooks."""
    first, second, *_ = describe(summary).splitlines()
    rows = [["rows", "1", f"the number of rows: {summary.n_rows}"]]
    rows += [[field, f"{size(summary, field)}", words] for field, words in _fields(summary).items()]
    table = html.table(["field", "numbers", "what they are"], rows)
    return html.paragraph(f"{first} {second}") + table + html.paragraph(_privacy(summary))


def _privacy(summary: Summary) -> str:
    """What is promised of the records, and how much noise that took."""
    noised = summary.privacy
    if noised is None:
        return "No noise was added: it is not differentially private."
    noise = ", ".join(f"{field} {noised.sigma[field]:.4g}" for field in summary.sums if field in noised.sigma)
    beside = " (on the diagonal; beside it 1/√2 of that)" if "gram" in noised.sigma else ""
    return f"{noised}\nThe standard deviation of the noise in each number: {noise}{beside}."


def _fields(summary: Summary) -> dict[str, str]:
    """The meaning of every field there is."""
    meaning = {
        "weight": f"the sum of the weights: {summary.weight:g}",
        "y": "the sum of y over the rows",
        "yy": "the sum of y² over the rows",
        "phi": "the sum over the rows of each function φ_i(x)",
        "phi_y": "the sum over the rows of y·φ_i(x)",
        "loss": "the sum of the loss over the rows",
        "gram": "the sum over the rows of φ_i(x)·φ_k(x), for every pair",
    }
    return {name: meaning[name] for name in summary.sums}
