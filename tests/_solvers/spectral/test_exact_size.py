"""An exact fit holds one kernel matrix and little beside it, and refuses before it would run out of memory."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import unpooled as up
import unpooled.kernels.base as kernel_base
from tests.made_up import regression, sine
from unpooled._base import memory, threads
from unpooled._linalg import cholesky
from unpooled._linalg import cholesky as blocked
from unpooled._linalg.operator import NotPositiveDefinite

X, Y = regression(n=1500, d=3, function=sine(1, slope=1.0))


def positive_definite(n, dtype=torch.float64, seed=0):
    A = torch.from_numpy(np.random.default_rng(seed).standard_normal((n, n)))
    return (A @ A.mT / n + torch.eye(n, dtype=torch.float64)).to(dtype)


@given(st.integers(1, 60), st.integers(1, 70), st.sampled_from([torch.float32, torch.float64]), st.integers(0, 9))
def test_panels_give_the_factor_and_the_solution_of_the_whole(n, panel, dtype, seed):
    M, v = positive_definite(n, dtype, seed), torch.ones((n, 2), dtype=dtype)
    L = M.clone()
    blocked.factor_(L, panel)
    close = {"atol": 200 * torch.finfo(dtype).eps, "rtol": 0}
    torch.testing.assert_close(torch.tril(L), torch.linalg.cholesky(M), **close)
    torch.testing.assert_close(M @ blocked.solve(L, v, panel), v, atol=n * close["atol"], rtol=0)


@given(st.integers(1, 60), st.integers(1, 70), st.sampled_from([np.float32, np.float64]), st.integers(0, 9))
def test_panels_of_an_array_are_those_of_a_tensor(n, panel, dtype, seed):
    M, v = positive_definite(n, seed=seed).numpy().astype(dtype), np.ones((n, 2), dtype=dtype)
    L = M.copy()
    blocked.factor_(L, panel)
    assert L.dtype == dtype
    limit = 200 * np.finfo(dtype).eps
    np.testing.assert_allclose(np.tril(L), np.linalg.cholesky(M), atol=limit)
    np.testing.assert_allclose(M @ blocked.solve(L, v, panel), v, atol=n * limit)


def test_many_rows_are_fitted_by_panels_as_few_are_at_once(monkeypatch):
    model = up.SpectralRegressor(up.kernels.Gaussian(1.0), lam=1e-3, solver="cholesky", fit_intercept=False)
    expected = model.fit(X, Y).predict(X[:50])
    monkeypatch.setattr(cholesky, "IN_PLACE_FROM", 1000)
    monkeypatch.setattr(blocked, "PANEL", 256)
    monkeypatch.setattr(cholesky.scipy.linalg, "cho_factor", None)
    np.testing.assert_allclose(model.fit(X, Y).predict(X[:50]), expected, atol=1e-9)


def test_the_upper_triangle_is_not_read():
    M = positive_definite(50)
    expected = torch.linalg.cholesky(M)
    M[torch.triu(torch.ones(50, 50), 1) > 0] = torch.nan
    for panel in (1, 8, 50):
        L = M.clone()
        blocked.factor_(L, panel)
        torch.testing.assert_close(torch.tril(L), expected)
        assert bool(torch.isfinite(blocked.solve(L, torch.ones((50, 1), dtype=torch.float64), panel)).all())


@pytest.mark.parametrize("bad", [0, 7, 39])
def test_a_matrix_that_is_not_positive_definite_is_said_to_be_so(bad):
    M = positive_definite(40)
    M[bad, bad] = -1.0
    with pytest.raises(NotPositiveDefinite):
        blocked.factor_(M, 8)


class Largest(TorchDispatchMode):
    """The largest tensor that is made while this is on, views of others not counted."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        before = {t.untyped_storage().data_ptr() for t in args if isinstance(t, torch.Tensor)}
        found = function(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in before:
                self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
        return found


def test_workspace_is_a_panel(monkeypatch):
    monkeypatch.setattr(cholesky, "IN_PLACE_FROM", 100)
    monkeypatch.setattr(blocked, "PANEL", 16)
    M, v = positive_definite(400), torch.ones((400, 1), dtype=torch.float64)
    with Largest() as largest:
        place = M.data_ptr()
        solved = cholesky.factor(M, 0.5)(v)
        assert M.data_ptr() == place
    assert largest.bytes <= 8 * 400 * 16
    torch.testing.assert_close((positive_definite(400) + 0.5 * torch.eye(400)) @ solved, v)


@pytest.mark.parametrize("center", [False, True])
def test_large_tensors_are_fitted_like_numpy_arrays(monkeypatch, center):
    rows, labels = X[:300], Y[:300]
    model = up.SpectralRegressor(up.kernels.Matern(2.0), lam=1e-4, fit_intercept=center)
    expected = model.fit(rows, labels, np.linspace(0.5, 2.0, 300)).predict(X[300:340])
    monkeypatch.setattr(cholesky, "IN_PLACE_FROM", 100)
    monkeypatch.setattr(blocked, "PANEL", 32)
    monkeypatch.setattr(kernel_base, "DEVICE_ELEMENTS", 1000)
    tensors = [torch.from_numpy(a) for a in (rows, labels, np.linspace(0.5, 2.0, 300))]
    found = model.fit(*tensors).predict(torch.from_numpy(X[300:340]))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "kernel", [up.kernels.Gaussian(1.0), up.kernels.Matern(2.0), up.kernels.Linear() + up.kernels.Laplacian(3.0)]
)
def test_a_kernel_matrix_on_a_device_is_the_same_block_by_block(monkeypatch, kernel):
    tensor = torch.from_numpy(X[:200])
    whole = kernel(tensor)
    monkeypatch.setattr(kernel_base, "DEVICE_ELEMENTS", 1100)
    with Largest() as largest:
        torch.testing.assert_close(kernel(tensor), whole, rtol=1e-12, atol=1e-12)
    assert largest.bytes == 8 * 200 * 200


