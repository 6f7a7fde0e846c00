"""docs/start.md, followed to the letter from an empty folder, shows what it says and leaves what it promises."""

import numpy as np
import pyarrow.csv
import pytest

import unpooled as up
from tests.cases.processes import Marked
from tests.cases.reports import Page
from tests.docs.guides import followed, shows
from tests.paths import DOCS


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    return folder, followed(DOCS / "start.md", folder, Marked())


def test_the_reader_sees_what_the_page_says(start):
    _, screens = start
    assert len(screens) == 4
    for expected, seen in screens:
        assert shows(expected, seen), (expected, seen)


def test_the_environment_is_the_readers_own(start):
    folder, _ = start
    assert list(folder.glob("venv/lib/*/site-packages/here.pth"))  # what stands for the install went into it


def test_the_file_of_predictions_is_that_of_the_model(start):
    folder, _ = start
    predicted = pyarrow.csv.read_csv(folder / "predictions.csv")
    model = up.load(folder / "sound.model")
    np.testing.assert_allclose(predicted["sound_predicted"].to_numpy(), model.predict(folder / "new.csv"), rtol=1e-9)


def test_the_report_has_the_parts_that_the_page_names(start):
    folder, _ = start
    page = Page((folder / "report.html").read_text())
    assert "sound" in page.words
    for named in ("λ", "frequency", "residual"):
        assert named in page.words


@pytest.mark.parametrize(
    ("seen", "same"),
    [
        ("off by 1.8 dB,\n 150 rows in a.csv", True),
        ("off by 1.2 dB, 150 rows in a.csv", False),
        ("off by 1.8 dB, 151 rows in a.csv", False),
        ("off by 1.8 dB, 150 rows", False),
        ("error: off by 1.8 dB, 150 rows in a.csv", False),
    ],
)
def test_a_screen_that_differs_is_noticed(seen, same):
    assert shows("off by 1.7 dB, 150 rows in ...csv", seen) is same
