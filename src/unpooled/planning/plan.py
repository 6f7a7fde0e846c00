"""The plan of a fit to a table: memory and time of every route on this machine, and the choice among the routes.

The routes are those that the fits take (:mod:`unpooled._solvers.route`), asked about a table of which no row is read.
The exact route is recommended while it fits, then a basis that is as large as pays and as memory allows.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from .._base import threads
from .._base.checks import check_positive, check_size
from .._base.memory import free_memory, free_on
from .._base.text import format_duration, format_size, quote
from .._solvers.averaging.local import SpectralLocal
from .._solvers.averaging.routes import AVERAGING, powers_of_two
from .._solvers.averaging.routes import Job as AverageJob
from .._solvers.nystrom.machine import GRAM_ROWS, matrices_of_threads, rounding
from .._solvers.nystrom.on_torch import TorchMachine
from .._solvers.nystrom.routes import PROBES, find_device
from .._solvers.nystrom.routes import ROUTES as BASIS_ROUTES
from .._solvers.nystrom.routes import Job as BasisJob
from .._solvers.nystrom.routes import default_grid as basis_grid
from .._solvers.nystrom.solving import smallest_lam
from .._solvers.route import Cost, Memory, Rates, measure_once
from .._solvers.spectral.criteria import default_grid
from .._solvers.spectral.problem import Job
from .._solvers.spectral.routes import routes_for
from ..filters import Tikhonov
from ..kernels import Gaussian, as_kernel
from .resource_plan import Limits, ResourcePlan, Route
from .table import Table, is_rows

TIME = 300.0  # seconds that a fit may take if nothing is said
POINTS = (500, 1000, 2000, 3000, 5000, 7000, 10_000, 15_000, 20_000, 30_000, 50_000)
OTHER_KERNELS = 2.0  # the cost of a kernel value, relative to a Gaussian one
VALIDATION = 20_000  # rows on which averages are scored


def plan(
    X: Any = None,
    y: Any = None,
    *,
    n: int | None = None,
    d: int | None = None,
    targets: int | None = None,
    dtype: Any = None,
    kernel: Any = None,
    lam: Any = None,
    n_features: Any = "auto",
    memory: Any = None,
    time: float | None = None,
    device: Any = None,
    rates: Rates | None = None,
) -> ResourcePlan:
    """Predict the memory and the time of every way to fit a table, and recommend one, before anything runs.

    ``plan(X, y)`` and ``plan("table.parquet", "label")`` look at rows that exist; of a Parquet file only the metadata
    are read. ``plan(n=1_000_000, d=10)`` needs no rows. The routes are an exact fit, an average over blocks, and a
    basis by one pass or by rounds. :meth:`ResourcePlan.estimator` gives the regressor of the recommended route.

    What a privacy budget would buy is another question: see :func:`unpooled.privacy.forecast`.

    Parameters
    ----------
    X, y : the rows and their labels as ``fit`` takes them: arrays, frames, a path, the name of a column
    n, d : the number of rows and of their features, in place of X
    targets, dtype : with n and d: the number of columns of labels, and the precision of the rows
    kernel : as for the regressors
    lam : the λ of the fit; None if it is to be chosen
    n_features : the points of a basis; "auto" takes as many as fit and are worth their cost
    memory : bytes, or text such as "8 GB", that a fit may take beside its rows; None is all that is free, within the
        quota of a container
    time : seconds that it may take; None is 300
    device : as for :class:`NystromRegressor`
    rates : the ``.rates`` of a plan that was made on another machine; None measures those of this one, once per process

    Examples
    --------
    >>> import unpooled as up
    >>> outlook = up.plan(n=1_000_000, d=10, memory="16 GB")
    >>> outlook["exact"].fits, outlook.estimator().n_features >= 500
    (False, True)
    """
    table = _table(X, y, {"n": n, "d": d, "targets": targets, "dtype": dtype})
    lam = None if lam is None or (isinstance(lam, str) and lam == "auto") else check_positive("lam", lam)
    where = find_device(device, None)
    gpu = where if where is not None and where.type == "cuda" else None
    limits = Limits(_read_memory(memory, gpu), TIME if time is None else check_positive("time", time))
    n_points = check_size(n_features, auto=True)
    if rates is not None and not isinstance(rates, Rates):
        raise ValueError(f"rates must be the .rates of a plan, got {quote(rates)}")
    rates = measure_once(gpu) if rates is None else rates
    factor = 1.0 if kernel is None or type(as_kernel(kernel)) is Gaussian else OTHER_KERNELS
    cost = Cost(rates, table.d, factor, gpu is not None)
    common = {"kernel": kernel, "lam": lam}
    routes = [*_exact(table, cost, limits, common)]
    if gpu is None:
        routes += _average(table, cost, limits, common)
    routes += _basis(table, cost, limits, common, n_points, device)
    chosen, why = _choice(table, routes, limits)
    return ResourcePlan(table, limits.memory, limits.time, tuple(routes), chosen, why, rates, device and str(device))


def _table(X: Any, y: Any, counts: dict[str, Any]) -> Table:
    """The shape of the rows, from the rows themselves or from numbers in their place."""
    given = [name for name, value in counts.items() if value is not None]
    if X is not None:
        if given:
            raise ValueError(f"the size of X is known from X: leave {' and '.join(given)} out")
        if not is_rows(X):
            raise ValueError(f"X must be rows or the path of a table, got {quote(X)}; give a number of rows as n")
        return Table.of_rows(X, y)
    if y is not None:
        raise ValueError("y are the labels of rows: give the rows as X, or their number as n and leave y out")
    if counts["n"] is None or counts["d"] is None:
        raise ValueError("give the rows as X, or their number as n and that of their features as d")
    return Table.of_size(counts["n"], counts["d"], counts["targets"] or 1, counts["dtype"])


def _read_memory(memory: Any, gpu: Any) -> float:
    """Read a size in bytes: a number, text such as "8 GB" or "500 MiB", or None for all that is free."""
    if isinstance(memory, str):
        parts = re.fullmatch(r"([0-9.]+) *([kMGT]?)(i?)B?", memory.strip())
        if parts is None or parts[1].count(".") > 1 or parts[1] == ".":
            raise ValueError(f"memory must be a number of bytes, or text such as '8 GB', got {quote(memory)}")
        memory = float(parts[1]) * (1024 if parts[3] else 1000) ** " kMGT".index(parts[2] or " ")
    if memory is not None:
        return check_positive("memory", memory)
    return free_memory() if gpu is None else free_on(gpu)


def exact_job(table: Table, cost: Cost, given: bool, kernel: Any = None) -> Job:
    """Describe ridge regression at one λ or with leave-one-out; the kernel decides which routes are open."""
    kernel = as_kernel(kernel)
    return Job(
        table.n,
        table.d,
        table.itemsize,
        "torch" if cost.device else "numpy",
        None if given else "loo",
        1 if given else len(default_grid(1.0, float(np.finfo(table.dtype).eps))),
        table.targets,
        positive_definite=kernel.positive_definite,
        by_columns=kernel.by_columns,
        cores=cost.rates.cores,
    )


def _exact(table: Table, cost: Cost, limits: Limits, common: dict[str, Any]) -> list[Route]:
    """Plan an exact fit, with λ chosen by leave-one-out if it is not given, and with one λ."""
    lam = common["lam"]
    ways: list[tuple[bool, str, str, dict[str, Any] | None]] = [
        (False, "exact", "exact, λ by leave-one-out", common | {"lam": "loo"}),
        (True, "exact-one", "exact, if λ is given", None),
    ]
    if lam is not None:
        ways = [(True, "exact", f"exact, λ = {lam:g}", common)]
    return [
        _exact_route(exact_job(table, cost, given, common["kernel"]), table, cost, limits, name, words, arguments)
        for given, name, words, arguments in ways
    ]


def _exact_route(
    job: Job, table: Table, cost: Cost, limits: Limits, name: str, words: str, arguments: dict[str, Any] | None
) -> Route:
    """Plan an exact fit by the first route that is certain to work."""
    way = next(way for way in routes_for(job) if way.certain)
    need, seconds = way.memory(job), way.seconds(job, cost)
    beyond = limits.beyond(need, seconds, 0.0 if table.loaded else table.bytes)
    return Route(name, words, need.peak, seconds, "all rows", beyond, arguments)


def _average(table: Table, cost: Cost, limits: Limits, common: dict[str, Any]) -> list[Route]:
    """Plan an average over as few blocks as fit."""
    lam = common["lam"]
    jobs = {m: averages_job(table, cost, m, common["kernel"], lam, limits.memory) for m in powers_of_two(table.n)[1:]}
    if not jobs:
        return []
    beyond = {m: limits.beyond(AVERAGING.memory(job), AVERAGING.seconds(job, cost)) for m, job in jobs.items()}
    m = next((m for m in jobs if not beyond[m]), max(jobs))
    job, at_once = jobs[m], jobs[m].at_once
    arguments = {"kernel": common["kernel"], "n_blocks": m, "lam": "rule13" if lam is None else lam, "time_limit": None}
    block = f"{at_once} block{'s' if at_once > 1 else ''} of {job.rows:,} rows"
    need, seconds = AVERAGING.memory(job), AVERAGING.seconds(job, cost)
    return [Route("averaged", f"averaged over {m} blocks", need.peak, seconds, block, beyond[m], arguments)]


def averages_job(table: Table, cost: Cost, n_blocks: int, kernel: Any, lam: float | None, limit: float) -> AverageJob:
    """Describe an average of ridge regressions over blocks, at one λ or at one that is chosen on halves of them."""
    lams = default_grid(1.0, float(np.finfo(table.dtype).eps)) if lam is None else np.asarray([lam])
    cores = max(cost.rates.cores, threads.count_cores())  # one block a core, whatever BLAS may use
    return AverageJob(
        table.n,
        table.d,
        n_blocks,
        math.ceil(table.n / n_blocks),
        SpectralLocal(as_kernel(kernel), Tikhonov(), False, 1.0, lams, False, "auto"),
        table.targets,
        min(VALIDATION, table.n // 2) if lam is None else 0,
        cores,
        cores,
        limit,
        table.itemsize,
    )


def basis_job(table: Table, cost: Cost, n_points: int, lam: float | None) -> BasisJob:
    """Describe a regression in the span of points; the smallest λ of one pass is the one for the worst rows."""
    n_lams, cores = len(basis_grid(1.0, 0.0)) if lam is None else 1, cost.rates.cores
    return BasisJob(
        table.n,
        table.d,
        table.targets,
        n_points,
        n_lams,
        n_lams * (table.targets + (PROBES if lam is None else 0)),
        table.single or cost.device,
        cost.device,
        cores,
        TorchMachine.gram_matrices if cost.device else matrices_of_threads(cores, n_points),
        math.inf if lam is None else lam,
        smallest_lam(1.0, 1.0, rounding(table.n)),  # on the scale of κ² = 1
        stretch=table.stretch,
    )


def _basis(
    table: Table, cost: Cost, limits: Limits, common: dict[str, Any], n_points: int | None, device: Any
) -> list[Route]:
    """Plan one pass and rounds with the same points: as many as are given, or as pay and fit."""
    lam = common["lam"]

    def ways(M: int) -> dict[str, tuple[Memory, float]]:
        job = basis_job(table, cost, M, lam)
        return {way.name: (way.memory(job), way.seconds(job, cost)) for way in BASIS_ROUTES if way.can_do(job)}

    pays = math.ceil(math.sqrt(table.n) * math.log(max(table.n, 2)))
    sizes = [min(n_points, table.n)] if n_points else [M for M in POINTS if max(pays, POINTS[0]) >= M]
    sizes = sorted({min(M, table.n) for M in sizes}, reverse=True)
    tried = {M: ways(M) for M in sizes}
    M = next((M for M in sizes if any(not limits.beyond(*need) for need in tried[M].values())), sizes[-1])
    words = {"gram": "one pass", "rounds": "rounds"}
    block = {"gram": min(GRAM_ROWS, table.n), "rounds": min(max(1, threads.BLOCK_ELEMENTS // M), table.n)}
    return [
        Route(
            way,
            f"basis of {M} points, {words[way]}",
            need.peak,
            seconds,
            "a block of rows" if cost.device else f"{block[way]:,} rows a core",
            limits.beyond(need, seconds),
            common | {"n_features": M, "lam": "gcv" if lam is None else lam, "solver": way, "device": device},
        )
        for way, (need, seconds) in tried[M].items()
    ]


def _choice(table: Table, routes: list[Route], limits: Limits) -> tuple[str, str]:
    """Choose the route to recommend, and give the reason in a sentence."""
    by_name = {route.name: route for route in routes}
    exact = by_name["exact"]
    if exact.fits:
        loaded = "" if not table.stretch else ": load the rows first, SpectralRegressor takes arrays"
        return "exact", f"{exact.words}: nothing is approximated, and it fits{loaded}"
    needed = {
        "memory": f"{format_size(exact.memory)}, and {format_size(limits.memory)} are available",
        "time": f"{format_duration(exact.seconds)}, and the limit is {format_duration(limits.time)}",
    }[exact.beyond]
    others = [route for route in routes if not route.name.startswith("exact") and route.beyond != "memory"]
    if not others:
        return "", f"nothing fits: an exact fit would take {needed}; allow more memory or fewer points"
    # Routes within the time limit come first, then a basis, then the faster route.
    best = min(others, key=lambda route: (bool(route.beyond), route.name == "averaged", route.seconds))
    late = f"; no route takes less than {format_duration(limits.time)}" if best.beyond else ""
    return best.name, f"{best.words}: an exact fit would take {needed}{late}"
