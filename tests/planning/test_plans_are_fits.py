"""A plan and a fit ask the same routes: what is planned is what a fit asks for before it begins."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import Matern

import unpooled as up
from unpooled._base import memory, threads
from unpooled._solvers.averaging.routes import AVERAGING, Averaging
from unpooled._solvers.nystrom import routes as basis_routes
from unpooled._solvers.route import Cost, Memory, Rates
from unpooled._solvers.spectral import routes
from unpooled.estimators import averaged
from unpooled.kernels import Gaussian, Laplacian
from unpooled.planning import plan as plans
from unpooled.planning.table import Table

RATES = Rates(cores=1, gemm=160e9, gemm_single=320e9, syrk=150e9, exp=2e9, exp_single=4e9, bandwidth=20e9)
few = settings(max_examples=40, deadline=None)
solvers, few_targets = st.sampled_from(["gram", "rounds"]), st.integers(1, 2)
few_rows, dtypes, seeds = st.integers(3, 60), st.sampled_from([np.float32, np.float64]), st.integers(0, 10**6)


def rows(n, d, targets, dtype, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(n, targets)).astype(dtype)


def of_matrices(A, B):
    return Laplacian(1.0)(A, B)


def of_two_rows(a, b):
    return float(np.exp(-np.abs(a - b).sum()))


KERNELS = {
    "its own": Laplacian(1.0),
    "a function of matrices": of_matrices,
    "a function of rows": of_two_rows,
    "of scikit-learn": Matern(nu=0.5),
    "precomputed": "precomputed",
}


def asked(fit):
    """The bytes that a fit asks for before it begins, the model, and the routes that were asked with their jobs."""
    bytes_, who = [], []

    def watched(way):
        ask = way.memory

        def told(job):
            who.append((way, job))
            return ask(job)

        return mock.patch.object(way, "memory", told)

    with mock.patch.object(memory, "require", lambda needed, *_: bytes_.append(needed)):
        watches = [watched(way) for way in (*routes.ROUTES, *basis_routes.ROUTES)]
        for watch in watches:
            watch.start()
        try:
            model = fit()
        finally:
            for watch in watches:
                watch.stop()
    return bytes_, model, who


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@few
@given(few_rows, st.integers(1, 5), st.integers(1, 3), dtypes, st.booleans(), st.booleans(), seeds)
def test_an_exact_fit_asks_the_route_of_its_plan_for_the_memory_of_its_plan(
    kernel, n, d, targets, dtype, is_given, are_few_large, seed
):
    """Small fits, and with the limits moved down those of thousands of rows."""
    X, Y = rows(n, d, targets, dtype, seed)
    if kernel == "precomputed":
        X, d = Laplacian(1.0)(X), n
    large, banded = (8, 30) if are_few_large else (routes.LARGE, routes.BANDED_FROM)
    patches = (
        mock.patch.object(routes, "LARGE", large),
        mock.patch.object(routes, "BANDED_FROM", banded),
        mock.patch.object(routes.LowRankRoute, "pays", return_value=False),  # no kernel of so few rows is of low rank
    )
    for patch in patches:
        patch.start()
    try:
        cost = Cost(RATES, d)
        job = plans.exact_job(Table(n, d, targets, dtype == np.float32, True), cost, is_given, kernel)
        planned = next(way for way in routes.routes_for(job) if way.certain)
        lam = 1e-2 if is_given else "loo"
        bytes_, model, who = asked(lambda: up.SpectralRegressor(kernel, lam=lam).fit(X, Y))
    finally:
        for patch in patches:
            patch.stop()
    assert bytes_ == [planned.memory(job).matrices]
    way, seen = who[0]
    assert way is planned
    assert (seen.n, seen.d, seen.targets, seen.itemsize, seen.library) == (n, d, targets, job.itemsize, "numpy")
    assert (seen.criterion, seen.n_lams, seen.ridge_times) == (job.criterion, job.n_lams, job.ridge_times)
    assert (seen.positive_definite, seen.by_columns) == (job.positive_definite, job.by_columns)
    # Where single precision turns out not to tell λ apart, the routes after it have their turn.
    assert model.solver_ == planned.name or (planned is routes.MIXED and model.solver_ in ("banded", "eigh"))


@few
@given(
    few_rows, st.integers(1, 3), st.integers(1, 2), dtypes, st.sampled_from(["gram", "rounds"]), st.booleans(), seeds
)
def test_a_fit_in_a_span_asks_the_route_of_its_plan_for_the_memory_of_its_plan(
    n, d, targets, dtype, solver, is_given, seed
):
    X, Y = rows(n, d, targets, dtype, seed)
    lam, M = (1e-2 if is_given else None), max(2, n // 2)
    with mock.patch.object(threads, "count_threads", return_value=1):
        job = plans.basis_job(Table(n, d, targets, dtype == np.float32, True), Cost(RATES, d), M, lam)
        planned = next(way for way in basis_routes.ROUTES if way.name == solver)
        model = up.NystromRegressor(Gaussian(1.0), M, "gcv" if lam is None else lam, solver=solver)
        bytes_, model, who = asked(lambda: model.fit(X, Y))
    way, seen = who[0]
    assert way is planned
    assert (seen.n, seen.d, seen.targets, seen.n_points) == (n, d, targets, M)
    assert model.solver_ == solver
    if seen.n_lams == job.n_lams:  # else the rows allow fewer λ than a plan has to count with
        assert (seen.n_columns, seen.cores, seen.on_gpu) == (job.n_columns, 1, False)
        assert bytes_ == [planned.memory(job).matrices]
    else:
        assert seen.n_lams < job.n_lams
        assert bytes_[0] <= planned.memory(job).matrices


@settings(max_examples=12, deadline=None)
@given(
    st.integers(400, 900),
    st.integers(1, 4),
    st.integers(1, 2),
    dtypes,
    st.booleans(),
    st.sampled_from([40e6, 1e9]),
    st.integers(1, 3),
    seeds,
)
def test_an_average_expects_to_take_what_its_plan_says(n, d, targets, dtype, is_given, room, cores, seed):
    X, Y = rows(n, d, targets, dtype, seed)
    lam = 1e-2 if is_given else None
    with (
        mock.patch.object(threads, "count_cores", return_value=cores),
        mock.patch.object(averaged, "measure_once", return_value=RATES),
    ):
        plan = up.plan(X, Y, kernel=Gaussian(1.0), lam=lam, memory=room, rates=RATES)
        (one,) = plan.estimator("averaged").fit(X, Y).plan_
        assert (one.memory, one.seconds) == (plan["averaged"].memory, plan["averaged"].seconds)
        assert f"{one.at_once} block{'s' if one.at_once > 1 else ''} of {one.rows:,} rows" == plan["averaged"].blocks
        if lam is None:
            model = up.AveragedRegressor(up.SpectralRegressor(Gaussian(1.0)), memory_limit=room).fit(X, Y)
            for found in model.plan_:
                job = plans.averages_job(plan.table, Cost(RATES, d), found.n_blocks, Gaussian(1.0), None, room)
                need = AVERAGING.memory(job).peak
                assert (found.memory, found.seconds) == (need, AVERAGING.seconds(job, Cost(RATES, d)))
                assert (found.rows, found.at_once) == (job.rows, job.at_once)


@given(st.integers(400, 10**7), st.integers(1, 100), st.integers(1, 64), st.floats(1e6, 1e12), st.booleans())
def test_an_average_keeps_its_matrices_to_the_limit_and_more_room_lets_no_fewer_blocks_work(n, d, cores, room, single):
    cost = Cost(RATES, d)
    with mock.patch.object(threads, "count_cores", return_value=cores):
        for n_blocks in (2, 8, 64):
            job, wide = (
                plans.averages_job(Table(n, d, 1, single), cost, n_blocks, None, None, limit)
                for limit in (room, 2 * room)
            )
            need = AVERAGING.memory(job)
            assert 0 < need.matrices <= need.most
            assert need.peak <= need.most
            assert not AVERAGING.can_do(job) or need.matrices <= room
            assert 1 <= job.at_once <= wide.at_once <= min(cores, n_blocks)
            assert AVERAGING.seconds(job, cost) > 0


@pytest.mark.parametrize("way", [*routes.ROUTES, *basis_routes.ROUTES], ids=lambda way: way.name)
@pytest.mark.parametrize("single", [False, True])
@given(n=st.integers(2, 10**7), d=st.integers(1, 100), device=st.booleans(), times=st.integers(2, 10))
def test_every_route_takes_more_of_both_for_more_rows_and_its_peak_is_no_more_than_the_most(
    way, single, n, d, device, times
):
    cost = Cost(RATES, d, device=device)

    def told(n):
        table = Table(n, d, 1, single)
        job = (
            plans.basis_job(table, cost, 100, 1e-3)
            if way in basis_routes.ROUTES
            else plans.exact_job(table, cost, way in (routes.CHOLESKY, routes.PRODUCTS))
        )
        return way.memory(job), way.seconds(job, cost)

    (one, seconds), (more, longer) = told(n), told(times * n)
    assert 0 <= one.matrices <= one.most
    assert one.peak <= one.most
    assert one.matrices <= more.matrices
    assert 0 < seconds < longer


def test_a_route_that_has_another_opinion_in_a_fit_is_caught():
    """The check above can fail: a fit that asks for twice as much is seen."""
    X, Y = rows(20, 2, 1, np.float64, 0)

    def careless(self, work):
        work.problem.require(work.job, 2.0 * self.memory(work.job).matrices)
        return routes.EIGEN.solve(work)

    with mock.patch.object(routes.CholeskyRoute, "solve", careless):
        bytes_, _, _ = asked(lambda: up.SpectralRegressor(Laplacian(1.0), lam=0.1).fit(X, Y))
    job = plans.exact_job(Table(20, 2), Cost(RATES, 2), True)
    assert bytes_[0] == 2.0 * routes.CHOLESKY.memory(job).matrices


def test_a_plan_that_does_not_look_at_its_kernel_is_caught():
    """A float32 table with a function as its kernel goes to another route than with a kernel that is known."""
    cost, table = Cost(RATES, 2), Table(4000, 2, 1, True)
    known, unknown = (plans.exact_job(table, cost, False, kernel) for kernel in (None, of_matrices))
    ways = [next(way for way in routes.routes_for(job) if way.certain) for job in (known, unknown)]
    assert ways == [routes.BANDED, routes.EIGEN]
    assert ways[0].memory(known).peak < ways[1].memory(unknown).peak


def test_an_average_that_has_another_opinion_in_a_fit_is_caught():
    X, Y = rows(500, 2, 1, np.float64, 0)
    plan = up.plan(X, Y, lam=1e-2, memory=1e9, rates=RATES)
    ask = Averaging.memory

    def careless(self, job):
        return Memory(*(2.0 * number for number in vars(ask(self, job)).values()))

    with mock.patch.object(Averaging, "memory", careless):
        (one,) = plan.estimator("averaged").fit(X, Y).plan_
    assert one.memory == 2.0 * plan["averaged"].memory


def test_the_mixed_route_counts_an_eigendecomposition_where_a_kernel_that_nobody_knows_keeps_it_from_a_reduction():
    cost, table = Cost(RATES, 2), Table(12_000, 2)
    known, unknown = (plans.exact_job(table, cost, False, kernel) for kernel in (None, of_matrices))
    assert routes.MIXED.seconds(known, cost) < routes.MIXED.seconds(unknown, cost)
    assert routes.MIXED.memory(known).peak < routes.MIXED.memory(unknown).peak
