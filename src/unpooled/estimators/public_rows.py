"""Public rows: those of LESS, with the sites it reports, and those from which a private fit makes its basis.

The basis of a private fit comes from public knowledge alone. Of the private rows it uses only what they say of
themselves without being read (:class:`~unpooled.data.sources.UnreadRows`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted

from .._base.arrays import to_numpy
from .._base.checks import check_weights, check_X, name_argument
from .._base.rows import Source, concatenate, read_site_labels
from ..bases import Basis
from ..bases.base import KernelOrBasis
from ..data.sources import UnreadRows, is_stream, label_shape, open_stream, split_named_columns
from ..kernels import Gaussian, Kernel, as_kernel, sample_frequencies
from ..kernels.parts import free_parts
from ..privacy.sensitivity import require_kernel_bound
from .private_plan import MOST_IF_RICH, telling_features

MOST = 20_000  # rows of a stream that are taken as the public sample


def public_rows(
    basis: Basis, X: Any, y: Any, public: Any, sample_weight: Any, random_state: Any
) -> tuple[Any, np.ndarray | None]:
    """The rows the basis is learned from, and their weights: the public ones, or X itself."""
    if public is None and not is_stream(X):
        X, _, weights = split_named_columns(basis, X, y, sample_weight)
        return X, None if weights is None else check_weights(weights, check_X(basis, X, reset=True))
    if public is None:
        return _drawn(open_stream(X, y, sample_weight), random_state)
    # The public sample may have been cut from the same table: labels and weights are no inputs there either.
    named = [y, sample_weight] if not isinstance(y, (list, tuple)) else [*y, sample_weight]
    named = [name for name in named if isinstance(name, str)]
    if is_stream(public):
        return _drawn(open_stream(public), random_state, named)
    if named and any(name in named for name in getattr(public, "columns", [])):
        public = public[[name for name in public.columns if name not in named]]
    return public, None


def _drawn(source: Source, random_state: Any, dropped: list[str] | None = None) -> tuple[Any, np.ndarray | None]:
    """At most MOST rows of a stream, drawn at random; data frames keep the names of the columns."""
    rows = np.arange(source.n_rows)
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(random_state).choice(rows, MOST, replace=False))
    found = concatenate([part.read() for part in source.slices(rows)])
    if source.names is None:
        return found.X, found.weights
    import pyarrow as pa

    columns = {name: found.X[:, j] for j, name in enumerate(source.names) if name not in (dropped or [])}
    return pa.table(columns), found.weights


def site_counts(sites: Any, n: int) -> list[dict[str, Any]]:
    """The name and the number of rows of every site."""
    if sites is None:
        return []
    labels = read_site_labels("sites", sites, n)
    assert labels is not None
    names, counts = np.unique(labels, return_counts=True)
    return [{"name": str(name), "rows": int(count)} for name, count in zip(names, counts)]


STAND_IN = 1000  # rows of the standard normal law in the place of a public sample


def basis_and_rows(
    model: Any, X: Any, y: Any, public: Any, make: Callable[[Kernel, bool], Basis]
) -> tuple[Basis, UnreadRows]:
    """The fitted basis and the rows; ``make`` gives a basis for a kernel, with or without public rows.

    Length scale and scaling of the inputs come from the public rows. Without them the kernel must have a length of its
    own, and features are made for rows of the standard normal law.
    """
    if isinstance(model.kernel, Basis):
        check_is_fitted(model.kernel, "map_")
        if public is not None:
            raise ValueError("kernel is a fitted basis, which has its public sample already: leave public out")
        return model.kernel, private_rows(model.kernel, X, y)
    if public is not None:
        basis = make(Gaussian("median") if model.kernel is None else as_kernel(model.kernel), True)
        with name_argument("public"):
            basis.fit(public)
        return basis, private_rows(basis, X, y)
    rows = private_rows(model, X, y, learn=True)
    basis = make(_kernel_without_public(model), False)
    basis.fit(standard_normal(model.n_features_in_))
    if hasattr(model, "feature_names_in_"):
        basis.name_columns(model.feature_names_in_)
    return basis, rows


def private_rows(owner: Any, X: Any, y: Any, *, learn: bool = False) -> UnreadRows:
    """The rows of a private fit. Those that must be read for that are read here: they were paid for before."""
    rows = UnreadRows.of(owner, X, y, learn=learn)
    if rows.must_be_read:
        rows.read()
    if rows.n_labels not in (None, 1):
        raise ValueError(f"y must be one label a row, and it has {rows.n_labels}")
    if len(label_shape(rows.y) or ()) == 2:
        warnings.warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning, stacklevel=4)
    return rows


def widened(basis: Basis, public: Any) -> Basis:
    """The same kind of basis with all features that tell something of other rows than the public ones."""
    wide: Basis = clone(basis).set_params(n_features=MOST_IF_RICH).fit(public)
    telling = telling_features(wide.eigenvalues_, wide.spread_)
    if telling <= basis.n_features_:
        return basis
    return wide if telling >= wide.n_features_ else clone(basis).set_params(n_features=telling).fit(public)


def public_features(basis: Basis, public: Any, most: int) -> np.ndarray:
    """Features of at most so many public rows."""
    rows = to_numpy(check_X(basis, public, reset=False)).astype(np.float64)
    return np.asarray(basis.features(rows[np.random.default_rng(0).permutation(len(rows))[:most]]))


def n_public_rows(public: Any) -> int:
    """How many there are, where they say so; whether they are rows at all is for the basis to find out."""
    shape = getattr(public, "shape", None)
    if isinstance(shape, tuple) and shape:
        return int(shape[0])
    return len(public) if isinstance(public, (list, tuple)) else STAND_IN


def standard_normal(d: int) -> np.ndarray:
    """The same rows always. They stand for inputs that nobody has told of; the guarantee does not need them."""
    return np.random.default_rng(0).standard_normal((STAND_IN, d))


def check_bounded(kernel: Any) -> None:
    """A kernel without a bound lets one record reach any distance, and one chosen with labels tells of them."""
    if isinstance(kernel, Basis) or kernel is None:
        return
    kernel = as_kernel(kernel)
    if free_parts(kernel):
        raise ValueError(
            "length_scale='auto' would look at private labels: give numbers or 'median', or take the kernel from "
            "unpooled.choose_length_scales(kernel, X, y) on public rows"
        )
    advice = (
        "use Gaussian, Laplacian or Matern, or give as kernel a basis that was fitted to public rows, for which no "
        "more than a bounded part of a record counts"
    )
    require_kernel_bound(kernel, "the weights", advice)


class BoundedKernel(KernelOrBasis):
    """A kernel through which one record reaches no further than a bound, or a fitted basis, or None."""

    words = f"bounded: {KernelOrBasis.words}"

    def check(self, name: str, value: Any) -> None:
        super().check(name, value)
        check_bounded(value)

    def to_plain(self, value: Any) -> Any:
        """Of the kernel of a basis only what may be asked for without the basis."""
        return super().to_plain(
            None if isinstance(value, Basis) and not math.isfinite(value.kernel_.kappa()) else value
        )


def _kernel_without_public(model: Any) -> Kernel:
    kernel = Gaussian(1.0) if model.kernel is None else as_kernel(model.kernel)
    try:
        sample_frequencies(kernel, 1, model.n_features_in_, np.random.default_rng(0))
    except ValueError as error:
        raise ValueError(f"without a public sample the kernel cannot be used: {error}") from None
    return kernel
