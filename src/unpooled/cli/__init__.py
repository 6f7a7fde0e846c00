"""The command line: thin faces over the library, for people who exchange files."""

from . import basis, evidence, federation, fit, inspect, keys, records, summarize, tables
from .app import app

__all__ = ["app", "basis", "evidence", "federation", "fit", "inspect", "keys", "records", "summarize", "tables"]
