"""The page on the architecture is short and true: rooms, files, and the six ways as they are walked."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import unpooled

ROOT = Path(__file__).parents[2]
SOURCE = Path(unpooled.__file__).parent
PAGE = ROOT / "docs" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")
WAYS = {
    "A fit": "fit",
    "A big fit from a file": "big fit from a file",
    "A summary leaving a site": "summary leaving a site",
    "A private fit": "private fit",
    "One federated exchange": "federated exchange",
    "A report": "report",
}


def files_of(line: str) -> list[str]:
    """The files of a line; ``room/{a,b}`` stands for several."""
    found = []
    for item in re.findall(r"`([^`]+)`", line):
        head, _, inner = item.partition("{")
        found += [f"{head}{name}.py" for name in inner.rstrip("}").split(",")] if inner else [f"{item}.py"]
    return found


def line_of(title: str) -> tuple[int, list[str]]:
    """The number that a way claims, and its files."""
    match = re.search(rf"^- \*\*{title}\*\* \((\d+)\): (.+?)(?=\n- |\n\n|\Z)", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert match, f"the page has no line for {title!r}"
    return int(match[1]), files_of(match[2])


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The files of every way, by ``benchmarks/hops.py``."""
    spec = importlib.util.spec_from_file_location("hops", ROOT / "benchmarks" / "hops.py")
    assert spec is not None
    assert spec.loader is not None
    hops = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hops)
    found = {}
    for name, (call, _) in hops.ways(tmp_path_factory.mktemp("hops")).items():
        if name in WAYS.values():
            call()
            found[name], _ = hops.trace(call, hops.LEAVES)
    return found


def test_the_page_is_short_and_its_lines_too() -> None:
    lines = TEXT.splitlines()
    assert len(lines) <= 80
    assert all(len(line) <= 120 for line in lines)


def test_every_room_is_named() -> None:
    rooms = [path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    rows = "\n".join(line for line in TEXT.splitlines() if line.startswith("|"))
    assert [room for room in rooms if not room.startswith("__") and f"`{room}`" not in rows] == []


def test_every_named_file_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)`", TEXT) + [file for title in WAYS for file in line_of(title)[1]]
    assert len(named) > 50
    places = (SOURCE, SOURCE.parent, ROOT, SOURCE / "_solvers")
    assert [file for file in named if not any((place / file).exists() for place in places)] == []


@pytest.mark.parametrize("title", WAYS)
def test_a_way_is_the_one_that_is_walked(title: str, walked: dict[str, list[str]]) -> None:
    claimed, files = line_of(title)
    assert sorted(files) == sorted(walked[WAYS[title]])
    assert claimed == len(files)
