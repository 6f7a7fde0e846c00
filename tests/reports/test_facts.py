"""What a report says in numbers: sites left out, errors from sums, paths, spectra, inputs; and how it writes them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

import unpooled as up
from tests.cases.reports import basis, models, summaries
from tests.made_up import named_rows
from unpooled._base.text import format_number
from unpooled.reports.errors import LEVELS, Labelled, binned, by_site, coverage, errors_of, slope_of
from unpooled.reports.fit import family_of, spectrum_of
from unpooled.reports.inputs import background_of, curves_of, grid_of
from unpooled.reports.sensitivity import error_at, leave_one_out
from unpooled.reports.sites import labels_of, opened
from unpooled.reports.svg import Axis

ORDERS = pytest.mark.parametrize(("kind", "order"), [("second order", 2), ("first order", 1)])


def pooled():
    """All rows of the three sites."""
    parts = [named_rows(seed, n) for n, seed in ((120, 10), (150, 11), (90, 12))]
    return pd.concat([X for X, _ in parts]), np.concatenate([y for _, y in parts]), np.repeat([0, 1, 2], [120, 150, 90])


@ORDERS
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_leaving_a_site_out_is_the_refit_without_it_to_the_last_bit(kind, order):
    parts, model = summaries(order), models()[kind]
    found = leave_one_out(model, opened(parts))
    assert [one.name for one in found.sites] == list(parts)
    for one in found.sites:
        others = [part for name, part in parts.items() if name != one.name]
        refit = up.SummaryRegressor(center=True).fit_summary(others[0] + others[1])
        assert refit.lam_ == one.lam
        again = leave_one_out(model, opened(dict(reversed(list(parts.items())))))
        assert {w.name: (w.lam, w.change) for w in again.sites}[one.name] == (one.lam, one.change)
        if order == 2:
            assert one.error_without == error_at(refit, parts[one.name])
            assert one.error_with == error_at(model, parts[one.name])


def test_what_sums_of_second_order_say_of_errors_and_changes_is_true_of_the_rows():
    X, y, at = pooled()
    model = models()["second order"]
    found = leave_one_out(model, opened(summaries()))
    for site, one in enumerate(found.sites):
        others = [part for name, part in summaries().items() if name != one.name]
        refit = up.SummaryRegressor(center=True).fit_summary(sum(others))
        mine = at == site
        assert one.error_with == pytest.approx(np.sqrt(np.mean((model.predict(X[mine]) - y[mine]) ** 2)), rel=1e-8)
        assert one.error_without == pytest.approx(np.sqrt(np.mean((refit.predict(X[mine]) - y[mine]) ** 2)), rel=1e-8)
        change = np.sqrt(np.mean((refit.predict(X) - model.predict(X)) ** 2))
        assert one.change == pytest.approx(change, rel=1e-6)


def test_weights_count_as_repeated_rows_there_too():
    X, y = named_rows(20, 40)
    twice = up.Summary.of(basis(), X, y, order=2, sample_weight=np.full(40, 2.0))
    once = up.Summary.of(basis(), X, y, order=2)
    model = models()["second order"]
    assert error_at(model, twice) == pytest.approx(error_at(model, once), rel=1e-12)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_that_sites_scored_keeps_its_lam_when_sites_are_left_out():
    parts = summaries(1)
    draft = models()["first order"]
    candidates = draft.candidates()
    scores = sum(
        up.Scores.of(candidates, basis(), *named_rows(seed, n)) for n, seed in ((120, 10), (150, 11), (90, 12))
    )
    chosen = up.SummaryRegressor(center=True).fit_summary(sum(parts.values()), scores=scores)
    assert {one.lam for one in leave_one_out(chosen, opened(parts)).sites} == {chosen.lam_}


def test_what_is_said_of_labels_is_true_of_the_rows():
    _, y, at = pooled()
    for site, found in enumerate(labels_of(opened(summaries()), basis())):
        assert found.mean == pytest.approx(y[at == site].mean())
        assert found.spread == pytest.approx(y[at == site].std())
        assert 0 < found.unlike < 3 * found.chance  # all were drawn alike


@pytest.mark.parametrize("parts", [{"one": summaries()["north"]}, ["just one"]])
def test_nothing_is_left_without_the_only_site(parts):
    given = parts if isinstance(parts, dict) else [summaries()["north"]]
    with pytest.raises(ValueError, match="there is only one summary: leaving it out leaves nothing"):
        leave_one_out(models()["second order"], opened(given))


def labelled(seed=0, n=400):
    rng = np.random.default_rng(seed)
    predicted = rng.normal(size=n)
    return Labelled(predicted + rng.normal(size=n), predicted, np.resize(["a", "b", "c"], n))


def test_bins_and_sites_hold_every_row_once():
    rows_ = labelled()
    bins = binned(rows_)
    assert sum(b.n for b in bins) == 400
    assert sum(b.n * b.observed for b in bins) / 400 == pytest.approx(rows_.y.mean())
    assert [b.predicted for b in bins] == sorted(b.predicted for b in bins)
    found = by_site(rows_)
    assert sum(e.n for e in found.values()) == 400
    square = sum(e.n * e.rmse**2 for e in found.values()) / 400
    assert square == pytest.approx(errors_of(rows_.y, rows_.predicted).rmse ** 2)
    assert [e.rmse for e in found.values()] == sorted((e.rmse for e in found.values()), reverse=True)


def test_intervals_of_normal_residuals_cover_what_they_claim():
    n = 20_000
    residuals = 3.0 * ndtri((np.arange(n) + 0.5) / n)
    found = coverage(Labelled(residuals, np.zeros(n)), 3.0)
    assert [level for level, _ in found] == list(LEVELS)
    for nominal, actual in found:
        assert actual == pytest.approx(nominal, abs=2 / n)


def test_the_slope_tells_predictions_that_are_spread_too_far():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    assert slope_of(Labelled(y, y)) == pytest.approx(1.0)
    assert slope_of(Labelled(y, 2 * y)) == pytest.approx(0.5)
    assert slope_of(Labelled(y, np.zeros(200))) is None


def test_partial_dependence_of_a_linear_function_is_a_line_of_its_slope():
    X, _ = named_rows(1, 100)
    slopes = np.asarray([2.0, -0.5, 0.0])
    model = up.SpectralRegressor(up.kernels.Linear(), lam=1e-9, center=True).fit(X, X.to_numpy() @ slopes + 7)
    found = {curve.name: curve for curve in curves_of(model, background_of(model.facts(), X.to_numpy()))}
    assert list(found) == ["age", "dose", "pressure"]  # the one that moves it furthest first
    for name, slope in zip(("age", "dose", "pressure"), slopes):
        curve = found[name]
        assert np.diff(curve.mean) / np.diff(curve.values) == pytest.approx(slope, abs=1e-4)
        assert curve.moves == pytest.approx(abs(slope) * np.ptp(curve.values), abs=1e-4)


def test_inputs_of_few_values_are_looked_at_there_and_constants_not_at_all():
    assert grid_of(np.asarray([1.0, 0.0, 1.0])).tolist() == [0.0, 1.0]
    many = grid_of(np.arange(1000.0))
    assert many[0] == pytest.approx(0.02 * 999)
    assert many[-1] == pytest.approx(0.98 * 999)
    X, y = named_rows(1, 60)
    X["dose"] = 4.0
    model = up.SpectralRegressor(lam=0.01).fit(X, y)
    assert "dose" not in [curve.name for curve in curves_of(model, background_of(model.facts(), None))]


def test_waves_hold_no_rows_and_are_moved_about_the_public_means():
    X, y = named_rows(1, 200)
    waves = up.bases.RandomFeatures(n_features=40, standardize=True).fit(X)
    model = up.SummaryRegressor(center=True).fit_summary(up.Summary.of(waves, X, y, order=2))
    found = background_of(model.facts(), None)
    assert "public sample's means" in found.source
    assert {curve.name for curve in curves_of(model, found)} == {"age", "dose", "pressure"}
    plain = up.bases.RandomFeatures(n_features=40).fit(X)
    bare = up.SummaryRegressor(center=True).fit_summary(up.Summary.of(plain, X, y, order=2))
    assert background_of(bare.facts(), None) is None


@pytest.mark.parametrize("kind", ["spectral", "second order", "first order", "less", "of private sums"])
def test_the_function_of_the_chosen_lam_is_the_model(kind):
    model, X = models()[kind], named_rows(8, 30)[0]
    tuning = model.facts().tuning
    family = family_of(model.facts(), basis())
    assert tuning.values[tuning.chosen] == pytest.approx(model.lam_)
    assert np.all(np.diff(tuning.values) > 0)
    assert family.predictor.predict(X.to_numpy())[:, tuning.chosen] == pytest.approx(model.predict(X), abs=1e-8)
    if family.norms is not None and kind in ("spectral", "second order"):
        assert np.all(np.diff(family.norms) <= 1e-6 * family.norms.max())  # more regularisation, smaller functions


@pytest.mark.parametrize("kind", ["spectral", "averaged", "second order", "first order", "less"])
def test_the_error_expected_of_a_new_row_is_that_of_the_path(kind):
    model = models()[kind]
    path, tuning = model.path_, model.facts().tuning
    criterion = path.criterion[path.chosen] if kind == "averaged" else path.criterion
    assert tuning.error == pytest.approx(np.sqrt(criterion[path.index[0]]))
    assert tuning.is_error


@pytest.mark.parametrize("kind", ["correntropy", "robust rounds"])
def test_a_robust_score_is_no_error(kind):
    tuning = models()[kind].facts().tuning
    assert tuning.error is None
    assert tuning.score[tuning.chosen] <= np.nanmin(tuning.score) * 1.5


def test_the_effective_dimension_is_the_degrees_of_freedom_of_ridge():
    model = models()["second order"]
    spectrum = spectrum_of(model.facts())
    assert spectrum.dimension(model.path_.lam) + 1 == pytest.approx(model.path_.df, rel=1e-8)  # one for the intercept
    spectral = models()["spectral"]
    found = spectrum_of(spectral.facts())
    assert found.dimension(spectral.path_.lam[:15]) + 1 == pytest.approx(spectral.path_.df[:15], rel=1e-6)


def test_where_there_is_no_spectrum_a_sentence_says_so():
    K = np.exp(-np.abs(np.arange(20.0)[:, None] - np.arange(20.0)))
    model = up.SpectralRegressor("precomputed", lam=0.1).fit(K, np.arange(20.0))
    assert "unknown here" in spectrum_of(model.facts())


@given(st.floats(-1e300, 1e300), st.integers(2, 6))
def test_a_written_number_is_the_number_to_its_digits(value, digits):
    text = format_number(value, digits).replace("−", "-").replace(",", "")
    if "10" in text and any(c in text for c in "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"):
        head, _, raised = text.rpartition("10")
        exponent = int(raised.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
        head = head.removesuffix("·")
        text = f"{head if head not in ('', '-') else head + '1'}e{exponent}"
    read = float(text)
    assert abs(read - value) <= 0.51 * 10.0 ** (1 - digits) * abs(value) or value == read == 0


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.booleans())
def test_ticks_are_few_in_order_within_the_axis_and_tell_apart(low, width, log):
    low = abs(low) + 1e-3 if log else low
    axis = Axis.over("x", [low, low * (1 + width) if log else low + max(width, 1e-6 * abs(low))], log=log)
    ticks = axis.ticks()
    values = [value for value, _ in ticks]
    assert 1 <= len(ticks) <= 12
    assert values == sorted(values)
    assert all(axis.low * (1 - 1e-6) - 1e-9 <= v <= axis.high * (1 + 1e-6) + 1e-9 for v in values if axis.low >= 0)
    assert all(-1e-6 <= share <= 1 + 1e-6 for share in axis.share(values))


def test_ticks_have_no_letters_of_machines():
    for axis in (Axis("x", 1e-9, 1.0, True), Axis("x", 0.3, 400.0, True), Axis("x", -3e5, 2e5), Axis("x", 0, 3e9)):
        assert not any(re.search(r"e[-+]", text) for _, text in axis.ticks())
