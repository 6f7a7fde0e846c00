"""``unpooled audit``: do the private mechanisms keep what they promise, as far as many runs can tell?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import app, command
from .codes import AUDIT, USAGE, Problem
from .out import Out

if TYPE_CHECKING:
    from ..auditing import Audit


@command(app)
def audit(
    out: Out,
    name: Annotated[list[str] | None, typer.Argument(help="What to audit; all that there is without a name.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs: a minute and not several minutes.")] = False,
    runs: Annotated[int | None, typer.Option(min=30, help="Runs on each of two data sets.")] = None,
) -> dict[str, Any]:
    """Run every private mechanism many times on neighbouring data sets, and bound its ε from below.

    Planted faults have to be caught. The exit code is not 0 where one was not, where a mechanism exceeds its claim, or
    where the runs are too few to refute a claim.
    """
    from ..auditing import FAULTS, SHIPPED
    from ..auditing import audit as run
    from ..privacy.noise import opendp

    unknown = [one for one in name or [] if one not in SHIPPED | FAULTS]
    if unknown:
        raise Problem(f"there is no mechanism {unknown[0]}: the names are {', '.join(SHIPPED | FAULTS)}", USAGE)
    try:
        opendp()
    except ImportError as error:
        raise Problem(str(error)) from None
    found = run(name or None, runs=runs, quick=quick, progress=not out.as_json)
    out.say(str(found))
    if not found.ok:
        raise NotKept(found)
    return found.to_dict()


class NotKept(Problem):
    """The audit went wrong, and why."""

    def __init__(self, found: Audit) -> None:
        self.reasons = [
            f"{row.name}: {row.verdict.lower()} (claimed ε = {row.epsilon:g} at δ = {row.delta:g}, found "
            f"ε ≥ {row.found:.2f} in {row.runs} runs, which can show {row.attainable:.2f} at most)"
            for row in found.rows
            if not row.ok
        ]
        super().__init__("; ".join(self.reasons), AUDIT)
