"""Gram matrices round; what is fitted to them does not show it: λ goes as far as the rows allow, and no further."""

from functools import partial

import numpy as np
import pytest

import unpooled as up
from tests.made_up import CUBE, regression, with_copies
from unpooled._base import threads
from unpooled._base.rows import Rows
from unpooled._solvers.nystrom import fixed
from unpooled._solvers.nystrom import solving as from_gram
from unpooled._solvers.nystrom.machine import NumpyMachine
from unpooled.bases.maps import KernelMap
from unpooled.kernels import Gaussian, Linear, Matern, Polynomial

pytest.importorskip("torch")
DEVICES = pytest.mark.parametrize("device", [None, "cpu"], ids=["NumPy", "torch"])

noisy = partial(regression, d=3, between=CUBE)


def by_least_squares(kernel, Z, X, y, lam, center):
    """The fit at X without any Gram matrix: [φ/√n; √λ I] a ≈ [y/√n; 0] by its singular values."""
    sizes, V = np.linalg.eigh(kernel(Z))
    kept = sizes > 1e-14 * len(sizes) * sizes[-1]
    phi = kernel(X, Z) @ (V[:, kept] / np.sqrt(sizes[kept]))
    phi, b = phi - center * phi.mean(axis=0), center * y.mean()
    left = np.vstack([phi / np.sqrt(len(X)), np.sqrt(lam) * np.eye(phi.shape[1])])
    right = np.append((y - b) / np.sqrt(len(X)), np.zeros(phi.shape[1]))
    return phi @ np.linalg.lstsq(left, right, rcond=None)[0] + b


@pytest.mark.parametrize("center", [False, True])
@DEVICES
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Matern(3.0), Gaussian(0.3)], ids=repr)
def test_the_smallest_lam_still_comes_out_right(kernel, device, center):
    X, y = noisy(n=4000)
    lam = up.NystromRegressor(kernel, 200, solver="gram", center=center).fit(X, y).path_.lam.min()
    assert lam < 2e-8
    gram = up.NystromRegressor(kernel, 200, lam, solver="gram", center=center, device=device).fit(X, y)
    expected = by_least_squares(kernel, gram.predictor_.map.points, X, y, lam, center)
    assert np.sqrt(np.mean((gram.predict(X) - expected) ** 2)) < 0.05 * np.std(y - expected)


def test_means_taken_out_leave_less_to_round():
    X, _ = noisy(n=300)
    machine = NumpyMachine(KernelMap(Matern(20.0), X), False)
    K = machine.map.block(X)
    np.testing.assert_allclose(machine.means, K.mean(axis=0), rtol=1e-12)
    assert machine.spread(1.0) == pytest.approx(np.mean((K - K.mean(axis=0)) ** 2), rel=1e-9)
    least, later, worst = (
        from_gram.smallest_lam(1.0, spread, machine.rounding(n))
        for spread, n in ((machine.spread(1.0), 10**6), (machine.spread(1.0), 10**8), (1.0, 10**6))
    )
    assert 10 * least < worst
    assert least < later


@DEVICES
@pytest.mark.parametrize("kernel", [Gaussian("median"), Gaussian(1.0), Gaussian(3.0)], ids=repr)
def test_many_rows_are_summed_so_that_the_whole_grid_is_good(kernel, device):
    X, y = noisy(n=30_000)
    model = up.NystromRegressor(kernel, 200, center=True, device=device, solver="gram").fit(X, y)
    assert len(model.path_) >= 23
    assert model.score(X, y) > 0.95


@DEVICES
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("far", [1.0, 3.0])
def test_copies_of_a_row_shorten_the_grid_and_harm_nothing(device, center, far):
    X, y = with_copies(0, 20_000, far)
    model = up.NystromRegressor(Gaussian(1.0), 200, solver="gram", device=device, center=center).fit(X, y)
    usual = up.NystromRegressor(Gaussian(1.0), 200, solver="gram", center=center).fit(*noisy(n=5000, d=4))
    assert len(model.path_) < len(usual.path_)
    expected = by_least_squares(Gaussian(1.0), model.predictor_.map.points, X, y, model.lam_, center)
    assert np.sqrt(np.mean((model.predict(X) - expected) ** 2)) < 0.1 * np.std(y - expected)


def test_a_named_lam_that_such_rows_do_not_allow_takes_rounds_or_a_sentence():
    X, y = with_copies(0, 20_000, 1.0)
    lam = 3e-8
    model = up.NystromRegressor(Gaussian(1.0), 200, lam, tol=1e-6).fit(X, y)
    assert (model.solver_, model.lam_) == ("rounds", lam)
    path = up.NystromRegressor(Gaussian(1.0), 200, [1e-3, lam]).fit(X, y)
    assert path.solver_ == "rounds"
    with pytest.raises(ValueError, match=r"^lam=3.0e-08 is too small for a Gram matrix .* or solver='rounds'$"):
        up.NystromRegressor(Gaussian(1.0), 200, lam, solver="gram").fit(X, y)
    with pytest.raises(ValueError, match="too small for a Gram matrix .* fit all rows at once with solver='rounds'"):
        up.NystromRegressor(Gaussian(1.0), 200, lam).partial_fit(X, y)


