"""The app of the command line, the way a function becomes one of its commands, and two commands.

The two are ``unpooled demo`` and ``unpooled version``.
"""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from .._base.files import __version__
from .console import STOPPED, UNEXPECTED, WORDS, Out, Problem

app = typer.Typer(
    help="Kernel regression for data that cannot be pooled.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes. " + " · ".join(f"{code}: {words}" for code, words in WORDS.items()) + ".",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else, to standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the program an error came up.")]


@app.callback()
def main() -> None:
    """Kernel regression for data that cannot be pooled: too big for one machine, or not yours to share."""


def command(group: typer.Typer, name: str | None = None) -> Callable[[Callable[..., dict[str, Any]]], Any]:
    """Make a command of a function of an :class:`Out` and options, which returns what ``--json`` prints.

    ``--json`` and ``--debug`` are added to its options. The function itself stays as it is.
    """

    def register(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        hints = get_type_hints(function, include_extras=True)
        _, *own = [p.replace(annotation=hints[p.name]) for p in inspect.signature(function).parameters.values()]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
            for name, annotation in (("json", Json), ("debug", Debug))
        ]

        def run(*, json: bool, debug: bool, **given: Any) -> None:
            out = Out(json)
            with guarded(out, debug):
                out.finish(function(out, **given))

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__annotations__ = {p.name: p.annotation for p in [*own, *added]}
        run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        group.command(name or function.__name__)(run)
        return function

    return register


@contextmanager
def guarded(out: Out, debug: bool) -> Iterator[None]:
    """Errors become a sentence and an exit code, warnings a line each; both on standard error."""
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


@command(app)
def demo(
    out: Out,
    folder: Annotated[Path, typer.Option("--out", help="Folder for the report; made if it does not exist.")] = Path(
        "demo"
    ),
) -> dict[str, Any]:
    """Compare methods on bundled real data: a table here, a page to open in OUT."""
    from ..demo import run

    rows = run(folder, out.err) if out.as_json else run(folder)
    return {"folder": folder, "rows": rows}


@command(app)
def version(out: Out) -> dict[str, Any]:
    """Print the version."""
    out.say(__version__)
    return {"version": __version__}
