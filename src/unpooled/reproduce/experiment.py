"""Experiments on the claims of a paper: what one declares, the loop that measures, and the files of results.

An experiment declares a protocol, which says all there is to choose, what is measured in one setting, and how the
numbers are judged. :func:`measure` is the loop over cases, sizes and repetitions that all experiments share.

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
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import resolve_name
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from .._base import files
from .._base.files import __version__
from .._base.progress import Progress
from .._base.text import quote
from .._base.threads import limit_blas
from ..privacy.noise import load_opendp
from .outcome import Outcome

Protocol = Mapping[str, Any]  # numbers, words and lists of them: seeds, sizes, repetitions, constants
Numbers = Mapping[str, Any]  # numbers or arrays of one repetition, by name
Advance = Callable[[], None]  # called after each step

PAPERS = {
    "000": "LESS: semi-supervised learning with summary statistics (Qin and Guo 2019)",
    "001": "Distributed spectral algorithms (Guo, Lin and Zhou 2017)",
    "002": "Centred reproducing kernels, and distributed kernel ridge regression (Wang 2018)",
    "003": "Maximum correntropy with a distributed method (Xie, Hu, Wang and Wang 2022)",
    "004": "Differentially private SGD with random features (Wang and Guo 2024)",
}


@dataclass(frozen=True)
class Setting:
    """One repetition of one case at one size; case and size are None in an experiment without them."""

    case: Any
    size: Any
    repetition: int
    seed: tuple[int, ...]

    def rng(self, *more: int) -> np.random.Generator:
        """A generator of this setting's own random numbers, from their first one on at every call."""
        return np.random.default_rng([*self.seed, *more])


class Measurements:
    """The numbers that were measured, by case, size and name: arrays with a row for each repetition."""

    def __init__(self, sizes: Sequence[Any]) -> None:
        self._sizes = range(len(sizes))
        self._values: dict[tuple[int, int], dict[str, list[Any]]] = {}

    def add(self, case: int, size: int, numbers: Numbers) -> None:
        """One repetition more."""
        values = self._values.setdefault((case, size), {})
        for name, value in numbers.items():
            values.setdefault(name, []).append(value)

    def names(self, case: int = 0) -> list[str]:
        """The names that were measured for a case at the first size."""
        return list(self._values[case, 0])

    def at(self, name: str, case: int = 0, size: int = -1) -> np.ndarray:
        """One number at one size, by default the last."""
        return np.asarray(self._values[case, self._sizes[size]][name])

    def over(self, name: str, case: int = 0) -> np.ndarray:
        """One number at all sizes, (repetitions, sizes)."""
        return np.stack([self.at(name, case, size) for size in self._sizes], axis=1)


def measure(
    once: Callable[[Setting], Numbers],
    cases: Sequence[Any],
    sizes: Sequence[Any],
    repetitions: int,
    seed: int,
    same_data: bool = False,
    advance: Advance = lambda: None,
) -> Measurements:
    """Measure ``once`` for every case, size and repetition, each with random numbers of its own.

    With ``same_data`` all cases have the same random numbers. ``advance`` is called after every call of ``once``.
    """
    data = Measurements(sizes)
    for repetition, number, j in product(range(repetitions), range(len(cases)), range(len(sizes))):
        case, size = cases[number], sizes[j]
        own_case = () if case is None or same_data else (number,)
        own_size = () if size is None else (size,)
        setting = Setting(case, size, repetition, (seed, *own_case, *own_size, repetition))
        data.add(number, j, once(setting))
        advance()
    return data


