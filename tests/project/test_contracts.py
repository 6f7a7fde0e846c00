"""Rooms read contracts: they ask no object which attributes it has, and compare no names of classes.

``_base``, where the contracts begin, may ask. So may the places that are counted below, and no more of them may come.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import unpooled

SOURCE = Path(unpooled.__file__).parent

#: how often each file outside _base asks; these numbers may only fall
ASKING = {
    "_solvers/averaging/local.py": 2,
    "_solvers/nystrom/fixed.py": 1,
    "auditing/audit.py": 1,
    "bases/base.py": 2,
    "data/dask.py": 3,
    "data/sources.py": 9,
    "estimators/averaged.py": 1,
    "estimators/locals.py": 1,
    "estimators/private.py": 1,
    "estimators/public_rows.py": 2,
    "estimators/span.py": 1,
    "federation/study/study.py": 1,
    "federation/wire/flower.py": 1,
    "federation/wire/network.py": 1,
    "kernels/adapters.py": 1,
    "kernels/base.py": 1,
    "kernels/parts.py": 1,
    "planning/table.py": 6,
    "privacy/rounds/schedule.py": 1,
    "privacy/noise_record.py": 1,
    "summaries/passes.py": 2,
    "summaries/summary.py": 1,
    "theory/dimension.py": 1,
}


def asks(tree: ast.AST) -> Iterator[str]:
    """Every hasattr, every getattr with a default, and every comparison with the name of a class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3):
                yield ast.unparse(node)
        elif isinstance(node, ast.Compare) and any(
            isinstance(part, ast.Attribute) and part.attr == "__name__" for part in ast.walk(node)
        ):
            yield ast.unparse(node)


def found() -> dict[str, list[str]]:
    """The places that ask, by file."""
    files = {path.relative_to(SOURCE): path for path in sorted(SOURCE.rglob("*.py"))}
    places = {file.as_posix(): list(asks(ast.parse(path.read_text("utf-8")))) for file, path in files.items()}
    return {file: asked for file, asked in places.items() if asked and not file.startswith("_base/")}


def test_no_object_is_asked_which_attributes_it_has():
    assert {file: asked for file, asked in found().items() if len(asked) > ASKING.get(file, 0)} == {}


def test_every_place_that_may_ask_does_so():
    asked = found()
    assert {file: len(asked.get(file, [])) for file in ASKING} == ASKING, "write the smaller numbers into ASKING"


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("hasattr(model, 'lam_')", True),
        ("getattr(model, 'lam_', None)", True),
        ("type(model).__name__ == 'SpectralRegressor'", True),
        ("type(model).__name__ in KINDS", True),
        ("__name__ == '__main__'", False),
        ("getattr(row, name)", False),
        ("f'this is a {type(model).__name__}'", False),
    ],
)
def test_what_counts_as_asking(code, caught):
    assert bool(list(asks(ast.parse(code)))) == caught
