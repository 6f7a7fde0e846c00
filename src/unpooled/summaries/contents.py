"""The fields of a summary: their shapes, the facts that two summaries must share to add up, and the form in files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import html
from .._base.compensated import Sum
from .._base.text import quote
from ..losses import as_loss, from_spec, to_spec
from ..privacy.noise_record import NoiseRecord

if TYPE_CHECKING:
    from .summary import Summary


def _count_field(summary: Summary, field: str) -> int:
    """Return the number of values in a field."""
    return int(summary.sums[field].high.size)


def count_numbers(summary: Summary) -> int:
    """Return the number of values in a summary."""
    return 1 + sum(_count_field(summary, field) for field in summary.sums)


@dataclass(frozen=True)
class Contents:
    """The facts that two summaries must share to add up."""

    basis: str  #: the digest of the basis
    n_features: int
    order: int
    n_outputs: int
    loss: str = "squared"  #: the loss of the residuals, with its scale
    model: str | None = None  #: the digest of the model whose residuals are summarised; None for labels

    @property
    def is_residual(self) -> bool:
        """Whether the summary is of residuals ψ(y - f(x)) in place of y."""
        return self.model is not None or self.loss != "squared"


class NoiseRequest(ABC):
    """The contract of a request for sums with noise, which ``up.privacy.PrivacyRequest`` implements."""

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
        """Return the summary of ``X`` and ``y`` with noise: check first, then charge, and only then read."""


def field_shapes(contents: Contents, record: NoiseRecord | None = None) -> dict[str, tuple[int, ...]]:
    """Return the fields of a summary and their shapes; with noise, only those with noise and the number of rows."""
    M, T = contents.n_features, contents.n_outputs
    fields: dict[str, tuple[int, ...]] = {"weight": (1,), "y": (T,), "yy": (T,), "phi": (M,), "phi_y": (M, T)}
    if contents.is_residual:
        fields["loss"] = (T,)
    if contents.order == 2:
        fields["gram"] = (M * (M + 1) // 2,)
    if record is None:
        return fields
    if not set(record.sigma) <= set(fields) or ("gram" in record.sigma) != (contents.order == 2):
        raise ValueError("the fields with noise are not those of a summary of its order")
    return {name: shape for name, shape in fields.items() if name == "weight" or name in record.sigma}


def pack_triangle(matrix: np.ndarray) -> np.ndarray:
    """Return the lower triangle of a symmetric matrix, row by row."""
    return matrix[np.tril_indices(len(matrix))]


def unpack_triangle(triangle: np.ndarray, n: int) -> np.ndarray:
    """Return the symmetric matrix with this lower triangle."""
    matrix = np.empty((n, n))
    rows, columns = np.tril_indices(n)
    matrix[rows, columns] = triangle
    matrix[columns, rows] = triangle
    return matrix


def to_arrays(sums: dict[str, Sum]) -> dict[str, np.ndarray]:
    """Return sums as arrays for a file: rounded to doubles, and the rounding errors of those that have any."""
    arrays = {name: value.high for name, value in sums.items()}
    return arrays | {f"{name}.low": value.low for name, value in sums.items() if not value.is_double}


def from_arrays(arrays: dict[str, np.ndarray], fields: dict[str, tuple[int, ...]], prefix: str = "") -> dict[str, Sum]:
    """Return the sums that :func:`to_arrays` wrote, with every field checked.

    ``prefix`` precedes the names in the file of a model.
    """
    sums = {}
    for name, shape in fields.items():
        high = arrays.get(f"{prefix}{name}", np.empty((0, 0, 0)))
        low = arrays.get(f"{prefix}{name}.low", np.zeros_like(high))
        for part in (high, low):
            if part.shape != shape or part.dtype != np.float64 or not np.all(np.isfinite(part)):
                raise ValueError(f"the array {name!r} must hold finite double-precision numbers of shape {shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.array_equal(high + low, high):
                raise ValueError(f"the array {name!r} and its low-order part do not belong together")
        sums[name] = Sum(high, low)
    return sums


def read_noise_record(content: Any, contents: Contents) -> NoiseRecord | None:
    """Return the record of the noise in a header; raise a ValueError if it contradicts itself or the summary."""
    if content is None:
        return None
    if contents.n_outputs != 1:
        raise ValueError("it claims privacy noise and has more than one label")
    return NoiseRecord.from_dict(content, contents.n_features)


def check_sums(sums: dict[str, Sum], n_rows: int, privacy: NoiseRecord | None) -> None:
    """Refuse negative sums of weights, squares or losses, unless noise may have made them negative."""
    weight = float(sums["weight"].high[0])
    if privacy is not None:
        if weight != n_rows:
            raise ValueError("it claims privacy noise, but its weight is not its number of rows")
    elif not weight > 0 or any(np.any(sums[name].high < 0) for name in ("yy", "loss") if name in sums):
        raise ValueError("one of its sums of weights, squares or losses is negative")


def is_digest(value: Any) -> bool:
    """Return whether a value is a SHA-256 in hexadecimal."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def spec_of(loss: Any) -> str:
    """Return a loss as a short text such as "squared" or "huber 2.0"."""
    loss = as_loss(loss)
    if not loss.bound > 0:  # the bound also checks the scale
        raise ValueError(f"the influence of a loss must not be zero everywhere, as it is for {quote(loss)}")
    spec = to_spec(loss)
    if "scale" not in spec:
        return str(spec["loss"])
    if not isinstance(spec["scale"], float):
        raise ValueError("the scale of a loss in a summary must be one number")
    if spec["scale"] < 0:
        return "squared"  # an infinite scale is least squares
    return f"{spec['loss']} {spec['scale']!r}"


