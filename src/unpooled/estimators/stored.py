"""The parts of a fitted model that a file keeps, each with how it is written, read and checked.

A class lists its parts once. Each part writes its entries into the header and its arrays of a file, and reads them back
into a new model. What is read may be forged: a part believes nothing that the parts before it, or its own shapes and
kinds, do not bear out, and raises a ValueError otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from .._base.arrays import to_numpy
from .._base.checks import are_texts
from .._base.declared import Arrays, Header, Part
from .._base.kinds import Kind, Real, Whole
from .._base.text import quote
from .._solvers.predictors import BasisPredictor, KernelExpansion
from .._solvers.span.moments import Mismatch
from ..bases.maps import read_array
from ..kernels.specs import check_described
from ..summaries.contents import is_digest, loss_of, spec_of
from .paths import SummaryPath

# --- The function ----------------------------------------------------------------------------------------------------


class Expansion:
    """A function Σ c_i K(x, x_i) + b, the names of its inputs, and the route by which it was found."""

    def __init__(self, *solvers: str) -> None:
        self.solvers = solvers  #: none where every block may have had another

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        own_header, own_arrays = model.predictor_.to_parts()
        header |= own_header | {
            "n_features_in": int(model.n_features_in_),
            "feature_names": _feature_names(model),
            "one_target": bool(model.one_target_),
            "solver": model.solver_ if self.solvers else "",
        }
        b = model.intercept_ if isinstance(model.intercept_, float) else to_numpy(model.intercept_)
        arrays |= own_arrays | {"b": np.atleast_1d(b)}

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        predictor = KernelExpansion.from_parts(header, arrays)
        check_described(predictor.kernel, header["kernel"])
        n_points, width = predictor.points.shape
        T, n_features, b = predictor.coef.shape[1], header["n_features_in"], arrays["b"]
        # The points of a precomputed kernel have no coordinates, and its inputs are the rows of the matrix.
        if type(n_features) is not int or (n_features != width if width else n_features < max(n_points, 1)):
            raise ValueError(f"its points do not have the {quote(n_features)} features that it claims")
        if b.shape != (T,) or not (np.issubdtype(b.dtype, np.floating) and np.all(np.isfinite(b))):
            raise ValueError("its intercept does not match its targets")
        if header["solver"] not in (self.solvers or ("",)):
            raise ValueError("it does not name the solver that was used")
        model._settle_expansion(predictor, predictor.kernel, b, _one_target(header["one_target"], T))
        model.n_features_in_ = n_features
        _read_feature_names(model, header, n_features)
        if self.solvers:
            model.solver_ = header["solver"]


class SpanFunction:
    """A function aᵀφ + b in the span of a basis, with the names of its inputs and of its labels.

    ``basis`` says whether the digest of the basis and the coefficients of its features are kept beside the function of
    its map; ``targets`` whether names of labels are; ``flag`` whether the file says that labels came as a vector.
    """

    def __init__(self, *, basis: bool = True, targets: bool = True, flag: bool = True) -> None:
        self.basis, self.targets, self.flag = basis, targets, flag

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        own_header, own_arrays = model.predictor_.to_parts()
        header |= own_header | {"feature_names": _feature_names(model)}
        arrays |= own_arrays
        if self.flag:
            header["one_target"] = bool(model.one_target_)
        if self.targets:
            header["targets"] = list(model.targets_)
        if self.basis:
            header["basis"] = model.basis_digest_
            arrays["coef"] = model.coef_matrix_

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        predictor = BasisPredictor.from_parts(header, arrays)
        T, coef = len(predictor.intercept), predictor.coef
        if self.basis:
            coef = read_array("coef", arrays, ndim=2)
            fitting = coef.shape[1] == T and 0 < coef.shape[0] <= predictor.map.size
            if not fitting or not is_digest(header["basis"]):
                raise ValueError("its coefficients do not match its basis")
            model.basis_digest_, model.coef_matrix_ = header["basis"], coef
        one = _one_target(header["one_target"], T) if self.flag else T == 1
        if self.targets:
            model.targets_ = tuple(texts("labels", header["targets"], (0, T) if self.flag else (T,)))
        model._settle_span(predictor, coef, one)
        model.n_features_in_ = predictor.map.n_features_in
        _read_feature_names(model, header, model.n_features_in_)


# --- Numbers and words -----------------------------------------------------------------------------------------------


class Entries:
    """Fitted attributes that are entries of the header, each with what it may be: ``Entries(n_rounds_=Whole(0))``.

    An entry has the name of its attribute without the underscore.
    """

    def __init__(self, **kinds: Kind) -> None:
        self.kinds = kinds

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        header |= {name.removesuffix("_"): kind.to_plain(getattr(model, name)) for name, kind in self.kinds.items()}

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        for name, kind in self.kinds.items():
            entry = name.removesuffix("_")
            value = kind.from_plain(header[entry])
            kind.check(f"its {entry}", value)
            setattr(model, name, value)


#: a λ that was chosen or given
LAM_FOUND = Real("a positive number", lambda value: 0 < value < math.inf, double=True)


class ForEachTarget:
    """A positive number, or an array of one per target, kept as an array and a flag that tells the two apart.

    ``optional`` is for those that not every model of the class has; ``whole`` is for counts; ``infinite`` for scales.
    """

    def __init__(
        self, name: str, array: str, flag: str, *, optional: bool = False, whole: bool = False, infinite: bool = False
    ) -> None:
        self.name, self.array, self.flag = name, array, flag
        self.optional, self.whole, self.infinite = optional, whole, infinite

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        if self.optional and self.name not in vars(model):
            return
        value = getattr(model, self.name)
        header[self.flag], arrays[self.array] = np.ndim(value) == 0, np.atleast_1d(value)

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        if self.optional and self.array not in arrays:
            return
        value, one = arrays[self.array], header[self.flag]
        T = 1 if model.one_target_ else model.predictor_.coef.shape[1]
        usable = value.dtype.kind == ("i" if self.whole else "f") and value.shape == ((1,) if one is True else (T,))
        if type(one) is not bool or not usable or not np.all(value > 0):
            raise ValueError(f"its {self.name.removesuffix('_')} is not a positive number, or one per target")
        if not self.infinite and not np.all(np.isfinite(value)):
            raise ValueError(f"its {self.name.removesuffix('_')} is not finite")
        setattr(model, self.name, value[0].item() if one else value)


class Tables(Kind):
    """A list of small tables, each with these columns, no count negative: ``Tables(name=str, rows=int)``."""

    def __init__(self, **columns: type) -> None:
        self.columns = columns
        self.words = f"a list of tables of {', '.join(columns)}"

    def holds(self, value: Any) -> bool:
        if not (isinstance(value, list) and all(is_table(entry, **self.columns) for entry in value)):
            return False
        return all(entry[name] >= 0 for entry in value for name, column in self.columns.items() if column is int)


SITES = Tables(name=str, rows=int)


def is_table(entry: Any, **columns: type) -> bool:
    """Whether a value is a dictionary with these entries, of these types, its numbers finite."""
    if not isinstance(entry, dict) or entry.keys() != columns.keys():
        return False
    same = all(type(entry[name]) is column for name, column in columns.items())
    return same and all(math.isfinite(entry[name]) for name, column in columns.items() if column in (int, float))


class _LossSpec(Kind):
    """A loss with its scale, in a few characters."""

    words = "the name of a loss, with its scale"

    def check(self, name: str, value: Any) -> None:
        if spec_of(loss_of(value)) != value:
            super().check(name, value)

    def holds(self, value: Any) -> bool:
        return False


class Floor:
    """The floor, the cost of the public sample; None if ``optional`` says that there may be no floor."""

    def __init__(self, *, optional: bool = False) -> None:
        self.optional = optional

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        header["floor"] = None if model.floor_ is None else vars(model.floor_)

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        about = header["floor"]
        if about is None and self.optional:
            model.floor_ = None
            return
        columns = {one.name: int if one.name == "n_public" else float for one in fields(Mismatch)}
        hidden = ("mean", "operator")  # by noise for privacy, or where nothing is known of them
        filled = about | {k: 0.0 for k in hidden if about.get(k, 0.0) is None} if isinstance(about, dict) else about
        if not is_table(filled, **columns) or min(filled.values()) < 0:
            raise ValueError("its floor has missing or invalid entries")
        model.floor_ = Mismatch(**about)


# --- What was tried --------------------------------------------------------------------------------------------------


class SpanPath:
    """The path of λ in the span of a basis, if λ was chosen; ``criterion`` names it where the file does not."""

    def __init__(self, criterion: str = "") -> None:
        self.criterion = criterion

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        if "path_" not in vars(model):
            return
        path: SummaryPath = model.path_
        if not self.criterion:
            header["path"] = path.criterion_name
        arrays["path.lam"], arrays["path.criterion"] = path.lam, path.criterion
        arrays["path.df"], arrays["path.index"] = path.df, path.index

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        if "path.lam" not in arrays and (self.criterion or "path" not in header):
            return
        name = self.criterion or header["path"]
        if name not in ("gcv", "risk", "loo"):
            raise ValueError("its path of λ does not name its criterion")
        lam, df, criterion, index = path_arrays(arrays, len(model.predictor_.intercept), model.one_target_)
        if not np.all(np.isfinite(df) & (df >= 0)) or np.any(np.isnan(criterion)):
            raise ValueError("its path of λ has scores that are not numbers")
        model.path_ = SummaryPath(lam, criterion, df, name, index)


def path_arrays(arrays: Arrays, T: int, one: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """λ, degrees of freedom, criterion and choices of a path; the two in the middle may be unknown or infinite."""
    lam, df, criterion, index = (arrays[f"path.{name}"] for name in ("lam", "df", "criterion", "index"))
    L = len(lam) if lam.ndim == 1 else 0
    good = L > 0 and lam.dtype.kind == df.dtype.kind == criterion.dtype.kind == "f" and df.shape == (L,)
    good = good and bool(np.all(np.isfinite(lam) & (lam > 0))) and criterion.shape == ((L,) if one else (L, T))
    if not (good and positions(index, T, L)):
        raise ValueError("the arrays of its path of λ do not match")
    return lam, df, criterion, index


def positions(index: np.ndarray, T: int, count: int) -> bool:
    """Whether an array holds a position among so many for each target."""
    return index.dtype.kind == "i" and index.shape == (T,) and bool(np.all((index >= 0) & (index < count)))


#: the function of a model that was learned from sums of labels and features, its λ and the path to it
LEARNED_FROM_SUMS: tuple[Part, ...] = (
    SpanFunction(),
    Entries(lam_=LAM_FOUND, loss_=_LossSpec(), n_rounds_=Whole(1), n_features_rule_=Whole(0)),
    SpanPath(),
)


# --- Checks that parts share -----------------------------------------------------------------------------------------


def are_counts(values: np.ndarray) -> bool:
    """Whether an array is a list of positive whole numbers, at least one."""
    return values.ndim == 1 and values.size > 0 and values.dtype.kind == "i" and bool(np.all(values > 0))


def texts(what: str, value: Any, counts: Sequence[int]) -> list[str]:
    """The list of names, as many as there may be; a ValueError if it is not one."""
    if not are_texts(value, counts):
        raise ValueError(f"the number of names of its {what} is wrong")
    return list(value)


def _one_target(value: Any, n_outputs: int) -> bool:
    """Whether labels came as a vector."""
    if type(value) is not bool or (value and n_outputs != 1):
        raise ValueError("it does not say how many labels it predicts")
    return value


def _feature_names(model: Any) -> list[str]:
    """The names of the inputs that a model has learned; none where its rows had no names."""
    return [str(name) for name in vars(model).get("feature_names_in_", ())]


def _read_feature_names(model: Any, header: Header, n_features: int) -> None:
    """Give a new model the names of its inputs, if the file has any."""
    if names := texts("columns", header["feature_names"], (0, n_features)):
        model.feature_names_in_ = np.asarray(names, dtype=object)
