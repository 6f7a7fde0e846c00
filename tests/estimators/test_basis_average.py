"""The average of what sites have fitted: a model like the others, in files too."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import unpooled as up
from unpooled import models
from unpooled._base import files
from unpooled.estimators.span import BasisAverage


@pytest.fixture(scope="module")
def basis():
    return up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.5), n_features=6).fit(np.linspace(-1, 1, 40)[:, None])


def average(basis, targets=("y",)):
    rng = np.random.default_rng(0)
    coef, intercept = rng.normal(size=(6, len(targets))), rng.normal(size=len(targets))
    validation = {"lam": np.asarray([1.0, 0.1]), "error": np.ones((2, len(targets)))}
    return BasisAverage().settle(basis, coef, intercept, 0.1, targets, 3, validation)


@pytest.mark.parametrize("targets", [("y",), ("y", "z")])
def test_it_predicts_and_is_the_same_from_a_file(basis, tmp_path, targets):
    model, X = average(basis, targets), np.linspace(-1, 1, 9)[:, None]
    expected = basis.transform(X) @ model.coef_matrix_ + model.intercept_
    assert np.allclose(model.predict(X).reshape(9, -1), expected)
    assert model.predict(X).ndim == len(targets)
    up.save(model, tmp_path / "a.model")
    found = up.load(tmp_path / "a.model")
    assert np.array_equal(found.predict(X), model.predict(X))
    assert (found.lam_, found.n_sites_, found.targets_) == (0.1, 3, targets)
    assert np.array_equal(found.validation_["lam"], model.validation_["lam"])
    assert models.digest_of(found) == models.digest_of(model)


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({"lam": -1.0}, {}),
        ({"n_sites": 0}, {}),
        ({"targets": []}, {}),
        ({"basis": "x"}, {}),
        ({"feature_names": ["a", "b"]}, {}),
        ({}, {"coef": np.ones((6, 2))}),
        ({}, {"validation.error": np.ones((3, 1))}),
        ({}, {"validation.more": np.ones(1)}),
    ],
    ids=str,
)
def test_a_file_that_does_not_fit_together_is_refused(basis, tmp_path, header, arrays):
    about, numbers = average(basis)._to_parts()
    files.write(tmp_path / "a.model", "model", {"class": "BasisAverage", **about, **header}, numbers | arrays)
    with pytest.raises(files.FileError, match="does not hold a complete model"):
        up.load(tmp_path / "a.model")


def test_before_it_is_settled_it_says_so():
    with pytest.raises(NotFittedError):
        BasisAverage().predict([[0.0]])


def test_a_notebook_can_show_it(basis):
    assert "BasisAverage" in average(basis)._repr_html_inner()
