"""``unpooled plan``: what a fit would take before it runs, or what a privacy budget would buy before it is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .app import app, command
from .console import USAGE, Delta, Out, Problem, choice, names, number_or

DELTA = 1e-6


@command(app)
def plan(
    out: Out,
    rows: Annotated[str, typer.Argument(help="A table (Parquet or CSV), or how many rows there will be.")],
    public: Annotated[
        Path | None, typer.Argument(help="For a private regression: a .basis file, or public rows without labels.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", "--target", "-t", help="The column to predict; several with commas.")
    ] = None,
    inputs: Annotated[int | None, typer.Option(min=1, help="How many inputs, where rows are only counted.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float64 or float32, where rows are only counted.")] = None,
    lam: Annotated[str, typer.Option(help="auto, or the λ that will be given.")] = "auto",
    features: Annotated[int | None, typer.Option(min=1, help="Points of a basis. Without it: what pays.")] = None,
    memory: Annotated[str | None, typer.Option(help="What a fit may take, as in 8GB. Else: what is free.")] = None,
    time: Annotated[float | None, typer.Option(help="Seconds that a fit may take. Without it: 300.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, for a fit there.")] = None,
    epsilon: Annotated[list[str] | None, typer.Option(help="ε, several with commas. Without it: 0.1 to 10.")] = None,
    delta: Delta = DELTA,
    label_bound: Annotated[float, typer.Option(help="c: labels will be moved into [-c, c].")] = 1.0,
    explained: Annotated[float, typer.Option(help="The share of the labels' variance that could be explained.")] = 0.9,
    sites: Annotated[int, typer.Option(min=1, help="Sites that add all of the noise each.")] = 1,
    drop: Annotated[list[str] | None, typer.Option(help="Columns of the rows that are no inputs.")] = None,
) -> dict[str, Any]:
    """Predict memory and time of every way to fit a table, or, with PUBLIC, the R² of a private regression against ε.

    Of a Parquet table only the metadata are read. No private row is read.
    """
    number = int(rows) if rows.isascii() and rows.isdigit() else None
    if public is not None:
        if number is None or number < 1:
            raise Problem(f"a private regression is planned for a number of records, and {rows} is none", USAGE)
        _refuse(label=label, inputs=inputs, dtype=dtype, features=features, memory=memory, time=time, device=device)
        return _private(out, number, public, epsilon, delta, label_bound, explained, sites, drop)
    _refuse("PUBLIC", epsilon=epsilon)
    from ..planning.private import plan as planned

    of_fit: dict[str, Any] = {
        "lam": number_or("auto", "--lam", lam),
        "n_features": features,
        "memory": memory,
        "time": time,
        "device": device,
    }
    if number is None:
        _refuse("a number of rows", inputs=inputs, dtype=dtype)
        table, targets = _table(Path(rows), label, drop)
        with out.working(f"looking at {rows}"):
            found = planned(table, targets, **of_fit)
    else:
        _refuse("a table", label=label, drop=drop)
        if number < 1 or inputs is None:
            raise Problem("give a table, or a number of rows and --inputs, or PUBLIC as well", USAGE)
        precision = choice("--dtype", dtype or "float64", ("float64", "float32"))
        with out.working("measuring this machine"):
            found = planned(n=number, d=inputs, dtype=precision, **of_fit)
    out.say(str(found))
    return dict(found.to_dict())


def _refuse(only_with: str = "rows that are fitted as they are, without PUBLIC", **options: Any) -> None:
    """Options of another kind of plan."""
    given = [f"--{name}" for name, value in options.items() if value]
    if given:
        raise Problem(f"{', '.join(given)} goes with {only_with}", USAGE)


def _table(path: Path, label: list[str] | None, drop: list[str] | None) -> tuple[Any, Any]:
    """The table without dropped columns, and its labels by name."""
    from ..data import sources
    from .basis import input_columns

    found = sources.read_columns(sources.open_table(path))
    labels = names(label, list(found))
    if not labels:
        raise Problem("give the column to predict as --label", USAGE)
    sources.check_columns(path, found, labels, "--label")
    used = input_columns(path, None, drop, labels)
    return sources.open_table(path, used), labels[0] if len(labels) == 1 else labels


def _private(
    out: Out,
    rows: int,
    public: Path,
    epsilon: list[str] | None,
    delta: float | None,
    label_bound: float,
    explained: float,
    sites: int,
    drop: list[str] | None,
) -> dict[str, Any]:
    from .. import bases
    from ..planning.private import EPSILONS
    from ..planning.private import plan as planned
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
    return dict(found.to_dict())


def _numbers(values: list[str] | None) -> list[float]:
    try:
        return [float(value) for value in names(values)]
    except ValueError:
        raise Problem(f"--epsilon must be numbers, got {', '.join(values or [])}", USAGE) from None
