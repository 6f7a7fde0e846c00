"""Ways to (M + μI)⁻¹ v beside an eigendecomposition: panels of a Cholesky factor, the banded form, refined singles."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unpooled._linalg import banded, cholesky, refine
from unpooled._linalg.operator import Decomposition, NotPositiveDefinite

few = settings(max_examples=15, deadline=None)


def positive(seed: int, n: int) -> np.ndarray:
    """A symmetric matrix with eigenvalues from 0 to n."""
    G = np.random.default_rng(seed).normal(size=(n, n + 2))
    return G @ G.T / n


def right_sides(seed: int, n: int, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(seed + 1).normal(size=(n, columns))


def inverse(M: np.ndarray, mu: float) -> np.ndarray:
    return np.linalg.inv(M + mu * np.eye(len(M)))


@few
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), panel=st.integers(1, 12), mu=st.floats(1e-2, 10.0))
def test_panels_of_any_width_give_the_inverse(seed, n, panel, mu):
    M, v = positive(seed, n), right_sides(seed, n)
    L = M + mu * np.eye(n)
    cholesky.factor_(L, panel)
    assert_allclose(np.tril(L), np.linalg.cholesky(M + mu * np.eye(n)), atol=1e-9)
    assert_allclose(cholesky.solve(L, v.copy(), panel), inverse(M, mu) @ v, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    "library", [np.asarray, torch.asarray, array_api_strict.asarray], ids=["numpy", "torch", "strict"]
)
def test_a_factor_solves_in_every_array_library(library):
    M, v = positive(3, 12), right_sides(3, 12)
    found = cholesky.factor(library(M.copy()), 0.1)(library(v))
    assert_allclose(np.asarray(found), inverse(M, 0.1) @ v, rtol=1e-9)


def test_a_matrix_without_a_factor_is_refused():
    with pytest.raises(NotPositiveDefinite):
        cholesky.factor(-np.eye(6), 1e-3)


@few
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), block=st.integers(2, 8), mu=st.floats(1e-2, 10.0))
def test_the_banded_form_gives_solutions_and_diagonals_for_every_shift(seed, n, block, mu):
    M, V = positive(seed, n), right_sides(seed, n, 2)
    exact = {shift: inverse(M, shift) for shift in (mu, 3 * mu)}
    for reduced in (banded.reduce(M.copy(), block), banded.reduce_for_solving(M.copy(), block)):
        found = reduced.solve(np.asarray([mu, 3 * mu]), V)
        assert_allclose(found[:, 0], exact[mu] @ V[:, 0], rtol=1e-7, atol=1e-8)
        assert_allclose(found[:, 1], exact[3 * mu] @ V[:, 1], rtol=1e-7, atol=1e-8)
    assert_allclose(banded.reduce(M.copy(), block).inverse_diagonal(mu), np.diag(exact[mu]), rtol=1e-8)


@few
@given(seed=st.integers(0, 10**6), n=st.integers(2, 30), mu=st.floats(1e-2, 10.0))
def test_single_precision_is_refined_to_double(seed, n, mu):
    M, V = positive(seed, n), right_sides(seed, n)
    values, vectors = np.linalg.eigh(M.astype(np.float32))
    rough = refine.SpectralInverse(Decomposition(np.maximum(values, 0).astype(float) / n, vectors))
    mus = np.asarray([mu, 2 * mu, 5 * mu])
    found, done = refine.solve_shifted(M, mus, V, rough)
    assert np.all(done)
    for j, shift in enumerate(mus):
        exact = inverse(M, shift) @ V[:, j]
        assert_allclose(found[:, j], exact, rtol=1e-9, atol=1e-10 * np.max(np.abs(exact)))
