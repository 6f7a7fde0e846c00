"""Errors carry in fields what others need of them, also from another process; and plain JSON is plain."""

import ast
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unpooled as up
from tests.made_up import CUBE, points, regression
from unpooled._base import plain_json
from unpooled._base.checks import AdvisedError, NotAddable

HERE = Path(up.__file__).parent
contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (AdvisedError("give basis=", "give --basis"), "at_command_line"),
        (AdvisedError("as it is"), "at_command_line"),
        (NotAddable("these cannot be added up: one is blue", "one is blue"), "reason"),
        (NotAddable("these cannot be added up"), "reason"),
    ],
)
def test_an_error_comes_back_whole_from_another_process_and_with_a_word_put_before_it(error, field):
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), getattr(again, field)) == (str(error), getattr(error, field))
    assert str(type(error)(f"public: {error}")) == f"public: {error}"


def test_sums_that_do_not_add_up_say_why_beside_the_sentence():
    X, y = regression(1, 40, between=CUBE)
    basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.7), n_features=5).fit(points(2, 20, between=CUBE))
    sums = [up.Summary.of(basis, X, y, order=order) for order in (1, 2)]
    with pytest.raises(NotAddable) as found:
        sums[0] + sums[1]
    assert str(found.value) == f"these summaries cannot be added up: {found.value.reason}"
    assert found.value.reason.startswith("one has order 1 and the other order 2")


def test_no_command_takes_the_sentence_of_an_error_apart():
    """``str(error)`` is written out, wrapped or put into another sentence; nothing is looked for in it, or replaced."""
    for path in (HERE / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            taken = node.value if isinstance(node, ast.Attribute) else None
            looked = node.comparators[0] if isinstance(node, ast.Compare) else None
            for part in (taken, looked):
                told = isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "str"
                assert not (told and ast.unparse(part.args[0]) in ("error", "exc")), f"{path.name}:{node.lineno}"


@given(contents)
def test_both_canonical_forms_come_back_as_they_went_in_and_do_not_depend_on_the_order_of_keys(content):
    for form in (plain_json.encode_canonical, plain_json.encode_header):
        assert json.loads(form(content)) == content
        if isinstance(content, dict):
            assert form(dict(reversed(content.items()))) == form(content)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_is_refused_in_every_form_and_none_where_it_is_made_plain(number):
    for form in (plain_json.encode_canonical, plain_json.encode_header, plain_json.encode_readable):
        with pytest.raises(ValueError, match="not JSON compliant"):
            form({"a": [number]})
    assert plain_json.make_plain({"a": (np.float64(number), np.int64(3), Path("x"))}) == {"a": [None, 3, "x"]}
    assert plain_json.make_plain([{1}], other=lambda _: "other") == ["other"]
