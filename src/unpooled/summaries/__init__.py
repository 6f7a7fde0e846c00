"""Summaries: the sums that a site sends instead of rows."""

from .candidates import Candidates, Scores
from .contents import Contents
from .summary import Summary, merge

__all__ = ["Candidates", "Contents", "Scores", "Summary", "merge"]
