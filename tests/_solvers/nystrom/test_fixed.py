"""Kernel values of 16 bits: sums that are exact, and when it is better not to round."""

import os
import platform
import re
import subprocess
import sys
import threading
import warnings
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import unpooled as up
from tests.made_up import regression
from tests.paths import DOCS
from unpooled._base import threads
from unpooled._base.rows import Rows
from unpooled._solvers.nystrom import fixed
from unpooled._solvers.nystrom.fixed import STEPS, FixedPointMachine, round_values
from unpooled.bases.maps import KernelMap

torch = pytest.importorskip("torch")
needs_bytes = pytest.mark.skipif(not fixed.is_exact(), reason="the processor has no products of bytes")
KERNELS = [up.kernels.Gaussian(1.0), up.kernels.Matern(0.7, nu=1.5), up.kernels.Laplacian(2.0)]
GRID = np.logspace(-0.5, -6.7, 20)  # λ that every precision is good for


class OneByOne(up.kernels.Gaussian):
    """Values that are the same bits whatever rows are computed with them: no matrix product."""

    def block(self, X, Z):
        return np.exp(-0.5 * (X - Z.T) ** 2)


class Wave(up.kernels.Gaussian):
    """Positive definite, and not positive."""

    nonnegative = False

    def block(self, X, Z):
        return np.prod(np.sinc(X[:, None, :] - Z[None, :, :]), axis=2)


def summed(machine, parts):
    """Σ r rᵀ and Σ r [1, y]ᵀ over parts of the rows, one after the other."""
    so_far, cross = None, 0.0
    for X, Y in parts:
        V = np.concatenate([np.ones((len(X), 1)), Y], axis=1)
        found, so_far = machine.add_gram(machine.place(Rows(X, Y, None)), V, so_far)
        cross = cross + found
    return machine.gram(so_far), cross


def whole_numbers(machine, X):
    """q for every value, as Python sees it."""
    return round_values(machine.block(machine.place(Rows(X, None, None)).X)).astype(np.int64) + 32768


@needs_bytes
@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 400),
    M=st.one_of(st.integers(1, 10), st.integers(60, 150)),
    sizes=st.lists(st.sampled_from([0.0, 1e-300, 1e-8, 1.0, 3e7, 1e290]), max_size=3),
    cut=st.integers(0, 400),
    seed=st.integers(0, 9),
)
def test_sums_are_those_of_whole_numbers(n, M, sizes, cut, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1)).astype(np.float32)
    Y = rng.normal(size=(n, len(sizes))) * np.asarray(sizes)
    machine = FixedPointMachine(KernelMap(OneByOne(1.0), rng.normal(size=(M, 1))))
    parts = [(X[part], Y[part]) for part in (slice(0, cut), slice(cut, n)) if len(X[part])]
    # Small enough that runs, blocks, threads and cuts of the triangle all come in.
    with mock.patch.multiple(fixed, RUN=150, BLOCK=32, LEAF=128, STRIPE=7):
        gram, cross = summed(machine, parts)
    q = whole_numbers(machine, X)
    np.testing.assert_allclose(gram * STEPS**2, q.T @ q, rtol=1e-15, atol=0)
    V = np.concatenate([np.ones((n, 1)), Y], axis=1)
    size = q.T @ np.abs(V) / STEPS
    # Whole numbers up to here; at the end they are doubles, labels as shares of the largest.
    allowed = 1e-15 * size + 1e-16 * n * np.abs(V).max(axis=0)
    assert np.all(np.abs(cross - q.T @ V / STEPS) <= allowed)


def test_values_are_off_by_half_a_step_at_most():
    X = np.random.default_rng(0).normal(size=(2000, 3)).astype(np.float32)
    machine = FixedPointMachine(KernelMap(KERNELS[0], X[:50].astype(float)))
    exact = machine.map.kernel(X.astype(float), machine.map.points)
    # Beside that are single-precision values, and a subtraction in single precision near 2¹⁵.
    assert np.abs(whole_numbers(machine, X) - STEPS * exact).max() < 0.5 + 2.0**-8 + STEPS * 1e-6


@needs_bytes
@pytest.mark.parametrize(("where", "value"), [(1e3, 0.0), (0.0, 1.0)])
def test_integers_do_not_overflow(where, value):
    """All digits -128, or all 127, in as many rows as an integer of 32 bits can hold the products of."""
    n = fixed.RUN * threads.count_threads()
    machine = FixedPointMachine(KernelMap(KERNELS[0], np.zeros((2, 1))))
    gram, cross = summed(machine, [(np.full((n, 1), where, dtype=np.float32), np.full((n, 1), -2.0))])
    np.testing.assert_allclose(gram, np.full((2, 2), n * value), rtol=1e-15)
    np.testing.assert_allclose(cross, np.outer([1.0, 1.0], [n * value, -2.0 * n * value]), rtol=1e-14)


