"""Plans of a fit before it runs: every route with its memory and time on this machine, and the one to take.

The routes are those that the fits take (:mod:`unpooled._solvers.route`), asked about a table of which no row is read.
The exact one is taken while it fits, then a basis as large as pays and as there is room for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
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
from .table import Table

HEADS = ("", "memory", "time", "")
TIME = 300.0  # seconds that a fit may take if nothing is said
POINTS = (500, 1000, 2000, 3000, 5000, 7000, 10_000, 15_000, 20_000, 30_000, 50_000)
OTHER_KERNELS = 2.0  # what a value costs beside a Gaussian one
VALIDATION = 20_000  # rows on which averages are scored


@dataclass(frozen=True)
class Route:
    """One way to fit, and what it takes: bytes beyond the rows at the peak, and seconds."""

    name: str  #: what :meth:`ResourcePlan.estimator` calls it
    words: str
    memory: float
    seconds: float
    blocks: str  #: what is worked on at once
    beyond: str = ""  #: "memory", "time" or nothing
    arguments: dict[str, Any] | None = field(default=None, repr=False)  #: of the estimator; None: one is missing

    @property
    def fits(self) -> bool:
        """Whether it stays within memory and time."""
        return not self.beyond


@dataclass(frozen=True)
class ResourcePlan:
    """What every route would take on this machine, and which one to take.

    Attributes
    ----------
    table : rows, features, labels and precision
    memory : bytes that a fit may take
    time : seconds that it may take
    routes : every route, with its bytes and seconds; ``plan["exact"]`` is one of them
    chosen : the name of the route to take; "" where none fits
    why : a sentence on the choice
    rates : of the machine, to be given to a plan elsewhere
    device : of the big tables' routes
    """

    table: Table
    memory: float  #: bytes that a fit may take
    time: float  #: seconds that it may take
    routes: tuple[Route, ...]
    chosen: str  #: the name of the route to take; "" where none fits
    why: str
    rates: Rates
    device: str | None = None

    def __getitem__(self, name: str) -> Route:
        for route in self.routes:
            if route.name == name:
                return route
        raise KeyError(f"there is no route {name!r} in this plan; it has {', '.join(r.name for r in self.routes)}")

    def estimator(self, name: str | None = None) -> Any:
        """The regressor of a route, configured: of the one to take, or of the one that is named."""
        from ..estimators import AveragedRegressor, NystromRegressor, SpectralRegressor

        if name is None and not self.chosen:
            raise ValueError(f"no route fits: {self.why}")
        route = self[self.chosen if name is None else name]
        if route.arguments is None:
            raise ValueError(f"the route {route.name!r} needs a λ: give lam to unpooled.plan")
        arguments = dict(route.arguments)
        if route.name == "averaged":
            local = SpectralRegressor(arguments.pop("kernel"))
            return AveragedRegressor(local, memory_limit=self.memory, **arguments)
        return (SpectralRegressor if route.name.startswith("exact") else NystromRegressor)(**arguments)

    def __str__(self) -> str:
        marks = [" ", *("→" if route.name == self.chosen else " " for route in self.routes)]
        lines = [HEADS, *(self._cells(route) for route in self.routes)]
        first, second, third = (max(len(line[i]) for line in lines) for i in range(3))
        rows = [f"{mark} {a:<{first}}  {b:>{second}}  {c:>{third}}  {d}" for mark, (a, b, c, d) in zip(marks, lines)]
        return "\n".join([self._about(), *(row.rstrip() for row in rows), self.why])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from .._base import html

        heads = ["route", "memory", "time", "worked on at once"]
        return (
            html.paragraph(self._about())
            + html.table(heads, [self._cells(route) for route in self.routes])
            + html.paragraph(self.why)
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        routes = [{key: value for key, value in asdict(r).items() if key != "arguments"} for r in self.routes]
        return asdict(self) | {"routes": routes}

    def _about(self) -> str:
        t = self.table
        cores = self.rates.cores
        where = f"on {self.device}" if self.device else f"{cores} core{'s' if cores > 1 else ''}"
        held = "in memory" if t.loaded else "as arrays"
        return (
            f"{t.n:,} rows, {t.d} features, {'single' if t.single else 'double'} precision ({format_size(t.bytes)} "
            f"{held}); "
            f"{where}, {format_size(self.memory)} for the fit beside its rows, {format_duration(self.time)}"
        )

    @staticmethod
    def _cells(route: Route) -> Sequence[str]:
        last = f"{route.blocks}; beyond {route.beyond}" if route.beyond else route.blocks
        return route.words, format_size(route.memory), format_duration(route.seconds), last


@dataclass(frozen=True)
class Limits:
    """Bytes and seconds that a fit may take."""

    memory: float
    time: float

    def beyond(self, need: Memory, seconds: float, rows: float = 0.0) -> str:
        """What does not fit, or nothing."""
        return "memory" if need.most + rows > self.memory else "time" if seconds > self.time else ""


def planned(
    table: Table,
    *,
    lam: Any = None,
    kernel: Any = None,
    n_features: Any = "auto",
    memory: Any = None,
    time: Any = None,
    device: Any = None,
    rates: Rates | None = None,
) -> ResourcePlan:
    """The plan of a regression of that shape; see :func:`unpooled.plan`."""
    lam = None if lam is None or (isinstance(lam, str) and lam == "auto") else check_positive("lam", lam)
    where = find_device(device, None)
    gpu = where if where is not None and where.type == "cuda" else None
    limits = Limits(_room(memory, gpu), TIME if time is None else check_positive("time", time))
    n_points = check_size(n_features, auto=True)
    if rates is not None and not isinstance(rates, Rates):
        raise ValueError(f"rates must be those that a plan has as .rates, got {quote(rates)}")
    rates = measure_once(gpu) if rates is None else rates
    factor = 1.0 if kernel is None or type(as_kernel(kernel)) is Gaussian else OTHER_KERNELS
    cost = Cost(rates, table.d, factor, gpu is not None)
    common = {"kernel": kernel, "lam": lam}
    routes = [*_exact(table, cost, limits, common)]
    if gpu is None:
        routes += _averaged(table, cost, limits, common)
    routes += _basis(table, cost, limits, common, n_points, device)
    chosen, why = _choice(table, routes, limits)
    return ResourcePlan(table, limits.memory, limits.time, tuple(routes), chosen, why, rates, device and str(device))


def _room(memory: Any, gpu: Any) -> float:
    """Bytes: a number, text such as "8 GB" or "500 MiB", or what is free."""
    if isinstance(memory, str):
        found = re.fullmatch(r"([0-9.]+) *([kMGT]?)(i?)B?", memory.strip())
        if found is None or found[1].count(".") > 1 or found[1] == ".":
            raise ValueError(f"memory must be a number of bytes, or text such as '8 GB', got {quote(memory)}")
        memory = float(found[1]) * (1024 if found[3] else 1000) ** " kMGT".index(found[2] or " ")
    if memory is not None:
        return check_positive("memory", memory)
    return free_memory() if gpu is None else free_on(gpu)


def exact_job(table: Table, cost: Cost, given: bool, kernel: Any = None) -> Job:
    """Ridge regression at a λ that is given or chosen by leave-one-out; the kernel opens and closes routes."""
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
    """With λ chosen by leave-one-out, where it is not given, and with one λ."""
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
    """By the first route that the fit would take and that is sure to serve."""
    way = next(way for way in routes_for(job) if way.certain)
    need, seconds = way.memory(job), way.seconds(job, cost)
    beyond = limits.beyond(need, seconds, 0.0 if table.loaded else table.bytes)
    return Route(name, words, need.peak, seconds, "all rows", beyond, arguments)


def _averaged(table: Table, cost: Cost, limits: Limits, common: dict[str, Any]) -> list[Route]:
    """As few blocks as fit."""
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
    """The average over so many blocks of ridge regressions, at a λ that is given or chosen on halves of them."""
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
    """Regression in the span of so many points; the smallest λ of one pass is that of the worst of rows."""
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
    """One pass and rounds, with the same points: as many as were asked for, or as pay and fit."""
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
    """The name of the route to take, and the reason in a sentence."""
    by_name = {route.name: route for route in routes}
    exact = by_name["exact"]
    if exact.fits:
        loaded = "" if not table.stretch else ": load the rows first, SpectralRegressor takes arrays"
        return "exact", f"{exact.words}: nothing is approximated, and it fits{loaded}"
    needed = {
        "memory": f"{format_size(exact.memory)}, and there are {format_size(limits.memory)}",
        "time": f"{format_duration(exact.seconds)}, and there are {format_duration(limits.time)}",
    }[exact.beyond]
    others = [route for route in routes if not route.name.startswith("exact") and route.beyond != "memory"]
    if not others:
        return "", f"nothing fits: an exact fit would take {needed}; give more memory, or fewer points"
    # What stays within the time comes first, then a basis, then what is quicker.
    best = min(others, key=lambda route: (bool(route.beyond), route.name == "averaged", route.seconds))
    late = f"; nothing keeps to {format_duration(limits.time)}" if best.beyond else ""
    return best.name, f"{best.words}: an exact fit would take {needed}{late}"
