"""A basis: features orthonormal in the space of the kernel, with the public sample's spectrum, alike at all sites.

Tests `bases/base.py`, `bases/empirical.py` and `bases/random.py`.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

import unpooled as up
from tests import reference
from tests.made_up import points
from unpooled.bases import EmpiricalFeatures, RandomFeatures
from unpooled.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial

few = settings(max_examples=12, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
sizes = st.integers(1, 25)

KERNELS = {
    "gaussian": (Gaussian(0.7), lambda X, Z: reference.gaussian(X, Z, 0.7)),
    "wide gaussian": (Gaussian(5.0), lambda X, Z: reference.gaussian(X, Z, 5.0)),
    "matern": (Matern(1.0), reference.matern),
    "scaled": (2.5 * Matern(0.7), lambda X, Z: 2.5 * reference.matern(X, Z, 0.7)),
    "linear": (Linear(), lambda X, Z: X @ Z.T),
    "polynomial": (Polynomial(2), lambda X, Z: (X @ Z.T / X.shape[1] + 1) ** 2),
}
every_kernel = pytest.mark.parametrize("name", KERNELS)
EITHER = {
    "empirical": lambda kernel=None, **options: EmpiricalFeatures(kernel, **options),
    "random": lambda kernel=None, **options: RandomFeatures(kernel, **{"n_features": 24, **options}),
}
either = pytest.mark.parametrize("kind", EITHER)


def sample(seed, n, duplicates):
    U = points(seed, n)
    return np.repeat(U, 3, axis=0) if duplicates else U


@every_kernel
@few
@given(seed=seeds, n=sizes, duplicates=st.booleans())
def test_the_features_of_a_point_are_no_longer_than_its_kernel_function(name, seed, n, duplicates):
    kernel, function = KERNELS[name]
    basis = EmpiricalFeatures(kernel).fit(sample(seed, n, duplicates))
    X = 2.0 * points(seed + 1, 8)
    squares = np.sum(basis.transform(X) ** 2, axis=1)
    K = np.diag(function(X, X))
    assert np.all(squares <= K * (1 + 1e-7))


@every_kernel
@few
@given(seed=seeds, n=sizes, duplicates=st.booleans())
def test_eigenvalues_are_those_of_the_kernel_matrix_and_the_public_covariance_is_diagonal(name, seed, n, duplicates):
    kernel, function = KERNELS[name]
    U = sample(seed, n, duplicates)
    basis = EmpiricalFeatures(kernel).fit(U)
    expected = np.linalg.eigvalsh(function(U, U) / len(U))[::-1]
    kept = basis.n_features_
    assert_allclose(basis.eigenvalues_, expected[:kept], atol=1e-12 * expected[0])
    assert np.all(expected[kept:] <= 1e-12 * expected[0])
    phi = basis.transform(U)
    assert_allclose(phi.T @ phi / len(U), np.diag(basis.eigenvalues_), atol=1e-9 * expected[0])
    assert_allclose(phi.mean(axis=0), basis.mean_, atol=1e-9 * np.sqrt(expected[0]))


@pytest.mark.parametrize("name", ["matern", "scaled", "linear", "polynomial"])
@few
@given(seed=seeds, n=st.integers(2, 25))
def test_features_are_orthonormal_in_the_space_of_the_kernel_and_the_papers_own_up_to_sign(name, seed, n):
    kernel, function = KERNELS[name]
    U, X = points(seed, n), points(seed + 1, 9)
    basis = EmpiricalFeatures(kernel).fit(U)
    anchors, A = basis.map_.points, basis.coefficients_
    assert_allclose(A.T @ function(anchors, anchors) @ A, np.eye(basis.n_features_), atol=1e-8)
    spectrum, phi = reference.empirical_features(function(U, U), function(X, U))
    gaps = np.abs(np.subtract.outer(spectrum, spectrum))[~np.eye(len(spectrum), dtype=bool)]
    if len(gaps) == 0 or gaps.min() > 1e-3 * spectrum[0]:  # else eigenvectors may be anything in their plane
        assert_allclose(np.abs(basis.transform(X)), np.abs(phi), atol=1e-7 * np.abs(phi).max())
    assert_allclose(basis.transform(X) @ basis.transform(X).T, phi @ phi.T, atol=1e-8 * np.abs(phi @ phi.T).max())


@pytest.mark.parametrize(
    ("kernel", "U", "rank"),
    [
        (Linear(), points(0, 50, 3), 3),
        (Linear(), np.zeros((5, 3)), 1),
        (Polynomial(2), points(0, 50, 2), 6),
        (Laplacian(1.0), np.repeat(points(0, 7), 9, axis=0), 7),
        (Laplacian(1.0), np.ones((30, 2)), 1),
        (Gaussian("median"), np.ones((30, 2)), 1),
        (Gaussian("median"), np.ones((1, 2)), 1),
        (Gaussian(1e6), points(0, 60, 1), None),
    ],
    ids=["linear", "zero", "polynomial", "duplicates", "one point", "one point, median", "one row", "nearly constant"],
)
@pytest.mark.parametrize("standardize", [False, True])
def test_a_sample_of_little_rank_has_few_features_and_nothing_is_divided_by_zero(kernel, U, rank, standardize):
    basis = EmpiricalFeatures(kernel, standardize=standardize).fit(U)
    if not standardize:
        assert basis.n_features_ == rank if rank else basis.n_features_ < 10
    assert np.all(np.isfinite(basis.transform(points(3, 20, U.shape[1]))))
    model = up.LESSRegressor(kernel, lam=1e-8, standardize=standardize, fit_intercept=True).fit(U, U[:, 0])
    assert np.all(np.isfinite(model.predict(points(3, 20, U.shape[1]))))


def test_auto_keeps_every_feature_that_counts_and_a_number_keeps_the_largest():
    U = points(0, 40)
    every, some = EmpiricalFeatures(Laplacian(1.0)).fit(U), EmpiricalFeatures(Laplacian(1.0), n_features=7).fit(U)
    assert every.n_features_ == 40
    assert_allclose(some.eigenvalues_, every.eigenvalues_[:7], rtol=1e-12)
    assert_allclose(some.transform(U), every.transform(U)[:, :7], atol=1e-9)
    assert EmpiricalFeatures(Laplacian(1.0), n_features=1000).fit(U).n_features_ == 40


def test_twenty_thousand_public_rows_are_spanned_by_a_few_of_them_and_all_count_in_the_spectrum():
    U = points(0, 20_000)
    basis = EmpiricalFeatures(Gaussian(1.0), max_points=100).fit(U)
    assert basis.map_.size <= 100
    assert basis.n_public_ == 20_000
    phi = basis.transform(U)
    assert_allclose(phi.T @ phi / len(U), np.diag(basis.eigenvalues_), atol=1e-9)
    assert np.all(np.sum(phi**2, axis=1) <= 1 + 1e-9)
    # The best 20 functions of all: the spectrum of the sample itself is hardly larger.
    whole = np.linalg.eigvalsh(Gaussian(1.0)(U[:2000]) / 2000)[::-1]
    assert_allclose(basis.eigenvalues_[:10], whole[:10], rtol=0.15)
    assert EmpiricalFeatures(Gaussian(1.0), n_features=150, max_points=100).fit(U[:1000]).map_.size > 100


@pytest.mark.parametrize("standardize", [False, True])
def test_public_weights_are_repeated_rows(standardize):
    U, w = points(0, 12), np.arange(12) % 4
    for kernel in (Matern("median"), Gaussian(0.5)):
        weighted = EmpiricalFeatures(kernel, standardize=standardize).fit(U, sample_weight=w)
        repeated = EmpiricalFeatures(kernel, standardize=standardize).fit(np.repeat(U, w, axis=0))
        assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
        assert_allclose(weighted.transform(U), repeated.transform(U), atol=1e-8)
        assert_allclose(weighted.mean_, repeated.mean_, atol=1e-9)


@pytest.mark.parametrize("kernel", [Gaussian(0.8), Laplacian(1.0), Matern(1.0, 2.5), 3.0 * Gaussian(1.0) + Matern(0.5)])
@pytest.mark.parametrize("M", [1, 501, 500])
def test_random_features_approximate_the_kernel_and_never_exceed_its_norm(kernel, M):
    X = points(1, 30)
    basis = RandomFeatures(kernel, n_features=M, seed=5).fit(points(0, 50))
    phi = basis.transform(X)
    assert phi.shape == (30, M)
    assert np.all(np.sum(phi**2, axis=1) <= basis.kappa_sq_ * (1 + 1e-9))
    assert basis.kappa_sq_ == pytest.approx(float(np.max(kernel.diag(X))))
    if M > 1:
        error = (phi @ phi.T - kernel(X)) / basis.kappa_sq_
        assert np.sqrt(np.mean(error**2)) < 1.3 / np.sqrt(M)


def test_random_features_have_the_public_covariance_diagonal_even_where_there_are_more_of_them_than_rows():
    U = points(0, 15)
    basis = RandomFeatures(Gaussian(1.0), n_features=40).fit(U)
    phi = basis.transform(U)
    assert_allclose(phi.T @ phi / 15, np.diag(basis.eigenvalues_), atol=1e-12)
    assert np.all(basis.eigenvalues_ >= 0)
    assert np.all(np.diff(basis.eigenvalues_) <= 0)
    model = up.SummaryRegressor(lam=1e-3, fit_intercept=True).fit_summary(up.Summary.of(basis, U, U[:, 0]))
    assert np.all(np.isfinite(model.predict(U)))


@either
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(1.0), Matern(1.0, 2.5)], ids=repr)
def test_a_rows_features_are_the_same_bits_whatever_rows_come_with_it(kind, dtype, kernel):
    basis = EITHER[kind](kernel, n_features=8).fit(points(0, 30))
    assert basis.single_is_safe_
    X = points(1, 700).astype(dtype)
    whole = basis.transform(X)
    assert whole.dtype == dtype
    assert_array_equal(
        np.concatenate([basis.transform(X[:1]), basis.transform(X[1:500]), basis.transform(X[500:])]), whole
    )
    order = np.random.default_rng(0).permutation(700)
    assert_array_equal(basis.transform(X[order]), whole[order])


DIFFERENT = {
    "the kernel": EmpiricalFeatures(Laplacian(1.0)),
    "the length scale": EmpiricalFeatures(Gaussian(1.0 + 1e-15)),
    "the number of features": EmpiricalFeatures(Gaussian(1.0), n_features=5),
    "the scaling": EmpiricalFeatures(Gaussian(1.0), standardize=True),
    "the points": EmpiricalFeatures(Gaussian(1.0), max_points=10),
    "the kind": RandomFeatures(Gaussian(1.0), n_features=20),
    "the seed": RandomFeatures(Gaussian(1.0), n_features=20, seed=1),
    "an odd number": RandomFeatures(Gaussian(1.0), n_features=19),
}


def test_the_digest_changes_with_everything_that_changes_the_features():
    U = points(0, 20)
    base = EmpiricalFeatures(Gaussian(1.0)).fit(U).digest
    found = {name: clone(basis).fit(U).digest for name, basis in DIFFERENT.items()}
    found["a public row"] = EmpiricalFeatures(Gaussian(1.0)).fit(U + np.eye(20, 2) * 1e-12).digest
    found["public weights"] = EmpiricalFeatures(Gaussian(1.0)).fit(U, sample_weight=np.arange(1, 21)).digest
    found["names"] = EmpiricalFeatures(Gaussian(1.0)).fit(pd.DataFrame(U, columns=["a", "b"])).digest
    found["other names"] = EmpiricalFeatures(Gaussian(1.0)).fit(pd.DataFrame(U, columns=["b", "a"])).digest
    assert len({base, *found.values()}) == len(found) + 1


@either
def test_the_digest_changes_with_nothing_else(kind, tmp_path):
    U = points(0, 20).astype(np.float32)
    make = EITHER[kind]
    basis = make(Gaussian(1.0)).fit(U)
    basis.save(tmp_path / "a.basis")
    w, extra = np.append(np.full(20, 3.0), 0.0), np.vstack([U, [9.0, 9.0]])
    same = {
        "fitting again": make(Gaussian(1.0)).fit(U),
        "a clone": clone(basis).fit(U),
        "labels": make(Gaussian(1.0)).fit(U, np.arange(20)),
        "double precision": make(Gaussian(1.0)).fit(U.astype(float)),
        "a list": make(Gaussian(1.0)).fit(U.tolist()),
        "a tensor": make(Gaussian(1.0)).fit(torch.asarray(U)),
        "Fortran's order": make(Gaussian(1.0)).fit(np.asfortranarray(U)),
        "equal weights": make(Gaussian(1.0)).fit(U, sample_weight=np.full(20, 7)),
        "rows of weight zero": make(Gaussian(1.0)).fit(extra, sample_weight=w),
        "a pickle": pickle.loads(pickle.dumps(basis)),
        "a file": up.bases.load(tmp_path / "a.basis"),
    }
    if kind == "empirical":
        same["a limit that is not reached"] = make(Gaussian(1.0), max_points=25, random_state=7).fit(U)
    assert {name: other.digest for name, other in same.items()} == dict.fromkeys(same, basis.digest)
    for other in same.values():
        assert_array_equal(other.transform(U), basis.transform(U))


@either
@pytest.mark.parametrize("standardize", [False, True])
def test_a_file_holds_the_basis_exactly(kind, standardize, tmp_path):
    U = pd.DataFrame(points(0, 30), columns=["age", "weight"])
    basis = EITHER[kind](Matern([1.0, 2.0], 2.5), standardize=standardize, n_features=11).fit(U)
    basis.save(tmp_path / "study.basis")
    read = up.bases.load(tmp_path / "study.basis")
    assert type(read) is type(basis)
    assert read.digest == basis.digest
    assert read.kernel_ == basis.kernel_
    for name in ("coefficients_", "eigenvalues_", "mean_", "spread_", "feature_names_in_"):
        assert_array_equal(getattr(read, name), getattr(basis, name))
    assert (read.n_public_, read.kappa_sq_, read.n_features_in_) == (30, basis.kappa_sq_, 2)
    assert_array_equal(read.transform(U), basis.transform(U))
    read.save(tmp_path / "again.basis")
    assert (tmp_path / "again.basis").read_bytes() == (tmp_path / "study.basis").read_bytes()


@either
def test_standardising_brings_every_site_to_the_scale_of_the_public_sample(kind):
    U, X = points(0, 40), points(1, 9)
    shift, scale = np.array([1e3, -7.0]), np.array([1e-3, 50.0])
    plain = EITHER[kind](Gaussian(1.0)).fit((U - U.mean(axis=0)) / U.std(axis=0))
    scaled = EITHER[kind](Gaussian(1.0), standardize=True).fit(shift + U * scale)
    expected = plain.transform((X - U.mean(axis=0)) / U.std(axis=0))
    assert_allclose(np.abs(scaled.transform(shift + X * scale)[:, :8]), np.abs(expected[:, :8]), atol=1e-6)
    constant = EITHER[kind](Gaussian(1.0), standardize=True).fit(np.column_stack([U[:, 0], np.full(40, 5.0)]))
    assert_array_equal(constant.map_.scaling.scale[1], 1.0)


@either
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_go_in_and_out_and_names_are_checked(kind, frame):
    U = frame({"a": points(0, 20)[:, 0], "b": points(0, 20)[:, 1]})
    basis = EITHER[kind](Gaussian(1.0), n_features=4).fit(U)
    assert list(basis.feature_names_in_) == ["a", "b"]
    out = basis.set_output(transform="pandas").transform(U)
    stem = type(basis).__name__.lower()
    assert list(out.columns) == [f"{stem}{i}" for i in range(4)] == list(basis.get_feature_names_out())
    with pytest.raises(ValueError, match="feature names should match"):
        basis.transform(U.rename({"a": "c"}) if frame is pl.DataFrame else U.rename(columns={"a": "c"}))


@either
def test_tensors_stay_tensors_and_give_the_same_numbers(kind):
    basis = EITHER[kind](Gaussian(1.0), n_features=6).fit(points(0, 30))
    X = points(1, 11)
    out = basis.transform(torch.asarray(X))
    assert isinstance(out, torch.Tensor)
    assert_allclose(out.numpy(), basis.transform(X), atol=1e-12)
    assert basis.transform(torch.asarray(X.astype(np.float32))).dtype == torch.float32


def test_features_that_single_precision_would_drown_are_mapped_in_double():
    basis = EmpiricalFeatures(Gaussian(2.0)).fit(points(0, 60))
    X = points(1, 20).astype(np.float32)
    assert not basis.single_is_safe_
    assert_array_equal(basis.transform(X), basis.transform(X.astype(float)))


@pytest.mark.parametrize(
    ("estimator", "check"),
    [pytest.param(e, c, id=c.func.__name__) for e, c in estimator_checks_generator(EmpiricalFeatures())],
)
def test_every_check_of_scikit_learn_holds(estimator, check):
    if "array_api" not in check.func.__name__:
        check(estimator)


def test_a_description_says_what_the_basis_is():
    text = (
        EmpiricalFeatures(Gaussian(1.0), standardize=True)
        .fit(pd.DataFrame(points(0, 20), columns=["a", "b"]))
        .describe()
    )
    for words in ("20 public rows", "Gaussian", "a, b", "mean 0 and standard deviation 1 on the public sample"):
        assert words in text
