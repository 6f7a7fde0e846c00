"""Names and prose follow the rules: four things are counted in each file of the library, and may only become fewer.

``python tests/project/test_english.py`` prints the totals of this tree, or of the tree whose folder is given; with
``--write`` it stores lower counts in ``english.json`` and on the page that shows them.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STORED = Path(__file__).with_suffix("").with_name("english.json")
PAGE = ROOT / "docs" / "english.md"

#: What is counted, in the words of the page.
COUNTED = {
    "openings": 'docstrings that open with "What", "The same", "As", "That", "How" or the like',
    "participles": "functions, methods and classes whose name is a bare participle",
    "found": "variables called `found`, each time that they are set or read",
    "lonely": "functions, classes and types without an underscore that only their own file uses",
}

OPENINGS = re.compile(
    r"(?:The same|(?:What|As|That|How|Why|Who|Whose|Where|Which|When|Whatever|Whoever|Those|Something|Somebody)\b)"
)
#: Without those that are nouns, adjectives or verbs as well: bound, cut, put, read, set, split, spread.
IRREGULAR = """
begun believed brought built caught chosen dealt done drawn driven fallen felt found given gone grown held
hidden kept known laid learnt led left lent lost made meant met paid proven risen said seen sent shaken
shown shrunk sold sought spent spun stolen struck stuck sworn taken taught thought thrown told understood
undone won worn written
"""
#: Words in -ed that are no participles, and names by which statisticians know a thing.
EXCEPTIONS = "seed need feed speed exceed proceed embed shed red bed squared centered banded refused"
#: Decorators after which a name is as before; any other one registers what it decorates.
PLAIN = "dataclass final total_ordering runtime_checkable contextmanager cache lru_cache overload override wraps"
#: Papers by our own numbers: "paper 004", "(13) of 001", "000-floor"; no part of 2,000, 0.001 or a digest.
NUMBERED = re.compile(r"(?<![\w.,\-])00[0-4](?![\w.,]*\d)(?![\w{])")

Places = dict[str, list[str]]


def find_openings(tree: ast.Module) -> Iterator[str]:
    """Docstrings with an opening that belongs to a translation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if OPENINGS.match(text):
                yield f"{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"


def is_participle(name: str) -> bool:
    word = name.strip("_").lower()
    return word not in EXCEPTIONS.split() and (word in IRREGULAR.split() or re.fullmatch(r"[a-z]+ed", word) is not None)


def find_participles(tree: ast.Module) -> Iterator[str]:
    """Functions and classes of the file, and methods of its classes, that are called by a bare participle."""

    def walk(body: list[ast.stmt]) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if is_participle(node.name):
                    yield f"{node.lineno}: {node.name}"
                if isinstance(node, ast.ClassDef):
                    yield from walk(node.body)

    yield from walk(tree.body)


def find_found(tree: ast.Module) -> Iterator[str]:
    """Places where a variable or an argument is called ``found``."""
    for node in ast.walk(tree):
        if (isinstance(node, ast.Name) and node.id == "found") or (isinstance(node, ast.arg) and node.arg == "found"):
            yield f"{node.lineno}: found"


