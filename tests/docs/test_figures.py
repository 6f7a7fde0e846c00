"""A figure on a page is one that docs/benchmarks.md has: times, sizes, ratios, shares, and all that peers are given."""

import re

import pytest

from tests.paths import DOCS, ROOT

NUMBER = r"(?<![\w.^⁻])(\d[\d,]*\.\d+|\.\d+|\d[\d,]*)"
MEASURED = re.compile(NUMBER + r"\s(?:s|ms|kB|MiB|GB|GiB|times|%)(?![\w])")
SHARE = re.compile(r"(?<![\w.])\.\d{2,3}(?![\w.])")  # R², written without its zero
WITH_A_POINT = re.compile(r"(?<![\w.])(\d*\.\d+)(?![\w.])")
README = ROOT / "README.md"


def prose(page):
    """The page without its code, fenced and inline: what the library does there, the page's own tests say."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))


def known():
    return set(re.findall(NUMBER, (DOCS / "benchmarks.md").read_text()))


@pytest.mark.parametrize(
    "page", [README, *(DOCS / f"{name}.md" for name in ("comparisons", "gpu", "robust", "choosing"))]
)
def test_what_is_measured_is_in_the_benchmarks(page):
    assert {number for number in MEASURED.findall(prose(page)) if number not in known()} == set()


@pytest.mark.parametrize("name", ["private", "comparisons", "start"])
def test_what_is_explained_is_in_the_benchmarks(name):
    assert set(SHARE.findall(prose(DOCS / f"{name}.md"))) - known() == set()


def test_every_figure_beside_a_peer_is_in_the_benchmarks():
    figures = set(WITH_A_POINT.findall(prose(DOCS / "comparisons.md")))
    assert len(figures) > 20
    assert figures - known() == set()


def test_a_figure_of_nobodys_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("A fit takes 123.45 s, `sleep 999 s` takes none.\n")
    assert MEASURED.findall(prose(page)) == ["123.45"]
    assert "123.45" not in known()
