"""Golden files: prove that two versions of the library write the same files and predict the same numbers.

    python benchmarks/golden write FOLDER             # with whatever unpooled can be imported
    python benchmarks/golden read FOLDER OTHER        # read the models, bases and sums in FOLDER, write them to OTHER
    python benchmarks/golden compare OLD NEW          # to the bit; exit code 1 where anything differs
    python benchmarks/golden compare --numbers OLD NEW  # the same, but texts, pages and pictures may differ
    python benchmarks/golden sides REVISION           # all of it: that revision of git beside this working tree
    python benchmarks/golden sample FOLDER            # the few files of tests/models/golden

Cases use public names only, and ``sides`` runs those of either revision. Names that have changed between them are in
:mod:`golden.renames`, and what is in headers is compared through the library's own table of renames.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

# Widths and colours of what commands print must not depend on a terminal, nor sums on how many threads there are.
os.environ |= {"COLUMNS": "120", "LINES": "40", "TERM": "dumb", "NO_COLOR": "1"}
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NUMBERS = "files, arrays, headers and logs only: words may differ, and how many files of them do is shown"
SLOW = "the slow cases too: all of the papers' claims, and thousands of rows"
CASES = ("exact_models", "averages", "sums", "private_fits", "studies", "commands", "formulas", "forms")
sys.path.insert(0, str(HERE.parent))  # the modules here are golden.NAME, however this is called


def main() -> int:
    given = _parser().parse_args()
    if given.command == "write":
        return 0 if _written(given.folder, given.only, given.slow) else 1
    if given.command == "compare":
        from golden.compare import compare_folders

        return 0 if compare_folders(given.old, given.new, numbers=given.numbers) else 1
    if given.command == "read":
        from golden.again import read_again

        read_again(given.folder, given.other)
        return 0
    if given.command == "sample":
        from golden.sample import write_sample

        write_sample(given.folder)
        return 0
    return _sides(given.revision, given.keep, ["--slow"] if given.slow else [], given.numbers)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="golden", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("write", help="write every kind of file, and predictions, into an empty folder")
    one.add_argument("folder", type=Path)
    one.add_argument("--only", nargs="*", default=[], metavar="CASE", help="some of the cases")
    one.add_argument("--slow", action="store_true", help=SLOW)
    one = commands.add_parser("read", help="read the files of a folder, predict, and write them into another")
    one.add_argument("folder", type=Path)
    one.add_argument("other", type=Path)
    one = commands.add_parser("compare", help="compare two folders to the bit; exit code 1 where anything differs")
    one.add_argument("old", type=Path)
    one.add_argument("new", type=Path)
    one.add_argument("--numbers", action="store_true", help=NUMBERS)
    one = commands.add_parser("sides", help="write with a revision of git and with this tree, and compare")
    one.add_argument("revision")
    one.add_argument("--keep", type=Path, metavar="FOLDER", help="where both sides are kept; must not exist")
    one.add_argument("--slow", action="store_true", help=SLOW)
    one.add_argument("--numbers", action="store_true", help=NUMBERS)
    one = commands.add_parser("sample", help="write the few files of tests/models/golden")
    one.add_argument("folder", type=Path)
    return parser


def _written(folder: Path, only: list[str], slow: bool) -> bool:
    from golden.keep import write_all

    for name in CASES:
        import_module(f"golden.{name}")  # which registers its cases
    return write_all(folder, only, slow)


def _sides(revision: str, kept: Path | None, options: list[str], numbers: bool) -> int:
    """Both sides with the same interpreter, on this machine; the old one in a worktree that is removed again.

    The old side is written by the cases of its own revision, which use the names of that time. Every case names all
    arguments, so that what a case says in the new names is what it said in the old ones.
    """
    sys.path.insert(0, str(ROOT / "src"))  # the table of renames is this tree's
    from golden.compare import compare_folders

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) if kept is None else kept.resolve()
        if kept is not None:
            folder.mkdir(parents=True)
        tree = Path(place) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), revision], cwd=ROOT, check=True)
        try:
            sources = {"old": tree / "src", "new": ROOT / "src"}
            good = _run(tree, sources["old"], "write", folder / "old", *options)
            good &= _run(ROOT, sources["new"], "write", folder / "new", *options)
            good &= _run(ROOT, sources["new"], "read", folder / "old", folder / "old read by new")
            for side, source in sources.items():
                library = json.loads((folder / side / "about.json").read_text(encoding="utf-8"))["library"]
                if not Path(library).is_relative_to(source):
                    raise SystemExit(f"the {side} side has imported {library}, and not the library in {source}")
            same = compare_folders(folder / "old", folder / "new", f"{revision} and this tree", numbers=numbers)
            read = f"files of {revision}, and the same as this tree reads and writes them"
            same &= compare_folders(
                folder / "old", folder / "old read by new", read, only_what_is_in_new=True, numbers=numbers
            )
            return 0 if good and same else 1
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def _run(tree: Path, source: Path, *words: object) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    print(f"\n{words[0]} with {source}", flush=True)
    return not subprocess.run(
        [sys.executable, str(tree / HERE.relative_to(ROOT)), *map(str, words)], env=environment
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
