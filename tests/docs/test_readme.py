"""The README is short, and its picture is small and can be drawn again."""

import runpy

from tests.paths import DOCS, ROOT

README = ROOT / "README.md"
PICTURE = DOCS / "_static" / "picture.py"
MOST_BYTES = 150_000


def test_it_is_read_in_a_few_minutes():
    lines = README.read_text().splitlines()
    assert len(lines) < 130
    assert [line for line in lines if len(line) > 120] == []


def test_the_picture_can_be_drawn_again_and_is_small(tmp_path):
    assert f"({PICTURE.with_suffix('.png').relative_to(ROOT)})" in README.read_text()
    runpy.run_path(str(PICTURE))["main"](tmp_path / "again.png")
    for file in (tmp_path / "again.png", PICTURE.with_suffix(".png")):
        assert file.read_bytes().startswith(b"\x89PNG")
        assert 10_000 < file.stat().st_size < MOST_BYTES
