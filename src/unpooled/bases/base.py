"""Basis, the contract of all bases: features φ: X → ℝ^M that all sites share, with the spectrum of the public sample.

A basis is fitted to the public rows, and its eigenvalues λ^u are the mean squares of its features on these same rows.
Small eigenvalues underestimate the features of other rows. ``spread_`` therefore says how large the features are at
fresh rows: the features are learned from one half of the public sample and evaluated on the other half. The estimate of
the risk uses ``spread_``.

Features are computed in blocks of one shape, and the last block is padded, so that the features of a row are the same
to the bit whatever rows stand beside it. Together with sums in twice double precision
(:mod:`unpooled._base.compensated`), this makes the model from many sites equal to the pooled one.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from .._base import files, html, threads
from .._base.arrays import Array, as_floating, is_numpy, like, namespace, take_rows, to_numpy
from .._base.checks import are_texts, check_weights, check_X
from .._base.fits import undo_on_failure
from .._base.html import NotebookMixin
from .._base.kinds import Kind
from .._base.text import quote
from ..kernels.specs import KernelKind
from .maps import RowMap, from_parts, read_array

# Rows are mapped in blocks of one shape, and the last block is padded. Matrix products then round each row alike,
# whatever rows come with it and wherever it stands, and so a summary cannot depend on how rows are split over sites.
# Products treat up to 24 rows at the edge of a block differently; blocks of a multiple of 192 rows have no such edge.
ROWS = 192
_SINGLE_ERROR = 1e-2  # the error that single precision may cause in the smallest feature, relative to its size


class Basis(NotebookMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features φ(x) = Aᵀ r(x), rotated so that the public sample's covariance of φ is diag(λ^u), λ^u descending.

    A concrete basis defines ``_learn``, which computes the map r, A, λ^u and the public mean of φ.

    Attributes
    ----------
    map_ : RowMap, the map r
    coefficients_ : array of shape (m, M), the matrix A
    eigenvalues_ : array of shape (M,), λ^u: the diagonal of (1/n) Σ φ(u_j)φ(u_j)ᵀ
    mean_ : array of shape (M,), (1/n) Σ φ(u_j)
    spread_ : array of shape (M,)
        An estimate of E φ_i(x)² at a fresh row, at least λ_i^u. It comes from features that were learned on one half of
        the sample and evaluated on the other, because the smallest eigenvalues are too small for other rows.
    n_public_ : int, the number of public rows
    kernel_ : Kernel, with a number for its length scale
    digest : str, the SHA-256 over everything that decides φ; only summaries of the same digest can be added
    """

    def fit(self, U: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn the basis from the public rows ``U`` with the weights ``sample_weight``; labels are not used.

        Parameters
        ----------
        U : array, tensor or frame of public rows
        y : ignored
        sample_weight : one weight for each row, with the effect of repeated rows

        Returns
        -------
        self
        """
        with undo_on_failure(self):
            U = check_X(self, U, reset=True)
            weights = check_weights(sample_weight, U)
            if weights is not None:  # rows of weight zero are dropped
                U, weights = take_rows(U, np.flatnonzero(weights > 0)), weights[weights > 0]
            self._learn(U, weights)
            self.spread_ = self._estimate_spread(U, weights)
            self._remember()
        return self

    def name_columns(self, names: Iterable[str]) -> Self:
        """Give names to the columns of a basis that was fitted without them; the names become part of the digest.

        Parameters
        ----------
        names : one name for each column, in their order

        Returns
        -------
        self
        """
        check_is_fitted(self, "map_")
        if not are_texts(names := list(names), (self.n_features_in_,)):
            raise ValueError(f"names must be one text for each of {self.n_features_in_} columns, got {quote(names)}")
        self.feature_names_in_ = np.asarray(names, dtype=object)
        self._remember()
        return self

    def transform(self, X: Any) -> Array:
        """Compute φ(x_i) for the rows of X, in X's array library, and in single precision where that is safe.

        Parameters
        ----------
        X : array, tensor or frame of shape (n, d)

        Returns
        -------
        array of shape (n, M)
        """
        check_is_fitted(self, "map_")
        return self.features(check_X(self, X, reset=False))

    def features(self, X: Array) -> Array:
        """Compute φ(x_i) for rows that have been checked; the features of a row do not depend on the rows beside it.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n, M)
        """
        X = self.to_safe_precision(as_floating(X))
        A = like(self.coefficients_, X)
        if not is_numpy(X):
            return self.map_.block(X) @ A
        out = np.empty((len(X), self.n_features_), dtype=X.dtype)

        def fill(rows: slice) -> None:
            out[rows] = self.compute_block(X[rows], A)

        with threads.one_blas_thread:
            n_rows = self.rows_at_once
            threads.for_each(fill, [slice(i, i + n_rows) for i in range(0, len(X), n_rows)])
        return out

    def compute_block(self, X: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Compute φ for at most ``rows_at_once`` rows, padded to a block of exactly that many."""
        missing = self.rows_at_once - len(X)
        full = X if missing == 0 else np.concatenate([X, np.broadcast_to(X[:1], (missing, X.shape[1]))])
        return (self.map_.block(full) @ A)[: len(X)]

    @property
    def rows_at_once(self) -> int:
        """Number of rows of a block: always the same, a few MiB of them."""
        return ROWS * min(max(threads.BLOCK_ELEMENTS // (ROWS * self.map_.size), 1), 8)

    def to_safe_precision(self, X: Array) -> Array:
        """Convert rows to double precision unless single precision is accurate enough for every feature."""
        xp = namespace(X)
        return X if X.dtype != xp.float32 or self.single_is_safe_ else xp.astype(X, xp.float64)

    @property
    def n_features_(self) -> int:
        """Number of features, M."""
        return int(self.coefficients_.shape[1])

    @property
    def _n_features_out(self) -> int:
        return self.n_features_

    @property
    def kappa_sq_(self) -> float:
        """The bound κ² = sup K(x, x) ≥ Σ_i φ_i(x)²; for an unbounded kernel, over the public rows only."""
        return self._kappa_sq

    @property
    def digest(self) -> str:
        check_is_fitted(self, "map_")
        return self._digest

    def save(self, path: files.PathLike) -> None:
        """Write the basis to one file; :func:`unpooled.bases.load` reads it.

        Parameters
        ----------
        path : the file to write
        """
        check_is_fitted(self, "map_")
        header, arrays = self._content()
        files.write(path, "basis", header, arrays)

    def describe(self) -> str:
        """Describe the basis in a few lines.

        Returns
        -------
        str
        """
        check_is_fitted(self, "map_")
        names = [str(name) for name in getattr(self, "feature_names_in_", [])]
        columns = ", ".join(names) if names else f"{self.n_features_in_} columns without names"
        scaled = "not scaled"
        if self.map_.scaling is not None:
            scaled = "scaled to mean 0 and standard deviation 1 on the public sample"
        return "\n".join(
            [
                f"basis {self.digest[:12]}: {self.n_features_} features of the kernel {self.kernel_!r}",
                f"made from {self.n_public_} public rows; it keeps {self.map_.size} of these rows, or as many waves",
                f"inputs: {columns}; {scaled}",
                f"public eigenvalues from {self.eigenvalues_[0]:.2g} to {self.eigenvalues_[-1]:.2g}",
            ]
        )

    def _learn(self, U: Array, weights: np.ndarray | None) -> None:
        raise TypeError(f"{type(self).__name__} is not a complete basis: it must define _learn(U, weights)")

    def _estimate_spread(self, U: Array, weights: np.ndarray | None) -> np.ndarray:
        U = self.map_.scale_rows(to_numpy(U).astype(np.float64))
        if len(U) < 4:
            return self.eigenvalues_.copy()
        order = np.random.default_rng(0).permutation(len(U))
        halves = [order[: len(U) // 2], order[len(U) // 2 :]]
        w = np.ones(len(U)) if weights is None else weights
        if min(w[half].sum() for half in halves) <= 0:
            return self.eigenvalues_.copy()
        twin = clone(self).set_params(kernel=self.kernel_, standardize=False)
        twin._learn(U[halves[0]], w[halves[0]])
        on_other_half = np.average(twin.features(U[halves[1]]) ** 2, axis=0, weights=w[halves[1]])
        # A half has fewer features. Those beyond it are taken to be as large as its last one, their upper bound.
        n_more = max(self.n_features_ - len(on_other_half), 0)
        fresh = np.append(on_other_half, np.full(n_more, on_other_half[-1]))[: self.n_features_]
        return np.maximum(fresh, self.eigenvalues_)

    def _set_features(
        self, map_: RowMap, A: np.ndarray, eigenvalues: np.ndarray, mean: np.ndarray, n_public: int, kappa_sq: float
    ) -> None:
        self.map_, self.kernel_ = map_, map_.kernel
        signs = np.where(mean < 0, -1.0, 1.0)  # eigenvectors have no sign of their own: make every mean non-negative
        self.coefficients_ = np.ascontiguousarray(A * signs)
        self.eigenvalues_ = np.maximum(eigenvalues, 0.0)
        self.mean_ = mean * signs
        self.n_public_ = int(n_public)
        self._kappa_sq = float(kappa_sq)

    def __sklearn_is_fitted__(self) -> bool:
        return "map_" in vars(self)

    def _below_picture(self) -> str:
        return html.bullets(self.describe().splitlines()) if self.__sklearn_is_fitted__() else ""

    def _remember(self) -> None:
        """Compute the digest and whether single precision is accurate enough, and register the basis."""
        header, arrays = self._content()
        self._digest = files.digest(header, arrays)
        # φ_i = A_iᵀr rounds by about eps·sup|r_j|·|A_i|, and is √λ_i large.
        rounding = float(np.finfo(np.float32).eps) * self.map_.magnitude(self._kappa_sq)
        sizes = np.sqrt(self.eigenvalues_)
        self.single_is_safe_ = bool(
            np.all(rounding * np.linalg.norm(self.coefficients_, axis=0) <= _SINGLE_ERROR * sizes)
        )
        living_bases[self._digest] = self

    def _content(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = self.map_.to_parts()
        header |= {
            "class": type(self).__name__,
            "n_public": self.n_public_,
            "kappa_sq": self._kappa_sq,
            "feature_names": [str(name) for name in getattr(self, "feature_names_in_", [])],
        }
        arrays |= {"coefficients": self.coefficients_, "eigenvalues": self.eigenvalues_, "mean": self.mean_}
        arrays["spread"] = self.spread_
        return header, arrays

    @classmethod
    def _from_content(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        with files.open_content(header, arrays, cls.__name__) as (entries, numbers):
            entries.get("class")  # already used to choose this class
            return cls._read(entries, numbers)

    @classmethod
    def _read(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        map_ = from_parts(header, arrays)
        A, eigenvalues = read_array("coefficients", arrays, ndim=2), read_array("eigenvalues", arrays, ndim=1)
        mean, spread = read_array("mean", arrays, ndim=1), read_array("spread", arrays, ndim=1)
        names = header["feature_names"]
        M = A.shape[1]
        if not (M and A.shape[0] == map_.size and eigenvalues.shape == mean.shape == spread.shape == (M,)):
            raise ValueError("the shapes of its arrays do not match")
        if np.any(eigenvalues < 0) or np.any(np.diff(eigenvalues) > 0):
            raise ValueError("its eigenvalues are negative or not in descending order")
        n_public, kappa_sq = header["n_public"], header["kappa_sq"]
        if not (type(n_public) is int and n_public > 0 and isinstance(kappa_sq, float) and 0 < kappa_sq < math.inf):
            raise ValueError("its number of public rows or its κ² is not a positive number")
        if not are_texts(names, (0, map_.n_features_in)):
            raise ValueError("its column names do not match its columns")
        basis = cls(kernel=map_.kernel, n_features=M, standardize=map_.scaling is not None)
        basis.n_features_in_ = map_.n_features_in
        if names:
            basis.feature_names_in_ = np.asarray(names, dtype=object)
        basis._set_features(map_, A, eigenvalues, mean, n_public, kappa_sq)
        basis.spread_ = spread
        basis._remember()
        return basis


# Fitted bases that are still in use in this process, by their digests: a summary that was read from a file finds its
# basis here. Equal digests mean equal functions, so it does not matter which of several equal bases it finds.
living_bases: weakref.WeakValueDictionary[str, Basis] = weakref.WeakValueDictionary()


class KernelWithoutBasis(KernelKind):
    """The kind of anything that a user calls a kernel; a fitted basis has a parameter of its own."""

    def check(self, name: str, value: Any) -> None:
        if isinstance(value, Basis):
            raise ValueError(f"{name} must be a kernel, got a fitted basis: pass it as basis=")
        super().check(name, value)


class FittedBasis(Kind):
    """A fitted basis, or None. No file of a model keeps it: the function has all that predicting needs."""

    words = "a fitted basis of up.bases, or None"
    in_files = False

    def check(self, name: str, value: Any) -> None:
        super().check(name, value)
        if value is not None:
            check_is_fitted(value, "map_")

    def holds(self, value: Any) -> bool:
        return value is None or isinstance(value, Basis)


def check_kernel_or_basis(kernel: Any, basis: Any) -> None:
    """Raise a ValueError if both are given: a basis has a kernel already."""
    if kernel is not None and basis is not None:
        raise ValueError(
            "kernel and basis cannot both be given: a fitted basis has a kernel already, so leave kernel out"
        )
