"""A summary: the sums over a site's rows that a model needs, and nothing else. Summaries add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..bases.base import Basis, find
from ..losses import as_loss, from_spec, to_spec
from ..messages import shown
from ..privacy.noised import Noised
from .compensated import Sum


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


@dataclass(frozen=True)
class Summary:
    """Sums over labeled rows: n, Σw, Σwy, Σwy², Σwφ(x), Σwyφ(x) and, at second order, Σwφ(x)φ(x)ᵀ.

    Summaries of one basis form a commutative monoid: ``a + b`` is the summary of the rows of both, however rows are
    split and in whatever order sums are taken (they are carried to twice double precision). No row can be told from a
    summary of many; a summary of few rows can give them away, so a site applies its policy before one leaves.

    Make one with :meth:`of`; ``save`` it, ``load`` it, ``describe()`` it.

    Attributes
    ----------
    contents : what two summaries must have in common to add: basis, order, loss, model
    n_rows : rows of positive weight
    sums : by name, to twice double precision
    targets : the names of the labels, where they have any
    one_target : whether labels came as a vector
    attached : the basis, where it is at hand
    folder : where the file came from
    privacy : what noise there is in it; None is none
    """

    contents: Contents
    n_rows: int
    sums: dict[str, Sum] = field(repr=False)
    targets: tuple[str, ...] = ()  #: the names of the labels, where they have any
    one_target: bool = True  #: labels came as a vector
    attached: Basis | None = field(default=None, repr=False, compare=False)
    folder: Path | None = field(default=None, repr=False, compare=False)  #: where the file came from
    privacy: Noised | None = field(default=None, repr=False)  #: what noise there is in it; None is none

    @classmethod
    def of(
        cls,
        basis: Basis,
        X: Any,
        y: Any,
        order: int = 1,
        *,
        residuals_of: Any = None,
        loss: Any = "squared",
        sample_weight: Any = None,
        privacy: Any = None,
        engine: Any = None,
        verbose: int = 0,
    ) -> Summary:
        """The summary of rows X with labels y, in one pass and in bounded memory.

        Parameters
        ----------
        basis : a fitted basis
        X, y : arrays, data frames, a path to Parquet or CSV (y then names the column, or columns), a Dask collection
        order : 1 for LESS (M numbers a label), 2 for ridge regression on the pooled rows (and M(M+1)/2 more)
        residuals_of : a fitted model f; then ψ(y - f(x)) stands in the place of y: a round of residuals
        loss : "squared" (ψ(u) = u), or a Loss with its scale: Huber(2.0), Correntropy(3.0)
        sample_weight : weights, one a row; they count as repeated rows
        privacy : ``up.privacy.Private(epsilon, delta, label_bound)`` for sums with noise; docs/privacy/README.md
        engine : where blocks are worked on; None is the threads of this process
        verbose : 1 shows progress

        Returns
        -------
        Summary
        """
        from .accumulate import accumulate

        return accumulate(basis, X, y, order, residuals_of, loss, sample_weight, engine, verbose, privacy)

    def __add__(self, other: object) -> Summary:
        if isinstance(other, int) and other == 0:
            return self  # where sum() starts
        if not isinstance(other, Summary):
            return NotImplemented
        difference = self._difference(other)
        if difference:
            raise ValueError(f"these summaries do not add up: {difference}")
        return replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            sums={name: value + other.sums[name] for name, value in self.sums.items()},
            targets=self.targets or other.targets,
            one_target=self.one_target and other.one_target,
            attached=self.attached or other.attached,
            folder=self.folder or other.folder,
            privacy=None if self.privacy is None or other.privacy is None else self.privacy + other.privacy,
        )

    __radd__ = __add__

    def _difference(self, other: Summary) -> str:
        """Why two summaries do not add up, naming both; empty where they do."""
        a, b = self.contents, other.contents
        if a.basis != b.basis:
            return f"one is of the basis {a.basis[:12]} and the other of the basis {b.basis[:12]}"
        if a.order != b.order:
            return f"one is of order {a.order} and the other of order {b.order}; first_order() drops what is too much"
        if a.n_outputs != b.n_outputs:
            return f"one is of {a.n_outputs} label(s) and the other of {b.n_outputs}"
        if self.targets and other.targets and self.targets != other.targets:
            return f"one is of the label {', '.join(self.targets)} and the other of {', '.join(other.targets)}"
        if a.model != b.model:
            names = [f"the residuals of model {m[:12]}" if m else "labels" for m in (a.model, b.model)]
            return f"one is of {names[0]} and the other of {names[1]}"
        if a.loss != b.loss:
            return f"one is of the loss {a.loss} and the other of the loss {b.loss}"
        if (self.privacy is None) != (other.privacy is None):
            return "one has noise for privacy and the other has none, so nothing could be promised of their sum"
        noise = None if self.privacy is None or other.privacy is None else self.privacy.difference(other.privacy)
        if noise:
            return noise
        return f"their fields differ: {', '.join(self.sums)} and {', '.join(other.sums)}" * (
            self.sums.keys() != other.sums.keys() or a != b
        )

    def first_order(self) -> Summary:
        """The same without Σφφᵀ.

        Returns
        -------
        Summary
        """
        kept = {name: value for name, value in self.sums.items() if name != "gram"}
        privacy = None if self.privacy is None else self.privacy.without("gram")
        return replace(self, contents=replace(self.contents, order=1), sums=kept, privacy=privacy)

    @property
    def order(self) -> int:
        """1, or 2 with Σφφᵀ."""
        return self.contents.order

    @property
    def digest(self) -> str:
        """The digest of the basis."""
        return self.contents.basis

    @property
    def weight(self) -> float:
        """Σw; without weights the number of rows."""
        return float(self.sums["weight"].high[0])

    @property
    def label_sum(self) -> np.ndarray:
        """Σwy, shape (T,)."""
        return self.sums["y"].high

    @property
    def label_square_sum(self) -> np.ndarray:
        """Σwy², shape (T,)."""
        return self.sums["yy"].high

    @property
    def feature_sum(self) -> np.ndarray:
        """Σwφ(x), shape (M,)."""
        return self.sums["phi"].high

    @property
    def feature_label_sum(self) -> np.ndarray:
        """Σwφ(x)y, shape (M, T)."""
        return self.sums["phi_y"].high

    @property
    def loss_sum(self) -> np.ndarray | None:
        """Σwρ(y - f(x)), shape (T,); of residuals only."""
        return self.sums["loss"].high if "loss" in self.sums else None

    @property
    def gram(self) -> np.ndarray | None:
        """Σwφ(x)φ(x)ᵀ, shape (M, M); None at first order."""
        return unpacked(self.sums["gram"].high, self.contents.n_features) if "gram" in self.sums else None

    def basis(self, given: Basis | None = None) -> Basis:
        """The basis: the one given, the one it was made with, or the .basis file of that digest beside it.

        Parameters
        ----------
        given : a basis, which must be the right one; None looks for it

        Returns
        -------
        Basis
        """
        folders = list(dict.fromkeys([*([self.folder] if self.folder else []), Path.cwd()]))
        basis = given or self.attached or find(self.digest, folders)
        if basis is None:
            raise ValueError(
                f"the basis {self.digest[:12]} of this summary was not found beside it: give basis=up.bases.load(path)"
            )
        if basis.digest != self.digest:
            raise ValueError(f"the summary is of the basis {self.digest[:12]}, and {basis.digest[:12]} was given")
        return basis

    def describe(self) -> str:
        """Exactly what is in it, in words.

        Returns
        -------
        str
        """
        from .words import describe

        return describe(self)

    def __repr__(self) -> str:
        c, private = self.contents, "" if self.privacy is None else f", epsilon={self.privacy.guarantee.epsilon:.4g}"
        of = f", targets={self.targets}" if self.targets else ""
        size = f"order={c.order}, n_rows={self.n_rows}, n_features={c.n_features}"
        return f"Summary({size}, basis={c.basis[:12]!r}{of}{private})"

    def _repr_html_(self) -> str:
        from .words import as_html

        return as_html(self)

    def save(self, path: files.PathLike) -> None:
        """Write it to one file: a JSON header and raw numbers, as docs/format.md says.

        Parameters
        ----------
        path : the file to write
        """
        c = self.contents
        header = {
            "basis": c.basis,
            "order": c.order,
            "n_features": c.n_features,
            "n_outputs": c.n_outputs,
            "targets": list(self.targets),
            "one_target": self.one_target,
            "n_rows": self.n_rows,
            "loss": c.loss,
            "residuals_of": c.model,
            "privacy": None if self.privacy is None else self.privacy.to_dict(),
        }
        files.write(path, "summary", header, to_arrays(self.sums))

    @classmethod
    def load(cls, path: files.PathLike) -> Summary:
        """The summary in a file; a damaged or foreign file is an error that says so.

        Parameters
        ----------
        path : a file that ``save`` wrote

        Returns
        -------
        Summary
        """
        header, arrays = files.read(path, "summary")
        try:
            summary = _checked(header, arrays)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise files.FileError(f"{path} does not hold a complete summary: {error}") from None
        return replace(summary, folder=Path(path).absolute().parent)


def merge(summaries: Sequence[Summary]) -> Summary:
    """The sum of at least one."""
    if not summaries:
        raise ValueError("there is nothing to merge: give at least one summary")
    total, *others = summaries
    for other in others:
        total = total + other
    return total


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


def from_arrays(arrays: dict[str, np.ndarray], fields: dict[str, tuple[int, ...]]) -> dict[str, Sum]:
    """The inverse of :func:`to_arrays`, everything checked."""
    unknown = arrays.keys() - fields.keys() - {f"{name}.low" for name in fields}
    if unknown:
        raise ValueError(f"it has an array {sorted(unknown)[0]!r} that does not belong in it")
    sums = {}
    for name, shape in fields.items():
        high = arrays.get(name, np.empty((0, 0, 0)))
        low = arrays.get(f"{name}.low", np.zeros_like(high))
        for part in (high, low):
            if part.shape != shape or part.dtype != np.float64 or not np.all(np.isfinite(part)):
                raise ValueError(f"the array {name!r} must hold finite numbers of double precision, of shape {shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.array_equal(high + low, high):
                raise ValueError(f"the array {name!r} and its low part do not belong together")
        sums[name] = Sum(high, low)
    return sums


def _checked(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Summary:
    for name, least in (("n_rows", 1), ("n_features", 1), ("n_outputs", 1), ("order", 1)):
        if type(header.get(name)) is not int or header[name] < least:
            raise ValueError(f"{name} must be a positive whole number, got {shown(header.get(name))}")
    if header["order"] > 2:
        raise ValueError(f"order must be 1 or 2, got {header['order']}")
    model, targets, loss = header.get("residuals_of"), header.get("targets"), header.get("loss")
    if not (model is None or is_digest(model)) or not is_digest(header.get("basis")):
        raise ValueError("it names its basis or model by something that is no SHA-256")
    if not isinstance(targets, list) or len(targets) not in (0, header["n_outputs"]):
        raise ValueError("the names of its labels do not go with their number")
    contents = Contents(
        header["basis"], header["n_features"], header["order"], header["n_outputs"], spec_of(loss_of(loss)), model
    )
    if contents.residual and contents.order == 2:
        raise ValueError("it claims to be of residuals and of second order")
    privacy = noised_of(header.get("privacy"), contents)
    sums = from_arrays(arrays, shapes(contents, privacy))
    check_sums(sums, header["n_rows"], privacy)
    return Summary(
        contents,
        header["n_rows"],
        sums,
        tuple(str(name) for name in targets),
        bool(header.get("one_target")) and header["n_outputs"] == 1,
        privacy=privacy,
    )


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
        raise ValueError(f"a loss must let labels push: {shown(loss)} does not")
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
        raise ValueError(f"{shown(spec)} does not describe a loss")
    name, _, scale = spec.partition(" ")
    return from_spec({"loss": name, **({"scale": float(scale)} if scale else {})})
