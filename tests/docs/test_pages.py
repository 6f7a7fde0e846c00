"""The pages hang together: each is reached from the index, and what they link to is there. Sphinx is not needed."""

import ast
import re
from pathlib import Path

import pytest

from tests.paths import DOCS, ROOT

BUILT = ("generated/gallery/index",)  # pages that only a build has
PAGES = sorted(page for page in DOCS.rglob("*.md") if "generated" not in page.parts)
LINKING = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
EXAMPLES = sorted((DOCS / "gallery").glob("*.py"))


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """The text without its blocks of code."""
    return re.sub(r"^(`{3,})[^`\n]*\n.*?^\1\s*$", "", page.read_text(), flags=re.M | re.S)


def links(page: Path) -> list[str]:
    """Where the page points to inside of the repository."""
    without_code = re.sub(r"`[^`\n]*`", "", prose(page))
    found = re.findall(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)", without_code)
    found += re.findall(r"(?:src|href)=\"([^\"]+)\"", without_code)
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """The anchors that code hosts and Sphinx give to the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?)\s*$", prose(page), re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 0
        while (unique := name if not number else f"{name}-{number}") in found:
            number += 1
        found.add(unique)
    return found


def listed_pages(page: Path) -> list[str]:
    """The entries of a page's tables of contents, as paths from docs/ without their ending."""
    entries: list[str] = []
    for body in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.M | re.S):
        lines = [line.strip() for line in body.splitlines()]
        entries += [line for line in lines if line and not line.startswith(":")]
    entries = [re.sub(r".*<(.+)>", r"\1", entry) for entry in entries]  # "a title of its own <page>"
    return [str((page.parent / entry).resolve().relative_to(DOCS)) for entry in entries]


def test_every_page_is_reached_from_the_index_once():
    reached, waiting = ["index"], ["index"]
    while waiting:
        inside = listed_pages(DOCS / f"{waiting.pop()}.md")
        reached += inside
        waiting += [entry for entry in inside if (DOCS / f"{entry}.md").exists()]
    assert sorted(reached) == sorted([*(str(page.relative_to(DOCS).with_suffix("")) for page in PAGES), *BUILT])


@pytest.mark.parametrize("page", LINKING, ids=named)
def test_links_lead_somewhere(page):
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        there = target.exists() and target.is_relative_to(ROOT)
        if not there or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_has_one_title_and_it_comes_first(page):
    text = prose(page)
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", text, re.M)) == 1


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_examples_of_the_gallery_say_what_they_show_and_use_what_is_public(example):
    """They are run when the site is built, which takes half a minute; here they are read."""
    tree = ast.parse(example.read_text())
    title, line, *text = (ast.get_docstring(tree) or "").splitlines()
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert any(text)
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [module for module in imported if module.startswith("unpooled")]


def test_the_links_of_a_page_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` (c)\n\n[x](a.md#b) `[no](no.md)` ![p](p.png) [w](https://w.org)\n\n```\n[no](no.md)\n```\n## A b c\n"
    )
    assert links(page) == ["a.md#b", "p.png"]
    assert anchors(page) == {"a-b-c", "a-b-c-1"}
