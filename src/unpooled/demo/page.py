"""The page of the demo: what was done, what came of it, what a reader should see, and what left the hospitals."""

from __future__ import annotations

from pathlib import Path

from ..reports import html
from ..reports.comparison import plot_comparison
from ..site import POLICY_NAME
from ..summaries import Summary
from .hospital import LOG_NAME, Hospital
from .playing import Played
from .results import STAYS
from .study import HOSPITALS, N_STUDIES, TARGET
from .words import STEPS, TITLE, beginning, lessons

HEADER = ("learned from", "all", *HOSPITALS.values(), "numbers sent", "bytes sent", "exchanges")

COMMANDS = (
    "unpooled inspect va/less.summary",
    "unpooled log show va",
    "unpooled basis consortium/public.parquet --features 30 -o my.basis",
    f"unpooled summarize my.basis va/patients.parquet --target {TARGET} -o my.summary",
    f"unpooled summarize consortium/small.basis switzerland/patients.parquet --target {TARGET} --order 2 -o no.summary",
    "unpooled fit cleveland/less.summary hungarian/less.summary switzerland/less.summary va/less.summary -o my.model",
    "unpooled predict my.model consortium/public.parquet -o predicted.csv",
)


def write(played: Played, out: Path) -> None:
    """``out/index.html``."""
    parts = [
        f"<h1>{TITLE}</h1>",
        *map(html.paragraph, beginning(played)),
        html.bullets(STEPS),
        "<h2>The errors, and what it took</h2>",
        _plot(played),
        html.table(HEADER, _rows(played)),
        html.paragraph(
            "Errors are root mean squares on test patients, in beats a minute. What is sent is the mean over "
            "hospitals, all exchanges together; for the comparisons it is what would have to be sent."
        ),
        "<h2>What to see in this</h2>",
        html.bullets(lessons(played)),
        "<h2>What each hospital sent</h2>",
        html.paragraph(
            "In words, as anyone at a hospital can print them before a file leaves: unpooled writes them from the file "
            f"itself. These are the files of the first of the {N_STUDIES} studies."
        ),
        *map(_hospital, played.first.hospitals),
        "<h2>The files</h2>",
        html.literal(_tree(played, out)),
        html.paragraph(f"The same from the command line, in the folder {played.first.folder.parent.name}:"),
        html.literal("\n".join(COMMANDS)),
        html.paragraph(f"Data: {played.data.source}."),
    ]
    out.mkdir(parents=True, exist_ok=True)
    (out / "index.html").write_text(html.page(TITLE, parts), encoding="utf-8")


def _plot(played: Played) -> str:
    methods = list(played.methods.values())
    by_site = {name: [method.by_hospital[site] for method in methods] for site, name in HOSPITALS.items()}
    try:
        figure = plot_comparison(
            [method.name for method in methods],
            [method.group for method in methods],
            [method.rmse for method in methods],
            by_site,
            [method.mean_bytes for method in methods],
            "beats a minute",
        )
    except ImportError as error:
        return html.paragraph(f"There is no plot here: {error}.")
    return html.drawing(figure, "The errors of the table below, drawn: a line for each method, a dot for each hospital")


def _rows(played: Played) -> list[list[str]]:
    rows: list[list[str]] = []
    group = ""
    for method in played.methods.values():
        if method.group != group:
            group = method.group
            rows.append([group])
        sent = ["0", "0"] if group == STAYS else [f"{method.mean_numbers:,.0f}", f"{method.mean_bytes:,.0f}"]
        errors = [f"{error:.1f}" for error in method.by_hospital.values()]
        rows.append([method.name, f"{method.rmse:.2f}", *errors, *sent, str(method.exchanges)])
    return rows


def _hospital(hospital: Hospital) -> str:
    parts = []
    for path in hospital.sent:
        described = Summary.load(path).describe()
        parts.append(html.folded(f"{path.name}, {path.stat().st_size:,} bytes", [html.literal(described)]))
    for called, reasons in hospital.refusals.items():
        parts += [html.paragraph(f"{called}.summary did not leave. The policy of this hospital says:")]
        parts.append(html.bullets(reasons))
    refused = f", {len(hospital.refusals)} refused" if hospital.refusals else ""
    return html.folded(f"{HOSPITALS[hospital.name]}: {len(hospital.sent)} files sent{refused}", parts)


def _tree(played: Played, out: Path) -> str:
    """The folders of the first study, with what the files in them are."""
    folder = played.first.folder.parent
    lines = [
        f"{folder.relative_to(out)}/consortium/",
        "    public.parquet        the public patients: inputs and no labels",
        "    study.basis           what goes out to the hospitals, small.basis for second order",
        "    *.summary             the sums of what came back",
        "    *.model               the models made of them",
    ]
    for hospital in played.first.hospitals:
        lines += [f"{hospital.folder.relative_to(out)}/"]
    lines += [
        "    patients.parquet      never leaves",
        f"    {POLICY_NAME:<22}what may leave, for the hospital to edit",
        f"    {LOG_NAME:<22}what left and what was refused, each line chained to the one before",
        "    *.summary             what was sent",
    ]
    return "\n".join(lines)
