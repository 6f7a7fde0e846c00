"""Whatever a question says, one record moves its answer no further than is paid for; what is no question is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from tests.cases.private_rounds import answered, basis_of, frame_of
from unpooled.losses import Correntropy, Huber
from unpooled.privacy.rounds.frame import Frame
from unpooled.privacy.rounds.messages import from_parts, to_parts
from unpooled.privacy.rounds.questions import (
    Calibration,
    ClippedErrors,
    InputCounts,
    LabelCounts,
    Residuals,
)
from unpooled.summaries.passes import FeatureRows

EXACT = 1 + 1e-9
BASIS = basis_of(n_features=3)
FRAME = frame_of(BASIS)
M = FRAME.n_features_
INPUTS = 2

SIZES = [0.0, 1.0, -1.0, 1e-300, 5e-324, 1e-150, 1e-160, 1e-80, 1e80, 1e150, -1e160, 1e300, -1.7e308, 1.7e308]
FINITE = st.one_of(st.floats(-3, 3), st.sampled_from(SIZES))
ANYTHING = st.one_of(FINITE, st.sampled_from([math.nan, math.inf, -math.inf]))
POSITIVE = st.one_of(st.floats(0.01, 10), st.sampled_from([1e-100, 1e-60, 1e-20, 1e20, 1e60, 1e100]))
LOSS = st.builds(
    lambda kind, scale: kind(scale),
    st.sampled_from([Huber, Correntropy]),
    st.one_of(st.floats(0.01, 10), st.sampled_from([1e-40, 1e-20, 1e20, 1e40])),
)
VECTOR = arrays(float, M + 1, elements=FINITE)
EDGES = st.lists(FINITE, min_size=1, max_size=6).map(sorted).map(np.asarray)


@st.composite
def questions(draw):
    """Any question that a site would answer, with numbers of all sizes."""
    kind = draw(st.sampled_from(["residuals", "calibration", "errors", "labels"]))
    if kind == "residuals":
        weights = draw(arrays(float, M + 1, elements=POSITIVE))
        asked = Residuals(draw(VECTOR), draw(LOSS), weights, *[draw(POSITIVE) for _ in range(2)], draw(EDGES), 1.0)
        asked = Residuals(asked.coef, asked.loss, weights, asked.length, asked.longest, asked.edges, draw(POSITIVE))
    elif kind == "calibration":
        asked = Calibration(draw(VECTOR), draw(FINITE), draw(POSITIVE), draw(LOSS), draw(POSITIVE))
    elif kind == "errors":
        asked = ClippedErrors(draw(arrays(float, (M + 1, 3), elements=FINITE)), draw(POSITIVE))
    else:
        asked = LabelCounts(draw(EDGES))
    return asked


@settings(max_examples=600, deadline=None, derandomize=True)
@given(
    asked=questions(),
    rotation=arrays(float, (M, M), elements=FINITE),
    shift=arrays(float, M, elements=FINITE),
    features=arrays(float, (4, M), elements=ANYTHING),
    labels=arrays(float, 4, elements=FINITE),
    bound=st.sampled_from([1.5, 1e100, math.inf]),
)
def test_no_forged_question_moves_further_than_is_paid_for(asked, rotation, shift, features, labels, bound):
    """The rows are features already: no basis, whatever its scales, can make others than these."""
    try:
        question = from_parts(*to_parts(asked), FRAME, INPUTS)
    except ValueError:
        return  # its sensitivity is no number of ordinary size, so it is refused
    frame = Frame(BASIS, rotation, shift, FRAME.moments, FRAME.rows)
    with np.errstate(all="ignore"):
        rows = features @ rotation
    for choice in (features, rows):
        one = answered(question, choice[:3], labels[:3], FeatureRows(frame), frame, bound)
        other = answered(question, choice[[0, 1, 3]], labels[[0, 1, 3]], FeatureRows(frame), frame, bound)
        for found in (one, other):
            assert np.isfinite(found).all()
            assert np.linalg.norm(found / 3) <= EXACT * question.largest
        # Sums of three records are inexact by a few roundings of the largest, which the noise allows for.
        room = 1e-14 * question.largest
        with np.errstate(over="ignore"):
            assert np.linalg.norm(one / 2 - other / 2) * 2 <= EXACT * question.sensitivity + room


@pytest.mark.parametrize("row", [math.nan, math.inf, 1e300, -1.7e308])
def test_rows_that_are_not_numbers_add_nothing_to_the_sums_of_functions(row):
    rows = np.ones((2, M))
    rows[1, 0] = row
    frame = Frame(BASIS, np.eye(M), np.zeros(M), FRAME.moments, FRAME.rows)
    for question in (GOOD["residuals"], GOOD["calibration"]):
        one, both = (answered(question, rows[:k], [3.0, 0.0][:k], FeatureRows(frame), frame) for k in (1, 2))
        assert_array_equal(both[:2], one[:2])


GOOD = {
    "labels": LabelCounts(np.linspace(-2, 2, 5)),
    "inputs": InputCounts(np.tile(np.linspace(-2, 2, 5), (INPUTS, 1))),
    "residuals": Residuals(
        np.ones(M + 1), Huber(0.1 + 0.2), np.ones(M + 1), 1.5, 2.5, np.asarray([0.3, 0.6, 0.6]), 0.1
    ),
    "calibration": Calibration(np.ones(M + 1), -0.5, 1 / 3, Correntropy(0.7), 1.2),
    "errors": ClippedErrors(np.ones((M + 1, 3)), 1.5),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_question_comes_back_to_the_bit(name):
    asked = GOOD[name]
    again = from_parts(*to_parts(asked), FRAME, INPUTS)
    assert type(again) is type(asked)
    assert (again.size, again.sensitivity, again.largest) == (asked.size, asked.sensitivity, asked.largest)
    for field, value in vars(asked).items():
        found = getattr(again, field)
        if field == "loss":
            assert (type(found), found.scale) == (type(value), value.scale)
        else:
            assert_array_equal(found, value)


BAD = [math.nan, math.inf, 0.0, -1.0, 1e101, 1e-101, "1", None, True, 1]


def changed(name, field, value):
    header, parts = to_parts(GOOD[name])
    (header if field in header else parts)[field] = value
    return header, parts


def refused(header, parts, frame=FRAME):
    with pytest.raises(ValueError) as error:
        from_parts(header, parts, frame, INPUTS)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", GOOD)
def test_what_is_no_question_is_one_value_error(name):
    header, parts = to_parts(GOOD[name])
    refused(None, parts)
    refused({**header, "question": "rows"}, parts)
    refused({**header, "question": ["labels"]}, parts)
    refused({**header, "kappa": 1.0}, parts)
    refused(header, {**parts, "X": np.zeros(3)})
    refused({}, parts)
    refused(header, {})
    for field in header:
        refused({key: value for key, value in header.items() if key != field}, parts)
    for field in set(header) - {"question", "loss"}:
        for value in BAD:
            if field != "middle" or value not in (0.0, -1.0, 1e101, 1e-101) or isinstance(value, bool):
                refused(*changed(name, field, value))
    for field, array in parts.items():
        for wrong in (
            array.astype(np.float32),
            array[..., None],
            array[:0],
            np.full_like(array, math.nan),
            np.full_like(array, math.inf),
            array.astype(object),
        ):
            refused(*changed(name, field, wrong))
    if "coef" in parts or "coefs" in parts:
        refused(header, parts, frame=None)
        field = "coef" if "coef" in parts else "coefs"
        refused(*changed(name, field, np.concatenate([parts[field], parts[field][:1]])))
    if "edges" in parts:
        refused(*changed(name, "edges", parts["edges"][..., ::-1].copy()))


@pytest.mark.parametrize("spec", ["squared", "huber -1.0", "huber 1e300", "huber nan", "absolute 1.0", "", 3, None])
def test_a_loss_without_a_bound_of_ordinary_size_is_refused(spec):
    refused(*changed("residuals", "loss", spec))
    refused(*changed("calibration", "loss", spec))


def test_weights_must_be_positive_numbers_of_ordinary_size():
    for value in (0.0, -1.0, 1e101, 1e-101):
        refused(*changed("residuals", "weights", np.full(M + 1, value)))
