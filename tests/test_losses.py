"""A loss is what its formula says, in every array library, and its derivative is its slope."""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from unpooled import losses
from unpooled._base.arrays import to_numpy
from unpooled.losses import Correntropy, Huber, Squared, as_loss

quick = settings(max_examples=40, deadline=None)
residuals = hnp.arrays(float, st.integers(1, 12), elements=st.floats(-50, 50).map(lambda v: round(v, 6)))
scales = st.floats(0.05, 1e4)
LIBRARIES = {"numpy": np.asarray, "torch": torch.asarray, "strict": array_api_strict.asarray}
every_library = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES.keys())


def correntropy(u, s):
    return np.array([s * s * (1 - math.exp(-v * v / (2 * s * s))) for v in u])


def huber(u, c):
    return np.array([v * v / 2 if abs(v) <= c else c * abs(v) - c * c / 2 for v in u])


@quick
@given(u=residuals, s=scales)
def test_the_value_is_the_formula(u, s):
    size = np.max(np.abs(u)) ** 2 + s * s
    assert_allclose(Correntropy(s).value(u), correntropy(u, s), rtol=1e-9, atol=1e-14 * size)
    assert_allclose(Huber(s).value(u), huber(u, s), rtol=1e-12, atol=1e-300)
    assert_array_equal(Squared().value(u), u * u / 2)


@quick
@given(u=residuals, s=st.floats(0.5, 100))
@pytest.mark.parametrize("loss", [Correntropy, Huber])
def test_the_derivative_is_the_slope_of_the_value(loss, u, s):
    h = 1e-5
    slope = (loss(s).value(u + h) - loss(s).value(u - h)) / (2 * h)
    assert_allclose(loss(s).derivative(u), slope, atol=2e-5 * (1 + np.max(np.abs(u))))


@quick
@given(u=residuals, s=scales)
@pytest.mark.parametrize("loss", [Correntropy, Huber])
def test_no_label_pushes_more_than_the_bound(loss, u, s):
    psi = loss(s).derivative(u)
    assert np.all(np.abs(psi) <= loss(s).bound * (1 + 1e-12))
    assert np.all(np.abs(psi) <= np.abs(u))
    assert np.all(psi * u >= 0)


def test_the_bound_is_reached():
    assert Correntropy(3.0).derivative(np.array([3.0]))[0] == pytest.approx(3.0 / math.sqrt(math.e))
    assert Correntropy(3.0).bound == pytest.approx(3.0 / math.sqrt(math.e))
    assert Huber(3.0).derivative(np.array([9.0]))[0] == Huber(3.0).bound == 3.0
    assert Squared().bound == math.inf


@quick
@given(u=residuals)
@pytest.mark.parametrize("loss", [Correntropy, Huber])
@pytest.mark.parametrize("scale", [math.inf, 1e9])
def test_an_infinite_scale_is_least_squares(loss, scale, u):
    assert_allclose(loss(scale).derivative(u), u, rtol=1e-12)
    assert_allclose(loss(scale).value(u), u * u / 2, rtol=1e-12)


@every_library
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", [Correntropy, Huber])
def test_many_scales_go_through_in_one_pass_in_every_library(loss, dtype, library):
    u = np.random.default_rng(0).normal(size=(7, 3)).astype(dtype)
    s = np.array([0.5, 2.0, np.inf], dtype=dtype)
    got = loss(library(s)).derivative(library(u))
    assert type(got) is type(library(u))
    assert to_numpy(got).dtype == dtype
    expected = np.column_stack([loss(float(s[j])).derivative(u[:, j].astype(float)) for j in range(3)])
    assert_allclose(to_numpy(got), expected, rtol=1e-5 if dtype == "float32" else 1e-12)


def test_a_loss_is_made_from_its_name():
    assert isinstance(as_loss("squared"), Squared)
    assert as_loss("huber", 2.0).scale == 2.0
    assert as_loss("correntropy", 3.0).scale == 3.0
    given = Huber(1.5)
    assert as_loss(given, 7.0) is given


@pytest.mark.parametrize("name", ["", "l1", None, 3, Huber])
def test_a_loss_that_is_not_known_is_refused(name):
    with pytest.raises(ValueError, match="^loss must be 'squared', 'correntropy', 'huber' or a Loss object"):
        as_loss(name)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, "a", None, [], [1.0, 0.0], 1j])
def test_a_scale_that_is_not_positive_is_refused(scale):
    with pytest.raises(ValueError, match="^scale must be a positive number"):
        Huber(scale).derivative(np.ones(2))


@pytest.mark.parametrize("loss", [Squared(), Huber(1.5), Correntropy(math.inf), Correntropy([1.0, math.inf])])
def test_a_loss_comes_back_from_its_description(loss):
    again = losses.from_spec(losses.to_spec(loss))
    assert type(again) is type(loss)
    assert_array_equal(getattr(again, "scale", 0), getattr(loss, "scale", 0))


def test_a_description_of_no_loss_is_refused():
    class Own(Squared):
        """A loss of a user."""

    with pytest.raises(ValueError, match="cannot be saved"):
        losses.to_spec(Own())
    for spec in (None, {}, {"loss": "l1"}, "huber"):
        with pytest.raises(ValueError, match="does not describe a loss"):
            losses.from_spec(spec)
