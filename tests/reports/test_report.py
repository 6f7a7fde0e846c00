"""The report: a whole page for every kind of model, which fetches nothing, breaks on no name and gives nothing away.

Tests `reports/writing.py`.
"""

from __future__ import annotations

import copy
import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unpooled as up
from tests.cases.reports import BAD, Page, bad_study, basis, models, page, summaries
from tests.made_up import COLUMNS, named_rows
from unpooled._base.html import embed_json
from unpooled.reports import overview as about

KINDS = list(models())
every_kind = pytest.mark.parametrize("kind", KINDS)
either = pytest.mark.parametrize("data", [False, True], ids=["alone", "with data"])


@every_kind
@either
def test_a_page_is_whole_and_says_what_the_model_is(kind, data):
    found = Page(page(kind, data).html)
    assert len(found.ids) == len(set(found.ids))
    for section in ("sites", "errors", "sensitivity", "choice", "inputs", "left", "predict"):
        assert section in found.ids
    lead = about.sentences(models()[kind].facts())
    assert " ".join(lead) in found.words
    assert "unpooled predict my.model" in found.words


@every_kind
@either
def test_a_page_fetches_nothing(kind, data):
    html = page(kind, data).html
    found = Page(html)
    for tag, attributes in found.tags:
        assert tag not in ("img", "link", "iframe", "object", "embed", "form", "base")
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name not in ("src", "action", "style", "srcset", "xlink:href")
            assert name != "href" or value.startswith("#")
    assert re.findall(r"(?i)\bhttps?://|@import|\bfetch\(|XMLHttpRequest|url\((?!#)", html) == []
    (policy,) = [given["content"] for given in found.all("meta") if "http-equiv" in given]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


@every_kind
@either
def test_every_place_in_a_chart_is_a_number(kind, data):
    for tag, attributes in Page(page(kind, data).html).tags:
        for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "points", "data-at"):
            assert not re.search("nan|inf|e", attributes.get(name, "")), (tag, attributes)


@every_kind
@either
def test_every_chart_has_words_and_a_table_and_every_control_a_label(kind, data):
    found = Page(page(kind, data).html)
    charts = [given for given in found.all("svg") if given.get("class") == "chart"]
    assert charts
    assert len(charts) == len(found.all("figure")) == len(found.all("figcaption"))
    assert all(given["aria-labelledby"] in found.ids and given["tabindex"] == "0" for given in charts)
    assert len(found.all("table")) >= len(charts)
    controls = [given["id"] for tag in ("input", "select") for given in found.all(tag)]
    assert sorted(controls) == sorted(given["for"] for given in found.all("label"))
    if data:
        assert {"residuals", "histogram", "calibration", "site-errors"} <= set(found.ids)


@every_kind
def test_what_is_not_there_is_said_in_a_sentence(kind):
    alone = page(kind)
    assert any("--data" in sentence for sentence in alone.missing)
    for sentence in alone.missing:
        assert sentence.endswith(".")
        assert sentence in Page(alone.html).words
    assert not any("--data" in sentence for sentence in page(kind, data=True).missing)


def test_what_a_file_does_not_know_of_a_path_is_left_out_of_the_charts():
    model = copy.copy(models()["spectral"])
    path = copy.copy(model.path_)
    path.problem, path.freedom = None, np.where(path.lam < path.lam[path.index[0]], np.nan, path.freedom)
    path.scored = np.where(path.lam < 1e-8, np.inf, path.scored)
    model.path_ = path
    html = up.report(model).html
    assert "-99.0" in html
    assert not re.search('"[^"]*nan[^"]*"', re.sub("<script.*?</script>", "", html, flags=re.DOTALL))


def test_a_study_with_everything_lacks_nothing():
    assert page("second order", data=True).missing == ()


@every_kind
def test_the_numbers_behind_the_controls_are_those_of_the_path(kind):
    html = page(kind, data=True).html
    data = json.loads(re.search(r'id="report-data">(.*?)</script>', html)[1])
    path = getattr(models()[kind], "path_", None)
    if path is None:
        assert data == {}
        return
    steps = data["path"]
    assert all(len(values) == len(steps["at"]) for values in steps["readings"])
    assert 0 <= steps["chosen"] < len(steps["at"])
    assert f"{steps['at'][steps['chosen']]}" in html
    if "curves" in data:
        assert all(len(curves) == len(steps["at"]) for curves in data["curves"])


def test_names_cannot_break_out_of_the_page():
    html = bad_study().html
    found = Page(html)
    assert len(found.all("script")) == 2
    assert found.all("img") == []
    assert not any("autofocus" in given or "onfocus" in given for _, given in found.tags)
    for name in BAD:
        assert name in found.words
        assert name not in html.replace(name.replace("<", "&lt;"), "") or "<" not in name


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_embedded_data_come_back_and_cannot_end_their_element(data):
    text = embed_json(data)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == data


@pytest.mark.parametrize("kind", ["private", "private descent", "of private sums"])
def test_of_a_private_model_only_its_file_is_shown(kind, tmp_path):
    model = models()[kind]
    up.save(model, tmp_path / "p.model")
    read = up.load(tmp_path / "p.model")
    assert up.report(model).html == up.report(read).html
    told = copy.copy(model)
    rows = named_rows(9, 77)[0]  # which no file of a private model has
    told.basis_ = up.bases.EmpiricalFeatures(n_features=5).fit(rows)
    assert up.report(told).html == up.report(read).html
    words = Page(page(kind).html).words
    assert str(replace(model.privacy_, spent_on=())) in words
    assert all(item.purpose in words for item in model.privacy_.spent_on)


