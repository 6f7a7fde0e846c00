"""A stranger who looks for the tests of a module finds them by its name: in a test's file name, import or docstring."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import unpooled

SOURCE = Path(unpooled.__file__).parent
TESTS = Path(__file__).parents[1]
TEXTS = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py") if path != Path(__file__)}
MODULES = sorted(
    path.relative_to(SOURCE).with_suffix("").as_posix() for path in SOURCE.rglob("*.py") if path.name != "__init__.py"
)


def files_that_name(module: str, texts: dict[Path, str]) -> list[Path]:
    """The test files that name a module, such as ``kernels/base``."""
    room, _, name = module.rpartition("/")
    dotted = module.replace("/", r"\.")
    parent = "unpooled" + (r"\." + room.replace("/", r"\.") if room else "")
    named = re.compile(rf"unpooled\.{dotted}\b|from {parent} import [^\n]*\b{name}\b|`{module}\.py`")
    return [path for path, text in texts.items() if path.name == f"test_{name}.py" or named.search(text)]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_named_by_a_test(module: str) -> None:
    assert files_that_name(module, TEXTS), f"no test names {module}.py: say in the docstring of one what it tests"


def test_a_module_that_no_test_names_would_be_seen() -> None:
    assert files_that_name("kernels/nobody_tests_this", TEXTS) == []
    path = TESTS / "kernels" / "test_planted.py"
    assert files_that_name("kernels/planted", {path: ""}) == [path]
    assert files_that_name("kernels/other", {path: "from unpooled.kernels import base, other"}) == [path]


def test_docstrings_name_modules_that_exist() -> None:
    named = {
        name
        for path, text in TEXTS.items()
        if path.name.startswith("test_")
        for name in re.findall(r"`([\w/]+)\.py`", text.partition("\n\nfrom ")[0])
    }
    assert sorted(named - set(MODULES)) == []
