"""The command line: thin faces over the library, for people who exchange files."""

from . import basis, evidence, federation, fit, inspect, merge, models, plan, records, summarize
from .app import app

__all__ = [
    "app",
    "basis",
    "evidence",
    "federation",
    "fit",
    "inspect",
    "merge",
    "models",
    "plan",
    "records",
    "summarize",
]

# Commands and groups in the order in which a study needs them: ``unpooled --help`` lists them so.
_COMMANDS = (
    *("demo", "version", "data", "basis", "summarize", "inspect", "merge", "fit", "validate", "predict", "report"),
    *("plan", "audit", "reproduce"),
)
_GROUPS = ("policy", "log", "ledger", "federation")

app.registered_commands.sort(key=lambda one: _COMMANDS.index(str(one.name)))
app.registered_groups.sort(key=lambda one: _GROUPS.index(str(one.name)))
