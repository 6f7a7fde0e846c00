"""Masked answers by file: questions, one-time keys, answers whose masks cancel, and their sum."""

from .answers import Answer, AnswerError, AnswerSet, gather, largest_number
from .coordinator import Coordinator, FileLearner, Inquiry, StudyStep
from .questions import OneTimeKey, Question
from .site import Compute, FileSite, StaleKeyError

__all__ = [
    "Answer",
    "AnswerError",
    "AnswerSet",
    "Compute",
    "Coordinator",
    "FileLearner",
    "FileSite",
    "Inquiry",
    "OneTimeKey",
    "Question",
    "StaleKeyError",
    "StudyStep",
    "gather",
    "largest_number",
]
