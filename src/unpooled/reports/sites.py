"""The sites in a report: the summaries that they sent, their rows and labels, and what left them."""

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
    from .writing import Gathered


@dataclass(frozen=True)
class Sent:
    """One summary, who sent it, and the bytes of its file."""

    name: str
    summary: Summary
    bytes: int | None = None

    @property
    def numbers(self) -> int:
        """How many numbers are in it."""
        return count_numbers(self.summary)

    @property
    def by_itself(self) -> bool:
        """Whether it may be looked at alone: a share of noise protects nobody before all are added up."""
        return self.summary.privacy is None or self.summary.privacy.parties == 1

    @property
    def residual(self) -> bool:
        """Whether it is of the residuals of a model, and not of labels."""
        return self.summary.contents.is_residual


def opened(given: Any) -> list[Sent]:
    """Summaries by the names of their sites: a mapping, summaries, or paths of files, which name them."""
    if isinstance(given, (Summary, str, os.PathLike)):
        given = [given]
    named = given.items() if isinstance(given, Mapping) else _named(list(given))
    found: list[Sent] = []
    seen: dict[str, str] = {}
    for name, one in named:
        summary, size = (one, None) if isinstance(one, Summary) else _read(one)
        digest = files.digest(summary.n_rows, to_arrays(summary.sums))
        if digest in seen:
            raise ValueError(f"summaries has {seen[digest]} and {name}, which are the same: rows would count twice")
        seen[digest] = str(name)
        found.append(Sent(str(name), summary, size))
    if not found:
        raise ValueError("summaries is empty: give the summary of every site, or leave it out")
    return found


def _read(path: Any) -> tuple[Summary, int]:
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"summaries must hold Summary objects or paths of their files, got {quote(path)}")
    return Summary.load(path), Path(path).stat().st_size


def _named(given: list[Any]) -> Iterable[tuple[str, Any]]:
    """Files by their stems, with their folders where stems are alike; others by their number."""
    paths = [Path(one) if isinstance(one, (str, os.PathLike)) else None for one in given]
    stems = [path.stem for path in paths if path is not None]
    for place, (one, path) in enumerate(zip(given, paths), start=1):
        if path is None:
            yield f"site {place}", one
        elif stems.count(path.stem) == 1:
            yield path.stem, one
        else:
            yield f"{path.parent.name}/{path.stem}", one


def total_of(sent: list[Sent]) -> Summary:
    """The sum; an error names the two that do not go together."""
    total = sent[0].summary
    for one in sent[1:]:
        try:
            total = total + one.summary
        except NotAddable as error:
            raise ValueError(f"{sent[0].name} and {one.name} do not add up: {error.reason}") from None
    return total


@dataclass(frozen=True)
class Labels:
    """What a summary says of a site's labels and inputs."""

    mean: float
    spread: float | None
    unlike: float | None  #: ‖mean φ here - mean φ elsewhere‖, beside what chance would make of it
    chance: float | None


def labels_of(sent: list[Sent], basis: Basis | None = None, target: int = 0) -> list[Labels | None]:
    """For each site; None where a summary may not be looked at by itself, or is of residuals."""
    means = [means_of(one.summary) for one in sent]
    sums = np.asarray([m.weight * m.phi for m in means])
    weights = np.asarray([m.weight for m in means])
    found: list[Labels | None] = []
    for one, mean, own in zip(sent, means, sums):
        if not one.by_itself or one.residual or not mean.centred:
            found.append(None)
            continue
        spread = mean.yy[target] - mean.y[target] ** 2 if mean.noise is None else None
        rest, apart, chance = weights.sum() - mean.weight, None, None
        if len(sent) > 1 and basis is not None and mean.noise is None:
            apart = float(np.linalg.norm(mean.phi - (sums.sum(axis=0) - own) / rest))
            chance = math.sqrt(basis.kappa_sq_ * (1 / mean.n + 1 / rest))
        spread = None if spread is None else math.sqrt(max(float(spread), 0.0))
        found.append(Labels(float(mean.y[target]), spread, apart, chance))
    return found


def spread_of(summary: Summary, target: int = 0) -> float | None:
    """The standard deviation of the label over all rows; None where noise hides it."""
    if summary.privacy is not None or summary.contents.is_residual:
        return None
    mean, square = summary.label_sum[target] / summary.weight, summary.label_square_sum[target] / summary.weight
    return math.sqrt(max(float(square - mean**2), 0.0))


MOST_SITES = 40
ONE_PLACE = "The model was fitted to rows in one place: nothing was exchanged."


def data_and_sites(known: Gathered) -> Section:
    """Who has how many rows, and how alike they are."""
    section = Section("sites", "Data and sites")
    if known.sent:
        return _from_summaries(known, section)
    facts = known.facts
    found = facts.blocks or facts.sites or ()
    if len(found) > 1:
        names, rows = [str(entry["name"]) for entry in found], [int(entry["rows"]) for entry in found]
        what = "site" if facts.blocks is None else "block"
        section.say(f"{sum(rows):,} rows in {format_count(len(rows), what)}{_between(rows)}.")
        return section.add(pair(_rows(names, rows)))
    summary = facts.summary
    if summary is not None and facts.sites is None:
        return section.lack(
            f"The model was learned from the sum of all summaries, {summary.n_rows:,} rows, which does not tell sites "
            "apart: give the sites' own with --summaries (summaries= in Python)."
        )
    return section.say(
        ONE_PLACE if facts.privacy is None else "The records were in one place, or their sites were not told."
    )


