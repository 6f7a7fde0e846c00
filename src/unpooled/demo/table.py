"""The table of the demo, for a terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table

from .playing import Played
from .study import HOSPITALS

SHORT = {"cleveland": "Clev.", "hungarian": "Hung.", "switzerland": "Switz.", "va": "VA"}


def table(played: Played) -> Table:
    """Errors by hospital, and what a hospital sends."""
    found = Table(
        title="Error on test patients (RMSE, beats a minute), and what a hospital sends",
        caption="sent: mean over hospitals, all exchanges; refused: by at least one of them",
        box=box.SIMPLE_HEAD,
        padding=(0, 0),
        show_edge=False,
        title_justify="left",
        caption_justify="left",
    )
    found.add_column("learned from", no_wrap=True)
    for heading in ("all", *(SHORT[site] for site in HOSPITALS), "numbers", "bytes", "times"):
        found.add_column(heading, justify="right", no_wrap=True)
    group = ""
    for method in played.methods.values():
        if method.group != group:
            group = method.group
            found.add_section()
            found.add_row(f"[italic]{group}[/italic]")
        errors = [f"{error:.1f}" for error in method.by_hospital.values()]
        found.add_row(
            f" {method.name}",
            f"[bold]{method.rmse:.2f}[/bold]",
            *errors,
            *(f"{value:,.0f}" if method.exchanges else "0" for value in (method.mean_numbers, method.mean_bytes)),
            str(method.exchanges),
        )
    return found
