"""Files, lines of code and lines of imports in every room: python benchmarks/lines.py [REVISION ...]

A line of code holds at least one token of Python that is neither a comment nor part of a docstring. A line of imports
is a line of an import statement, wherever it stands. A revision of git is read without checking it out; without any,
the working tree is counted. With two revisions the table shows both side by side.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/unpooled"
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
Counts = dict[str, tuple[int, int, int]]


def read_sources(revision: str | None) -> Iterator[tuple[str, str]]:
    """Every module of the package: its path below the package, and its text."""
    if revision is None:
        for path in sorted((ROOT / PACKAGE).rglob("*.py")):
            yield path.relative_to(ROOT / PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        return
    listed = _git("ls-tree", "-r", "--name-only", revision, PACKAGE).split("\n")
    for name in (name for name in listed if name.endswith(".py")):
        yield name.removeprefix(f"{PACKAGE}/"), _git("show", f"{revision}:{name}")


def count_lines(text: str) -> tuple[int, int]:
    """Lines of code, and how many of these belong to imports."""
    tree = ast.parse(text)
    docstrings: set[int] = set()
    imports: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                docstrings |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings), len(imports)


def count_rooms(revision: str | None) -> Counts:
    """Files, lines of code and lines of imports of every room; modules beside the rooms count under their own name."""
    rooms: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for name, text in read_sources(revision):
        code, imports = count_lines(text)
        room = rooms[name.partition("/")[0].removesuffix(".py")]
        room[0], room[1], room[2] = room[0] + 1, room[1] + code, room[2] + imports
    return {room: (files, code, imports) for room, (files, code, imports) in sorted(rooms.items())}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Print one table, with a group of three columns for each revision."""
    parser = argparse.ArgumentParser(description="Files, lines of code and lines of imports in every room.")
    parser.add_argument("revision", nargs="*")
    revisions: list[str | None] = list(parser.parse_args().revision) or [None]
    counted = [count_rooms(revision) for revision in revisions]
    print(" " * 16 + "".join(f"{revision or 'working tree':>27}" for revision in revisions))
    print(f"{'room':<16}" + f"{'files':>9}{'code':>9}{'imports':>9}" * len(revisions))
    for room in sorted({room for counts in counted for room in counts}):
        cells = "".join(f"{number or '':>9}" for counts in counted for number in counts.get(room, (0, 0, 0)))
        print(f"{room:<16}{cells}")
    totals = "".join(f"{sum(row[place] for row in counts.values()):>9}" for counts in counted for place in range(3))
    print(f"{'all':<16}{totals}")


if __name__ == "__main__":
    main()
