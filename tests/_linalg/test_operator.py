"""The operator with weights and centring against the formulas written out with dense matrices.

It is also run through its decompositions: full from ``eigh``, thin from pivoted columns of the kernel.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests import reference
from tests.made_up import points
from unpooled._linalg import low_rank, operator
from unpooled.kernels import Gaussian

few = settings(max_examples=15, deadline=None)
SIZES = {"seed": st.integers(0, 10**6), "n": st.integers(3, 25), "center": st.booleans(), "weighted": st.booleans()}


def weights_of(seed: int, n: int, weighted: bool) -> np.ndarray:
    """Weights that sum to one."""
    w = np.random.default_rng(seed).uniform(0.2, 3.0, n) if weighted else np.ones(n)
    return w / w.sum()


def by_hand(X: np.ndarray, w: np.ndarray, center: bool) -> np.ndarray:
    """A = D^½ K̂ D^½ with the kernel centred on the weighted sample."""
    K = reference.gaussian(X, X, 1.0)
    H = reference.centering(len(X), w) if center else np.eye(len(X))
    root = np.sqrt(w)
    return root[:, None] * (H @ K @ H.T) * root


def case(seed: int, n: int, center: bool, weighted: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, normalised weights, and A by hand."""
    X, w = points(seed, n, 2), weights_of(seed, n, weighted)
    return X, w, by_hand(X, w, center)


@few
@given(**SIZES)
def test_the_dense_matrix_is_n_times_the_operator(seed, n, center, weighted):
    X, w, A = case(seed, n, center, weighted)
    M, _ = operator.build_dense(reference.gaussian(X, X, 1.0), w if weighted else None, center)
    assert_allclose(M, n * A, atol=1e-12 * n)


@few
@given(**SIZES, lam=st.floats(1e-3, 1.0))
def test_functions_of_a_decomposition_are_functions_of_the_matrix(seed, n, center, weighted, lam):
    X, w, A = case(seed, n, center, weighted)
    M, _ = operator.build_dense(reference.gaussian(X, X, 1.0), w if weighted else None, center)
    full = operator.eigh(M, n, 1.0)
    values, vectors = np.linalg.eigh(A)
    h = 1.0 / (np.maximum(values, 0.0) + lam)
    v = np.random.default_rng(seed).normal(size=(n, 2))
    inverse = (vectors * h) @ vectors.T
    assert_allclose(full.apply(1.0 / (full.sigma + lam), 1.0 / lam, full.project(v)), inverse @ v, rtol=1e-8, atol=1e-8)
    diagonal = full.diagonals(1.0 / (full.sigma + lam)[None, :], np.asarray([1.0 / lam]))
    assert_allclose(diagonal[0], np.diag(inverse), rtol=1e-8)


@few
@given(**SIZES)
def test_a_thin_decomposition_is_the_operator_where_it_holds_enough_columns(seed, n, center, weighted):
    X, w, A = case(seed, n, center, weighted)
    found = low_rank.decompose(Gaussian(1.0), X, w if weighted else None, center, 1e-4, n)
    assert found is not None
    thin, _ = found
    assert_allclose((thin.U * thin.sigma) @ thin.U.T, A, atol=1e-7)
    assert_allclose(thin.U.T @ thin.U, np.eye(len(thin.sigma)), atol=1e-10)


def test_a_thin_decomposition_says_no_where_columns_do_not_suffice():
    X = points(0, 40, 6)
    assert low_rank.decompose(Gaussian(0.05), X, None, False, 1e-6, 5) is None


def test_a_matrix_that_is_not_positive_semi_definite_is_refused():
    with pytest.raises(operator.NotPositiveDefinite):
        operator.eigh(-np.eye(5), 5, 1.0)


def test_values_that_are_not_finite_are_refused():
    M = np.eye(4)
    M[0, 0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        operator.eigh(M, 4, 1.0)
