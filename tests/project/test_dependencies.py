"""The library imports only what it declares: a fresh install has everything that a module asks for."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import unpooled

SOURCE = Path(unpooled.__file__).parent
PROJECT = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]


def names_of(requirements: list[str]) -> set[str]:
    """Return the normalised names of distributions in a list of requirements."""
    return {normalise(re.split(r"[\s<>=!~;\[]", one, maxsplit=1)[0]) for one in requirements}


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(tree: ast.AST) -> Iterator[str]:
    """Return the first parts of all absolute imports, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


CORE = names_of(PROJECT["dependencies"])
ANY = CORE.union(*(names_of(extra) for extra in PROJECT["optional-dependencies"].values()))
FOREIGN = {"torch", "triton", "IPython"}  # used only if the user has installed them
WITH_EXTRAS = {"distributed": "dask"}  # installed by an extra of a library that is declared, here dask[distributed]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_module_imports_declared_libraries_only(path):
    tree, owners = ast.parse(path.read_text("utf-8")), packages_distributions()
    for name in set(imported(tree)) - sys.stdlib_module_names - FOREIGN - {"unpooled"}:
        distributions = {normalise(one) for one in owners.get(name, [name])} | {WITH_EXTRAS.get(name, "")}
        assert distributions & ANY, f"{path.name} imports {name}, which pyproject.toml does not declare"


def test_an_undeclared_library_would_be_found():
    assert set(imported(ast.parse("def f():\n    import click\n    from a.b import c\n    from .d import e"))) == {
        "click",
        "a",
    }
    assert "click" not in ANY
    assert "typer" in CORE
