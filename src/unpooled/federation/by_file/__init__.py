"""Masked answers by file: questions, one-time keys, answers whose masks cancel, and their sum."""

from .answers import Answer, AnswerError, AnswerSet, gather, largest_number
from .questions import OneTimeKey, Question
from .site import Compute, FileSite, StaleKeyError

__all__ = [
    "Answer",
    "AnswerError",
    "AnswerSet",
    "Compute",
    "FileSite",
    "OneTimeKey",
    "Question",
    "StaleKeyError",
    "gather",
    "largest_number",
]
