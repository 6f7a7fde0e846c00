"""Summary: the sums over a site's rows that a model needs, and nothing else. Summaries add.

The sums are made in one pass over the rows, a block at a time: features, products, sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import blas

from .._base import files
from .._base.arrays import Array, to_numpy
from .._base.checks import AdvisedError, NotAddable, are_texts
from .._base.compensated import Sum
from .._base.engine import NamedStatistic
from .._base.rows import Block, Source
from .._base.text import quote
from ..bases import find
from ..bases.base import Basis
from ..data.sources import open_labeled
from ..engines import as_engine
from ..privacy.noised import Noised
from .contents import (
    Contents,
    NoiseRequest,
    as_html,
    check_sums,
    describe,
    from_arrays,
    is_digest,
    loss_of,
    noised_of,
    packed,
    shapes,
    spec_of,
    to_arrays,
    unpacked,
)
from .passes import Functions, LabelShare, Target, mapped, residual_target, stretches


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
    shares : the largest |w·y| of one record beside the total, for the site's policy; ``save`` does not write it. None
        for what was loaded, and where noise hides every record
    """

    contents: Contents
    n_rows: int
    sums: dict[str, Sum] = field(repr=False)
    targets: tuple[str, ...] = ()  #: the names of the labels, where they have any
    one_target: bool = True  #: labels came as a vector
    attached: Basis | None = field(default=None, repr=False, compare=False)
    folder: Path | None = field(default=None, repr=False, compare=False)  #: where the file came from
    privacy: Noised | None = field(default=None, repr=False)  #: what noise there is in it; None is none
    shares: LabelShare | None = field(default=None, repr=False, compare=False)  #: never in a file

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
        return accumulate(basis, X, y, order, residuals_of, loss, sample_weight, engine, verbose, privacy)

    def __add__(self, other: object) -> Summary:
        if isinstance(other, int) and other == 0:
            return self  # where sum() starts
        if not isinstance(other, Summary):
            return NotImplemented
        difference = self._difference(other)
        if difference:
            raise NotAddable(f"these summaries do not add up: {difference}", difference)
        return replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            sums={name: value + other.sums[name] for name, value in self.sums.items()},
            targets=self.targets or other.targets,
            one_target=self.one_target and other.one_target,
            attached=self.attached or other.attached,
            folder=self.folder or other.folder,
            privacy=None if self.privacy is None or other.privacy is None else self.privacy + other.privacy,
            shares=None if self.shares is None or other.shares is None else self.shares + other.shares,
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
    def label_share(self) -> float:
        """The largest share that one record has of the total of the labels; NaN where it was not made of rows here."""
        return math.nan if self.shares is None else self.shares.value

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
            missing = f"the basis {self.digest[:12]} of this summary was not found beside it: give "
            raise AdvisedError(f"{missing}basis=up.bases.load(path)", f"{missing}--basis")
        if basis.digest != self.digest:
            raise ValueError(f"the summary is of the basis {self.digest[:12]}, and {basis.digest[:12]} was given")
        return basis

    def describe(self) -> str:
        """Exactly what is in it, in words.

        Returns
        -------
        str
        """
        return describe(self)

    def __repr__(self) -> str:
        c, private = self.contents, "" if self.privacy is None else f", epsilon={self.privacy.guarantee.epsilon:.4g}"
        of = f", targets={self.targets}" if self.targets else ""
        size = f"order={c.order}, n_rows={self.n_rows}, n_features={c.n_features}"
        return f"Summary({size}, basis={c.basis[:12]!r}{of}{private})"

    def _repr_html_(self) -> str:
        return as_html(self)

    def save(self, path: files.PathLike) -> None:
        """Write it to one file: a JSON header and raw numbers, as docs/format.md says.

        It asks nobody: no policy judges the file, and no log has an entry for it. Use it for a summary that was loaded,
        or that was made of rows without a policy beside them. A site lets its summary leave with
        ``up.site.release(summary, path, policy=...)``.

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
            with files.open_content(header, arrays, "summary") as (entries, numbers):
                summary = _checked(entries, numbers)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError) as error:
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


def _checked(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Summary:
    for name, least in (("n_rows", 1), ("n_features", 1), ("n_outputs", 1), ("order", 1)):
        if type(header.get(name)) is not int or header[name] < least:
            raise ValueError(f"{name} must be a positive whole number, got {quote(header.get(name))}")
    if header["order"] > 2:
        raise ValueError(f"order must be 1 or 2, got {header['order']}")
    model, targets, one_target = header["residuals_of"], header["targets"], header["one_target"]
    if not (model is None or is_digest(model)) or not is_digest(header["basis"]):
        raise ValueError("it names its basis or model by something that is no SHA-256")
    if not are_texts(targets, (0, header["n_outputs"])):
        raise ValueError("the names of its labels do not go with their number")
    if type(one_target) is not bool:
        raise ValueError("it does not say whether its label was a vector")
    loss = spec_of(loss_of(header["loss"]))
    contents = Contents(header["basis"], header["n_features"], header["order"], header["n_outputs"], loss, model)
    if contents.residual and contents.order == 2:
        raise ValueError("it claims to be of residuals and of second order")
    M = contents.n_features
    if sum(array.size for array in arrays.values()) < (M if contents.order == 1 else M * (M + 1) // 2):
        raise ValueError("its sums are not those of as many features as it says")  # before anything is made for them
    privacy = noised_of(header["privacy"], contents)
    sums = from_arrays(arrays, shapes(contents, privacy))
    check_sums(sums, header["n_rows"], privacy)
    return Summary(
        contents,
        header["n_rows"],
        sums,
        tuple(targets),
        one_target and header["n_outputs"] == 1,
        privacy=privacy,
    )


class Accumulator:
    """The sums of a summary as they grow."""

    def __init__(self, contents: Contents, target: Target) -> None:
        self.contents = contents
        self.target = target
        self.n_rows = 0
        kept = {name: shape for name, shape in shapes(contents).items() if target.with_loss or name != "loss"}
        self.sums = {name: Sum.of(np.zeros(shape)) for name, shape in kept.items() if name != "gram"}
        M = contents.n_features
        self.gram = np.zeros((M, M), order="F") if contents.order == 2 else None
        self.shares = LabelShare() if target.tells_share else None

    def add(self, X: Array, phi: np.ndarray, Y: np.ndarray, weights: np.ndarray | None) -> None:
        """Take the rows of one block in."""
        u = self.target.residual(X, phi, Y, weights)
        psi = self.target.pushed(u, self.contents.residual)
        phi = self.target.features(phi)
        w = np.ones(len(phi)) if weights is None else weights
        with np.errstate(over="ignore", invalid="ignore"):  # looked at below
            weighted = psi if weights is None else psi * w[:, None]
            found = {"weight": np.asarray([w.sum()]), "y": weighted.sum(axis=0), "yy": (weighted * psi).sum(axis=0)}
            found |= {"phi": w @ phi, "phi_y": phi.T @ weighted}
            if "loss" in self.sums:
                found["loss"] = w @ self.target.loss.value(u)
        if not all(np.all(np.isfinite(value)) for value in found.values()):
            raise ValueError("a sum is too large for a number: bring y or the weights to a smaller scale")
        self.sums = {name: value + Sum.of(found[name]) for name, value in self.sums.items()}
        self.n_rows += len(phi)
        if self.shares is not None:
            self.shares.add(psi, weights)
        if self.gram is not None:
            rooted = phi if weights is None else phi * np.sqrt(w)[:, None]
            self.gram = blas.dsyrk(1.0, rooted.T, beta=1.0, c=self.gram, overwrite_c=1, lower=1)

    def result(self) -> dict[str, Sum]:
        """All the sums."""
        return self.sums if self.gram is None else self.sums | {"gram": Sum.of(packed(self.gram))}


def accumulate(
    basis: Basis,
    X: Any,
    y: Any,
    order: int,
    residuals_of: Any,
    loss: Any,
    sample_weight: Any,
    engine: Any,
    verbose: int,
    privacy: Any = None,
) -> Summary:
    """The summary of everything ``X`` and ``y`` hold; with noise where ``privacy`` asks for it."""
    if not (isinstance(basis, Basis) and hasattr(basis, "map_")):
        raise ValueError(f"basis must be a fitted basis of up.bases, got {quote(basis)}")
    if order not in (1, 2) or isinstance(order, bool):
        raise ValueError(f"order must be 1 or 2, got {quote(order)}")
    if privacy is not None:
        if not isinstance(privacy, NoiseRequest):
            raise ValueError(f"privacy must be up.privacy.Private(epsilon, delta, ...), got {quote(privacy)}")
        return privacy.summarize(basis, X, y, int(order), residuals_of, loss, sample_weight, engine, verbose)
    source = open_labeled(basis, X, y, sample_weight)
    return of_source(basis, source, int(order), residuals_of, loss, engine, verbose)


def of_source(
    basis: Any,
    source: Source,
    order: int,
    residuals_of: Any,
    loss: Any,
    engine: Any,
    verbose: int = 0,
    probes: int = 0,
) -> Summary:
    """The summary of the rows of a source; ``probes`` are so many more labels, of random signs."""
    spec = spec_of(loss)
    digest, target = residual_target(basis, residuals_of, loss_of(spec))
    target = replace(target, probes=probes)
    n_labels = source.n_outputs + probes
    n_outputs = n_labels if target.coef is None else target.coef.shape[1]
    if n_outputs % n_labels or (n_outputs != n_labels and not isinstance(residuals_of, Functions)):
        raise ValueError(f"residuals_of predicts {n_outputs} label(s), and y has {source.n_outputs}")
    contents = Contents(basis.digest, basis.n_features_, order, n_outputs, spec, digest)
    return of_target(basis, source, contents, target, engine, verbose)


def of_target(basis: Any, source: Source, contents: Contents, target: Target, engine: Any, verbose: int = 0) -> Summary:
    """The summary of what stands in the place of y."""
    check_order(contents)
    found: Summary = as_engine(engine).map_reduce(
        SUMS,
        stretches(source, basis),
        _plus,
        args=(basis, contents, target, source.target_names, source.one_target),
        label="summing rows",
        verbose=verbose,
    )
    if not found.n_rows:
        raise ValueError("there is no row of positive weight to summarise")
    return Summary(
        contents,
        found.n_rows,
        {name: Sum.of(value.high) for name, value in found.sums.items()},  # what a site sends is doubles
        found.targets,
        found.one_target,
        attached=basis if isinstance(basis, Basis) else None,
        shares=found.shares,
    )


def check_order(contents: Contents) -> None:
    """Residuals are of order 1."""
    if contents.residual and contents.order == 2:
        raise ValueError(
            "residuals are summarised at order 1; order 2 is exact at once with the squared loss and no residuals_of"
        )


def partial(
    block: Block, basis: Any, contents: Contents, target: Target, names: tuple[str, ...], one_target: bool
) -> Summary:
    """The summary of one block, which may have no rows."""
    found = Accumulator(contents, target)
    with target.looking():
        for rows, phi in mapped(block, basis):
            Y = np.asarray(to_numpy(rows.Y), dtype=np.float64)
            found.add(rows.X, phi, Y, rows.weights)
        return Summary(contents, found.n_rows, found.result(), names, one_target, shares=found.shares)


SUMS = NamedStatistic("sums", partial, public=("contents", "target"))


def _plus(a: Summary, b: Summary) -> Summary:
    return a + b
