"""Errors that carry what others need to know of them in fields, so that nobody has to take their sentences apart.

Each can be made from its sentence alone, so that it comes back whole from another process.
"""

from __future__ import annotations


class AdvisedError(ValueError):
    """An error whose advice depends on where it is read.

    Attributes
    ----------
    at_command_line : the sentence for people at a command line; the error's own is for those who write Python
    """

    def __init__(self, sentence: str, at_command_line: str | None = None) -> None:
        super().__init__(sentence)
        self.at_command_line = sentence if at_command_line is None else at_command_line


class NotAddable(ValueError):
    """Two sums that do not add up.

    Attributes
    ----------
    reason : the part of the sentence that says in what they differ
    """

    def __init__(self, sentence: str, reason: str | None = None) -> None:
        super().__init__(sentence)
        self.reason = sentence if reason is None else reason
