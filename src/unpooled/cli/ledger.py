"""``unpooled ledger``: the privacy budget of a data set, and what it was spent on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..privacy import Ledger
from .app import app, command
from .codes import LOG, Problem
from .out import Out

group = typer.Typer(
    help="The privacy budget of a data set: what it is, and what it was spent on.", no_args_is_help=True
)
app.add_typer(group, name="ledger")

LedgerPath = Annotated[Path, typer.Argument(help="The ledger.", metavar="LEDGER")]


@command(group)
def create(
    out: Out,
    path: LedgerPath,
    epsilon: Annotated[float, typer.Option(help="ε of everything that will ever be released of the data.")],
    delta: Annotated[float, typer.Option(help="δ, far below one in the number of records.")],
    dataset: Annotated[str, typer.Option(help="A name for the data.")],
) -> dict[str, Any]:
    """Open a ledger with a budget, which cannot be raised later."""
    ledger = Ledger.create(path, epsilon, delta, dataset)
    out.say(str(ledger))
    return _facts(ledger)


@command(group)
def show(out: Out, path: LedgerPath) -> dict[str, Any]:
    """Show what was charged, and what is left."""
    ledger = Ledger(path)
    out.say(str(ledger))
    return _facts(ledger)


@command(group)
def verify(
    out: Out,
    path: LedgerPath,
    head: Annotated[str | None, typer.Option(help="The head that was noted earlier.")] = None,
    count: Annotated[int | None, typer.Option(min=0, help="The number of entries that was noted with it.")] = None,
) -> dict[str, Any]:
    """Check that no entry was changed, removed or moved."""
    found = Ledger(path).verify(head, count)
    if not found.ok:
        raise Problem(str(found), LOG)
    out.say(str(found))
    out.say(f"Note both: unpooled ledger verify {path} --head {found.head} --count {found.count}")
    return {"ledger": path, "count": found.count, "head": found.head}


def _facts(ledger: Ledger) -> dict[str, Any]:
    return {
        "ledger": ledger.path,
        "dataset": ledger.dataset,
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "spent": ledger.spent(),
        "mu_left": ledger.mu_left(),
        "charges": [
            {"number": c.number, "time": c.time, "purpose": c.purpose, "released": c.released} for c in ledger.charges()
        ],
    }
