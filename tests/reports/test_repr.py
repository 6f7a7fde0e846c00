"""The text that notebooks and prompts show is short, readable and escaped, and says what a fitted model chose."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn

import unpooled as up
from tests.cases.reports import BAD, Page, basis, models, summaries
from tests.made_up import named_rows


@pytest.mark.parametrize("kind", list(models()))
def test_a_fitted_model_shows_what_it_chose_below_scikit_learns_picture(kind):
    model = models()[kind]
    html = model._repr_html_()
    assert "sk-top-container" in html
    said = model.facts().choice
    assert html.endswith(f"<p>{said}.</p>")
    assert model._repr_mimebundle_()["text/html"].endswith(f"<p>{said}.</p>")
    if hasattr(model, "lam_"):
        assert said.startswith("λ = ")
    if getattr(model, "privacy_", None) is not None:
        assert f"ε = {model.privacy_.epsilon:.0f}" in said


@pytest.mark.parametrize(
    "estimator",
    [up.SpectralRegressor(fit_intercept=False), up.SummaryRegressor(fit_intercept=False), up.bases.EmpiricalFeatures()],
)
def test_before_a_fit_it_is_scikit_learns_alone(estimator):
    assert "<p>" not in estimator._repr_html_()[-200:]
    with sklearn.config_context(display="text"):
        assert "text/html" not in estimator._repr_mimebundle_()


def test_the_text_of_an_estimator_stays_its_constructor():
    assert repr(models()["spectral"]) == "SpectralRegressor()"


def test_a_fitted_basis_says_what_it_is():
    html = basis()._repr_html_()
    assert f"<li>basis {basis().digest[:12]}: 25 features" in html


def test_a_summary_is_one_short_line_and_a_table():
    one = summaries()["north"]
    assert repr(one) == (
        f"Summary(order=2, n_rows=120, n_features=25, basis={basis().digest[:12]!r}, targets=('stay',))"
    )
    page = Page(one._repr_html_())
    assert len(page.all("tr")) == 1 + 1 + len(one.sums)
    assert one.describe().splitlines()[0] in page.words
    assert "not differentially private" in page.words
    private = summaries(2, True)["north"]
    assert repr(private).endswith("epsilon=3)")
    assert "Differentially private with ε = 3" in Page(private._repr_html_()).words


def test_a_guarantee_is_short_as_text_and_complete_as_a_table():
    promise = models()["private"].privacy_
    assert len(repr(promise)) < 160
    assert repr(promise).startswith("Guarantee(epsilon=1, delta=1e-06, mechanism='discrete Gaussian noise")
    page = Page(promise._repr_html_())
    assert len(page.all("tr")) == 1 + len(promise.spent_on)
    assert "Differentially private with ε = 1 and δ = 1e-06" in page.words


def test_plans_are_tables_and_lists():
    plan = up.privacy.forecast(5000, named_rows(1, 80)[0], epsilon=[0.3, 3.0])
    page = Page(plan._repr_html_())
    assert len(page.all("tr")) == 3
    assert f"{plan.predictions[1].usual:.2f}" in page.words
    for kind in ("private", "private descent"):
        own = models()[kind].schedule_
        assert len(Page(own._repr_html_()).all("li")) == len(str(own).splitlines())
        assert "why" not in repr(own)


def test_a_path_is_a_line_and_a_table_with_the_choice_marked():
    taken = {
        "spectral": "28 λ from 1e-09 to 1, loo takes ",
        "second order": "λ from ",
        "averaged": "1 blocks tried with ",
    }
    for kind, words in taken.items():
        path = models()[kind].path_
        assert words in repr(path)
        assert len(repr(path)) < 120
        html = path._repr_html_()
        page = Page(html)
        assert html.count("<td>taken</td>") == 1
        assert len(page.all("tr")) == 1 + len(path.n_blocks if kind == "averaged" else path)


def test_a_descent_shows_the_best_iteration_of_every_scale():
    path = models()["correntropy"].path_
    page = Page(path._repr_html_())
    assert len(page.all("tr")) == 1 + len(path.scales)
    assert f"{path.n_iter[-1]:,}" in repr(path)
    given = up.CorrentropyRegressor(scale=1.0, n_iter=8, fit_intercept=False).fit(*named_rows(1, 60)).path_
    assert "nothing tried" in repr(given)
    assert len(Page(given._repr_html_()).all("tr")) == 1 + len(given)


def test_the_table_of_a_path_computes_nothing():
    X, y = named_rows(1, 60)
    path = up.SpectralRegressor(up.kernels.Gaussian(1.0), fit_intercept=True).fit(X, y).path_
    path.freedom[3] = np.nan  # as a choice in single precision leaves it
    assert Page(path._repr_html_()).words.count("nan") == 0
    assert np.isnan(path.freedom[3])


def test_candidates_a_log_and_a_ledger_fit_on_a_line(tmp_path):
    sums = sum(summaries(1).values())
    with pytest.warns(UserWarning, match="public rows"):
        candidates = up.SummaryRegressor(fit_intercept=True).fit_summary(sums).candidates()
    assert repr(candidates).startswith(f"Candidates({len(candidates.lam)} λ from ")
    assert repr(up.gate.Log(tmp_path / "a.jsonl")) == f"Log({str(tmp_path / 'a.jsonl')!r})"
    ledger = up.privacy.Ledger.create(tmp_path / "a.ledger", epsilon=1.0, delta=1e-6, dataset=BAD[0])
    page = Page(ledger._repr_html_())
    assert page.all("script") == []
    assert BAD[0] in page.words


def test_names_are_escaped_wherever_they_show():
    X, y = named_rows(1, 60, BAD)
    y.name = BAD[0]
    shared = up.bases.EmpiricalFeatures(n_features=5).fit(X)
    one = up.Summary.of(shared, X, y)
    for html in (one._repr_html_(), shared._below_picture()):
        page = Page(html)
        assert page.all("script") == page.all("img") == []
        assert BAD[0] in page.words


def test_several_labels_have_a_word_too():
    X, y = named_rows(1, 60)
    model = up.SpectralRegressor(per_target=True, fit_intercept=False).fit(X, pd.DataFrame({"a": y, "b": np.exp(y)}))
    assert model.facts(0).choice != model.facts(1).choice
    assert "λ = " in model._repr_html_()[-200:]