@needs_bytes
def test_any_number_of_threads_gives_the_same_bits():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20_000, 2)).astype(np.float32), rng.normal(size=(20_000, 1))
    machine = FixedPointMachine(KernelMap(KERNELS[1], rng.normal(size=(30, 2))))
    with threadpool_limits(2, user_api="blas"):
        two = summed(machine, [(X, Y)])
    with threadpool_limits(1, user_api="blas"):
        one = summed(machine, [(X, Y)])
    assert all(np.array_equal(a, b) for a, b in zip(one, two))


noisy = partial(
    regression,
    n=4000,
    d=3,
    dtype=np.float32,
    function=lambda X: np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2],
    noise=0.3,
)


def fit(X, y, kernel=None, **parameters):
    parameters = {"precision": "fixed", "fit_intercept": True} | parameters
    return up.NystromRegressor(kernel or up.kernels.Matern(2.0, nu=1.5), 200, **parameters).fit(X, y)


def off_by(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


@needs_bytes
@pytest.mark.parametrize("device", [None, "cpu"])
def test_it_learns_as_well_as_single_precision(device):
    X, y = noisy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(X, y, device=device, grid=GRID)
    single = fit(X, y, device=device, grid=GRID, precision="single")
    assert (model.precision_, single.precision_, model.solver_) == ("fixed", "single", "gram")
    assert model.lam_ == single.lam_
    assert off_by(model, *noisy(1)) <= 1.001 * off_by(single, *noisy(1))


@needs_bytes
def test_a_warning_where_rounding_would_be_seen():
    X, y = noisy(noise=0.0)
    with pytest.warns(UserWarning, match=r"has moved the function by .* times its error.*: use precision='single'"):
        model = fit(X, y, KERNELS[0], lam=1e-6)
    # And it is right to warn: single precision is better.
    new = noisy(1, noise=0.0)
    assert off_by(model, *new) > 1.02 * off_by(fit(X, y, KERNELS[0], lam=1e-6, precision="single"), *new)


def test_auto_does_not_round():
    X, y = noisy(n=500)
    assert fit(X, y, precision="auto").precision_ == "single"


@needs_bytes
def test_how_far_rounding_moves_a_function():
    X, y = noisy()
    model = fit(X, y)
    machine = FixedPointMachine(model.predictor_.map)
    Z = model.predictor_.map.points
    K = model.kernel_(Z.astype(np.float32), Z.astype(np.float32)).astype(float)
    moved = (K - whole_numbers(machine, Z.astype(np.float32)) / STEPS) @ model.coef_
    assert machine.rounding_error(model.coef_[:, None])[0] == pytest.approx(np.mean(moved**2), rel=0.02)
    # Errors of rounding are as good as independent and uniform: a twelfth of a step, squared, for each.
    assert np.mean(moved**2) == pytest.approx(np.sum(model.coef_**2) / 12 / STEPS**2, rel=0.5)


@needs_bytes
def test_tensors_in_tensors_out():
    X, y = noisy()
    predicted = fit(torch.from_numpy(X), torch.from_numpy(y)).predict(torch.from_numpy(X))
    np.testing.assert_allclose(predicted.numpy(), fit(X, y).predict(X), rtol=0, atol=1e-4)


@needs_bytes
def test_several_labels_at_once():
    X, y = noisy()
    Y = np.stack([y, 1e6 * y + 5.0, np.zeros(len(y))], axis=1)
    both = fit(X, Y, lam=1e-3).predict(X)
    alone = fit(X, y, lam=1e-3).predict(X)
    np.testing.assert_allclose(both, np.stack([alone, 1e6 * alone + 5.0, 0 * alone], axis=1), rtol=1e-6, atol=1e-6)


@needs_bytes
def test_rows_added_later_are_rows_seen_at_once():
    X, y = noisy()
    model = up.NystromRegressor(KERNELS[1], 200, fit_intercept=True, precision="fixed", lam=1e-3).partial_fit(
        X[:300], y[:300]
    )
    points = model.predictor_.map.points
    for start in range(300, 4000, 1000):
        model = model.partial_fit(X[start : start + 1000], y[start : start + 1000])
    q = whole_numbers(FixedPointMachine(model.predictor_.map), X) / STEPS
    F, t = q - q.mean(axis=0), y - y.mean()
    penalty = 1e-3 * len(X) * (KERNELS[1](points) + model.jitter_ * np.eye(len(points)))
    np.testing.assert_allclose(model.coef_, np.linalg.solve(F.T @ F + penalty, F.T @ t), rtol=1e-5, atol=1e-5)


@needs_bytes
def test_saved_and_loaded(tmp_path):
    X, y = noisy()
    model = fit(X, y)
    up.save(model, tmp_path / "model.unpooled")
    again = up.load(tmp_path / "model.unpooled")
    assert again.precision_ == again.precision == "fixed"
    assert np.array_equal(again.predict(X), model.predict(X))


@needs_bytes
def test_sentences():
    X, y = noisy(n=200)
    with pytest.raises(ValueError, match=r"precision='fixed' works only with the Gram matrix: use solver='gram'"):
        fit(X, y, solver="rounds")
    with pytest.raises(ValueError, match=r"precision='fixed' does not support sample_weight"):
        up.NystromRegressor(precision="fixed", fit_intercept=False).fit(X, y, np.linspace(1.0, 2.0, 200))
    later = fit(X, y, lam=1e-2).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"precision='fixed' does not support sample_weight"):
        later.partial_fit(X, y, np.linspace(1.0, 2.0, 200))
    with pytest.raises(ValueError, match=r"needs kernel values from 0 to 1, but those of Polynomial are not"):
        up.NystromRegressor(up.kernels.Polynomial(2), precision="fixed", fit_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match=r"precision='fixed' is accurate for lam down to 1.9e-07, .*: use precision="):
        fit(X, y, lam=1e-9)
    with pytest.raises(ValueError, match=r"but those of Wave are not"):
        fit(X, y, Wave(1.0))
    with pytest.raises(ValueError, match=r"X has values that are too large for single precision: use precision="):
        fit(1e39 * X.astype(float), y, up.kernels.Gaussian(1e39), lam=1e-2)
    elsewhere = mock.patch("unpooled.estimators.nystrom.find_device", return_value=torch.device("meta"))
    with elsewhere, pytest.raises(ValueError, match=r"precision='fixed' needs a CPU, but device is meta"):
        fit(X, y)
    without = mock.patch.dict("sys.modules", {"torch": None})
    with without, pytest.raises(ImportError, match=r"precision='fixed' needs torch: pip install"):
        fit(X, y)


