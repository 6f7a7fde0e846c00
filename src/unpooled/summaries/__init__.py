"""Summaries: what a site sends instead of rows."""

from .candidates import Candidates, Scores
from .summary import Contents, Summary, merge

__all__ = ["Candidates", "Contents", "Scores", "Summary", "merge"]