def loss_of(spec: Any) -> Any:
    """Return the loss that :func:`spec_of` described."""
    if not isinstance(spec, str):
        raise ValueError(f"{quote(spec)} does not describe a loss")
    name, _, scale = spec.partition(" ")
    return from_spec({"loss": name, **({"scale": float(scale)} if scale else {})})


# --- Descriptions in words -------------------------------------------------------------------------------------------


def describe(summary: Summary) -> str:
    """Describe for a data steward, in words, every field of a summary and the number of values in it."""
    c = summary.contents
    label, order = ", ".join(summary.targets) or "the label", "first-order" if c.order == 1 else "second-order"
    if c.is_residual:
        of = f"model {c.model[:12]}" if c.model else "zero"
        what = f"the residual of {label} from {of}" + ("" if c.loss == "squared" else f", limited by the loss {c.loss}")
    else:
        what = label
    lines = [
        f"A {order} summary of {summary.n_rows} rows in basis {c.basis[:12]}. It contains no individual row.",
        f"Here y is {what}, and the φ_i are the {c.n_features} functions of the inputs that the basis defines.",
        "",
        f"{'rows':>12}  {1:>9}  the number of rows: {summary.n_rows}",
    ]
    lines += [
        f"{field:>12}  {_count_field(summary, field):>9}  {words}" for field, words in _describe_fields(summary).items()
    ]
    lines += ["", f"{count_numbers(summary)} numbers in all. {_describe_privacy(summary)}"]
    return "\n".join(lines)


def as_html(summary: Summary) -> str:
    """Describe a summary for notebooks."""
    first, second, *_ = describe(summary).splitlines()
    rows = [["rows", "1", f"the number of rows: {summary.n_rows}"]]
    rows += [[field, f"{_count_field(summary, field)}", words] for field, words in _describe_fields(summary).items()]
    table = html.table(["field", "numbers", "what they are"], rows)
    return html.paragraph(f"{first} {second}") + table + html.paragraph(_describe_privacy(summary))


def _describe_privacy(summary: Summary) -> str:
    """Return the guarantee for the records, and the standard deviation of the noise in every field."""
    record = summary.privacy
    if record is None:
        return "No noise was added, so the summary is not differentially private."
    noise = ", ".join(f"{field} {record.sigma[field]:.4g}" for field in summary.sums if field in record.sigma)
    off_diagonal = " (on the diagonal; off the diagonal it is smaller by a factor √2)" if "gram" in record.sigma else ""
    return f"{record}\nThe standard deviation of the noise in each number: {noise}{off_diagonal}."


def _describe_fields(summary: Summary) -> dict[str, str]:
    """Return the meaning of every field in the summary."""
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
