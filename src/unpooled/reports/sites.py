"""The sites in a report: their summaries, their rows and labels, and what left each of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import files
from .._base.checks import NotAddable
from .._base.html import Section, fold, literal, pair, table
from .._base.text import format_count, format_number, format_size, quote
from ..bases import Basis
from ..estimators.from_sums import means_of
from ..summaries.contents import count_numbers, to_arrays
from ..summaries.summary import Summary
from .svg import Axis, figure, row_chart

if TYPE_CHECKING:
    from .writing import ReportMaterial


@dataclass(frozen=True)
class SentSummary:
    """One summary, the site that sent it, and the size of its file in bytes."""

    name: str
    summary: Summary
    bytes: int | None = None

    @property
    def numbers(self) -> int:
        """The number of numbers in the summary."""
        return count_numbers(self.summary)

    @property
    def stands_alone(self) -> bool:
        """Whether the summary is protected on its own: a share of the noise protects only the sum of all sites."""
        return self.summary.privacy is None or self.summary.privacy.parties == 1

    @property
    def is_residual(self) -> bool:
        """Whether the summary is of a model's residuals and not of labels."""
        return self.summary.contents.is_residual


def open_summaries(given: Any) -> list[SentSummary]:
    """Open summaries by the names of their sites: a mapping, a list, or files whose names name the sites."""
    if isinstance(given, (Summary, str, os.PathLike)):
        given = [given]
    named = given.items() if isinstance(given, Mapping) else _name_each(list(given))
    sent: list[SentSummary] = []
    seen: dict[str, str] = {}
    for name, one in named:
        summary, size = (one, None) if isinstance(one, Summary) else _read(one)
        digest = files.digest(summary.n_rows, to_arrays(summary.sums))
        if digest in seen:
            raise ValueError(
                f"summaries has {seen[digest]} and {name}, which are the same: remove one, or rows would count twice"
            )
        seen[digest] = str(name)
        sent.append(SentSummary(str(name), summary, size))
    if not sent:
        raise ValueError("summaries is empty: pass the summary of every site, or None")
    return sent


def _read(path: Any) -> tuple[Summary, int]:
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"summaries must hold Summary objects or paths of their files, got {quote(path)}")
    return Summary.load(path), Path(path).stat().st_size


def _name_each(given: list[Any]) -> Iterable[tuple[str, Any]]:
    """Name files by their stems, with their folders if stems are alike, and other summaries by their number."""
    paths = [Path(one) if isinstance(one, (str, os.PathLike)) else None for one in given]
    stems = [path.stem for path in paths if path is not None]
    for place, (one, path) in enumerate(zip(given, paths), start=1):
        if path is None:
            yield f"site {place}", one
        elif stems.count(path.stem) == 1:
            yield path.stem, one
        else:
            yield f"{path.parent.name}/{path.stem}", one


def add_up(sent: list[SentSummary]) -> Summary:
    """Add up the summaries; an error names the two that cannot be added."""
    total = sent[0].summary
    for one in sent[1:]:
        try:
            total = total + one.summary
        except NotAddable as error:
            raise ValueError(f"{sent[0].name} and {one.name} cannot be added: {error.reason}") from None
    return total


@dataclass(frozen=True)
class _SiteLabels:
    """The mean and spread of a site's labels, and how unlike the others its inputs are."""

    mean: float
    spread: float | None
    unlike: float | None  #: ‖mean φ here - mean φ elsewhere‖
    chance: float | None  #: the size of ``unlike`` that chance alone would explain


def _summarize_labels(sent: list[SentSummary], basis: Basis | None = None, target: int = 0) -> list[_SiteLabels | None]:
    """Summarise each site's labels; None if a summary is not protected on its own, or is of residuals."""
    means = [means_of(one.summary) for one in sent]
    sums = np.asarray([m.weight * m.phi for m in means])
    weights = np.asarray([m.weight for m in means])
    labels: list[_SiteLabels | None] = []
    for one, mean, own in zip(sent, means, sums):
        if not one.stands_alone or one.is_residual or not mean.centred:
            labels.append(None)
            continue
        spread = mean.yy[target] - mean.y[target] ** 2 if mean.noise is None else None
        rest, apart, chance = weights.sum() - mean.weight, None, None
        if len(sent) > 1 and basis is not None and mean.noise is None:
            apart = float(np.linalg.norm(mean.phi - (sums.sum(axis=0) - own) / rest))
            chance = math.sqrt(basis.kappa_sq_ * (1 / mean.n + 1 / rest))
        spread = None if spread is None else math.sqrt(max(float(spread), 0.0))
        labels.append(_SiteLabels(float(mean.y[target]), spread, apart, chance))
    return labels