@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}, {"filter": "iterated-tikhonov"}])
@pytest.mark.parametrize("weighted", [False, True])
def test_numpy_holds_one_kernel_matrix(monkeypatch, options, weighted):
    monkeypatch.setattr(threads, "BLOCK_ELEMENTS", 1 << 15)
    n = len(X)
    weights = np.linspace(0.5, 2.0, n) if weighted else None
    model = up.SpectralRegressor(
        up.kernels.Gaussian(0.1), lam=1e-3, solver="cholesky", **{"fit_intercept": False, **options}
    )
    model.fit(X[:50], Y[:50])
    tracemalloc.start()
    model.fit(X, Y, weights)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 8 * n * n < peak < 1.15 * 8 * n * n


def no_room(monkeypatch, free):
    monkeypatch.setattr(memory, "CHECKED_FROM", 0)
    monkeypatch.setattr(memory, "free_for", lambda _: free)
    monkeypatch.setattr(memory, "_meminfo", lambda _: iter(()))


@pytest.mark.parametrize(
    ("options", "matrices", "words"),
    [
        ({"lam": 1e-3}, 1, "NystromRegressor and AveragedRegressor need less; unpooled.plan"),
        ({}, 3, "one given lam with filter='tikhonov' needs 320 kB"),
        ({"lam": 1e-3, "filter": "cutoff"}, 3, "one given lam"),
        ({"lam": "cv"}, 4, "one given lam"),
    ],
)
def test_what_would_not_fit_is_refused_before_the_matrix_is_made(monkeypatch, options, matrices, words):
    rows, labels = X[:200], Y[:200]
    needed = matrices * 8 * 200**2
    no_room(monkeypatch, needed)
    model = up.SpectralRegressor(up.kernels.Gaussian(0.1), **{"fit_intercept": False, **options})
    model.fit(rows, labels)
    no_room(monkeypatch, needed - 1)
    monkeypatch.setattr(up.kernels.Gaussian, "block", None)  # which would make it
    with pytest.raises(MemoryError, match="an exact fit to 200 rows needs about") as refused:
        model.fit(rows, labels)
    assert words in str(refused.value)


def test_swap_is_not_refused(monkeypatch):
    no_room(monkeypatch, 1000.0)
    monkeypatch.setattr(memory, "_meminfo", lambda name: iter([1e9] if name == "SwapFree" else []))
    up.SpectralRegressor(up.kernels.Gaussian(0.1), lam=1e-3, fit_intercept=False).fit(X[:200], Y[:200])


def test_a_low_rank_factor_is_no_wider_than_there_is_room_for(monkeypatch):
    smooth, column = up.SpectralRegressor(up.kernels.Gaussian(1.0), lam=1e-3, fit_intercept=False), 32.0 * len(X)
    assert smooth.fit(X[:, :1], Y).solver_ == "low-rank"
    no_room(monkeypatch, 50 * column)
    assert smooth.fit(X[:, :1], Y).solver_ == "low-rank"
    no_room(monkeypatch, 5 * column)  # too few, and no room for the matrix either
    with pytest.raises(MemoryError, match="an exact fit"):
        smooth.fit(X[:, :1], Y)


def test_small_fits_do_not_look_at_memory(monkeypatch):
    def look(array):
        raise AssertionError("looked")

    monkeypatch.setattr(memory, "free_for", look)
    up.SpectralRegressor(lam=1e-3, fit_intercept=False).fit(X, Y)
    up.SpectralRegressor(fit_intercept=False).fit(X[:300], Y[:300])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of the address space are Linux's")
def test_a_process_with_a_limit_refuses_in_time():
    program = """
import resource, numpy as np, unpooled as up
from unpooled._base.memory import available_memory
held = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (2 << 30),) * 2)
assert 1.9 * 2**30 < available_memory() <= 2**31
X = np.random.default_rng(0).standard_normal((20_000, 3))
try:
    up.SpectralRegressor(up.kernels.Laplacian(1.0), lam=1e-6).fit(X, X[:, 0])
except MemoryError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert "an exact fit to 20000 rows needs about 3.2 GB at its peak" in done.stdout
