"""The command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Kernel regression for data that cannot be pooled.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


@app.callback()
def main() -> None:
    """Kernel regression for data that cannot be pooled."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report; made if it does not exist.")] = Path("demo"),
) -> None:
    """Choose λ for five filters on real data, beside KernelRidge: a table here, a page to open in OUT."""
    from .demo import run

    run(out)


@app.command()
def version() -> None:
    """Print the version."""
    from . import __version__

    typer.echo(__version__)
