"""``unpooled policy``: the rules that a site sets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..gate import POLICY_NAME, Policy
from .app import app, command
from .options import Overwrite
from .out import Out

group = typer.Typer(help="The site's policy: what may leave.", no_args_is_help=True)
app.add_typer(group, name="policy")


@command(group)
def init(
    out: Out,
    path: Annotated[Path, typer.Argument(help="The file to write, or a folder for it.")] = Path(POLICY_NAME),
    overwrite: Overwrite = False,
) -> dict[str, Any]:
    """Write the default policy with every rule explained, for the site to edit."""
    path = path / POLICY_NAME if path.is_dir() else path
    Policy.write_template(path, overwrite)
    out.say(f"{path} written: read it and edit it; it is applied to data in its folder")
    return {"policy": path}


@command(group)
def check(
    out: Out, path: Annotated[Path, typer.Argument(help="A policy, or its folder.")] = Path(POLICY_NAME)
) -> dict[str, Any]:
    """Read a policy and show its rules; an error where it cannot be kept."""
    path = path / POLICY_NAME if path.is_dir() else path
    rules = asdict(Policy.read(path))
    out.facts(f"{path} can be kept", [(name, _shown(value)) for name, value in rules.items()])
    return {"policy": path, "rules": rules}


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) or "any" if isinstance(value, tuple) else str(value).lower()
