"""Public rows: those of LESS, with the sites it reports, and those from which a private fit makes its basis.

The basis of a private fit comes from public knowledge alone. Of the private rows it uses only what they say of
themselves without being read (:class:`~unpooled.data.sources.UnreadRows`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

from .._base.checks import check_weights, check_X, name_argument
from .._base.rows import Source, concatenate, read_site_labels
from ..bases import Basis
from ..bases.base import KernelWithoutBasis
from ..data.sources import UnreadRows, is_stream, label_shape, open_stream, split_named_columns
from ..kernels import Gaussian, Kernel, as_kernel, sample_frequencies
from ..kernels.stationary import is_median
from ..privacy.rounds.schedule import check_bounded, standard_normal

MOST = 20_000  # rows of a stream that are taken as the public sample


def public_rows(
    basis: Basis, X: Any, y: Any, public: Any, sample_weight: Any, random_state: Any
) -> tuple[Any, np.ndarray | None]:
    """The rows the basis is learned from, and their weights: the public ones, or X itself."""
    if public is None and not is_stream(X):
        X, _, weights = split_named_columns(basis, X, y, sample_weight)
        return X, None if weights is None else check_weights(weights, check_X(basis, X, reset=True))
    if public is None:
        return _draw_rows(open_stream(X, y, sample_weight), random_state)
    # The public sample may have been cut from the same table: labels and weights are no inputs there either.
    named = [y, sample_weight] if not isinstance(y, (list, tuple)) else [*y, sample_weight]
    named = [name for name in named if isinstance(name, str)]
    if is_stream(public):
        return _draw_rows(open_stream(public), random_state, named)
    if named and any(name in named for name in getattr(public, "columns", [])):
        public = public[[name for name in public.columns if name not in named]]
    return public, None


def _draw_rows(source: Source, random_state: Any, dropped: list[str] | None = None) -> tuple[Any, np.ndarray | None]:
    """Draw at most MOST rows of a stream at random; data frames keep the names of their columns."""
    rows = np.arange(source.n_rows)
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(random_state).choice(rows, MOST, replace=False))
    sample = concatenate([part.read() for part in source.slices(rows)])
    if source.names is None:
        return sample.X, sample.weights
    import pyarrow as pa

    columns = {name: sample.X[:, j] for j, name in enumerate(source.names) if name not in (dropped or [])}
    return pa.table(columns), sample.weights


def site_counts(sites: Any, n: int) -> list[dict[str, Any]]:
    """Return the name and the number of rows of every site."""
    if sites is None:
        return []
    labels = read_site_labels("sites", sites, n)
    assert labels is not None
    names, counts = np.unique(labels, return_counts=True)
    return [{"name": str(name), "rows": int(count)} for name, count in zip(names, counts)]


def basis_and_rows(
    model: Any, X: Any, y: Any, public: Any, make: Callable[[Kernel, bool], Basis]
) -> tuple[Basis, UnreadRows]:
    """Return the fitted basis and the rows; ``make`` makes a basis for a kernel, with or without public rows.

    Length scale and scaling of the inputs come from the public rows. Without them the kernel must have a number for its
    length scale, and features are made for rows drawn from the standard normal distribution.
    """
    if model.basis is not None:
        check_no_public(public)
        return model.basis, private_rows(model.basis, X, y)
    if public is not None:
        basis = make(as_kernel(model.kernel), True)
        with name_argument("public"):
            basis.fit(public)
        return basis, private_rows(basis, X, y)
    rows = private_rows(model, X, y, learn=True)
    basis = make(_kernel_without_public(model), False)
    basis.fit(standard_normal(model.n_features_in_))
    if hasattr(model, "feature_names_in_"):
        basis.name_columns(model.feature_names_in_)
    return basis, rows


def check_no_public(public: Any) -> None:
    """Raise a ValueError if there are public rows beside a fitted basis."""
    if public is not None:
        raise ValueError("basis was fitted to its own public sample already: leave public out")


def private_rows(owner: Any, X: Any, y: Any, *, learn: bool = False) -> UnreadRows:
    """The rows of a private fit. Those that must be read for that are read here: they were paid for before."""
    rows = UnreadRows.of(owner, X, y, learn=learn)
    if rows.must_be_read:
        rows.read()
    if rows.n_labels not in (None, 1):
        raise ValueError(f"y must have one label for each row, and it has {rows.n_labels}")
    if len(label_shape(rows.y) or ()) == 2:
        warnings.warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning, stacklevel=4)
    return rows


class BoundedKernel(KernelWithoutBasis):
    """A kernel through which one record reaches no further than a bound, or None."""

    words = f"bounded: {KernelWithoutBasis.words}"

    def check(self, name: str, value: Any) -> None:
        super().check(name, value)
        check_bounded(value)


def _kernel_without_public(model: Any) -> Kernel:
    kernel = Gaussian(1.0) if model.kernel is None else as_kernel(model.kernel)
    if any(is_median(value) for value in kernel.get_params().values()):
        raise ValueError(
            "without a public sample the kernel cannot be used: there are no rows to take length_scale='median' from, "
            "so give a number (kernel=None is Gaussian(1.0) here), or give public rows to fit"
        )
    try:
        sample_frequencies(kernel, 1, model.n_features_in_, np.random.default_rng(0))
    except ValueError as error:
        raise ValueError(f"without a public sample the kernel cannot be used: {error}") from None
    return kernel