@pytest.mark.parametrize("kind", ["private", "private descent", "of private sums"])
def test_a_private_model_with_data_is_the_owners_page_and_says_so(kind):
    said = "This is the data owner's own page."
    assert said in Page(page(kind, data=True).html).words
    assert said not in page(kind).html
    assert said not in Page(page("spectral", data=True).html).words


@pytest.mark.parametrize("kind", ["private", "of private sums"])
def test_sums_without_noise_may_not_stand_beside_a_private_model(kind):
    with pytest.raises(ValueError, match="summaries have no noise and the model is private"):
        up.report(models()[kind], summaries=summaries())


def test_a_share_of_noise_is_not_looked_at_by_itself():
    asked = up.privacy.PrivacyRequest(epsilon=3.0, delta=1e-6, label_bound=3.0, parties=3)
    parts = {name: up.Summary.of(basis(), *named_rows(seed, 100), privacy=asked) for seed, name in enumerate(COLUMNS)}
    model = up.SummaryRegressor(center=True).fit_summary(sum(parts.values()))
    found = up.report(model, summaries=parts)
    assert any("share of the noise only" in sentence for sentence in found.missing)
    assert not {"labels", "changes", "strangers"} & set(Page(found.html).ids)


def test_several_labels_are_shown_one_at_a_time():
    X, y = named_rows(7, 60)
    both = pd.DataFrame({"stay": y, "cost": 5 * y + X["dose"]})
    shared = up.bases.EmpiricalFeatures(n_features=10).fit(X)
    model = up.SummaryRegressor(center=True).fit_summary(up.Summary.of(shared, X, both, order=2))
    first, second = up.report(model, X=X, y=both), up.report(model, X=X, y=both, target="cost")
    assert "The model predicts 2 labels. This page is about stay" in Page(first.html).words
    assert "This page is about cost" in Page(second.html).words
    with pytest.raises(ValueError, match="target must be one of stay, cost, or a number from 0 to 1, got 'age'"):
        up.report(model, target="age")


def test_the_page_is_the_same_every_time_and_is_written_whole(tmp_path):
    X, y = named_rows(4, 90)
    model = models()["spectral"]
    one, two = (up.report(model, tmp_path / name, X=X, y=y) for name in ("a.html", "b.html"))
    assert one.html == two.html == (tmp_path / "a.html").read_text("utf-8")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert list(tmp_path.glob(".*")) == []


def test_a_notebook_shows_it_in_a_frame_that_cannot_reach_out():
    found = page("spectral")
    assert "save it" in repr(found)
    (frame,) = Page(found._repr_html_()).all("iframe")
    assert frame["sandbox"] == "allow-scripts"
    assert frame["srcdoc"] == found.html


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"X": np.ones((3, 3))}, "X and y go together, and sites with both"),
        ({"X": "rows.parquet", "y": "stay"}, "X must hold rows in memory; for rows in a file use"),
        ({"sites": ["a"]}, "X and y go together, and sites with both"),
        ({"X": named_rows(0, 3)[0], "y": [1.0, np.nan, 2.0]}, "y contains NaN or infinity: drop such rows first"),
        ({"X": named_rows(0, 3)[0], "y": [1.0, 2.0]}, "y has 2 rows and X has 3"),
        ({"summaries": []}, "summaries is empty: give the summary of every site"),
        ({"summaries": [3]}, "summaries must hold Summary objects or paths of their files, got 3"),
        ({"target": True}, "target must be one of stay, or a number from 0 to 0, got True"),
    ],
)
def test_bad_input_gets_one_sentence(given, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        up.report(models()["second order"], **given)
    assert "\n" not in str(error.value)


def test_only_fitted_models_of_this_library_have_a_report():
    from sklearn.linear_model import LinearRegression

    with pytest.raises(ValueError, match="model must be a fitted one of AveragedRegressor"):
        up.report(LinearRegression())
    with pytest.raises(ValueError, match="not fitted"):
        up.report(up.SpectralRegressor())


def test_summaries_that_do_not_go_with_the_model_or_each_other_are_named(tmp_path):
    same = summaries()["north"]
    with pytest.raises(ValueError, match="summaries has a and b, which are the same: rows would count twice"):
        up.report(models()["second order"], summaries={"a": same, "b": same})
    with pytest.raises(ValueError, match="a and b do not add up: one has order 2 and the other order 1"):
        up.report(models()["second order"], summaries={"a": same, "b": summaries(1)["west"]})
    two = {name: summaries()[name] for name in ("north", "south")}
    found = up.report(models()["second order"], summaries=two)
    assert any("270 rows, and the model was learned from 360" in sentence for sentence in found.missing)


def test_files_are_named_by_their_stems_and_the_basis_is_found_beside_them(tmp_path):
    basis().save(tmp_path / "study.basis")
    for name, one in summaries().items():
        one.save(tmp_path / f"{name}.summary")
    up.save(models()["second order"], tmp_path / "study.model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = up.report(tmp_path / "study.model", summaries=sorted(tmp_path.glob("*.summary")))
    words = Page(found.html).words
    assert "unpooled predict study.model" in words
    assert all(name in words for name in summaries())
    assert any("kB" in word for word in re.findall(r"sent [\d.]+ kB in all", words))


@every_kind
def test_a_model_from_a_file_has_a_page_with_the_same_choice(kind, tmp_path):
    up.save(models()[kind], tmp_path / "some.model")
    found, fresh = Page(up.report(tmp_path / "some.model").html), Page(page(kind).html)
    assert about.sentences(models()[kind].facts())[1] in found.words
    assert {"moves", "eigenvalues", "dimension"} <= set(found.ids) & set(fresh.ids)