@dataclass(frozen=True)
class Experiment:
    """A few claims of a paper that need the same runs: the numbers of each setting are measured, and all are judged.

    The protocol has seed, sizes and constants as plain data. A pair in it, a tuple, is the quick and the full value of
    an entry; any other entry is the same in both protocols.
    """

    name: str  #: the paper's number, a dash, a word
    title: str
    question: str  #: with the theorem's number
    protocol: Protocol
    judge: Callable[[Protocol, Measurements], Outcome]  #: tables, panels, and a verdict on every claim
    measure: Callable[[Protocol, Setting], Numbers] = lambda *_: {}
    cases: Callable[[Protocol], Sequence[Any]] = lambda p: p.get("cases", (None,))
    sizes: Callable[[Protocol], Sequence[Any]] = lambda p: p.get("sizes", (None,))
    repetitions: Callable[[Protocol], int] = itemgetter("repetitions")
    same_data: bool = False  #: all cases have the same random numbers
    notes: tuple[str, ...] = ()  #: sentences a reader needs to read the figures
    private: bool = False  #: needs the extra ``privacy``

    @property
    def paper(self) -> str:
        """The paper's number."""
        return self.name[:3]

    @property
    def quick(self) -> Protocol:
        """The short protocol."""
        return {key: value[0] if isinstance(value, tuple) else value for key, value in self.protocol.items()}

    @property
    def full(self) -> Protocol:
        """The long protocol."""
        return {key: value[1] if isinstance(value, tuple) else value for key, value in self.protocol.items()}

    def steps(self, protocol: Protocol) -> int:
        """How many times ``run`` calls its second argument."""
        return len(self.cases(protocol)) * len(self.sizes(protocol)) * self.repetitions(protocol)

    def run(self, protocol: Protocol, advance: Advance) -> Outcome:
        """Measure everything, then judge."""
        once = partial(self.measure, protocol)
        cases, sizes, repetitions = self.cases(protocol), self.sizes(protocol), self.repetitions(protocol)
        data = measure(once, cases, sizes, repetitions, protocol["seed"], self.same_data, advance)
        outcome = self.judge(protocol, data)
        return replace(outcome, notes=(*outcome.notes, *self.notes))

    def digest(self, protocol: Protocol) -> str:
        """Name what a result must have been made with to count: this protocol, the code, this version."""
        made_with = {"experiment": self.name, "protocol": dict(protocol), "unpooled": __version__}
        return files.digest(made_with | {"code": _modules(self.judge.__module__)}, {})


def _modules(name: str) -> dict[str, str]:
    """SHA-256 of the files of a module and of all that it imports from this package, where its verdicts come from."""
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
    """An experiment with its outcome and time; without an outcome where it could not be run, and why is ``missing``."""

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
            f"there is no paper or experiment {quote(unknown[0])}: the papers are {', '.join(PAPERS)}, the experiments "
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
        protocol = experiment.quick if quick else experiment.full
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
        threads = limit_blas(1) if quick else nullcontext()
        with Progress(experiment.steps(protocol), label, int(progress)) as bar, threads:
            outcome = experiment.run(protocol, bar.advance)
        seconds = time.monotonic() - start
        write(path, experiment, protocol, outcome, seconds)
        yield Result(experiment, protocol, outcome, seconds)


def path_of(results: Path, experiment: Experiment, protocol: Mapping[str, Any]) -> Path:
    """The file of a result: another protocol, other code, another version of the library is another file."""
    return results / f"{experiment.name}-{experiment.digest(protocol)[:12]}.json"


def write(path: Path, experiment: Experiment, protocol: Mapping[str, Any], outcome: Outcome, seconds: float) -> None:
    """Write a result to its file."""
    content = {
        "format": FORMAT,
        "unpooled": __version__,
        "experiment": experiment.name,
        "protocol": dict(protocol),
        "seconds": round(seconds, 3),
        "outcome": outcome.to_dict(),
    }
    content = json.loads(json.dumps(content))  # as it will be read: lists and no tuples
    with files.open_atomic(path) as file:
        text = json.dumps(
            content | {"sha256": files.digest(content, {})}, indent=1, ensure_ascii=False, allow_nan=False
        )
        file.write(text.encode())


def read(path: Path, experiment: Experiment, protocol: Mapping[str, Any]) -> tuple[Outcome, float]:
    """Read the outcome and its seconds from the file of a result; a FileError says in a sentence what is wrong."""
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
        load_opendp()
    except ImportError as error:
        return str(error)
    return ""
