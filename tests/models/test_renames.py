"""Format 2 of models: one table of renames, files of format 1 that are read as strictly as ever, digests that are kept.

Tests `_base/renames.py`.
"""

from __future__ import annotations

import copy
import json
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unpooled as up
from tests.made_up import CUBE, points
from tests.models.test_golden_files import EXPECTED, FOLDER, rows
from unpooled._base import declared, files, renames
from unpooled._base.kinds import is_same, parameters_of
from unpooled._base.renames import CHANGES
from unpooled.federation.study.study import INTERCEPT, read_study
from unpooled.models import CLASSES

ROOT = Path(__file__).parents[2]
NAMES = sorted(EXPECTED["models"])
models = pytest.mark.parametrize("name", NAMES)


def content_of(name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return files.read(FOLDER / f"{name}.model", "model")


def without_envelope(header: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in header.items() if key not in files.ENVELOPE}


def entry_at(header: Any, place: str) -> tuple[dict[str, Any], str]:
    *parts, entry = place.split(".")
    for part in parts:
        header = header[part]
    return header, entry


def load(tmp_path, header, arrays, format=1):
    files.write(tmp_path / "it.model", "model", without_envelope(header), arrays, format)
    return up.load(tmp_path / "it.model")


def refuse(tmp_path, header, arrays, match, format=1):
    with pytest.raises(files.FileError, match=match) as caught:
        load(tmp_path, header, arrays, format)
    assert "\n" not in str(caught.value)


# --- The table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSES)
def test_the_new_names_are_those_of_the_class_and_the_old_ones_are_gone(name):
    kept = {one.name for one in parameters_of(CLASSES[name]) if one.kind.in_files}
    changes = CHANGES.get(name, renames.Changes())
    new = {*changes.renamed.values(), *changes.added}
    assert {place.removeprefix("params.") for place in new if place.startswith("params.")} <= kept
    assert not {place.removeprefix("params.") for place in changes.renamed if place.startswith("params.")} & kept


@models
def test_with_the_table_the_parameters_of_format_1_are_all_that_format_2_has(name):
    header, _ = content_of(name)
    cls = CLASSES[header["class"]]
    assert renames.translate(header)["params"].keys() == {one.name for one in parameters_of(cls) if one.kind.in_files}


@models
def test_nothing_is_lost_in_translation(name):
    header = without_envelope(content_of(name)[0])
    before = copy.deepcopy(header)
    again = renames.translate_back(renames.translate(header))
    assert header == before
    assert header in again


def test_the_page_has_the_table():
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    section = page.partition("## Format 2")[2].partition("\n## ")[0]
    found = {tuple(re.findall(r"`([^`]+)`", line)) for line in section.splitlines() if line.startswith("| `")}
    wanted = {(name, old, new) for name, changes in CHANGES.items() for old, new in changes.renamed.items()}
    wanted |= {(name, place, json.dumps(v)) for name, changes in CHANGES.items() for place, v in changes.added.items()}
    assert found == wanted


# --- Files of format 1 are read as strictly as they were --------------------------------------------------------------


def places(name: str) -> list[tuple[str, str]]:
    """The renamed places of a model's header, those of its local estimator too."""
    header, _ = content_of(name)
    found = list(CHANGES[header["class"]].renamed.items())
    if header["class"] == "AveragedRegressor":
        inner = CHANGES[header["params"]["local"]["class"]].renamed.items()
        found += [(f"params.local.{old}", f"params.local.{new}") for old, new in inner]
    return found


@models
def test_a_file_of_format_1_with_a_name_of_format_2_is_refused(name, tmp_path):
    header, arrays = content_of(name)
    for old, new in places(name):
        in_place_of, beside = copy.deepcopy(header), copy.deepcopy(header)
        part, entry = entry_at(in_place_of, old)
        part[entry_at(header, new)[1]] = part.pop(entry)
        refuse(tmp_path, in_place_of, arrays, f"lacks '{entry}'")
        part, entry = entry_at(beside, new)
        part[entry] = entry_at(header, old)[0][entry_at(header, old)[1]]
        refuse(tmp_path, beside, arrays, f"has '{entry}', which no")
    for place, value in CHANGES[header["class"]].added.items():
        beside = copy.deepcopy(header)
        part, entry = entry_at(beside, place)
        part[entry] = value
        refuse(tmp_path, beside, arrays, f"has '{entry}', which no")
    refuse(tmp_path, header | {"digest": EXPECTED["models"][name]["digest"]}, arrays, "has 'digest', which no")
    refuse(tmp_path, renames.translate(header), arrays, "lacks|has|is not the parameters")


@models
def test_a_file_of_format_2_with_a_name_of_format_1_is_refused(name, tmp_path):
    header, arrays = content_of(name)
    refuse(tmp_path, header, arrays, "which no|is not|lacks", format=2)
    new = renames.translate(header)
    load(tmp_path, new, arrays, format=2)
    for old, place in CHANGES[header["class"]].renamed.items():
        changed = copy.deepcopy(new)
        part, entry = entry_at(changed, place)
        part[entry_at(header, old)[1]] = part.pop(entry)
        refuse(tmp_path, changed, arrays, "which no|is not|lacks", format=2)


def test_a_class_that_has_not_changed_has_no_file_of_format_2(tmp_path):
    header, arrays = files.read(FOLDER / "study" / "study.model", "model")
    refuse(tmp_path, header, arrays, "it has format 2, and a BasisAverage has format 1 at most", format=2)
    refuse(tmp_path, header | {"digest": "0" * 64}, arrays, "has 'digest', which no")


@models
@given(data=st.data())
def test_a_forged_header_of_format_1_is_refused_or_says_what_it_said(name, data):
    """Names and values at random: one sentence and no other error, or a model whose file says the same of it."""
    header = without_envelope(content_of(name)[0])
    words = sorted({entry_at(header, place)[1] for pair in places(name) for place in pair} | {"verbose", "class"})
    values = st.one_of(
        st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=3), st.builds(dict), st.builds(list)
    )
    for part in data.draw(st.lists(st.sampled_from(["", "params", "plan", "local"]), max_size=3)):
        inner: Any = header if part == "" else header.get("params") if part == "local" else header.get(part)
        inner = inner.get("local") if part == "local" and isinstance(inner, dict) else inner
        if isinstance(inner, dict):
            word = data.draw(st.sampled_from(words))
            if data.draw(st.booleans()):
                inner.pop(word, None)
            else:
                inner[word] = data.draw(values)
    before = copy.deepcopy(header)
    try:
        found = renames.translate(header)
    except ValueError:
        found = None
    assert header == before
    if found is not None and isinstance(header.get("class"), str) and isinstance(header.get("params"), dict):
        try:
            again = renames.translate_back(found)
        except (ValueError, TypeError, KeyError, AttributeError):  # no model has such a header
            return
        assert not again or before in again
    with tempfile.TemporaryDirectory() as place:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = load(Path(place), header, content_of(name)[1])
        except files.FileError as error:
            assert "\n" not in str(error)
            return
        up.save(model, Path(place) / "again.model")
        assert declared.digest_of(up.load(Path(place) / "again.model")) == declared.digest_of(model)


