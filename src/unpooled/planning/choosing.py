"""The choice of a route: the exact one while it fits, then a basis as large as pays and as there is room for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from .._base.checks import check_size, positive
from .._base.memory import free_memory, free_on
from .._base.text import duration, shown, size
from .._solvers.averaging.search import powers_of_two
from .._solvers.nystrom.choosing import device_of
from .._solvers.nystrom.from_gram import smallest
from .._solvers.nystrom.machine import GRAM_ROWS, rounding
from ..kernels import Gaussian, as_kernel
from . import needs
from .needs import Cost, Need, Rates, measured
from .plan import ResourcePlan, Route
from .table import Table

TIME = 300.0  # seconds that a fit may take if nothing is said
POINTS = (500, 1000, 2000, 3000, 5000, 7000, 10_000, 15_000, 20_000, 30_000, 50_000)
OTHER_KERNELS = 2.0  # what a value costs beside a Gaussian one
GRID = {False: 28, True: 16}  # λ of SpectralRegressor's grid, in double and in single precision
BASIS_GRID, PROBES = 27, 2  # λ of NystromRegressor's grid at the most, and columns beside the labels


@dataclass(frozen=True)
class Limits:
    """Bytes and seconds that a fit may take."""

    memory: float
    time: float

    def beyond(self, need: Need, rows: float = 0.0) -> str:
        """What does not fit, or nothing."""
        return "memory" if need.most + rows > self.memory else "time" if need.seconds > self.time else ""


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
    lam = None if lam is None or (isinstance(lam, str) and lam == "auto") else positive("lam", lam)
    where = device_of(device, None)
    gpu = where if where is not None and where.type == "cuda" else None
    limits = Limits(_room(memory, gpu), TIME if time is None else positive("time", time))
    n_points = check_size(n_features, auto=True)
    if rates is not None and not isinstance(rates, Rates):
        raise ValueError(f"rates must be those that a plan has as .rates, got {shown(rates)}")
    rates = measured(gpu) if rates is None else rates
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
            raise ValueError(f"memory must be a number of bytes, or text such as '8 GB', got {shown(memory)}")
        memory = float(found[1]) * (1024 if found[3] else 1000) ** " kMGT".index(found[2] or " ")
    if memory is not None:
        return positive("memory", memory)
    return free_memory() if gpu is None else free_on(gpu)


def _exact(table: Table, cost: Cost, limits: Limits, common: dict[str, Any]) -> list[Route]:
    rows = 0.0 if table.loaded else table.bytes
    lam, found = common["lam"], []
    if lam is None:
        path = needs.exact_path(table, cost, GRID[table.single])
        found.append(
            Route(
                "exact",
                "exact, λ by leave-one-out",
                path.memory,
                path.seconds,
                "all rows",
                limits.beyond(path, rows),
                common | {"lam": "loo"},
            )
        )
    one = needs.exact_at_one(table, cost)
    words = "exact, if λ is given" if lam is None else f"exact, λ = {lam:g}"
    arguments = None if lam is None else common
    name = "exact-one" if lam is None else "exact"
    found.append(Route(name, words, one.memory, one.seconds, "all rows", limits.beyond(one, rows), arguments))
    return found


def _averaged(table: Table, cost: Cost, limits: Limits, common: dict[str, Any]) -> list[Route]:
    """As few blocks as fit."""
    lam = common["lam"]
    n_lams = GRID[table.single] if lam is None else 1
    sizes = powers_of_two(table.n)[1:]
    if not sizes:
        return []
    tried = {m: needs.averaged(table, cost, m, n_lams) for m in sizes}
    m = next((m for m in sizes if not limits.beyond(tried[m])), sizes[-1])
    at_once = needs.blocks_at_once(cost.rates, m)
    arguments = {"kernel": common["kernel"], "n_blocks": m, "lam": "rule13" if lam is None else lam, "time_limit": None}
    block = f"{at_once} block{'s' if at_once > 1 else ''} of {math.ceil(table.n / m):,} rows"
    need = tried[m]
    words = f"averaged over {m} blocks"
    return [Route("averaged", words, need.memory, need.seconds, block, limits.beyond(need), arguments)]


def _basis(
    table: Table, cost: Cost, limits: Limits, common: dict[str, Any], n_points: int | None, device: Any
) -> list[Route]:
    """One pass and rounds, with the same points: as many as were asked for, or as pay and fit."""
    lam = common["lam"]
    n_lams = BASIS_GRID if lam is None else 1
    n_columns = n_lams * (table.targets + (PROBES if lam is None else 0))
    # A Gram matrix has an end, on the scale of κ² = 1; where it is depends on the rows, and this is the worst case.
    one_pass = lam is None or lam >= smallest(1.0, 1.0, rounding(table.n))

    def ways(M: int) -> dict[str, Need]:
        found = {"rounds": needs.rounds(table, cost, M, n_lams, n_columns)}
        return {"gram": needs.gram(table, cost, M)} | found if one_pass else found

    pays = math.ceil(math.sqrt(table.n) * math.log(max(table.n, 2)))
    sizes = [min(n_points, table.n)] if n_points else [M for M in POINTS if max(pays, POINTS[0]) >= M]
    sizes = sorted({min(M, table.n) for M in sizes}, reverse=True)
    tried = {M: ways(M) for M in sizes}
    M = next((M for M in sizes if any(not limits.beyond(n) for n in tried[M].values())), sizes[-1])
    words = {"gram": "one pass", "rounds": "rounds"}
    block = {"gram": min(GRAM_ROWS, table.n), "rounds": min(needs.rows_at_once(M), table.n)}
    return [
        Route(
            way,
            f"basis of {M} points, {words[way]}",
            need.memory,
            need.seconds,
            "a block of rows" if cost.device else f"{block[way]:,} rows a core",
            limits.beyond(need),
            common | {"n_features": M, "lam": "gcv" if lam is None else lam, "solver": way, "device": device},
        )
        for way, need in tried[M].items()
    ]


def _choice(table: Table, routes: list[Route], limits: Limits) -> tuple[str, str]:
    """The name of the route to take, and the reason in a sentence."""
    by_name = {route.name: route for route in routes}
    exact = by_name["exact"]
    if exact.fits:
        loaded = "" if not table.stretch else ": load the rows first, SpectralRegressor takes arrays"
        return "exact", f"{exact.words}: nothing is approximated, and it fits{loaded}"
    needed = {
        "memory": f"{size(exact.memory)}, and there are {size(limits.memory)}",
        "time": f"{duration(exact.seconds)}, and there are {duration(limits.time)}",
    }[exact.beyond]
    others = [route for route in routes if not route.name.startswith("exact") and route.beyond != "memory"]
    if not others:
        return "", f"nothing fits: an exact fit would take {needed}; give more memory, or fewer points"
    # What stays within the time comes first, then a basis, then what is quicker.
    best = min(others, key=lambda route: (bool(route.beyond), route.name == "averaged", route.seconds))
    late = f"; nothing keeps to {duration(limits.time)}" if best.beyond else ""
    return best.name, f"{best.words}: an exact fit would take {needed}{late}"