def compute_spread(summary: Summary, target: int = 0) -> float | None:
    """Compute the standard deviation of the label over all rows; None if noise hides it."""
    if summary.privacy is not None or summary.contents.is_residual:
        return None
    mean, square = summary.label_sum[target] / summary.weight, summary.label_square_sum[target] / summary.weight
    return math.sqrt(max(float(square - mean**2), 0.0))


MOST_SITES = 40
ONE_PLACE = "The model was fitted to rows in one place: nothing was exchanged."


def show_sites(known: ReportMaterial) -> Section:
    """Write the section on the sites: how many rows each has, and how alike they are."""
    section = Section("sites", "Data and sites")
    if known.sent:
        return _from_summaries(known, section)
    facts = known.facts
    parts = facts.blocks or facts.sites or ()
    if len(parts) > 1:
        names, rows = [str(entry["name"]) for entry in parts], [int(entry["rows"]) for entry in parts]
        what = "site" if facts.blocks is None else "block"
        section.say(f"{sum(rows):,} rows in {format_count(len(rows), what)}{_between(rows)}.")
        return section.add(pair(_rows(names, rows)))
    summary = facts.summary
    if summary is not None and facts.sites is None:
        return section.lack(
            f"The model was fitted to the sum of all summaries ({summary.n_rows:,} rows), which does not distinguish "
            "sites: pass the sites' own summaries with --summaries (summaries= in Python)."
        )
    return section.say(
        ONE_PLACE if facts.privacy is None else "The records were in one place, or their sites were not recorded."
    )


def _from_summaries(known: ReportMaterial, section: Section) -> Section:
    sent = list(known.sent)
    rows = [one.summary.n_rows for one in sent]
    section.say(f"{sum(rows):,} rows at {format_count(len(sent), 'site')}{_between(rows)}.")
    if known.mismatch:
        section.lack(known.mismatch)
    labels = _summarize_labels(sent, known.basis, known.facts.target)
    if not all(one.stands_alone for one in sent):
        section.lack(
            "Each summary holds only a share of the noise, so the page shows only the row counts of the sites."
        )
    elif all(one.is_residual for one in sent):
        section.lack("These are summaries of residuals, which say nothing about the labels themselves.")
    figures = [_rows([one.name for one in sent], rows)]
    told = [(one, label) for one, label in zip(sent, labels) if label is not None]
    if told:
        figures.append(_labels(known.facts.label, told))
        if any(one.summary.privacy is not None for one in sent):
            section.say("Means are computed from the sites' private summaries and include their noise.")
        unlike = [(label.unlike / label.chance, one.name) for one, label in told if label.unlike and label.chance]
        if unlike:
            most = max(unlike)
            section.say(
                f"The inputs of {most[1]} are least like those of the others: their mean features are "
                f"{format_number(most[0], 2)} times as far away as chance alone would explain."
            )
    return section.add(pair(*figures))


def _rows(names: Sequence[str], rows: Sequence[int]) -> str:
    order = np.argsort(rows)[::-1]
    shown = [int(i) for i in order[:MOST_SITES]]
    chart = row_chart(Axis.over("rows", rows, zero=True), [names[i] for i in shown])
    chart.spans(np.zeros(len(shown)), [rows[i] for i in shown], range(len(shown)), kind="stem")
    words = [f"{names[i]}: {rows[i]:,} rows" for i in shown]
    chart.dots([rows[i] for i in shown], range(len(shown)), words, kind="ghost", radius=4)
    total = max(sum(rows), 1)
    table = [[names[i], f"{rows[i]:,}", f"{rows[i] / total:.1%}"] for i in order]
    some = "" if len(shown) == len(rows) else f" (the {MOST_SITES} largest of {len(rows)})"
    return figure("rows", chart, f"The number of rows of each{some}", ["name", "rows", "share"], table)


