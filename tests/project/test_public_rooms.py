"""Public names: each can be had, rooms are imported by theirs, and no two classes have the same one.

Tests `blocks.py` and `plot.py`.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

import unpooled as up

ROOMS = {"blocks": "data", "plot": "reports.plots"}


def public_classes(module: ModuleType, prefix: str = "up") -> Iterator[tuple[str, type]]:
    """The classes of a module and of the public modules in it, each by its full name."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    for name in getattr(module, "__all__", own):
        value = getattr(module, name)
        if inspect.ismodule(value):
            yield from public_classes(value, f"{prefix}.{name}")
        elif inspect.isclass(value):
            yield f"{prefix}.{name}", value


def classes_that_share_a_name(classes: list[tuple[str, type]]) -> dict[str, list[str]]:
    """The names that stand for several classes, each with its places."""
    places: defaultdict[str, dict[type, str]] = defaultdict(dict)
    for place, value in classes:
        places[place.rpartition(".")[2]].setdefault(value, place)
    return {name: sorted(found.values()) for name, found in places.items() if len(found) > 1}


def test_no_two_public_classes_share_a_name() -> None:
    classes = list(public_classes(up))
    assert len(classes) > 60
    assert classes_that_share_a_name(classes) == {}


def test_two_classes_of_one_name_would_be_seen() -> None:
    class Gaussian:
        pass

    classes = [*public_classes(up), ("up.privacy.Gaussian", Gaussian)]
    assert classes_that_share_a_name(classes) == {"Gaussian": ["up.kernels.Gaussian", "up.privacy.Gaussian"]}


@pytest.mark.parametrize(("public", "room"), ROOMS.items())
def test_a_room_is_imported_by_its_public_name(public: str, room: str) -> None:
    found, home = import_module(f"unpooled.{public}"), import_module(f"unpooled.{room}")
    assert getattr(up, public) is found
    assert found.__all__ == home.__all__
    for name in home.__all__:
        assert getattr(found, name) is getattr(home, name)


@pytest.mark.parametrize("name", sorted({*up.__all__} - {"__version__"}))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(up, name) is not None
