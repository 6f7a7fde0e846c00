"""An experiment: a claim of a paper, a protocol that says all there is to choose, and a function that runs it."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from .. import files
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
        from .. import __version__

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