def _from_summaries(known: Gathered, section: Section) -> Section:
    sent = list(known.sent)
    rows = [one.summary.n_rows for one in sent]
    section.say(f"{sum(rows):,} rows at {format_count(len(sent), 'site')}{_between(rows)}.")
    if known.mismatch:
        section.lack(known.mismatch)
    labels = labels_of(sent, known.basis, known.facts.target)
    if not all(one.by_itself for one in sent):
        section.lack("Each summary holds a share of the noise only, so nothing is said of single sites but their rows.")
    elif all(one.residual for one in sent):
        section.lack("These are summaries of residuals, which say nothing of the labels themselves.")
    figures = [_rows([one.name for one in sent], rows)]
    told = [(one, label) for one, label in zip(sent, labels) if label is not None]
    if told:
        figures.append(_labels(known.facts.label, told))
        if any(one.summary.privacy is not None for one in sent):
            section.say("Means are made from the sites' private summaries, and have their noise.")
        unlike = [(label.unlike / label.chance, one.name) for one, label in told if label.unlike and label.chance]
        if unlike:
            most = max(unlike)
            section.say(
                f"The inputs of {most[1]} are least like those of the others: their mean features are "
                f"{format_number(most[0], 2)} times as far apart as chance alone would put them."
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
    return figure("rows", chart, f"The rows of each{some}", ["name", "rows", "share"], table)


def _labels(label: str, told: list[tuple[Sent, Labels]]) -> str:
    shown = sorted(told, key=lambda item: -item[1].mean)[:MOST_SITES]
    means = np.asarray([found.mean for _, found in shown])
    spread = np.asarray([found.spread or 0.0 for _, found in shown])
    chart = row_chart(Axis.over(label, means - spread, means + spread), [one.name for one, _ in shown])
    chart.spans(means - spread, means + spread, range(len(shown)))
    words = [f"{one.name}: {format_number(found.mean)}" + _plus_minus(found) for one, found in shown]
    chart.dots(means, range(len(shown)), words, radius=4.5)
    table = [[one.name, format_number(f.mean), *map(or_unknown, (f.spread, f.unlike, f.chance))] for one, f in told]
    header = ["site", "mean", "standard deviation", "mean features apart", "by chance"]
    said = f"{label} at each site: mean, and one standard deviation to either side"
    return figure("labels", chart, said, header, table)


def _between(rows: Sequence[int]) -> str:
    if len(rows) == 1:
        return ""
    return f", {min(rows):,} at each" if min(rows) == max(rows) else f", {min(rows):,} to {max(rows):,} at each"


def _plus_minus(found: Labels) -> str:
    return "" if found.spread is None else f" ± {format_number(found.spread)}"


def or_unknown(value: float | None) -> str:
    """A number, where it is known."""
    return "unknown" if value is None else format_number(value)


def what_left(known: Gathered) -> Section:
    """What each site gave away, in numbers, bytes and ε."""
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


def _summaries(known: Gathered, section: Section) -> None:
    sent = known.sent
    total = sum(one.bytes or 0 for one in sent)
    in_all = f", {format_size(total)} in all" if total else ""
    section.say(
        f"Each of {len(sent)} sites sent sums over its rows and no row: {sent[0].numbers:,} numbers of order "
        f"{sent[0].summary.order}{in_all}."
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


def _by_kind(known: Gathered, section: Section) -> None:
    facts = known.facts
    if facts.blocks:
        width = facts.n_inputs + 1
        section.say(
            "Each block gave the function it had learned, which holds the inputs of its rows and a coefficient for "
            "each. Where blocks are sites, that is as good as sending the inputs."
        )
        each = [(str(b["name"]), (int(b["rows"]) + int(b["unlabeled"])) * width) for b in facts.blocks]
        section.add(table(["block", "numbers", "bytes, about"], [[n, f"{k:,}", format_size(8 * k)] for n, k in each]))
    elif facts.summary is not None and facts.privacy is None and facts.sites is None:
        section.lack("The files that sites sent were not given: name them with --summaries (summaries= in Python).")
    elif facts.n_features is not None and facts.privacy is None:
        M, rounds = facts.n_features, facts.rounds or 1
        pairs = M * (M + 1) // 2 if facts.order == 2 else 0
        section.say(
            f"{ONE_PLACE} By files, each site would have sent {2 * M + 4 + pairs:,} numbers in each of "
            f"{rounds} exchange{'s' if rounds > 1 else ''}."
        )
    elif facts.privacy is not None:
        section.say("Nothing left but the model: sums over the records were asked, and every answer has noise.")
    else:
        section.say(f"{ONE_PLACE} The file of the model holds the inputs of the rows it was fitted to.")
