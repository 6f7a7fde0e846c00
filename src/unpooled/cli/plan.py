"""``unpooled plan``: what a privacy budget would buy, before any of it is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .app import app, command
from .codes import USAGE, Problem
from .options import Delta, names
from .out import Out

DELTA = 1e-6


@command(app)
def plan(
    out: Out,
    rows: Annotated[int, typer.Argument(min=1, help="How many records there will be.")],
    public: Annotated[Path, typer.Argument(help="A .basis file, or public rows without labels.")],
    epsilon: Annotated[list[str] | None, typer.Option(help="ε, several with commas. Without it: 0.1 to 10.")] = None,
    delta: Delta = DELTA,
    label_bound: Annotated[float, typer.Option(help="c: labels will be moved into [-c, c].")] = 1.0,
    explained: Annotated[float, typer.Option(help="The share of the labels' variance that could be explained.")] = 0.9,
    sites: Annotated[int, typer.Option(min=1, help="Sites that add all of the noise each.")] = 1,
    drop: Annotated[list[str] | None, typer.Option(help="Columns of the rows that are no inputs.")] = None,
) -> dict[str, Any]:
    """Predict R² against ε for a private regression, from public knowledge alone. No private row is read."""
    from .. import bases
    from ..planning import EPSILONS
    from ..planning import plan as planned
    from .basis import public_table

    known = public.suffix == ".basis"
    if known and drop:
        raise Problem("a basis has its inputs already: leave --drop out", USAGE)
    with out.working(f"reading {public}"):
        given: Any = bases.load(public) if known else public_table(public, None, drop)
    with out.working("simulating"):
        found = planned(
            rows,
            None if known else given,
            _numbers(epsilon) or EPSILONS,
            DELTA if delta is None else delta,
            label_bound,
            given if known else None,
            explained=explained,
            sites=sites,
        )
    out.say(str(found))
    return found.to_dict()


def _numbers(values: list[str] | None) -> list[float]:
    try:
        return [float(value) for value in names(values)]
    except ValueError:
        raise Problem(f"--epsilon must be numbers, got {', '.join(values or [])}", USAGE) from None
