"""The app of the command line: its commands in the order of their use, and the way a function becomes one of them."""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from .._base.files import __version__
from .._base.text import join_lines
from .console import EXIT_CODES, STOPPED, UNEXPECTED, Out, Problem

#: The panels of ``unpooled --help`` and their commands, in the order in which people come to need them.
PANELS = {
    "A table": ("data", "plan", "predict"),
    "A study": ("basis", "policy", "summarize", "merge", "fit", "validate", "log", "keys", "federation"),
    "Privacy": ("forecast", "ledger", "audit"),
    "Looking": ("inspect", "report", "demo"),
    "The papers": ("reproduce",),
}
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}


class _Commands(TyperGroup):
    """The commands and groups in the order of the panels."""

    def list_commands(self, ctx: Any) -> list[str]:  # a Context of click, which newer versions of typer bring along
        return sorted(super().list_commands(ctx), key=list(_PANEL_OF).index)


class _Command(TyperCommand):
    """A command whose help explains its arguments: with click 8.5, typer 0.20 loses the texts of arguments."""

    texts: ClassVar[dict[str, str]] = {}  #: the text of every parameter

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for param in self.params:
            if param.name in self.texts:
                param.help = self.texts[param.name]
        super().format_help(ctx, formatter)


app = typer.Typer(
    cls=_Commands,
    help="Kernel regression for data that cannot be pooled.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes. " + " · ".join(f"{code}: {words}" for code, words in EXIT_CODES.items()) + ".",
)

_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else, to standard output.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Show where in the program an error occurred.")]


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Kernel regression for data that cannot be pooled: too large for one machine, or not yours to share."""


def add_group(name: str, help: str) -> typer.Typer:
    """Add a group of commands to the app."""
    group = typer.Typer(help=help, no_args_is_help=True)
    app.add_typer(group, name=name, rich_help_panel=_PANEL_OF[name])
    return group


def command(group: typer.Typer, name: str | None = None) -> Callable[[Callable[..., dict[str, Any]]], Any]:
    """Make a command of a function that takes an :class:`Out` and options, and returns what ``--json`` prints.

    ``--json`` and ``--debug`` are added to its options. The function itself stays as it is.
    """

    def register(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        hints = get_type_hints(function, include_extras=True)
        _, *own = [p.replace(annotation=hints[p.name]) for p in inspect.signature(function).parameters.values()]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
            for name, annotation in (("json", _Json), ("debug", _Debug))
        ]

        def run(*, json: bool, debug: bool, **given: Any) -> None:
            out = Out(json)
            with _report_errors(out, debug):
                out.finish(function(out, **given))

        run.__name__ = function.__name__
        run.__doc__ = "\n\n".join(join_lines(text) for text in (inspect.getdoc(function) or "").split("\n\n"))
        run.__annotations__ = {p.name: p.annotation for p in [*own, *added]}
        run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        called = name or function.__name__
        texts = {p.name: p.annotation.__metadata__[0].help for p in [*own, *added]}
        explained = type("_Explained", (_Command,), {"texts": texts})
        group.command(called, cls=explained, rich_help_panel=_PANEL_OF[called] if group is app else None)(run)
        return function

    return register


@contextmanager
def _report_errors(out: Out, debug: bool) -> Iterator[None]:
    """Turn errors into a sentence and an exit code, and warnings into a line each, all on standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = lambda message, *_, **__: out.warn(str(message))
        try:
            yield
        except KeyboardInterrupt:
            out.fail("stopped", STOPPED)
            raise typer.Exit(STOPPED) from None
        except Exception as error:
            if isinstance(error, (typer.Exit, typer.Abort)):
                raise
            problem = Problem.of(error)
            sentence = str(problem)
            if debug:
                traceback.print_exc()
            elif problem.code == UNEXPECTED:
                sentence += " (run the command again with --debug to see where)"
            out.fail(sentence, problem.code, **({} if problem.reasons is None else {"reasons": problem.reasons}))
            raise typer.Exit(problem.code) from None