def test_a_processor_without_the_instructions_is_refused():
    """There oneDNN adds pairs of products in 16 bits, and what comes out is wrong without a word."""
    script = (
        "import numpy as np, unpooled as up; from unpooled._solvers.nystrom import fixed\n"
        "assert not fixed.is_exact()\n"
        "try: up.NystromRegressor(precision='fixed').fit(np.eye(3), np.ones(3))\n"
        "except ValueError as error: assert 'needs a processor' in str(error)\n"
        "else: raise SystemExit('not refused')"
    )
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("the variable is for x86")
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}, check=True)


@needs_bytes
@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("precision", ["fixed", "single"])
def test_a_large_offset_does_not_cost_digits(device, precision):
    """Rows of double precision lose their offset before they are made single."""
    X, y = noisy()
    X = X.astype(float)
    near = fit(X, y, device=device, precision=precision, lam=1e-3)
    far = fit(X + 1e6, y, device=device, precision=precision, lam=1e-3)
    np.testing.assert_allclose(far.predict(X + 1e6), near.predict(X), atol=2e-3)


@needs_bytes
def test_threads_of_torch_are_what_they_were():
    before = torch.get_num_threads()
    X, y = noisy()
    machine = FixedPointMachine(KernelMap(KERNELS[0], np.zeros((2, 3))))
    counts = []
    add = fixed._add_triangle

    def watched(*arguments):
        counts.append(torch.get_num_threads())
        add(*arguments)

    with mock.patch.object(fixed, "_add_triangle", watched):
        summed(machine, [(X, y[:, None])])
    assert set(counts) == {1}
    assert torch.get_num_threads() == before
    with mock.patch.object(fixed, "_add_triangle", side_effect=RuntimeError), pytest.raises(RuntimeError):
        summed(machine, [(X, y[:, None])])
    assert torch.get_num_threads() == before


def test_fits_that_overlap_leave_threads_of_torch_alone():
    """The first to come leaves while another is inside: each has what it had, and so has a thread that comes later."""
    before = torch.get_num_threads()
    inside, leave = threading.Event(), threading.Event()
    found = {}

    def other():
        with fixed.torch_threads:
            torch.set_num_threads(1)
            inside.set()
            leave.wait()
        found["other"] = torch.get_num_threads()

    with fixed.torch_threads:
        torch.set_num_threads(1)
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait()
    found["first"] = torch.get_num_threads()
    leave.set()
    thread.join()
    later = threading.Thread(target=lambda: found.update(later=torch.get_num_threads()))
    later.start()
    later.join()
    assert found == dict.fromkeys(("other", "first", "later"), before)


@needs_bytes
def test_a_warning_that_is_an_error_leaves_sums_as_they_were():
    X, y = noisy(noise=0.0)
    model = up.NystromRegressor(KERNELS[0], 200, precision="fixed", lam=1e-6, fit_intercept=False)
    with pytest.warns(UserWarning, match="has moved"):
        model.partial_fit(X[:2000], y[:2000])
    seen = model._sums.n_rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="has moved"):
            model.partial_fit(X[2000:], y[2000:])
    assert model._sums.n_rows == seen


@needs_bytes
def test_the_page_about_it():
    page = (DOCS / "big_tables.md").read_text()
    first, second = re.findall(r"```python\n# needs a processor.*?\n(.*?)```", page, re.S)
    names: dict = {}
    exec(first, names)
    with pytest.warns(UserWarning, match="has moved the function by 0.51 times its error"):
        exec(second, names)
