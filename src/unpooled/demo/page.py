"""The page of the demo and its table for a terminal: the study, its results, and what left the hospitals.

The text of the page comes first. Every figure in it is taken from the results, and it says what they show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from .._base import html
from .._base.drawing import COLOURS, MARKERS, make_panels
from ..gate import POLICY_NAME
from ..summaries import Summary
from .study import (
    FEATURES,
    FEATURES_SECOND,
    HOSPITALS,
    LOG_NAME,
    N_STUDIES,
    ROUNDS,
    STAYS,
    TARGET,
    DemoResults,
    Hospital,
    divide_into_studies,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Four hospitals, one model, no pooled rows"

STEPS = (
    f"A basis goes out: {FEATURES} functions of the inputs, fitted to the public patients, that every site can "
    "compute.",
    "A summary comes back from each hospital: sums over its patients of those functions, and of the functions times "
    "the heart rate. The hospital's own policy decides whether the file may leave, and its log keeps what left.",
    "The files add up, and a model is fitted to the sum. That is LESS.",
    f"In residual rounds the model goes out and the sums of its errors come back, {ROUNDS} exchanges in all.",
    "A summary of second order also has the sums of products of the functions. It says more about the patients, so "
    "the policy asks for five patients for each function: the basis for it has "
    f"{FEATURES_SECOND} of them, as many as VA Long Beach has patients for.",
)


def _describe_study(played: DemoResults) -> list[str]:
    """Describe the data and the study."""
    data, first = played.data, next(divide_into_studies(played.data))
    counts = ", ".join(f"{name} {(data.sites == site).sum()}" for site, name in HOSPITALS.items())
    return [
        f"How fast can a patient's heart beat in an exercise test? {len(data.y)} patients of four hospitals ({counts}) "
        f"are described by {data.X.shape[1]} inputs, from age to the kind of chest pain, and by their hospital. "
        "Each hospital wants a model that has learned from all patients, but none may show its patients to the others.",
        f"The study is run {N_STUDIES} times. Each time, the inputs of two tenths of the patients are public "
        f"({first.public.sum()} patients in the first study; their heart rates are not used), two tenths are kept for "
        f"testing ({first.test.sum()}), and the others stay at their hospitals ({first.private.sum()}). Over all "
        "studies, every patient is tested once, by models that have not seen that patient.",
        "Everything that is exchanged is a file. All methods use the same Gaussian kernel, its length scale and the "
        "scale of the inputs taken from the public patients, and choose λ themselves, without the test patients.",
    ]


def _list_lessons(played: DemoResults) -> list[str]:
    """State what the results show, including where a method falls short."""
    m = played.methods
    local = [m[f"local {site}"].rmse for site in HOSPITALS]
    own, pooled, rounds, less, second = (m[key] for key in ("own", "pooled", "rounds", "less", "second"))
    gain = {site: own.by_hospital[site] - rounds.by_hospital[site] for site in HOSPITALS}
    best, worst = max(gain, key=lambda s: gain[s]), min(gain, key=lambda s: gain[s])
    return [
        f"One hospital's model does not serve the others: their errors on everybody are {min(local):.1f} to "
        f"{max(local):.1f}. On its own patients each does well, {own.rmse:.1f} taken together.",
        f"The average of the four functions ({m['averaged'].rmse:.1f}) does not help: it works if sites have "
        "similar patients, and these hospitals differ. It also reveals as much as the rows themselves: such a function "
        "contains the inputs of every patient it was fitted to.",
        f"LESS has an error of {less.rmse:.1f} with {less.mean_numbers:.0f} numbers a hospital and one exchange. It "
        "takes the covariance of the functions from the public patients, who are not quite like the others; from the "
        f"sums alone it estimates that this adds an error of about {played.floor:.0f} beats.",
        f"Residual rounds remove most of that with messages of the same kind: {rounds.rmse:.1f} after {ROUNDS} "
        f"exchanges, where all rows in one place give {pooled.rmse:.1f}.",
        f"Second order needs one exchange, and the public patients need not be like the others: with {FEATURES} "
        f"functions and every hospital it would come to {m['second large'].rmse:.1f}. But Switzerland and VA Long "
        f"Beach are too small to send that much. With {FEATURES_SECOND} functions, and without Switzerland, which is "
        f"too small even for these, it comes to {second.rmse:.1f}, and for Swiss patients, of whom it has seen none, "
        f"to {second.by_hospital['switzerland']:.1f}. Second order suits sites with hundreds of rows.",
        "Every model knows each patient's hospital. Hospitals differ in more than their patients' inputs, and a model "
        "that must compromise between them is worse even with all rows in one place: "
        f"{m['unaware'].rmse:.1f}.",
        "These data do not show a large gain for a hospital that only asks about its own patients. Compared with "
        f"its own model, the residual rounds gain {gain[best]:.1f} beats for {HOSPITALS[best]} and lose "
        f"{-gain[worst]:.1f} for {HOSPITALS[worst]}; even all rows in one place gain no more than "
        f"{own.rmse - pooled.rmse:.1f} over all. The hospitals do get one model that serves all of them.",
        "No noise was added to anything here: these sums are not differentially private. A patient is hard to "
        "recognise in them because there are many patients and few numbers, and the policies check this for each file "
        "separately.",
    ]


SHORT = {"cleveland": "Clev.", "hungarian": "Hung.", "switzerland": "Switz.", "va": "VA"}


def table(played: DemoResults) -> Table:
    """Make the table of errors by hospital and of what a hospital sends."""
    result = Table(
        title="Error on test patients (RMSE, beats a minute), and what a hospital sends",
        caption="sent: mean over hospitals, all exchanges; refused: by at least one of them",
        box=box.SIMPLE_HEAD,
        padding=(0, 0),
        show_edge=False,
        title_justify="left",
        caption_justify="left",
    )
    result.add_column("learned from", no_wrap=True)
    for heading in ("all", *(SHORT[site] for site in HOSPITALS), "numbers", "bytes", "times"):
        result.add_column(heading, justify="right", no_wrap=True)
    group = ""
    for method in played.methods.values():
        if method.group != group:
            group = method.group
            result.add_section()
            result.add_row(f"[italic]{group}[/italic]")
        errors = [f"{error:.1f}" for error in method.by_hospital.values()]
        result.add_row(
            f" {method.name}",
            f"[bold]{method.rmse:.2f}[/bold]",
            *errors,
            *(f"{value:,.0f}" if method.exchanges else "0" for value in (method.mean_numbers, method.mean_bytes)),
            str(method.exchanges),
        )
    return result


HEADER = ("learned from", "all", *HOSPITALS.values(), "numbers sent", "bytes sent", "exchanges")

COMMANDS = (
    "unpooled inspect va/less.summary",
    "unpooled log show va",
    "unpooled basis consortium/public.parquet --n-features 30 -o my.basis",
    f"unpooled summarize my.basis va/patients.parquet --target {TARGET} -o my.summary",
    f"unpooled summarize consortium/small.basis switzerland/patients.parquet --target {TARGET} --order 2 -o no.summary",
    "unpooled fit cleveland/less.summary hungarian/less.summary switzerland/less.summary va/less.summary -o my.model",
    "unpooled predict my.model consortium/public.parquet -o predicted.csv",
)


def write(played: DemoResults, out: Path) -> None:
    """Write the page ``out/index.html``."""
    parts = [
        f"<h1>{TITLE}</h1>",
        *map(html.paragraph, _describe_study(played)),
        html.bullets(STEPS),
        "<h2>The errors, and what was sent</h2>",
        _plot(played),
        html.table(HEADER, _rows(played)),
        html.paragraph(
            "Errors are root mean squares on test patients, in beats a minute. The amounts sent are means over "
            "hospitals and totals over exchanges; for the comparisons, they are what would have to be sent."
        ),
        "<h2>What the results show</h2>",
        html.bullets(_list_lessons(played)),
        "<h2>What each hospital sent</h2>",
        html.paragraph(
            "Anyone at a hospital can print these descriptions before a file leaves; unpooled writes them from the "
            f"file itself. These are the files of the first of the {N_STUDIES} studies."
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


def _plot(played: DemoResults) -> str:
    methods = list(played.methods.values())
    by_site = {name: [method.by_hospital[site] for method in methods] for site, name in HOSPITALS.items()}
    try:
        figure = _draw_comparison(
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


def _draw_comparison(
    names: Sequence[str],
    groups: Sequence[str],
    overall: Sequence[float],
    by_site: Mapping[str, Sequence[float]],
    sent: Sequence[float],
    unit: str,
) -> Figure:
    """Draw a row for each method: a dot for each site on the left, and the bytes that a site sends on the right."""
    figure, (left, right) = make_panels(10.0, 0.34 * len(names) + 1.4, (2.2, 1.0))
    rows = list(range(len(names)))
    left.hlines(rows, *_ends(by_site), color="0.85", linewidth=2, zorder=1)
    for (site, errors), colour, marker in zip(by_site.items(), COLOURS, MARKERS):
        left.scatter(errors, rows, color=colour, marker=marker, s=34, label=site, zorder=2)
    left.scatter(overall, rows, color="black", marker="|", s=180, linewidth=2.5, label="all", zorder=3)
    left.set(yticks=rows, yticklabels=list(names), xlabel=f"error on test rows (RMSE, {unit})")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=6, frameon=False, fontsize=9)
    senders = [row for row in rows if sent[row] > 0]
    right.hlines(senders, 100, [sent[row] for row in senders], color="0.5", linewidth=6)
    for row in rows:
        right.annotate(
            _kilobytes(sent[row]), (max(sent[row], 100), row), (5, 0), textcoords="offset points", va="center"
        )
    right.set(yticks=[], xscale="log", xlim=(100, 20 * max([100, *sent])), xlabel="bytes that a site sends")
    for ax in (left, right):
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="x", color="0.93")
        ax.set_axisbelow(True)
        for row in rows[1:]:
            if groups[row] != groups[row - 1]:
                ax.axhline(row - 0.5, color="0.6", linewidth=0.8)
    return figure


def _kilobytes(size: float) -> str:
    return "nothing" if size == 0 else f"{size / 1000:.1f} kB"


def _ends(by_site: Mapping[str, Sequence[float]]) -> tuple[list[float], list[float]]:
    columns = list(zip(*by_site.values()))
    return [min(column) for column in columns], [max(column) for column in columns]


def _rows(played: DemoResults) -> list[list[str]]:
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
        parts.append(html.fold(f"{path.name}, {path.stat().st_size:,} bytes", [html.literal(described)]))
    for name, reasons in hospital.refusals.items():
        parts += [html.paragraph(f"{name}.summary did not leave. The policy of this hospital says:")]
        parts.append(html.bullets(reasons))
    refused = f", {len(hospital.refusals)} refused" if hospital.refusals else ""
    return html.fold(f"{HOSPITALS[hospital.name]}: {len(hospital.sent)} files sent{refused}", parts)


def _tree(played: DemoResults, out: Path) -> str:
    """List the folders of the first study, with a description of their files."""
    folder = played.first.folder.parent
    lines = [
        f"{folder.relative_to(out)}/consortium/",
        "    public.parquet        the public patients: inputs and no labels",
        "    study.basis           what goes out to the hospitals, small.basis for second order",
        "    *.summary             the sums of the files that came back",
        "    *.model               the models fitted to them",
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
