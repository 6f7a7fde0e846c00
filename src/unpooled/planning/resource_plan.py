"""The plan of a fit: every route with its memory and time on this machine, and the recommended one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .._base.text import format_duration, format_size
from .._solvers.route import Memory, Rates
from .table import Table

HEADS = ("", "memory", "time", "")


@dataclass(frozen=True)
class Route:
    """One way to fit, with its peak memory beside the rows in bytes and its time in seconds."""

    name: str  #: its name in :meth:`ResourcePlan.estimator`
    words: str
    memory: float
    seconds: float
    blocks: str  #: the rows that are worked on at once
    beyond: str = ""  #: "memory", "time" or nothing
    arguments: dict[str, Any] | None = field(default=None, repr=False)  #: of the estimator; None: one is missing

    @property
    def fits(self) -> bool:
        """Whether the route stays within memory and time."""
        return not self.beyond


@dataclass(frozen=True)
class ResourcePlan:
    """Memory and time of every route on this machine, and the recommended route.

    Attributes
    ----------
    table : rows, features, labels and precision
    memory : bytes that a fit may take
    time : seconds that it may take
    routes : every route, with its bytes and seconds; ``plan["exact"]`` is one of them
    chosen : the name of the recommended route; "" if none fits
    why : the reason in a sentence
    rates : the speed of this machine, for plans that are made elsewhere
    device : the device of the routes for big tables
    """

    table: Table
    memory: float  #: bytes that a fit may take
    time: float  #: seconds that it may take
    routes: tuple[Route, ...]
    chosen: str  #: the name of the recommended route; "" if none fits
    why: str
    rates: Rates
    device: str | None = None

    def __getitem__(self, name: str) -> Route:
        for route in self.routes:
            if route.name == name:
                return route
        raise KeyError(f"there is no route {name!r} in this plan; it has {', '.join(r.name for r in self.routes)}")

    def estimator(self, name: str | None = None) -> Any:
        """Return the configured regressor of the recommended route, or of the named one."""
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
        """Return the plan as a dictionary for JSON."""
        routes = [{key: value for key, value in asdict(r).items() if key != "arguments"} for r in self.routes]
        return asdict(self) | {"routes": routes}

    def _about(self) -> str:
        t = self.table
        cores = self.rates.cores
        where = f"on {self.device}" if self.device else f"{cores} core{'s' if cores > 1 else ''}"
        held = "in memory" if t.loaded else "as arrays"
        return (
            f"{t.n:,} rows, {t.d} features, {'single' if t.single else 'double'} precision "
            f"({format_size(t.bytes)} {held}); {where}, {format_size(self.memory)} for the fit beside its rows, "
            f"{format_duration(self.time)}"
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
        """Say whether memory or time does not suffice; nothing if both do."""
        return "memory" if need.most + rows > self.memory else "time" if seconds > self.time else ""