def test_lam_is_trusted_by_what_rows_are_and_not_by_the_points_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * 1e-3  # the points: next to nothing is left of them without their means
    far = rng.normal(size=(3000, 3))
    model = up.NystromRegressor(Gaussian(1.0), 100, center=True).partial_fit(X, X[:, 0])
    assert model.path_.lam.min() < 2e-9
    model.partial_fit(far, np.sin(far[:, 0]))
    assert model.path_.lam.min() > 2e-9
    assert np.all(np.isfinite(model.predict(far)))
    with pytest.raises(ValueError, match=r"^λ of the grid is too small for a Gram matrix of these rows"):
        up.NystromRegressor(Linear(), 100).partial_fit(X, X[:, 0]).partial_fit(1e9 * far, far[:, 0])


@pytest.mark.parametrize("offset", [1e4, 1e9])
@pytest.mark.parametrize("solver", ["gram", "rounds"])
@pytest.mark.parametrize("kernel", [Matern(10.0, nu=2.5), Matern(100.0)], ids=repr)
def test_a_shift_of_the_labels_moves_only_the_intercept_at_the_smallest_lam_too(kernel, solver, offset):
    X, y = noisy(n=3000)
    plain, moved = (
        up.NystromRegressor(kernel, 100, 1e-9, center=True, solver=solver).fit(X, labels) for labels in (y, y + offset)
    )
    np.testing.assert_allclose(moved.predict(X) - offset, plain.predict(X), atol=1e-6 * max(1.0, offset * 1e-8))
    assert moved.intercept_ - plain.intercept_ == pytest.approx(offset, rel=1e-6)


@pytest.mark.parametrize("first", [False, True])
@DEVICES
def test_an_intercept_may_come_and_go_between_rows_that_are_added(device, first):
    X, y = noisy(n=1200)
    Y = np.column_stack([y + 7.0, 1e3 - y])
    changed, always = (
        up.NystromRegressor(Gaussian(1.0), 60, 1e-4, center=c, device=device) for c in (first, not first)
    )
    for model in (changed, always):
        model.partial_fit(X[:600], Y[:600])
    changed.set_params(center=not first).partial_fit(X[600:], Y[600:])
    always.partial_fit(X[600:], Y[600:])
    np.testing.assert_allclose(changed.predict(X), always.predict(X), rtol=1e-9)
    np.testing.assert_allclose(changed.intercept_, always.intercept_, rtol=1e-9)


@pytest.mark.parametrize("kernel", [Gaussian(10.0), Matern(10.0, nu=2.5), Matern(100.0)], ids=repr)
def test_kernel_values_that_hardly_vary_are_not_computed_in_single_precision(kernel):
    X, y = noisy(n=3000)
    single = X.astype(np.float32)
    model = up.NystromRegressor(kernel, 100, center=True).fit(single, y)
    assert model.precision_ == "double"
    expected = up.NystromRegressor(kernel, 100, center=True).fit(single.astype(float), y)
    np.testing.assert_allclose(model.predict(single), expected.predict(single.astype(float)), atol=1e-3)
    assert up.NystromRegressor(Gaussian(1.0), 100).fit(single, y).precision_ == "single"


@pytest.mark.parametrize(("kernel", "scale"), [(Linear(), 1e78), (Polynomial(3), 1e26)], ids=repr)
def test_values_whose_squares_are_no_numbers_get_a_sentence(kernel, scale):
    X, y = noisy(n=500)
    with pytest.raises(ValueError, match="the kernel gives values that are not finite on X: check the scale"):
        up.NystromRegressor(kernel, 50).fit(scale * X, y)


def test_tiny_kernel_values_change_nothing_and_those_whose_squares_vanish_are_no_error():
    X, y = noisy(n=500)
    large, tiny, vanishing = (up.NystromRegressor(Linear(), 50).fit(s * X, y) for s in (1.0, 1e-70, 1e-85))
    np.testing.assert_allclose(tiny.predict(1e-70 * X), large.predict(X), atol=1e-3)
    assert np.all(np.isfinite(vanishing.predict(1e-85 * X)))


@pytest.mark.skipif(not fixed.is_exact(), reason="the processor does not multiply bytes")
def test_a_limit_of_threads_that_falls_while_bytes_are_summed_spoils_no_sum(monkeypatch):
    n = 260_000
    machine = fixed.FixedPointMachine(KernelMap(Gaussian(1.0), np.zeros((1, 1))))
    monkeypatch.setattr(threads, "count_threads", iter([2, 2, *[1] * 1000]).__next__)
    rows = machine.place(Rows(np.zeros((n, 1), dtype=np.float32), np.zeros((n, 1)), None))
    _, total = machine.add_gram(rows, np.ones((n, 2)), None)
    assert total[0, 0] == pytest.approx(n)
