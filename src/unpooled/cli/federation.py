"""``unpooled federation``: a study over Flower, from an empty folder to a model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from .._base.text import format_size
from ..federation import Request, Site, Status, StudyError, StudyRecord, read_status
from ..federation.site.config import CONFIG_NAME
from ..federation.study.new_study import NewStudy
from ..federation.study.study import RESULTS, STUDY_NAME
from .app import add_group, command
from .console import STUDY, USAGE, Out, Problem, Target, is_interactive, split_names, user_name

_group = add_group("federation", "A live study: a server, and sites that decide for themselves and send sums.")

LOOK = 0.2  # seconds between two looks at a study that is watched
_SiteFolder = Annotated[Path, typer.Argument(help="The site's own folder.")]


@command(_group)
def init(
    out: Out,
    folder: Annotated[Path, typer.Argument(help="The folder to create.")],
    site: Annotated[
        list[str] | None, typer.Option("--site", help="The name of a site; repeat it for each of 3 sites or more.")
    ] = None,
    target: Target = None,
    kind: Annotated[str, typer.Option(help="second-order, less, rounds, average or private.")] = "second-order",
    rounds: Annotated[
        int, typer.Option(min=0, help="The number of rounds of the kinds rounds and private; 0 is the usual number.")
    ] = 0,
    host: Annotated[str, typer.Option(help="The address at which the server listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Its port; the sites' nodes take the ports above it.")] = 8000,
) -> dict[str, Any]:
    """Create a complete study folder: Flower app, study, certificates for a TEST network, a folder for every site."""
    new = NewStudy(folder, split_names(site), split_names(target), kind, rounds, host, port)
    keys = new.write()
    out.say(f"{folder} written: read {folder / 'HOWTO.md'}, edit {folder / STUDY_NAME}")
    out.table(
        "The sites and their keys", ["site", "key", "folder"], [[n, k, str(new.site(n))] for n, k in keys.items()]
    )
    out.warn(
        "certificates and keys are for a TEST network, since all were made here: for real data each site makes its own"
    )
    return {"folder": folder, "sites": keys}


@command(_group)
def site(out: Out, folder: _SiteFolder) -> dict[str, Any]:
    """Run a site: start its node and answer studies until stopped, with the code that is installed here."""
    from ..federation.wire import network

    code = network.run_site(folder, lambda: out.say(f"{folder}: the node is starting; stop it with Ctrl-C"))
    if code > 0:
        raise Problem(f"the SuperNode of {folder} ended with exit code {code}: its output is above")
    return {"site": folder}


@command(_group)
def approve(
    out: Out,
    folder: _SiteFolder,
    study: Annotated[
        str | None, typer.Argument(help="The beginning of a study's digest. Default: all that wait.")
    ] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Say no, also to a study that was approved before.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Say yes without being asked.")] = False,
    by: Annotated[str | None, typer.Option(help="The person who decides. Default: the user's name.")] = None,
) -> dict[str, Any]:
    """Show the studies that ask this site to take part, and say yes or no."""
    if deny and yes:
        raise Problem("--deny and --yes contradict each other: give one", USAGE)
    site = Site.from_folder(folder)
    requests = site.requests.all()
    wanted = [r for r in requests if (r.study.startswith(study.lower()) if study else r.state == "pending")]
    if study and len(wanted) != 1:
        raise Problem(
            f"{len(wanted)} studies that ask {folder} have a digest that begins with {study}: give more of the digest",
            USAGE,
        )
    if not wanted:
        out.say(f"no study waits for an answer from {site.name}")
    answered = [_decide(out, site, request, deny, yes, by or user_name()) for request in wanted]
    return {"site": site.name, "requests": [asdict(request) for request in answered]}


def _decide(out: Out, site: Site, request: Request, deny: bool, yes: bool, by: str) -> Request:
    out.say(f"{request.described}\nasked {request.asked}, {request.state}")
    if not (deny or yes):
        if not is_interactive():
            out.say("nobody is at the terminal to be asked: give --yes or --deny")
            return request
        yes = typer.confirm(f"May {site.name} take part?", default=False, err=out.as_json)
    request = (site.approve if yes else site.deny)(request.study, by)
    out.say(f"{request.state} by {by}")
    return request


@command(_group)
def status(
    out: Out,
    folder: Annotated[Path, typer.Argument(help="The study's folder.")],
    watch: Annotated[bool, typer.Option("--watch", help="Wait until the study has ended.")] = False,
) -> dict[str, Any]:
    """Show the progress of a study: sites, exchanges, bytes, time left. The exit code says whether it failed."""
    if (folder / CONFIG_NAME).exists():
        raise Problem(f"{folder} is a site's folder: look at its requests with `unpooled federation approve`", USAGE)
    place = folder / RESULTS if (folder / STUDY_NAME).exists() else folder
    latest = _watch(out, place) if watch else read_status(place)
    record = None
    with suppress(StudyError):
        record = StudyRecord.load(place)
    if not (watch and out.err.is_terminal):
        out.facts(f"{latest.study} ({latest.digest[:12]})", _facts(latest))
        out.table("Sites", ["site", ""], [[name, state] for name, state in sorted(latest.sites.items())])
    if latest.state == "failed":
        raise Problem(f"the study {latest.study} failed: {latest.problem}", STUDY)
    if latest.state == "partial" and record is not None:
        out.warn(
            f"the sums are partial: {', '.join(record.missing)} did not take part in all of them, as the record says"
        )
    if latest.state in ("done", "partial"):
        out.say(f"the model is {place / 'study.model'}, its record {place / 'record.json'}")
    return {**asdict(latest), "seconds_left": latest.seconds_left, "folder": place}


def _facts(status: Status) -> Sequence[tuple[str, Any]]:
    left = status.seconds_left
    rows = [
        ("state", status.state),
        ("exchanges", f"{status.done} of {status.exchanges}"),
        ("received", format_size(status.received)),
        ("sent", format_size(status.sent)),
        ("time", f"{status.seconds:.0f} s"),
    ]
    if status.state in ("joining", "asking"):
        rows += [("left", "not known yet" if left is None else f"about {left:.0f} s")]
        rows += [("last news", f"{max(0.0, time.time() - status.updated):.0f} s ago")]
    return rows


def _watch(out: Out, place: Path) -> Status:
    """Wait for the last status; at a terminal, a display follows the progress."""
    if not out.err.is_terminal:
        while (latest := _read_status(place)) is None or latest.state in ("joining", "asking"):
            time.sleep(LOOK)
        return latest
    with Live(console=out.err, refresh_per_second=4) as live:
        while True:
            latest = _read_status(place)
            if latest is not None:
                live.update(_display(latest))
                if latest.state not in ("joining", "asking"):
                    return latest
            time.sleep(LOOK)


def _read_status(place: Path) -> Status | None:
    """Read the status; None while the study has not begun."""
    with suppress(StudyError):
        return read_status(place)
    return None


def _display(status: Status) -> Group:
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}")
    )
    left = "" if status.seconds_left is None else f", about {status.seconds_left:.0f} s left"
    said = f"{format_size(status.received)} in, {format_size(status.sent)} out, {status.seconds:.0f} s{left}"
    bar.add_task(f"{status.study}: {status.state}", total=status.exchanges, completed=status.done, said=said)
    table = Table(show_header=False)
    for name, state in sorted(status.sites.items()):
        table.add_row(name, state)
    return Group(bar, table)
