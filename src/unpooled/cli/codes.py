"""Exit codes, and errors as one sentence."""

from __future__ import annotations

import numpy as np

from .._base.files import FileError
from ..engines import BlockError
from ..federation import StudyError
from ..gate import LogError, PolicyError, Refused
from ..privacy import Overspend

UNEXPECTED, USAGE, DATA, FILE, REFUSED, LOG, AUDIT, STUDY, STOPPED = 1, 2, 3, 4, 5, 6, 7, 8, 130

WORDS = {
    0: "done",
    UNEXPECTED: "something unexpected, a bug perhaps",
    USAGE: "the command was called with arguments it cannot use",
    DATA: "data cannot be read or used: a file, a column, a value; or a result cannot be written",
    FILE: "a file of unpooled is damaged, or does not go with the others",
    REFUSED: "the site's policy does not let it leave, or cannot be read; or its privacy budget is spent",
    LOG: "the site's log or privacy ledger is not whole, or cannot be written",
    AUDIT: "an audit found that a private mechanism exceeds its claim, or did not catch a planted fault",
    STUDY: "a study over a network failed: there is no model",
    STOPPED: "stopped from the keyboard",
}


class Problem(Exception):
    """What a user can mend, with its exit code."""

    def __init__(self, sentence: str, code: int = DATA) -> None:
        super().__init__(sentence)
        self.code = code


def told(error: BaseException) -> tuple[str, int]:
    """An error as a sentence on one line, and its exit code."""
    if isinstance(error, BlockError) and isinstance(error.__cause__, (ValueError, OSError)):
        return told(error.__cause__)
    for kind, code in _KINDS:
        if isinstance(error, kind):
            return _sentence(error), getattr(error, "code", code)
    if isinstance(error, MemoryError):
        return str(error) or "there is not enough memory for this: use fewer features or points", DATA
    return f"unexpected {type(error).__name__}: {_sentence(error)}", UNEXPECTED


_KINDS: list[tuple[type[BaseException], int]] = [
    (Problem, DATA),
    (FileError, FILE),
    (LogError, LOG),
    (PolicyError, REFUSED),
    (Refused, REFUSED),
    (Overspend, REFUSED),
    (StudyError, STUDY),
    (np.linalg.LinAlgError, UNEXPECTED),
    (ValueError, DATA),
    (OSError, DATA),
]

# The library speaks to people who write Python.
_HERE = {
    ", or leave the column out with X=up.blocks.Csv(path, features=[...])": "",
    "name it, or name the columns of X with X=up.blocks.Csv(path, features=[...])": "name it",
    "give basis=up.bases.load(path)": "give --basis",
}


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    sentence = " ".join(str(error).split()) or "no more is known"
    for there, here in _HERE.items():
        sentence = sentence.replace(there, here)
    return sentence
