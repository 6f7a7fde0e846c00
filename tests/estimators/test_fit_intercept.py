"""Every estimator fits an intercept unless it is told not to, and is told what it may be told in the same words."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import sklearn

import unpooled as up
from tests.estimators.fitted import CASES, KERNEL, U, X, basis, y
from unpooled._base import progress

FITS = {
    "spectral": lambda y, **how: up.SpectralRegressor(**how).fit(X, y),
    "nystrom": lambda y, **how: up.NystromRegressor(n_features=10, **how).fit(X, y),
    "correntropy": lambda y, **how: up.CorrentropyRegressor(**how).fit(X, y),
    "less": lambda y, **how: up.LESSRegressor(**how).fit(X, y, public=U),
    "less in rounds": lambda y, **how: up.LESSRegressor(basis=basis(), rounds=3, **how).fit(X, y),
    "less of order 2": lambda y, **how: up.LESSRegressor(basis=basis(), order=2, **how).fit(X, y),
    "sums": lambda y, **how: up.SummaryRegressor(**how).fit_summary(up.Summary.of(basis(), X, y)),
    "sums of order 2": lambda y, **how: up.SummaryRegressor(**how).fit_summary(up.Summary.of(basis(), X, y, order=2)),
    "averaged": lambda y, **how: up.AveragedRegressor(up.SpectralRegressor(**how) if how else None, 2).fit(X, y),
    "averaged descents": lambda y, **how: up.AveragedRegressor(up.CorrentropyRegressor(**how), 2).fit(X, y),
}


@pytest.mark.filterwarnings("ignore:.*public sample")
@pytest.mark.parametrize("name", FITS)
def test_by_default_a_constant_added_to_the_labels_moves_the_intercept_and_nothing_else(name):
    model, moved = FITS[name](y), FITS[name](y + 7.0)
    assert moved.intercept_ - model.intercept_ == pytest.approx(7.0, abs=1e-4)
    np.testing.assert_allclose(moved.predict(U), model.predict(U) + 7.0, atol=1e-5)
    assert FITS[name](y, fit_intercept=False).intercept_ == 0.0


@pytest.mark.parametrize("cls", [up.LESSRegressor, up.PrivateRegressor, up.PrivateSGDRegressor])
def test_a_basis_is_given_as_basis_and_in_place_of_a_kernel(cls):
    budget = {} if cls is up.LESSRegressor else {"epsilon": 1.0, "delta": 1e-6, "label_bound": 2.0}
    with pytest.raises(ValueError, match="kernel must be a kernel, got a fitted basis: pass it as basis="):
        cls(kernel=basis(), **budget).fit(X, y)
    with pytest.raises(ValueError, match="kernel and basis cannot both be given: a fitted basis has a kernel already"):
        cls(kernel=KERNEL, basis=basis(), **budget).fit(X, y)
    with pytest.raises(ValueError, match=r"basis must be a fitted basis of up.bases, or None, got 3"):
        cls(basis=3, **budget).fit(X, y)
    with pytest.raises(ValueError, match="basis was fitted to its own public sample already: leave public out"):
        cls(basis=basis(), **budget).fit(X, y, public=U)
    model = cls(basis=basis(), **budget).fit(X, y)
    assert model.basis_.digest == basis().digest


@pytest.mark.parametrize("cls", [up.SpectralRegressor, up.LESSRegressor])
def test_a_clone_asks_for_the_same_metadata(cls):
    with sklearn.config_context(enable_metadata_routing=True):
        model = sklearn.clone(cls().set_fit_request(sample_weight=True))
        assert model.get_metadata_routing().fit.requests["sample_weight"] is True


def test_algorithm_1_has_no_intercept():
    model = up.PrivateSGDRegressor(1.0, 1e-6, 2.0, method="paper")
    with pytest.raises(ValueError, match="has no intercept: pass fit_intercept=False with method='paper'"):
        model.fit(X, y)
    tight = up.PrivateSGDRegressor(5.0, 1e-6, 2.0, fit_intercept=False).fit(X, y, public=U)
    assert tight.intercept_ == tight.schedule_.constant == 0.0


@pytest.mark.parametrize("name", ["spectral", "correntropy"])
def test_coefficients_of_rows_are_the_dual_ones(name):
    model, both = FITS[name](y), FITS[name](np.column_stack([y, 2 * y]))
    assert model.dual_coef_.shape == (40,)
    assert both.dual_coef_.shape == (40, 2)
    K = model.kernel_(U, model.predictor_.points)
    np.testing.assert_allclose(K @ model.dual_coef_, model.predict(U) - model.predictor_.intercept[0], rtol=1e-9)
    assert not hasattr(type(model)(), "dual_coef_")


#: the fits of these that are done in several parts
IN_PARTS = {"correntropy", "averaged", "less in rounds", "private", "private descent"}


@pytest.mark.filterwarnings("ignore:.*public rows stand in for")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_progress_is_shown_on_standard_error_and_only_when_asked_for(case, capsys, monkeypatch):
    monkeypatch.setattr(progress, "SHOW_AFTER", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    case.fit(case.make())
    assert capsys.readouterr() == ("", "")
    case.fit(case.make().set_params(verbose=1))
    out, err = capsys.readouterr()
    assert out == ""
    assert bool(err) == (case.name in IN_PARTS)
