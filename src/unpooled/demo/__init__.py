"""The demo: four hospitals learn one model together, by files, and no row of theirs leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from ..datasets import load_heart
from .consortium import FEATURES_SECOND
from .page import table
from .playing import play
from .study import HOSPITALS, N_STUDIES, studies

__all__ = ["run"]


def run(out: Path, console: Console | None = None) -> list[dict[str, Any]]:
    """Play the studies, print the table, write the page ``out/index.html`` beside the files; the lines of the table."""
    from .page import write

    console = console or Console()
    data = load_heart()
    first = next(studies(data))
    console.print(f"[bold]{data!r}[/bold]", highlight=False)
    console.print(
        f"{N_STUDIES} studies, each with two tenths of the patients public (inputs only), two tenths to test on, and "
        f"the others at their hospitals: {first.public.sum()}, {first.test.sum()} and {first.private.sum()} patients "
        "in the first. Over all of them every patient is tested once.",
        highlight=False,
    )
    with console.status("opening hospitals") as status:
        played = play(data, out, status.update)
    console.print(table(played), highlight=False)
    for hospital in played.first.hospitals:
        for called in hospital.refusals:
            console.print(
                f"{HOSPITALS[hospital.name]}'s policy refused the {called} summary of {FEATURES_SECOND} features: the "
                "log in its folder says why, and the others went on without it.",
                highlight=False,
            )
    write(played, out)
    console.print(f"What it means, and the files that were sent: [bold]{out / 'index.html'}[/bold]")
    return [method.to_dict() for method in played.methods.values()]
