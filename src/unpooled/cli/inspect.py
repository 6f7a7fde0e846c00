"""``unpooled inspect``: what is in a file, whatever kind it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import bases, files, models
from ..summaries import Candidates, Scores, Summary
from .app import app, command
from .codes import FILE, Problem
from .out import Out, size
from .words import of_candidates, of_model, of_scores

Found = tuple[str, str]  # words and digest


def _summary(path: Path) -> Found:
    found = Summary.load(path)
    return found.describe(), ""


def _basis(path: Path) -> Found:
    found = bases.load(path)
    return found.describe(), found.digest


def _model(path: Path) -> Found:
    found = models.load(path)
    return of_model(found), models.digest_of(found)


def _candidates(path: Path) -> Found:
    found = Candidates.load(path)
    return of_candidates(found), found.digest


def _scores(path: Path) -> Found:
    return of_scores(Scores.load(path)), ""


def _totals(path: Path) -> Found:
    header, _ = files.read(path, "totals")
    words = f"Sums over {header.get('n_rows', 'some')} rows of all sites of a study, without any row."
    return words, str(header.get("statistic"))


KINDS: dict[str, Callable[[Path], Found]] = {
    "summary": _summary,
    "basis": _basis,
    "model": _model,
    "candidates": _candidates,
    "scores": _scores,
    "totals": _totals,
}


@command(app)
def inspect(
    out: Out, file: Annotated[Path, typer.Argument(help="A summary, basis, model, candidates, scores or totals.")]
) -> dict[str, Any]:
    """Say what is in a file: in words, then its header and its arrays."""
    header, arrays = files.read_any(file)
    kind = str(header.get("kind"))
    if kind not in KINDS:
        raise Problem(f"{file} holds a {kind}, which this version of unpooled does not know", FILE)
    words, digest = KINDS[kind](file)
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    out.say(words)
    out.say()
    shown = [("file", f"{file}, {size(file.stat().st_size)}"), ("SHA-256 of the file", sha256)]
    shown += [("digest", digest)] if digest else []
    out.facts(
        f"Header of this {kind}" if kind not in ("candidates", "scores", "totals") else f"Header of these {kind}",
        shown + [(name, _short(value)) for name, value in header.items() if name not in ("params", "kernel")],
    )
    out.table(
        "Arrays",
        ["name", "shape", "type"],
        [[name, " × ".join(map(str, a.shape)) or "1", str(a.dtype)] for name, a in sorted(arrays.items())],
    )
    return {
        "file": file,
        "kind": kind,
        "digest": digest or None,
        "sha256": sha256,
        "bytes": file.stat().st_size,
        "description": words,
        "header": header,
        "arrays": {name: {"shape": list(a.shape), "dtype": a.dtype.str} for name, a in sorted(arrays.items())},
    }


def _short(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    text = "none" if value is None else str(value)
    return text if len(text) <= 200 else text[:199] + "…"
