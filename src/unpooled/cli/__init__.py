"""The command line: thin faces over the library, for people who exchange files."""

from importlib import import_module

from .app import app

for _name in (
    "data",
    "basis",
    "summarize",
    "inspect",
    "merge",
    "fit",
    "validate",
    "predict",
    "report",
    "policy",
    "log",
    "ledger",
    "federation",
    "plan",
    "audit",
    "reproduce",
):
    import_module(f".{_name}", __name__)  # which adds its commands to the app

__all__ = ["app"]
