"""BLAS threads are held back while that helps, and given back afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from unpooled import SpectralRegressor
from unpooled._base import threads
from unpooled.kernels import Gaussian


@pytest.fixture(autouse=True)
def two_blas_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_one_thread_while_anybody_is_inside_and_the_old_limit_after_the_last():
    assert threads.count_threads() == 2
    with threads.one_blas_thread:
        assert threads.count_threads() == 1
        with threads.one_blas_thread:
            assert threads.count_threads() == 1
        assert threads.count_threads() == 1
    assert threads.count_threads() == 2


def test_only_small_problems_are_held_to_one_thread():
    with threads.limit_blas_for(threads.SMALL):
        assert threads.count_threads() == 1
    with threads.limit_blas_for(threads.SMALL + 1):
        assert threads.count_threads() == 2


def test_fits_on_many_threads_leave_the_limit_as_it_was():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    expected = SpectralRegressor(Gaussian(1.0)).fit(X, y).predict(X)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: SpectralRegressor(Gaussian(1.0)).fit(X, y).predict(X), range(64)))
    assert threads.count_threads() == 2
    for answer in answers:
        np.testing.assert_allclose(answer, expected)


def test_a_fit_that_fails_leaves_the_limit_as_it_was():
    def refuse(X, Z):
        raise ArithmeticError("no value")

    with pytest.raises(ArithmeticError, match="no value"):
        SpectralRegressor(refuse, lam=0.1).fit(np.eye(3), np.ones(3))
    assert threads.count_threads() == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.booleans())
def test_a_shared_setting_changes_with_the_first_to_enter_and_is_restored_with_the_last_to_leave(visitors, always):
    """Whoever enters and leaves in whatever order; a setting that each thread has is restored by all who leave."""
    value = ["before"]
    restored = []

    def change():
        before, value[0] = value[0], "changed"
        return before

    def restore(before):
        restored.append(before)
        value[0] = before if not inside else value[0]

    setting, inside = threads.SharedSetting(change, restore, always), set()
    for visitor in visitors:
        if visitor in inside:
            inside.remove(visitor)
            setting.__exit__(None, None, None)
        else:
            setting.__enter__()
            inside.add(visitor)
        assert value[0] == ("changed" if inside else "before")
    while inside:
        inside.pop()
        setting.__exit__(None, None, None)
    assert value[0] == "before"
    assert set(restored) == {"before"}
    left = sum(1 for i, v in enumerate(visitors) if visitors[: i + 1].count(v) % 2)
    assert len(restored) == left if always else len(restored) <= left
