"""``unpooled keys``: a site's own key, and the keys of the other sites that its people have pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..federation.by_file.site import FileSite
from ..federation.secure.keys import Identity, check_name
from ..federation.secure.pinned import KEY_NAME, PINNED_NAME, pin_key, read_pinned, write_pinned
from ..federation.site.config import CONFIG_NAME, SiteConfig
from ..federation.wire.network import write_node_key
from .app import add_group, command
from .console import USAGE, Out, Overwrite, Problem, check_new, check_output, user_name

_group = add_group("keys", "A site's own key, and the keys of other sites that its people trust.")

_Folder = Annotated[Path, typer.Argument(help="The site's own folder.")]


@command(_group)
def init(
    out: Out,
    folder: _Folder = Path(),
    name: Annotated[
        str | None, typer.Option(help="The name by which other sites know this one. Default: that of the folder.")
    ] = None,
    node: Annotated[
        bool, typer.Option("--node", help="Also make the key by which a live study's server knows the site's node.")
    ] = False,
) -> dict[str, Any]:
    """Create a site's key if it has none, and print the line that the other sites pin."""
    check_name(name or folder.resolve().name, "the name of a site")
    folder.mkdir(parents=True, exist_ok=True)
    place, node_key = folder / KEY_NAME, folder / "node.key.pub"
    identity = Identity.load(place) if place.exists() else Identity.create(place)
    pinned = read_pinned(folder)
    known = next((one for one, key in pinned.items() if key == identity.public), None)
    if (folder / CONFIG_NAME).exists():
        config = SiteConfig.read(folder)
        known, identity = config.name, config.identity or identity
    if name not in (None, known) and known is not None:
        raise Problem(f"the name of {folder} is {known} already: leave --name out", USAGE)
    known = known or name or folder.resolve().name
    write_pinned(folder, {**pinned, known: identity.public})
    if node and not node_key.exists():
        write_node_key(folder)
    out.say(identity.public)
    out.say(
        f"This is the key of {known}. Give the other sites this line in a way that you trust, and pin theirs with "
        f"`unpooled keys pin`. {place} stays here."
    )
    if node:
        out.say(f"Send {node_key} to the server of the live study.")
    return {"name": known, "key": identity.public, "private": place, "node": node_key if node else None}


@command(_group)
def show(
    out: Out,
    folder: _Folder = Path(),
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Also write an enrolment file, with a new one-time key, for a study."),
    ] = None,
    discard: Annotated[
        bool,
        typer.Option("--discard", help="Discard earlier one-time keys: this machine was set back to an older state."),
    ] = False,
    overwrite: Overwrite = False,
) -> dict[str, Any]:
    """Print a site's line and the keys that it has pinned; with -o, write what the coordinator of a study needs."""
    if discard and output is None:
        raise Problem("--discard needs --output: the coordinator needs a new enrolment file afterwards", USAGE)
    site = FileSite.from_folder(folder)
    if output is not None:
        check_output(output, [folder / KEY_NAME, folder / PINNED_NAME])
        check_new(output, overwrite)
        site.enrol(discard=discard).save(output)
    out.say(site.pinned[site.name])
    others = [[name, key] for name, key in sorted(site.pinned.items()) if name != site.name]
    out.table(f"The keys that {site.name} has pinned", ["site", "key"], others)
    if output is not None:
        out.say(f"{output} written: send it to the coordinator; it serves for one question")
    return {
        "name": site.name,
        "key": site.pinned[site.name],
        "pinned": {name: key for name, key in site.pinned.items() if name != site.name},
        "enrolment": output,
    }


@command(_group)
def pin(
    out: Out,
    name: Annotated[str, typer.Argument(help="The name of the other site.")],
    key: Annotated[str, typer.Argument(help="The line that its `unpooled keys init` printed.")],
    folder: _Folder = Path(),
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another key of this site, after asking its people.")
    ] = False,
    by: Annotated[str | None, typer.Option(help="The person who pins the key. Default: the user's name.")] = None,
) -> dict[str, Any]:
    """Pin the key of another site, which its people gave to you in a way that you trust; the log notes it."""
    site = FileSite.from_folder(folder)
    if name == site.name:
        raise Problem(f"{name} is this site itself: pin the keys of the others", USAGE)
    before = pin_key(folder, site.pinned, name, key, site.log, replace=replace, by=by or user_name())
    out.say(f"the key of {name} is pinned" + (f" in place of {before}" if before else ""))
    return {"site": name, "key": key, "replaced": before}
