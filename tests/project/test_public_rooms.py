"""Rooms with a public name of their own can be imported by it, and it is their public names that are found there.

Tests `blocks.py` and `plot.py`.
"""

from __future__ import annotations

from importlib import import_module

import pytest

import unpooled as up

ROOMS = {"blocks": "data", "plot": "reports.plots"}


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
