"""Experiment: a claim of a paper, a protocol that says all there is to choose, and a function that runs it.

Experiments run one after the other, and a result of the same protocol is read and not made again. A result is one JSON
file in the folder ``results``, named by the experiment and by the digest of the protocol, the code and the version it
was made with. It has a SHA-256 over its content, and takes its name once all of it is on disk, so that a run that was
stopped goes on there.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from .._base import files
from .._base.progress import Progress
from .._base.text import shown
from .._base.threads import blas_limit
from .._base.version import __version__
from ..privacy.noise import opendp
from .outcome import Outcome

Protocol = Mapping[str, Any]  # numbers, words and lists of them: seeds, sizes, repetitions, constants
Advance = Callable[[], None]  # called after each step

PAPERS = {
    "000": "LESS: semi-supervised learning with summary statistics (Qin and Guo 2019)",
    "001": "Distributed spectral algorithms (Guo, Lin and Zhou 2017)",
    "002": "Centred reproducing kernels, and distributed kernel ridge regression (Wang 2018)",
    "003": "Maximum correntropy with a distributed method (Xie, Hu, Wang and Wang 2022)",
    "004": "Differentially private SGD with random features (Wang and Guo 2024)",
}


@dataclass(frozen=True)
class Experiment:
    """One claim, or a few that need the same runs.

    Attributes
    ----------
    name : the paper's number, a dash, a word
    title, question : a heading, and what is asked, with the theorem's number
    quick, full : the two protocols
    steps : how many times ``run`` calls its second argument
    run : the work
    private : whether it needs the extra ``privacy``
    """

    name: str
    title: str
    question: str
    quick: Protocol
    full: Protocol
    steps: Callable[[Protocol], int]
    run: Callable[[Protocol, Advance], Outcome]
    private: bool = False

    @property
    def paper(self) -> str:
        """The paper's number."""
        return self.name[:3]

    def protocol(self, quick: bool) -> Protocol:
        """The one of the two that was asked for."""
        return self.quick if quick else self.full

    def digest(self, protocol: Protocol) -> str:
        """What a result must have been made with to count: this protocol, the code of the experiment, this version."""
        made_with = {"experiment": self.name, "protocol": dict(protocol), "unpooled": __version__}
        return files.digest(made_with | {"code": _modules(self.run.__module__)}, {})


def _modules(name: str) -> dict[str, str]:
    """A module and all of this package that it imports, whence its verdicts come as well: the SHA-256 of each file."""
    here, found, left = __name__.rpartition(".")[0], dict[str, str](), {name}
    while left:
        module = left.pop()
        source = Path(str(sys.modules[module].__file__)).read_bytes()
        found[module] = hashlib.sha256(source).hexdigest()
        imported = {
            resolve_name("." * node.level + (node.module or ""), module.rpartition(".")[0])
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.ImportFrom) and node.level
        }
        left |= {other for other in imported if other.startswith(f"{here}.")} - found.keys()
    return found


FORMAT = 1
RESULTS = "results"


@dataclass(frozen=True)
class Result:
    """An experiment, what it found (None where it could not be run, and ``missing`` says why), and the time it took."""

    experiment: Experiment
    protocol: Mapping[str, Any]
    outcome: Outcome | None
    seconds: float = 0.0
    stored: bool = False  #: read from a file and not run now
    missing: str = ""


def chosen(known: Mapping[str, Experiment], names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, or of these papers; all without a name."""
    unknown = [name for name in names if name not in known and name not in PAPERS]
    if unknown:
        raise ValueError(
            f"there is no paper or experiment {shown(unknown[0])}: the papers are {', '.join(PAPERS)}, the experiments "
            f"{', '.join(known)}"
        )
    return [found for found in known.values() if not names or found.name in names or found.paper in names]


def run(
    experiments: Iterable[Experiment],
    folder: Path,
    *,
    quick: bool = False,
    again: bool = False,
    progress: bool = True,
) -> Iterator[Result]:
    """One result after the other, written to ``folder/results`` as soon as it is there.

    Parameters
    ----------
    experiments : what to run
    folder : made if it does not exist
    quick : the short protocols
    again : run also what has a result already
    progress : a bar for each experiment that takes longer than a second, at a terminal
    """
    experiments = list(experiments)
    results = Path(folder) / RESULTS
    results.mkdir(parents=True, exist_ok=True)
    for number, experiment in enumerate(experiments, start=1):
        protocol = experiment.protocol(quick)
        path = path_of(results, experiment, protocol)
        if path.exists() and not again:
            outcome, seconds = read(path, experiment, protocol)
            yield Result(experiment, protocol, outcome, seconds, stored=True)
            continue
        if experiment.private and (missing := _missing_extra()):
            yield Result(experiment, protocol, None, missing=missing)
            continue
        label = f"{number} of {len(experiments)}, {experiment.name}"
        start = time.monotonic()
        # Quick protocols have small matrices: handing work to a second thread of BLAS costs more than it saves.
        threads = blas_limit(1) if quick else nullcontext()
        with Progress(experiment.steps(protocol), label, int(progress)) as bar, threads:
            outcome = experiment.run(protocol, bar.advance)
        seconds = time.monotonic() - start
        write(path, experiment, protocol, outcome, seconds)
        yield Result(experiment, protocol, outcome, seconds)


def path_of(results: Path, experiment: Experiment, protocol: Mapping[str, Any]) -> Path:
    """The file of a result: another protocol, other code, another version of the library is another file."""
    return results / f"{experiment.name}-{experiment.digest(protocol)[:12]}.json"


def write(path: Path, experiment: Experiment, protocol: Mapping[str, Any], outcome: Outcome, seconds: float) -> None:
    """A result to its file."""
    content = {
        "format": FORMAT,
        "unpooled": __version__,
        "experiment": experiment.name,
        "protocol": dict(protocol),
        "seconds": round(seconds, 3),
        "outcome": outcome.to_dict(),
    }
    content = json.loads(json.dumps(content))  # as it will be read: lists and no tuples
    with files.atomic(path) as file:
        text = json.dumps(
            content | {"sha256": files.digest(content, {})}, indent=1, ensure_ascii=False, allow_nan=False
        )
        file.write(text.encode())


def read(path: Path, experiment: Experiment, protocol: Mapping[str, Any]) -> tuple[Outcome, float]:
    """The outcome and the seconds it took, from the file of a result; a FileError says in a sentence what is wrong."""
    mend = "delete it to run the experiment again"
    try:
        content = json.loads(path.read_bytes())
        expected = content.pop("sha256")
        intact = expected == files.digest(content, {})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise files.FileError(f"{path} is not a result of an experiment, or it is damaged: {mend}") from None
    if not intact:
        raise files.FileError(f"{path} is damaged: its content does not match its SHA-256; {mend}")
    same = json.loads(json.dumps(dict(protocol)))
    if (content["format"], content["experiment"], content["protocol"]) != (FORMAT, experiment.name, same):
        raise files.FileError(f"{path} is of another experiment or protocol than its name says: {mend}")
    return Outcome.from_dict(content["outcome"]), float(content["seconds"])


def _missing_extra() -> str:
    try:
        opendp()
    except ImportError as error:
        return str(error)
    return ""
