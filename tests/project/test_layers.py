"""A module imports only from rooms to its left, inside functions and for annotations too, and never from itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import unpooled

SOURCE = Path(unpooled.__file__).parent

#: Rooms from the lowest to the highest. Rooms of one tuple may import each other, their modules in no circle.
#: A file of ``privacy`` belongs to the lower of its two layers unless it is named in the upper one.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("_base",),
    ("_linalg",),
    ("kernels", "filters", "losses", "bases", "theory"),
    ("_solvers",),
    ("engines", "data", "datasets"),
    ("blocks",),
    ("privacy",),
    ("summaries",),
    ("privacy.release", "privacy.rounds"),
    ("gate",),
    ("estimators",),
    ("models",),
    ("federation",),
    ("auditing",),
    ("planning",),
    ("reports",),
    ("plot",),
    ("reproduce",),
    ("demo",),
    ("cli",),
    ("__main__",),
)

#: Faces of several layers: they import nothing of the upper ones when they are imported, and hand out their names late.
FACES = ("", "privacy")
LATE = {
    "privacy.PrivacyRequest": "privacy.release",
    "privacy.Forecast": "privacy.rounds.forecast",
    "privacy.forecast": "privacy.rounds.forecast",
}

#: (importing module, imported module) that are known to point upwards: to be emptied, never to be added to.
ALLOWED: frozenset[tuple[str, str]] = frozenset()


def modules() -> dict[str, Path]:
    """Every module by its name below the package; the package itself is the empty name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[str, bool]]:
    """The modules that a module imports anywhere in it, and whether it does so for annotations only."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]

    def walk(node: ast.AST, typing: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            only_types = typing or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
            if isinstance(child, ast.ImportFrom):
                yield from ((module, only_types) for module in targets(child))
            elif isinstance(child, ast.Import):
                for alias in child.names:
                    if alias.name.split(".")[0] == "unpooled":
                        yield alias.name.partition(".")[2], only_types
            yield from walk(child, only_types)

    def targets(node: ast.ImportFrom) -> Iterator[str]:
        if node.level == 0:
            if (node.module or "").split(".")[0] != "unpooled":
                return
            base = (node.module or "").partition(".")[2]
        else:
            parts = package.split(".") if package else []
            parts = parts[: len(parts) - (node.level - 1)]
            base = ".".join([*parts, *([node.module] if node.module else [])])
        for alias in node.names:
            inner = f"{base}.{alias.name}".lstrip(".")
            yield LATE.get(inner, inner if inner in known else base)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), False)


def layer(name: str) -> int:
    """The place of a module's room among the layers; the longest name of a room counts."""
    rooms = {room: place for place, layer in enumerate(LAYERS) for room in layer}
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if (place := rooms.get(".".join(parts[:length]))) is not None:
            return place
    raise AssertionError(f"the room of {name!r} is in no layer: give it one")


MODULES = modules()
EDGES = sorted({(name, *edge) for name, path in MODULES.items() if name for edge in imports(name, path, MODULES)})


def test_every_room_has_a_layer_and_every_layer_has_its_rooms() -> None:
    for name in MODULES:
        if name:
            layer(name)
    for room in (room for rooms in LAYERS for room in rooms):
        assert room in MODULES, f"the layers name {room!r}, which does not exist"


def test_imports_point_to_the_left() -> None:
    upward = {
        (name, other)
        for name, other, only_types in EDGES
        if not (name in FACES and only_types) and (other == "" or layer(other) > layer(name))
    }
    assert upward == ALLOWED, "\n".join(
        f"{a or 'unpooled'} imports {b or 'unpooled'}" for a, b in sorted(upward ^ ALLOWED)
    )


def test_no_module_is_below_itself() -> None:
    """Without the imports for annotations, which nothing runs; a package is imported with any module in it."""
    below: dict[str, set[str]] = {name: set() for name in MODULES}
    for name, other, only_types in EDGES:
        if not only_types and name != other:
            below[name].add(other)
    order: list[str] = []
    while ready := [name for name in below if name not in order and below[name] <= set(order)]:
        order += ready
    assert set(order) == set(below), f"in a circle, or above one: {sorted(set(below) - set(order))}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from ..cli import app", ("cli.app", False)),
        ("def f():\n    from .. import cli", ("cli", False)),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..cli.app import command", ("cli.app", True)),
        ("import unpooled.cli", ("cli", False)),
        ("from unpooled.privacy import PrivacyRequest", ("privacy.release", False)),
        ("from .. import __version__", ("", False)),
    ],
)
def test_the_walk_sees_imports_wherever_they_stand(code: str, expected: tuple[str, bool], tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text(code)
    assert set(imports("kernels.planted", path, MODULES)) == {expected}