def list_definitions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names without an underscore that a file defines, without constants; a name that a decorator registers is used."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            used = {ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list}
            names = [node.name] if {one.rpartition(".")[2] for one in used} <= set(PLAIN.split()) else []
        elif isinstance(node, ast.Assign):
            names = [one.id for one in node.targets if isinstance(one, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            continue
        yield from ((node.lineno, name) for name in names if not name.startswith("_") and not name.isupper())


def name_module(path: str) -> str:
    """Return the name of a file's module, such as ``unpooled.gate.policy``; for a package, that of its folder."""
    return ".".join(["unpooled", *Path(path).with_suffix("").parts]).removesuffix(".__init__")


def list_uses(path: str, tree: ast.Module) -> set[tuple[str, str]]:
    """List (module, name) that a file imports from others or reads from an imported module; * is everything."""
    names: set[tuple[str, str]] = set()
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            folders = ("unpooled", *Path(path).parts[:-1])
            package = folders[: len(folders) - node.level + 1] if node.level else ()
            module = ".".join([*package, *([node.module] if node.module else [])])
            names |= {(module, alias.name) for alias in node.names}
            modules |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            names |= {(f"unpooled.{home}", name) for name, home in ast.literal_eval(node.value).items()}
    return names | {
        (modules[node.value.id], node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
    }


def count(trees: dict[str, ast.Module]) -> dict[str, Places]:
    """The places of everything counted, by file and by what it is; a file without any is left out."""
    of_others = {path: list_uses(path, tree) for path, tree in trees.items()}
    places: dict[str, Places] = {}
    for path, tree in trees.items():
        taken = set[tuple[str, str]]().union(*(names for other, names in of_others.items() if other != path))
        public = set() if "/_" in f"/{Path(path).parent}" else list_public(tree)
        elsewhere = public | {name for module, name in taken if module == name_module(path)}
        here = {
            "openings": list(find_openings(tree)),
            "participles": list(find_participles(tree)),
            "found": list(find_found(tree)),
            "lonely": [f"{line}: {name}" for line, name in list_definitions(tree) if not {name, "*"} & elsewhere],
        }
        if kept := {what: lines for what, lines in here.items() if lines}:
            places[path] = kept
    return places


def list_public(tree: ast.Module) -> set[str]:
    """The names in a file's ``__all__``."""
    return {
        one.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for one in ast.walk(node.value)
        if isinstance(one, ast.Constant)
    }


def read_trees(root: Path) -> dict[str, ast.Module]:
    """Every file of the library below a folder, parsed, by its path in the package."""
    source = root / "src" / "unpooled"
    return {
        path.relative_to(source).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(source.rglob("*.py"))
    }


def find_numbered(text: str) -> list[str]:
    """The lines of a text that cite a paper by a number of ours."""
    return [line.strip() for line in text.splitlines() if NUMBERED.search(line)]


def count_numbered(root: Path) -> dict[str, list[str]]:
    """The lines of source, tests, benchmarks, pages and README that cite a paper by a number of ours."""
    files = [root / "README.md", root / "CONTRIBUTING.md"]
    for folder, endings in (("src", "py"), ("tests", "py"), ("benchmarks", "py"), ("docs", "md"), ("docs", "py")):
        files += [path for path in sorted((root / folder).rglob(f"*.{endings}")) if "_build" not in path.parts]
    lines = {
        path: find_numbered(path.read_text(encoding="utf-8")) for path in files if path.name != Path(__file__).name
    }
    return {path.relative_to(root).as_posix(): some for path, some in lines.items() if some}


def total(counts: dict[str, dict[str, int]]) -> dict[str, int]:
    return {what: sum(one.get(what, 0) for one in counts.values()) for what in COUNTED}


def read_stored() -> dict[str, dict[str, int]]:
    files: dict[str, dict[str, int]] = json.loads(STORED.read_text(encoding="utf-8"))["files"]
    return files


@cache
def find_places() -> dict[str, Places]:
    return count(read_trees(ROOT))


def counts() -> dict[str, dict[str, int]]:
    return {path: {what: len(lines) for what, lines in here.items()} for path, here in find_places().items()}


@pytest.mark.parametrize("what", COUNTED)
def test_no_file_has_more_than_before(what: str) -> None:
    stored = read_stored()
    worse = [
        f"{path} has {len(here[what])}, not {stored.get(path, {}).get(what, 0)}:\n  " + "\n  ".join(here[what])
        for path, here in find_places().items()
        if len(here.get(what, ())) > stored.get(path, {}).get(what, 0)
    ]
    assert not worse, f"{COUNTED[what]}:\n" + "\n".join(worse)


def test_stored_counts_are_lowered_with_the_files() -> None:
    now = counts()
    better = [
        path for path, old in read_stored().items() if any(now.get(path, {}).get(what, 0) < old[what] for what in old)
    ]
    assert not better, f"fewer than stored: run python tests/project/test_english.py --write\n{better}"


def test_papers_are_cited_by_author_and_year() -> None:
    assert count_numbered(ROOT) == {}


@pytest.mark.parametrize(
    ("what", "code", "expected"),
    [
        ("openings", '"""What a site holds."""', 1),
        ("openings", 'def f():\n    """The same, for columns."""', 1),
        ("openings", 'class A:\n    def f(self):\n        """How many rows."""', 1),
        ("openings", '"""The samples."""\ndef f():\n    """Asks a site."""', 0),
        ("participles", "def told(): ...\nclass Made: ...\nclass A:\n    def _asked(self): ...", 3),
        ("participles", "seed = 1\ndef seed(): ...\nclass Squared: ...\ndef drawn_from(): ...\ndef read(): ...", 0),
        ("found", "def f(found):\n    found = found + 1", 3),
        ("found", "def f():\n    return self.found, 'found', found_here", 0),
        ("lonely", "def alone(): ...\nSize = int | None\nshape: int = 4", 3),
        ("lonely", "def shared(): ...\ndef read_it(): ...\n@app.command()\ndef fit(): ...\n_own = LIMIT = 1", 0),
        ("lonely", "__all__ = ['f']\ndef f(): ...", 0),
        ("lonely", "def twin(): ...", 1),
    ],
)
def test_the_counters_see_planted_faults(what: str, code: str, expected: int) -> None:
    other = ast.parse("from .planted import shared\nfrom .third import twin\nfrom . import planted\nplanted.read_it()")
    places = count({"planted.py": ast.parse(code), "other.py": other})
    assert len(places.get("planted.py", {}).get(what, [])) == expected


def test_a_name_is_not_used_because_another_file_has_the_same() -> None:
    files = {
        "a/routes.py": "def f(): ...",
        "b/routes.py": "__all__ = ['f']\ndef f(): ...",
        "c.py": "from .b.routes import f",
    }
    places = count({path: ast.parse(text) for path, text in files.items()})
    assert places == {"a/routes.py": {"lonely": ["1: f"]}}


@pytest.mark.parametrize(
    ("line", "numbered"),
    [
        ("Theorem 2 of paper 004", True),
        ("(9) and (12) of 001, and 002's H", True),
        ("unpooled reproduce 003", True),
        ('"001-rates": 3', True),
        ("2,000 rows, 0.001, 1.002e-3, 1000, x-001.json, 007, 0001", False),
    ],
)
def test_numbers_of_papers_are_told_from_other_numbers(line: str, numbered: bool) -> None:
    assert bool(find_numbered(line)) is numbered


#: A sentence of the page: its number, its file, the sentence before and after.
SENTENCE = re.compile(r"^(\d+)\. `([^`]+)`\n +- before: (.+?)\n +- after: (.+?)(?=\n\S|\Z)", re.M | re.S)


def read_sentences() -> list[tuple[str, str, str]]:
    """The sentences of the page: the file, before, after."""
    return [match.groups()[1:] for match in SENTENCE.finditer(PAGE.read_text(encoding="utf-8"))]


def flatten(text: str) -> str:
    """A text on one line, strings in several parts and comments on several lines joined."""
    text = re.sub(r'"\s*\n\s*f?"|\n\s*# ', lambda match: " " if "#" in match[0] else "", text)
    return " ".join(text.split()).casefold()


def stands_in(sentence: str, text: str) -> bool:
    """Whether a flattened text has a sentence, in which … may be anything short."""
    return re.search(re.escape(flatten(sentence)).replace("…", ".{1,80}?"), text) is not None


@cache
def texts() -> dict[str, str]:
    """Every file of the library and every page but that of the sentences, flattened."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    return {
        path.relative_to(ROOT).as_posix(): flatten(path.read_text(encoding="utf-8")) for path in files if path != PAGE
    }


def test_there_are_twenty_sentences() -> None:
    assert len(read_sentences()) == 20


@pytest.mark.parametrize(("file", "before", "after"), read_sentences())
def test_the_sentences_of_the_page_stand_where_it_says(file: str, before: str, after: str) -> None:
    assert stands_in(after, texts()[file])
    assert [path for path, text in texts().items() if stands_in(before, text)] == []


def test_the_page_has_the_counts_that_are_stored() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for what, number in total(read_stored()).items():
        assert re.search(rf"^\| {re.escape(COUNTED[what])} \| \d+ \| {number} \|$", page, re.M), what


def write() -> None:
    """Store the counts of this tree; refuses where a total rose, so that a file may be moved but no fault added."""
    now, before = total(counts()), total(read_stored()) if STORED.exists() else {}
    risen = [what for what in before if now[what] > before[what]]
    if risen:
        raise SystemExit(f"more than before: {', '.join(f'{what} {before[what]} → {now[what]}' for what in risen)}")
    STORED.write_text(json.dumps({"files": counts()}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if PAGE.exists():
        text = PAGE.read_text(encoding="utf-8")
        for what, words in COUNTED.items():
            text = re.sub(rf"^(\| {re.escape(words)} \|.*\|) \d+ \|$", rf"\g<1> {now[what]} |", text, flags=re.M)
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    tree = next((Path(one).resolve() for one in sys.argv[1:] if not one.startswith("-")), ROOT)
    for what, words in COUNTED.items():
        print(f"{sum(len(here.get(what, ())) for here in count(read_trees(tree)).values()):5} {words}")
    print(f"{sum(map(len, count_numbered(tree).values())):5} lines that cite a paper by a number of ours")
