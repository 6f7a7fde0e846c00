"""``unpooled demo`` and ``unpooled version``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .app import app, command
from .out import Out


@command(app)
def demo(
    out: Out,
    folder: Annotated[Path, typer.Option("--out", help="Folder for the report; made if it does not exist.")] = Path(
        "demo"
    ),
) -> dict[str, Any]:
    """Compare methods on bundled real data: a table here, a page to open in OUT."""
    from ..demo import run

    rows = run(folder, out.err) if out.as_json else run(folder)
    return {"folder": folder, "rows": rows}


@command(app)
def version(out: Out) -> dict[str, Any]:
    """Print the version."""
    from .. import __version__

    out.say(__version__)
    return {"version": __version__}
