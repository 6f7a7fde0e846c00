"""``unpooled federation``: a study over Flower, from an empty folder to a model."""

from __future__ import annotations

import getpass
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
from ..federation import Identity, Request, Site, Status, StudyError, StudyRecord, read_status
from ..federation.site.config import CONFIG_NAME
from ..federation.study.new_study import NewStudy
from ..federation.study.study import RESULTS, STUDY_NAME
from ..federation.wire.network import write_node_key
from .app import app, command
from .console import STUDY, USAGE, Out, Problem, Target, names, somebody_is_there

group = typer.Typer(help="A live study: a server, sites that decide for themselves, sums.", no_args_is_help=True)
app.add_typer(group, name="federation")

LOOK = 0.2  # seconds between two looks at a study that is watched
SiteFolder = Annotated[Path, typer.Argument(help="The site's own folder.")]


@command(group)
def init(
    out: Out,
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
    site: Annotated[
        list[str] | None, typer.Option("--site", help="The name of a site; once for each, 3 or more.")
    ] = None,
    target: Target = None,
    kind: Annotated[str, typer.Option(help="second-order, less, rounds or average.")] = "second-order",
    rounds: Annotated[int, typer.Option(min=1, help="Of the kind rounds: how many.")] = 1,
    host: Annotated[str, typer.Option(help="Where the server listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Its port; the sites' nodes take those above it.")] = 8000,
) -> dict[str, Any]:
    """Make a ready study folder: Flower app, study, certificates for a TEST network, a folder for every site."""
    new = NewStudy(folder, names(site), names(target), kind, rounds, host, port)
    keys = new.write()
    out.say(f"{folder} written: read {folder / 'HOWTO.md'}, edit {folder / STUDY_NAME}")
    out.table(
        "The sites and their keys", ["site", "key", "folder"], [[n, k, str(new.site(n))] for n, k in keys.items()]
    )
    out.warn("certificates and keys are for a TEST network, all made here: for real data bring your own, site by site")
    return {"folder": folder, "sites": keys}


@command(group)
def key(out: Out, folder: SiteFolder) -> dict[str, Any]:
    """Make a site's keys where it has none, and print the line that the other sites pin."""
    folder.mkdir(parents=True, exist_ok=True)
    place, node = folder / "site.key", folder / "node.key.pub"
    identity = Identity.load(place) if place.exists() else Identity.create(place)
    if not node.exists():
        write_node_key(folder)
    out.say(identity.public)
    out.say(f"Tell the other sites this line on a way you trust; send the server {node}. {place} stays here.")
    return {"key": identity.public, "private": place, "node": node}


@command(group)
def site(out: Out, folder: SiteFolder) -> dict[str, Any]:
    """Be a site: start its node, and answer with the code that is installed here, until stopped."""
    from ..federation.wire import network

    code = network.run_site(folder, lambda: out.say(f"{folder}: the node is starting; stop it with Ctrl-C"))
    if code > 0:
        raise Problem(f"the SuperNode of {folder} ended with exit code {code}: what it said is above")
    return {"site": folder}


@command(group)
def approve(
    out: Out,
    folder: SiteFolder,
    study: Annotated[str | None, typer.Argument(help="How a study's digest begins; without it, all that wait.")] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Say no, also to what was approved before.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Say yes without being asked.")] = False,
    by: Annotated[str | None, typer.Option(help="Who decides; without it, the user's name.")] = None,
) -> dict[str, Any]:
    """Show the studies that ask to be joined, and say yes or no."""
    if deny and yes:
        raise Problem("--deny and --yes contradict each other: give one", USAGE)
    found = Site.from_folder(folder)
    requests = found.requests.all()
    wanted = [r for r in requests if (r.study.startswith(study.lower()) if study else r.state == "pending")]
    if study and len(wanted) != 1:
        raise Problem(f"{len(wanted)} studies ask {folder} whose digest begins with {study}: look at the list", USAGE)
    if not wanted:
        out.say(f"no study waits for an answer of {found.name}")
    answered = [_decided(out, found, request, deny, yes, by or _user()) for request in wanted]
    return {"site": found.name, "requests": [asdict(request) for request in answered]}


def _decided(out: Out, site: Site, request: Request, deny: bool, yes: bool, by: str) -> Request:
    out.say(f"{request.described}\nasked {request.asked}, {request.state}")
    if not (deny or yes):
        if not somebody_is_there():
            out.say("nobody is here to be asked: give --yes or --deny")
            return request
        yes = typer.confirm(f"May {site.name} take part?", default=False, err=out.as_json)
    request = (site.approve if yes else site.deny)(request.study, by)
    out.say(f"{request.state} by {by}")
    return request


@command(group)
def status(
    out: Out,
    folder: Annotated[Path, typer.Argument(help="The study's folder.")],
    watch: Annotated[bool, typer.Option("--watch", help="Stay until the study has ended.")] = False,
) -> dict[str, Any]:
    """Show how far a study is: sites, exchanges, bytes, time left. The exit code says whether it failed."""
    if (folder / CONFIG_NAME).exists():
        raise Problem(f"{folder} is a site's folder: look at its requests with `unpooled federation approve`", USAGE)
    place = folder / RESULTS if (folder / STUDY_NAME).exists() else folder
    found = _watched(out, place) if watch else read_status(place)
    record = None
    with suppress(StudyError):
        record = StudyRecord.load(place)
    if not (watch and out.err.is_terminal):
        out.facts(f"{found.study} ({found.digest[:12]})", _facts(found))
        out.table("Sites", ["site", ""], [[name, state] for name, state in sorted(found.sites.items())])
    if found.state == "failed":
        raise Problem(f"the study {found.study} failed: {found.problem}", STUDY)
    if found.state == "partial" and record is not None:
        out.warn(f"the sums are partial: {', '.join(record.missing)} is not in all of them, and the record says so")
    if found.state in ("done", "partial"):
        out.say(f"the model is {place / 'study.model'}, its record {place / 'record.json'}")
    return {**asdict(found), "seconds_left": found.seconds_left, "folder": place}


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


def _watched(out: Out, place: Path) -> Status:
    """The last status, once there is no more to come; at a terminal, a display that keeps up with it."""
    if not out.err.is_terminal:
        while (found := _latest(place)) is None or found.state in ("joining", "asking"):
            time.sleep(LOOK)
        return found
    with Live(console=out.err, refresh_per_second=4) as live:
        while True:
            found = _latest(place)
            if found is not None:
                live.update(_display(found))
                if found.state not in ("joining", "asking"):
                    return found
            time.sleep(LOOK)


def _latest(place: Path) -> Status | None:
    """None while the study has not begun."""
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


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user that the system has no name for
        return ""
