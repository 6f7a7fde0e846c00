"""Pictures: plain numbers that one function draws, with matplotlib only when something is drawn."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from unpooled._base.drawing import Curve, Dots, Guide, Picture, draw

NUMBERS = st.lists(st.floats(0.1, 10.0), min_size=2, max_size=5)


@given(st.lists(NUMBERS, min_size=1, max_size=4))
def test_a_picture_is_drawn_number_by_number(rows):
    curves = [Curve(range(len(row)), row, f"curve {i}", dot=int(np.argmin(row))) for i, row in enumerate(rows)]
    ax = draw(Picture("x", "y", curves, legend="small"), Figure().subplots())
    lines, dots = ax.get_lines()[::2], ax.get_lines()[1::2]
    for row, line, dot in zip(rows, lines, dots, strict=True):
        assert line.get_ydata().tolist() == row
        assert list(dot.get_ydata()) == [min(row)]
        assert dot.get_color() == line.get_color()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [curve.label for curve in curves]


def test_the_users_look_goes_to_curves_and_not_to_marks():
    picture = Picture("x", "y", [Curve([1, 2], [3, 4], "a", after=", b")], [Dots([1], [3], "chosen", {"color": "k"})])
    curve, dots = draw(picture, Figure().subplots(), label="mine", color="red").get_lines()
    assert (curve.get_label(), curve.get_color()) == ("mine, b", "red")
    assert (dots.get_label(), dots.get_color()) == ("chosen", "k")


def test_guides_bars_names_and_scales_are_where_they_should_be():
    guides = [Guide(2.0, "level"), Guide(3.0, "upright", upright=True)]
    ax = draw(Picture("x", guides=guides, bars=[1.0, 5.0], names=["a", "b"], xscale="log"), Figure().subplots())
    level, upright = ax.get_lines()
    assert level.get_ydata()[0] == 2.0
    assert upright.get_xdata()[0] == 3.0
    assert [bar.get_width() for bar in ax.patches] == [1.0, 5.0]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b"]
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_ylabel()) == ("log", "linear", "")


def test_matplotlib_waits_until_something_is_drawn():
    script = "import sys, unpooled._base.path, unpooled.estimators.paths; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["False"], done.stderr
