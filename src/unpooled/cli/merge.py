"""``unpooled merge``: many summaries, or scores, become one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .adding import added, kind_of
from .app import app, command
from .nearby import check_output
from .options import Output
from .out import Out, size
from .words import of_scores


@command(app)
def merge(
    out: Out,
    sources: Annotated[list[Path], typer.Argument(help="Summaries, or scores, in any order.", metavar="FILES")],
    output: Output,
) -> dict[str, Any]:
    """Add summaries up, or scores: the sum is what one site with all the rows would have sent."""
    check_output(output, sources)
    kind = kind_of(sources[0])
    total = added(sources, kind)
    total.save(output)
    out.say(total.describe() if kind == "summary" else of_scores(total))
    out.say()
    out.say(f"{len(sources)} files added up; {output}: {size(output.stat().st_size)}")
    return {"file": output, "kind": kind, "files": len(sources), "n_rows": total.n_rows}