# --- Digests ---------------------------------------------------------------------------------------------------------


@models
def test_a_digest_that_is_not_that_of_the_content_is_refused(name, tmp_path):
    header, arrays = content_of(name)
    new = renames.translate(header)
    for digest in ("0" * 64, "", 3, None, True, [], {}, declared.digest_of(load(tmp_path, new, arrays, 2))):
        refuse(tmp_path, new | {"digest": digest}, arrays, "digest is not that of its content", format=2)
    other = {
        key: array + 1e-9 if key == "b" or key == "predictor.intercept" else array for key, array in arrays.items()
    }
    own = EXPECTED["models"][name]["digest"]
    refuse(tmp_path, new | {"digest": own}, other, "digest is not that of its content", format=2)
    assert declared.digest_of(load(tmp_path, new | {"digest": own}, arrays, 2)) == own


def changed_headers(header: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give headers with one entry, at any depth, set to other values, or removed."""
    for name, value in header.items():
        yield {key: other for key, other in header.items() if key != name}
        yield from (header | {name: other} for other in (None, 1, 0.5, "auto"))
        if isinstance(value, dict):
            yield from (header | {name: inner} for inner in changed_headers(value))


@models
def test_no_other_model_can_take_a_digest(name, tmp_path):
    """A site's sums are for the model of a digest: a file that has it, and says anything else, is refused."""
    header, arrays = content_of(name)
    own = EXPECTED["models"][name]["digest"]
    known, _ = declared.to_parts_of(load(tmp_path, header, arrays), "named")
    n_read = 0
    for changed in changed_headers(without_envelope(renames.translate(header))):
        (tmp_path / "it.model").write_bytes(files.to_bytes("model", changed | {"digest": own}, arrays, 2))
        try:
            model = up.load(tmp_path / "it.model")
        except files.FileError as error:
            assert str(error).isprintable()
            continue
        assert is_same(declared.to_parts_of(model, "named")[0], known)
        n_read += 1
    assert n_read < 40


@models
def test_a_model_that_changes_has_no_longer_the_digest_that_it_had(name):
    model = up.load(FOLDER / f"{name}.model")
    own = files.digest(*declared.to_parts_of(model, "named"))
    assert declared.digest_of(declared.copy_as_saved(model)) == EXPECTED["models"][name]["digest"]
    model.predictor_.intercept[...] += 1.0
    if hasattr(model, "intercept_"):
        model.intercept_ = model.intercept_ + 1.0
    assert declared.digest_of(model) not in (EXPECTED["models"][name]["digest"], own)


@pytest.mark.parametrize("again", [False, True], ids=["loaded", "saved again"])
def test_residuals_that_name_the_old_digest_are_those_of_the_model(again, tmp_path):
    """Sites answered a model of format 1; the model that learns from the answer was saved in format 2 since."""
    basis = up.bases.load(FOLDER / "study.basis")
    residuals = up.Summary.load(FOLDER / "residuals.summary")
    model = up.load(FOLDER / "summary-rounds.model")
    if again:
        up.save(model, tmp_path / "a.model")
        model = up.load(tmp_path / "a.model")
    assert residuals.contents.model == declared.digest_of(model) == EXPECTED["models"]["summary-rounds"]["digest"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.update(residuals, basis=basis)
    np.testing.assert_allclose(
        model.predict(rows(named=True)), EXPECTED["learned"]["one more round"]["predictions"], rtol=1e-9
    )
    header, arrays = declared.to_parts_of(model, "named")
    assert declared.digest_of(model) == files.digest(header, arrays)
    up.save(model, tmp_path / "b.model")
    assert "digest" not in files.read(tmp_path / "b.model", "model")[0]


def test_a_model_that_is_new_has_the_digest_of_its_content(tmp_path):
    X = points(0, 20, between=CUBE)
    model = up.SpectralRegressor(up.kernels.Gaussian(1.0), lam=0.1).fit(X, X[:, 0])
    up.save(model, tmp_path / "a.model")
    header, arrays = files.read(tmp_path / "a.model", "model")
    assert header["format"] == 2
    assert declared.digest_of(model) == files.digest(without_envelope(header), arrays)


@pytest.mark.parametrize("written", [None, True, False])
def test_the_intercept_of_a_private_descent_could_be_left_to_its_method(written, tmp_path):
    header, arrays = content_of("private-descent")
    header["params"]["intercept"] = written
    digest = files.digest(without_envelope(header), arrays)
    model = load(tmp_path, header, arrays)
    assert model.fit_intercept is (written is not False)
    assert declared.digest_of(model) == digest
    up.save(model, tmp_path / "b.model")
    assert declared.digest_of(up.load(tmp_path / "b.model")) == digest
    header["params"] |= {"method": "paper"}
    if written:
        refuse(tmp_path, header, arrays, "intercept")
    else:
        model = load(tmp_path, header, arrays)
        assert model.fit_intercept is False
        assert declared.digest_of(model) == files.digest(without_envelope(header), arrays)


# --- Studies ---------------------------------------------------------------------------------------------------------


def test_a_study_says_to_sites_what_it_always_said(tmp_path):
    """Its definition has the entries of before, so the digest of a study is what it was."""
    record = up.federation.StudyRecord.load(FOLDER / "study")
    basis = up.bases.load(FOLDER / "study.basis")
    content = record.study | {"basis": basis.digest}
    study = up.federation.Study.from_definition(content, basis)
    assert study.fit_intercept is record.study[INTERCEPT]
    assert study.definition() == content
    assert study.digest == files.digest(content, {})
    assert record.study_digest == files.digest(record.study, {})


def test_a_study_that_was_written_down_for_version_0_1_can_be_read(tmp_path):
    (tmp_path / "study.basis").write_bytes((FOLDER / "study.basis").read_bytes())
    text = 'name = "stay"\nbasis = "study.basis"\ntargets = "days"\nmembers = ["a", "b"]\nquorum = 2\ntimeout = 9\n'
    (tmp_path / "study.toml").write_text(text + "center = false\n", encoding="utf-8")
    assert read_study(tmp_path).fit_intercept is False
    (tmp_path / "study.toml").write_text(text + "fit_intercept = false\n", encoding="utf-8")
    assert read_study(tmp_path).fit_intercept is False
    (tmp_path / "study.toml").write_text(text + "fit_intercept = false\ncenter = true\n", encoding="utf-8")
    with pytest.raises(up.federation.ConfigError, match="has the unknown entries center"):
        read_study(tmp_path)
