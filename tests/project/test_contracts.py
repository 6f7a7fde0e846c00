"""Reports and commands read contracts: they ask no object which attributes it has, and compare no names of classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import unpooled

SOURCE = Path(unpooled.__file__).parent

#: places that may ask, each with its reason
ALLOWED = {
    ("cli/app.py", "getattr(error, 'reasons', None)"): "of errors of all kinds, some have reasons",
    ("cli/codes.py", "getattr(error, 'code', code)"): "of errors of all kinds, some have an exit code",
}


def asks(tree: ast.AST) -> Iterator[str]:
    """Every hasattr, every getattr with a default, and every comparison with the name of a class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3):
                yield ast.unparse(node)
        elif isinstance(node, ast.Compare) and "__name__" in ast.unparse(node):
            yield ast.unparse(node)


@pytest.mark.parametrize("room", ["reports", "cli"])
def test_no_object_is_asked_which_attributes_it_has(room):
    found = [
        (path.relative_to(SOURCE).as_posix(), place)
        for path in sorted((SOURCE / room).rglob("*.py"))
        for place in asks(ast.parse(path.read_text("utf-8")))
    ]
    assert [place for place in found if place not in ALLOWED] == []


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("hasattr(model, 'lam_')", True),
        ("getattr(model, 'lam_', None)", True),
        ("type(model).__name__ == 'SpectralRegressor'", True),
        ("type(model).__name__ in KINDS", True),
        ("getattr(row, name)", False),
        ("f'this is a {type(model).__name__}'", False),
    ],
)
def test_what_counts_as_asking(code, caught):
    assert bool(list(asks(ast.parse(code)))) == caught
