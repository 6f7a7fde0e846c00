"""The sites in a report: their rows and labels, what left them and what it cost, and what the fit owes to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base import html
from .._base.text import number, size
from .parts import Section, figure, pair
from .site_facts import Labels, Sensitivity, Sent, labels_of
from .svg import Axis, row_chart

if TYPE_CHECKING:
    from .writing import Gathered


MOST_SITES = 40
ONE_PLACE = "The model was fitted to rows in one place: nothing was exchanged."


def data_and_sites(known: Gathered) -> Section:
    """Who has how many rows, and how alike they are."""
    section = Section("sites", "Data and sites")
    if known.sent:
        return _from_summaries(known, section)
    found = getattr(known.model, "blocks_", None) or getattr(known.model, "sites_", None) or []
    if len(found) > 1:
        names, rows = [str(entry["name"]) for entry in found], [int(entry["rows"]) for entry in found]
        what = "block" if hasattr(known.model, "blocks_") else "site"
        section.say(f"{sum(rows):,} rows in {_many(len(rows), what)}{_between(rows)}.")
        return section.add(pair(_rows(names, rows)))
    summary = getattr(known.model, "summary_", None)
    if summary is not None and not hasattr(known.model, "sites_"):
        return section.lack(
            f"The model was learned from the sum of all summaries, {summary.n_rows:,} rows, which does not tell sites "
            "apart: give the sites' own with --summaries (summaries= in Python)."
        )
    return section.say("The records were in one place, or their sites were not told." if known.private else ONE_PLACE)


def _from_summaries(known: Gathered, section: Section) -> Section:
    sent = list(known.sent)
    rows = [one.summary.n_rows for one in sent]
    section.say(f"{sum(rows):,} rows at {_many(len(sent), 'site')}{_between(rows)}.")
    if known.mismatch:
        section.lack(known.mismatch)
    labels = labels_of(sent, known.basis, known.target)
    if not all(one.by_itself for one in sent):
        section.lack("Each summary holds a share of the noise only, so nothing is said of single sites but their rows.")
    elif all(one.residual for one in sent):
        section.lack("These are summaries of residuals, which say nothing of the labels themselves.")
    figures = [_rows([one.name for one in sent], rows)]
    told = [(one, label) for one, label in zip(sent, labels) if label is not None]
    if told:
        figures.append(_labels(known.label, told))
        if any(one.summary.privacy is not None for one in sent):
            section.say("Means are made from the sites' private summaries, and have their noise.")
        unlike = [(label.unlike / label.chance, one.name) for one, label in told if label.unlike and label.chance]
        if unlike:
            most = max(unlike)
            section.say(
                f"The inputs of {most[1]} are least like those of the others: their mean features are "
                f"{number(most[0], 2)} times as far apart as chance alone would put them."
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
    words = [f"{one.name}: {number(found.mean)}" + _plus_minus(found) for one, found in shown]
    chart.dots(means, range(len(shown)), words, radius=4.5)
    table = [[one.name, number(f.mean), *map(_or_unknown, (f.spread, f.unlike, f.chance))] for one, f in told]
    header = ["site", "mean", "standard deviation", "mean features apart", "by chance"]
    said = f"{label} at each site: mean, and one standard deviation to either side"
    return figure("labels", chart, said, header, table)


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _between(rows: Sequence[int]) -> str:
    if len(rows) == 1:
        return ""
    return f", {min(rows):,} at each" if min(rows) == max(rows) else f", {min(rows):,} to {max(rows):,} at each"


def _plus_minus(found: Labels) -> str:
    return "" if found.spread is None else f" ± {number(found.spread)}"


def _or_unknown(value: float | None) -> str:
    return "unknown" if value is None else number(value)


def sensitivity(known: Gathered) -> Section:
    """Each site left out in turn."""
    section = Section("sensitivity", "Sensitivity to each site")
    found = known.sensitivity
    if isinstance(found, str):
        return section.lack(found)
    most = max(found.sites, key=lambda one: one.change)
    spread = known.label_spread
    share = f", {most.change / spread:.1%} of the standard deviation of {known.label}" if spread else ""
    section.say(
        "The model was fitted anew without each site, by adding up the summaries of the others: no row was needed for "
        f"it. Predictions depend most on {most.name}: without it they move by {number(most.change)} in root mean "
        f"square{share}."
    )
    if known.model.n_rounds_ > 1:
        section.lack(f"This is the first of {known.model.n_rounds_} rounds; later ones would have to be asked again.")
    figures = [_changes(found)]
    known_errors = [(one, one.error_with, one.error_without) for one in found.sites if one.error_without is not None]
    if known_errors:
        worse = max(known_errors, key=lambda item: (item[2] or 0) - (item[1] or 0))
        section.say(
            f"A model that has never seen {worse[0].name} is off by {number(worse[2] or 0)} there; the one that has is "
            f"off by {number(worse[1] or 0)}. No other site gains more from taking part."
        )
        figures.append(_strangers(known.label, found))
    else:
        section.lack(
            "How well a model that has not seen a site predicts there is told by summaries of second order without "
            "noise, and these are others."
        )
    return section.add(pair(*figures))


def _changes(found: Sensitivity) -> str:
    shown = sorted(found.sites, key=lambda one: -one.change)[:MOST_SITES]
    changes, rows = [s.change for s in shown], range(len(shown))
    axis = Axis.over("change of predictions, root mean square", changes, zero=True)
    chart = row_chart(axis, [s.name for s in shown])
    chart.spans(np.zeros(len(shown)), changes, rows, kind="stem")
    words = [f"without {s.name}: {number(s.change)}, λ = {number(s.lam)}" for s in shown]
    chart.dots(changes, rows, words, kind="ghost", radius=4)
    table = [
        [s.name, f"{s.n_rows:,}", number(s.change), number(s.lam), *map(_or_unknown, (s.error_with, s.error_without))]
        for s in found.sites
    ]
    header = ["without", "rows", "predictions move by", "λ", "error there, with it", "error there, without it"]
    return figure("changes", chart, "How far all predictions move when a site is left out", header, table)


def _strangers(label: str, found: Sensitivity) -> str:
    shown = sorted(found.sites, key=lambda one: -(one.error_without or 0.0))[:MOST_SITES]
    inside, outside = [s.error_with or 0.0 for s in shown], [s.error_without or 0.0 for s in shown]
    chart = row_chart(Axis.over(f"root mean square error of {label}", inside, outside), [s.name for s in shown])
    rows = range(len(shown))
    chart.spans(inside, outside, rows, kind="link")
    chart.dots(inside, rows, [f"{s.name}, with its rows: {number(e)}" for s, e in zip(shown, inside)], radius=4.5)
    words = [f"{s.name}, without its rows: {number(e)}" for s, e in zip(shown, outside)]
    chart.dots(outside, rows, words, kind="second", radius=4.5)
    table = [[s.name, number(a), number(b)] for s, a, b in zip(shown, inside, outside)]
    key = ["model of all sites", "model that has not seen the site"]
    header = ["site", "with it", "without it"]
    return figure("strangers", chart, "The error at each site's own rows", header, table, key)


def what_left(known: Gathered) -> Section:
    """What each site gave away, in numbers, bytes and ε."""
    section = Section("left", "What left each site")
    if known.sent:
        _summaries(known, section)
    else:
        _by_kind(known, section)
    guarantee = getattr(known.model, "privacy_", None)
    if guarantee is not None:
        section.add(guarantee._repr_html_())
    elif known.sent:
        section.say("No noise was added to anything: these sums are not differentially private.")
    return section


def _summaries(known: Gathered, section: Section) -> None:
    sent = known.sent
    total = sum(one.bytes or 0 for one in sent)
    in_all = f", {size(total)} in all" if total else ""
    section.say(
        f"Each of {len(sent)} sites sent sums over its rows and no row: {sent[0].numbers:,} numbers of order "
        f"{sent[0].summary.order}{in_all}."
    )
    rows = []
    for one in sent:
        noised = one.summary.privacy
        spent = [] if noised is None else [number(noised.guarantee.epsilon), number(noised.guarantee.delta)]
        sizes = [size(one.bytes)] if one.bytes is not None else []
        rows.append([one.name, f"{one.numbers:,}", *sizes, str(one.summary.order), *spent])
    header = ["site", "numbers", *(["file"] if sent[0].bytes is not None else []), "order"]
    header += ["ε", "δ"] if sent[0].summary.privacy is not None else []
    section.add(html.table(header, rows))
    words = [html.folded(one.name, [html.literal(one.summary.describe())]) for one in sent]
    section.add(html.folded("What is in the files, in words", words))


def _by_kind(known: Gathered, section: Section) -> None:
    model: Any = known.model
    if getattr(model, "blocks_", None):
        width = int(model.n_features_in_) + 1
        section.say(
            "Each block gave the function it had learned, which holds the inputs of its rows and a coefficient for "
            "each. Where blocks are sites, that is as good as sending the inputs."
        )
        numbers = [(str(b["name"]), (int(b["rows"]) + int(b["unlabeled"])) * width) for b in model.blocks_]
        section.add(html.table(["block", "numbers", "bytes, about"], [[n, f"{k:,}", size(8 * k)] for n, k in numbers]))
    elif getattr(model, "summary_", None) is not None and not known.private and not hasattr(model, "sites_"):
        section.lack("The files that sites sent were not given: name them with --summaries (summaries= in Python).")
    elif hasattr(model, "basis_digest_") and not known.private:
        M, rounds = len(model.coef_matrix_), int(model.n_rounds_)
        pairs = M * (M + 1) // 2 if getattr(model, "order", 1) == 2 else 0
        section.say(
            f"{ONE_PLACE} By files, each site would have sent {2 * M + 4 + pairs:,} numbers in each of "
            f"{rounds} exchange{'s' if rounds > 1 else ''}."
        )
    elif known.private:
        section.say("Nothing left but the model: sums over the records were asked, and every answer has noise.")
    else:
        section.say(f"{ONE_PLACE} The file of the model holds the inputs of the rows it was fitted to.")
