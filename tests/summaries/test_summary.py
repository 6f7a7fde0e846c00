"""A summary holds what it says, adds only to its like, travels exactly, and comes from anything that has rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from tests.made_up import columns, points, regression, sine
from unpooled import models
from unpooled.bases import EmpiricalFeatures
from unpooled.data import Csv, Parquet
from unpooled.kernels import Gaussian, Matern
from unpooled.losses import Correntropy, Huber, Squared
from unpooled.summaries import merge

dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.filterwarnings("ignore:.*public rows stand in for")
N = 90
rng = np.random.default_rng(0)
FRAME = pd.DataFrame(columns(*regression(rng, N, function=sine(1))))
FRAME["z"] = rng.normal(size=N)
FRAME["w"] = rng.choice([0.0, 0.5, 2.0], size=N)
PUBLIC = pd.DataFrame(points(rng, 25), columns=["a", "b"])
NAMED = EmpiricalFeatures(Gaussian(1.0), n_features=8).fit(PUBLIC)
PLAIN = EmpiricalFeatures(Gaussian(1.0), n_features=8).fit(PUBLIC.to_numpy())
X, y, Y, w = (FRAME[names].to_numpy() for names in (["a", "b"], "y", ["y", "z"], "w"))


def model_of(basis, seed=0):
    labels = np.random.default_rng(seed).normal(size=len(PUBLIC))
    return up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(
        up.Summary.of(basis, PUBLIC[["a", "b"]].to_numpy(), labels)
    )


def assert_equal(a, b):
    """Bit for bit."""
    assert a.contents == b.contents
    assert (a.n_rows, a.targets, a.one_target) == (b.n_rows, b.targets, b.one_target)
    assert a.sums.keys() == b.sums.keys()
    for name, value in a.sums.items():
        assert_array_equal(value.high, b.sums[name].high)
        assert_array_equal(value.low, b.sums[name].low)


def test_the_fields_are_the_sums_they_are_named_for():
    s = up.Summary.of(PLAIN, X, Y, 2, sample_weight=w)
    phi = PLAIN.transform(X)
    assert s.n_rows == np.sum(w > 0)
    assert s.weight == pytest.approx(w.sum())
    assert_allclose(s.label_sum, w @ Y)
    assert_allclose(s.label_square_sum, w @ Y**2)
    assert_allclose(s.feature_sum, w @ phi)
    assert_allclose(s.feature_label_sum, phi.T @ (w[:, None] * Y), atol=1e-12)
    assert_allclose(s.gram, phi.T @ (w[:, None] * phi), atol=1e-12)
    assert s.loss_sum is None
    assert s.to_first_order().gram is None
    assert_equal(s.to_first_order(), up.Summary.of(PLAIN, X, Y, 1, sample_weight=w))


@pytest.mark.parametrize("loss", [Squared(), Huber(0.5), Correntropy(0.8)], ids=repr)
@pytest.mark.parametrize("kind", ["of the basis", "of another kind"])
def test_residual_summaries_are_sums_of_the_losss_derivative(loss, kind):
    model = (
        model_of(PLAIN)
        if kind == "of the basis"
        else up.SpectralRegressor(Matern(1.0), lam=0.1, fit_intercept=False).fit(X, y)
    )
    s = up.Summary.of(PLAIN, X, y, residuals_of=model, loss=loss, sample_weight=w)
    u = y - model.predict(X)
    psi = loss.derivative(u)
    assert_allclose(s.label_sum, [w @ psi], atol=1e-10)
    assert_allclose(s.label_square_sum, [w @ psi**2], atol=1e-10)
    assert_allclose(s.feature_label_sum[:, 0], PLAIN.transform(X).T @ (w * psi), atol=1e-10)
    assert_allclose(s.loss_sum, [w @ loss.value(u)], atol=1e-10)


def test_weights_are_repeated_rows_and_a_row_of_weight_zero_is_not_there():
    counts = np.arange(N) % 4
    weighted = up.Summary.of(PLAIN, X, Y, 2, sample_weight=counts)
    repeated = up.Summary.of(PLAIN, np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0), 2)
    for name, value in weighted.sums.items():
        assert_allclose(value.high, repeated.sums[name].high, rtol=1e-12, atol=1e-12)
    assert weighted.weight == repeated.n_rows
    kept = counts > 0
    assert_equal(weighted, up.Summary.of(PLAIN, X[kept], Y[kept], 2, sample_weight=counts[kept]))
    # Unlike elsewhere in the library the scale of weights counts: those of sites must add up.
    assert up.Summary.of(PLAIN, X, y, sample_weight=3.0).weight == 3 * N
    assert up.Summary.of(PLAIN, X, y, sample_weight=np.ones(N)).weight == N


def summaries():
    """One summary, and others that differ from it in one thing."""
    other = EmpiricalFeatures(Gaussian(1.0), n_features=8).fit(X)
    kernel = EmpiricalFeatures(Gaussian(1.1), n_features=8).fit(PUBLIC.to_numpy())
    model, second = model_of(PLAIN), model_of(PLAIN, 1)
    of = up.Summary.of
    plain, residual = of(PLAIN, X, y), of(PLAIN, X, y, residuals_of=model)
    digest = models.digest_of
    return {
        "another public sample": (plain, of(other, X, y), [PLAIN.digest[:12], other.digest[:12]]),
        "another kernel": (plain, of(kernel, X, y), [PLAIN.digest[:12], kernel.digest[:12]]),
        "names": (plain, of(NAMED, FRAME[["a", "b"]], y), [PLAIN.digest[:12], NAMED.digest[:12]]),
        "another order": (plain, of(PLAIN, X, y, 2), ["order 1", "order 2"]),
        "more labels": (plain, of(PLAIN, X, Y), ["1", "2"]),
        "another label": (of(PLAIN, X, FRAME["y"]), of(PLAIN, X, FRAME["z"]), [" y", " z"]),
        "labels and residuals": (plain, residual, ["labels", digest(model)[:12]]),
        "another model": (residual, of(PLAIN, X, y, residuals_of=second), [digest(model)[:12], digest(second)[:12]]),
        "another loss": (plain, of(PLAIN, X, y, loss=Huber(2.0)), ["squared", "huber 2.0"]),
        "another scale": (
            of(PLAIN, X, y, loss=Huber(1.0)),
            of(PLAIN, X, y, loss=Huber(2.0)),
            ["huber 1.0", "huber 2.0"],
        ),
    }


@pytest.mark.parametrize("name", summaries())
def test_summaries_of_different_things_do_not_add_and_the_message_names_both(name):
    a, b, words = summaries()[name]
    for first, second in ((a, b), (b, a)):
        with pytest.raises(ValueError, match="cannot be added up") as caught:
            first + second
        text = str(caught.value)
        assert "\n" not in text
        assert all(word in text for word in words)
        with pytest.raises(ValueError, match="cannot be added up"):
            sum([first, first, second])


def test_a_name_that_only_one_knows_is_kept():
    a, b = up.Summary.of(PLAIN, X, y), up.Summary.of(PLAIN, X, FRAME["y"])
    assert (a + b).targets == (b + a).targets == ("y",)
    assert up.Summary.of(PLAIN, X, pl.Series(y)).targets == ()


def test_sums_start_at_nothing_and_other_things_are_no_summaries():
    a = up.Summary.of(PLAIN, X, y)
    assert_equal(sum([a]), a)
    assert_equal(merge([a]), a)
    assert merge([a, a]).n_rows == 2 * N
    with pytest.raises(ValueError, match="give at least one summary to merge"):
        merge([])
    for other in (1, 1.0, "a", None, [a]):
        with pytest.raises(TypeError):
            a + other


KINDS = {
    "first order": {},
    "second order": {"order": 2},
    "robust residuals": {"residuals_of": model_of(PLAIN), "loss": Correntropy(0.3)},
    "an infinite scale": {"loss": Huber(np.inf)},
    "weights": {"sample_weight": w},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", ["one", "a column", "two"])
def test_a_file_holds_a_summary_exactly(kind, labels, tmp_path):
    given = {"one": y, "a column": FRAME[["y"]], "two": FRAME[["y", "z"]]}[labels]
    if kind == "robust residuals" and labels == "two":
        pytest.skip("the model is of one label")
    s = up.Summary.of(PLAIN, X, given, **KINDS[kind])
    total = s + s + s  # which has a low part
    for value in (s, total):
        value.save(tmp_path / "a.summary")
        read = up.Summary.load(tmp_path / "a.summary")
        assert_equal(read, value)
        read.save(tmp_path / "b.summary")
        assert (tmp_path / "a.summary").read_bytes() == (tmp_path / "b.summary").read_bytes()
        assert_equal(read + s, value + s)


def test_a_loaded_summary_finds_its_basis_beside_it(tmp_path, monkeypatch):
    basis = EmpiricalFeatures(Matern(0.77), n_features=5).fit(PUBLIC.to_numpy())
    up.Summary.of(basis, X, y).save(tmp_path / "a.summary")
    basis.save(tmp_path / "study.basis")
    expected, digest = (
        up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(up.Summary.of(basis, X, y)).predict(X),
        basis.digest,
    )
    del basis
    assert up.bases.find(digest, []) is None
    read = up.Summary.load(tmp_path / "a.summary")
    assert_array_equal(up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(read).predict(X), expected)
    (tmp_path / "study.basis").unlink()
    with pytest.raises(ValueError, match=f"basis {digest[:12]} of this summary was not found"):
        up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(up.Summary.load(tmp_path / "a.summary"))
    with pytest.raises(ValueError, match=f"{digest[:12]}, but {PLAIN.digest[:12]} was given"):
        up.SummaryRegressor(lam=0.1, fit_intercept=False).fit_summary(
            up.Summary.load(tmp_path / "a.summary"), basis=PLAIN
        )


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    FRAME.to_parquet(folder / "rows.parquet", row_group_size=17, index=False)
    FRAME.to_csv(folder / "rows.csv", index=False)
    (folder / "parts").mkdir()
    for i in range(3):
        FRAME[i * 30 : (i + 1) * 30].to_parquet(folder / "parts" / f"{i}.parquet", index=False)
    return folder


SOURCES = {
    "pandas": lambda _: FRAME[["a", "b"]],
    "polars": lambda _: pl.DataFrame(FRAME[["a", "b"]].to_dict("list")),
    "named columns": lambda _: FRAME,
    "named columns of polars": lambda _: pl.DataFrame(FRAME.to_dict("list")),
    "parquet": lambda folder: folder / "rows.parquet",
    "a folder": lambda folder: Parquet(folder / "parts"),
    "csv": lambda folder: str(folder / "rows.csv"),
    "csv with features": lambda folder: Csv(folder / "rows.csv", ["a", "b"]),
    "dask frame": lambda _: dd.from_pandas(FRAME, npartitions=4),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("order", [1, 2])
def test_rows_from_anywhere_give_the_summary_of_the_arrays(name, order, files):
    given = SOURCES[name](files)
    arrays = name in ("pandas", "polars")
    found = up.Summary.of(NAMED, given, FRAME["y"] if arrays else "y", order, sample_weight=w if arrays else "w")
    expected = up.Summary.of(NAMED, FRAME[["a", "b"]], FRAME["y"], order, sample_weight=w)
    assert found.targets == ("y",)
    assert found.contents == expected.contents
    assert found.n_rows == expected.n_rows
    for field, value in expected.sums.items():
        assert_allclose(found.sums[field].high, value.high, rtol=1e-13, atol=1e-13)


def test_several_labels_come_from_files_too(files):
    expected = up.Summary.of(NAMED, FRAME[["a", "b"]], FRAME[["y", "z"]])
    for name in ("parquet", "csv", "dask frame"):
        found = up.Summary.of(NAMED, SOURCES[name](files), ["y", "z"])
        assert found.targets == ("y", "z")
        assert_allclose(found.feature_label_sum, expected.feature_label_sum, rtol=1e-13, atol=1e-13)


def test_a_dask_array_and_tensors_are_their_numbers():
    expected = up.Summary.of(PLAIN, X, Y, 2)
    lazy = up.Summary.of(PLAIN, da.from_array(X, chunks=(20, 2)), da.from_array(Y, chunks=(20, 2)), 2)
    tensors = up.Summary.of(PLAIN, torch.tensor(X), torch.tensor(Y), 2)
    for found in (lazy, tensors):
        for field, value in expected.sums.items():
            assert_allclose(found.sums[field].high, value.high, rtol=1e-13, atol=1e-13)


def test_columns_are_found_by_name_and_a_missing_one_is_named(files):
    turned = FRAME[["z", "b", "y", "a", "w"]]
    turned.to_parquet(files / "turned.parquet", index=False)
    assert_equal(up.Summary.of(NAMED, files / "turned.parquet", "y"), up.Summary.of(NAMED, FRAME, "y"))
    FRAME.rename(columns={"b": "bb"}).to_parquet(files / "renamed.parquet", index=False)
    with pytest.raises(ValueError, match="'b'"):
        up.Summary.of(NAMED, files / "renamed.parquet", "y")
    with pytest.raises(ValueError, match="X lacks the columns b"):
        up.Summary.of(NAMED, FRAME.rename(columns={"b": "bb"}), "y")
    with pytest.raises(ValueError, match="'target' is not in X"):
        up.Summary.of(NAMED, FRAME, "target")


def test_a_description_says_exactly_what_is_in_it():
    s = up.Summary.of(NAMED, FRAME[["a", "b"]], FRAME["y"], 2)
    text = s.describe()
    numbers = 2 + 1 + 1 + 8 + 8 + 36
    for words in (
        f"A second-order summary of {N} rows",
        NAMED.digest[:12],
        "y is y",
        f"{numbers} numbers in all",
        "not differentially",
    ):
        assert words in text
    for name in s.sums:
        assert any(
            line.split()[:2] == [name, str(s.sums[name].high.size)] for line in text.splitlines() if line.strip()
        )
    residual = up.Summary.of(PLAIN, X, y, residuals_of=model_of(PLAIN), loss=Huber(2.0)).describe()
    assert "the residual of the label from model" in residual
    assert "limited by the loss huber 2.0" in residual