def _labels(label: str, told: list[tuple[SentSummary, _SiteLabels]]) -> str:
    shown = sorted(told, key=lambda item: -item[1].mean)[:MOST_SITES]
    means = np.asarray([own.mean for _, own in shown])
    spread = np.asarray([own.spread or 0.0 for _, own in shown])
    chart = row_chart(Axis.over(label, means - spread, means + spread), [one.name for one, _ in shown])
    chart.spans(means - spread, means + spread, range(len(shown)))
    words = [f"{one.name}: {format_number(own.mean)}" + _plus_minus(own) for one, own in shown]
    chart.dots(means, range(len(shown)), words, radius=4.5)
    table = [
        [one.name, format_number(f.mean), *map(write_or_unknown, (f.spread, f.unlike, f.chance))] for one, f in told
    ]
    header = ["site", "mean", "standard deviation", "mean features apart", "by chance"]
    said = f"{label} at each site: mean, and one standard deviation to either side"
    return figure("labels", chart, said, header, table)


def _between(rows: Sequence[int]) -> str:
    if len(rows) == 1:
        return ""
    return f", {min(rows):,} at each" if min(rows) == max(rows) else f", {min(rows):,} to {max(rows):,} at each"


def _plus_minus(labels: _SiteLabels) -> str:
    return "" if labels.spread is None else f" ± {format_number(labels.spread)}"


def write_or_unknown(value: float | None) -> str:
    """Write a number, or that it is unknown."""
    return "unknown" if value is None else format_number(value)


def show_what_left(known: ReportMaterial) -> Section:
    """Write the section on what left each site, in numbers, bytes and ε."""
    section = Section("left", "What left each site")
    if known.sent:
        _summaries(known, section)
    else:
        _by_kind(known, section)
    if known.facts.privacy is not None:
        section.add(known.facts.privacy._repr_html_())
    elif known.sent:
        section.say("No noise was added to anything: these sums are not differentially private.")
    return section


def _summaries(known: ReportMaterial, section: Section) -> None:
    sent = known.sent
    total = sum(one.bytes or 0 for one in sent)
    in_all = f", {format_size(total)} in all" if total else ""
    section.say(
        f"Each of {len(sent)} sites sent sums over its rows, and no individual row: {sent[0].numbers:,} numbers in a "
        f"summary of order {sent[0].summary.order}{in_all}."
    )
    rows = []
    for one in sent:
        noised = one.summary.privacy
        spent = (
            [] if noised is None else [format_number(noised.guarantee.epsilon), format_number(noised.guarantee.delta)]
        )
        sizes = [format_size(one.bytes)] if one.bytes is not None else []
        rows.append([one.name, f"{one.numbers:,}", *sizes, str(one.summary.order), *spent])
    header = ["site", "numbers", *(["file"] if sent[0].bytes is not None else []), "order"]
    header += ["ε", "δ"] if sent[0].summary.privacy is not None else []
    section.add(table(header, rows))
    words = [fold(one.name, [literal(one.summary.describe())]) for one in sent]
    section.add(fold("What is in the files, in words", words))


def _by_kind(known: ReportMaterial, section: Section) -> None:
    facts = known.facts
    if facts.blocks:
        width = facts.n_inputs + 1
        section.say(
            "Each block contributed its fitted function, which contains the inputs of its rows and a coefficient for "
            "each. If the blocks are sites, this reveals the inputs as fully as sending them would."
        )
        each = [(str(b["name"]), (int(b["rows"]) + int(b["unlabeled"])) * width) for b in facts.blocks]
        section.add(table(["block", "numbers", "bytes, about"], [[n, f"{k:,}", format_size(8 * k)] for n, k in each]))
    elif facts.summary is not None and facts.privacy is None and facts.sites is None:
        section.lack("The files that the sites sent were not given: pass them with --summaries (summaries= in Python).")
    elif facts.n_features is not None and facts.privacy is None:
        M, rounds = facts.n_features, facts.rounds or 1
        pairs = M * (M + 1) // 2 if facts.order == 2 else 0
        section.say(
            f"{ONE_PLACE} By files, each site would have sent {2 * M + 4 + pairs:,} numbers in each of "
            f"{rounds} exchange{'s' if rounds > 1 else ''}."
        )
    elif facts.privacy is not None:
        section.say("Only the model left: it was fitted to sums over the records, and every sum has noise.")
    else:
        section.say(f"{ONE_PLACE} The model's file contains the inputs of the rows it was fitted to.")
