"""Compare two golden folders file by file, to the bit but for the few things below, and say what differs."""

from __future__ import annotations

import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from golden.containers import CHAINS, MESSAGES, SUFFIXES, Broken, Container, read_chain, read_container, read_message
from golden.renames import entries_in_new_names, hashes, header_in_new_names

ABOUT = "about.json"  # by what a folder was written: not compared
# Random keys and what is signed with them: only whether they are there is compared.
SECRETS = (".key", ".pub", ".crt")
# When something happened and how long it took. A digest of a record is over these, and the library has checked it.
TIMES = {
    "record.json": {"started", "finished", "seconds", "digest"},
    "state.json": {"started", "updated", "working"},
    "exchanges/": {"seconds"},
    "requests/": {"asked", "answered"},
}
# In texts: moments; the hash of the last line of a log, which is over moments; public keys; names of temporary folders.
TEXTS = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?", "MOMENT"),
    (r'(head is |--head |"head": "|"previous": ")[0-9a-f]{64}', r"\1HEAD"),
    (r"site:[a-z2-7]{56}", "PUBLIC KEY"),
    (r"/[^\s\"']*/tmp[a-z0-9_]{8}\b", "TEMPORARY"),
)
# In what certain commands say, by the start of their name: seconds, the hash of a line, and what was measured.
SAID = {
    "said/log show": ((r'(?m)^      "sha256": "[0-9a-f]{64}"', "HASH OF THE LINE"),),
    "said/reproduce ": ((r'"seconds": [0-9.]+', "SECONDS"),),
    "said/federation status": (
        (r'"(started|updated|working|seconds)": [0-9.e+-]+', r"\1"),
        (r"time +│ \d+ s +│", "time"),
    ),
    "said/plan, measured": ((r"[0-9][0-9.,e+-]*( (B|kB|MB|GB|TB|ms|s|min|h|days?)\b)?", "NUMBER"), (" +", " ")),
}
# With real noise all numbers in arrays differ, and in headers what is worked out from them.
NOISY_FIELDS = {"history_", "floor"}
NOISY_CLOSE = 0.05  # predictions with hardly any noise
FEW = 40  # differences that are told
#: of secrets only that they are there is compared, and words not at all if only numbers are asked for
VERDICTS = ("same", "but for noise", "secret", "words", "different", "missing")
WORDS = (".txt", ".html", ".md", ".toml", ".sh")
PLACES_OF_WORDS = ("names/", "pictures/")
#: entries that are sentences, or how a kernel is shown, whose parameters are compared in the header of its model
ENTRIES_OF_WORDS = re.compile(
    r".*\b(reasons\.\d+|rows\.\d+\.name|described|kernel_|promise|purpose|said|why) was ['\"]"
)


@dataclass(frozen=True)
class Sides:
    """Two folders, with what is known of each."""

    old: Path
    new: Path
    about: tuple[dict[str, Any], dict[str, Any]]
    hashes: dict[str, str] = field(default_factory=dict)


def compare_folders(
    old: Path, new: Path, what: str = "", *, only_what_is_in_new: bool = False, numbers: bool = False
) -> bool:
    """Print a table and every difference; True where there is none. ``numbers`` leaves words that differ out of it."""
    names = sorted(_names(new) if only_what_is_in_new else _names(old) | _names(new))
    sides = Sides(old, new, (_about(old), _about(new)), hashes(old, new, names))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    told: list[str] = []
    for name in names:
        verdict, differences = _compare(sides, name)
        if numbers and differences:
            of_words = name.endswith(WORDS) or name.startswith(PLACES_OF_WORDS)
            differences = [one for one in differences if not of_words and not ENTRIES_OF_WORDS.match(one)]
            verdict = verdict if differences else "words"
        counts[_kind(name)][verdict] += 1
        told += [f"{verdict.upper()}: {name}: {one}" for one in differences[:5]]
    _print(counts, what or f"{old} and {new}")
    for side, about in zip((old, new), sides.about):
        for name, reason in about.get("skipped", {}).items():
            print(f"{side}: the case {name} was skipped, it {reason}")
    for line in told[:FEW]:
        print(line)
    if len(told) > FEW:
        print(f"and {len(told) - FEW} more differences")
    failed = [name for name in names if name.startswith("failed/")]
    if failed:
        print(f"cases failed: {', '.join(failed)}")
    if not names:
        print("there are no files to compare")
    return bool(names) and not told and not failed


def _about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _names(folder: Path) -> set[str]:
    if not folder.is_dir():
        raise SystemExit(f"there is no folder {folder}")
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return found - {ABOUT}


def _kind(name: str) -> str:
    return f"{name.partition('/')[0]}, {PurePosixPath(name).suffix or 'no ending'}"


def _print(counts: dict[str, Counter[str]], title: str) -> None:
    print(f"\n{title}\n{'kind':<24}{'files':>7}" + "".join(f"{head:>{len(head) + 3}}" for head in VERDICTS))
    total: Counter[str] = sum(counts.values(), Counter())
    for kind, found in [*sorted(counts.items()), ("all", total)]:
        cells = "".join(f"{found[head] or '':>{len(head) + 3}}" for head in VERDICTS)
        print(f"{kind:<24}{found.total():>7}{cells}")


def _compare(sides: Sides, name: str) -> tuple[str, list[str]]:
    """The verdict on a file, and what differs in it."""
    old, new = sides.old / name, sides.new / name
    if not (old.exists() and new.exists()):
        return "missing", [f"it is only in {sides.old if old.exists() else sides.new}"]
    if old.suffix in SECRETS:
        return "secret", []
    first, second = old.read_bytes(), new.read_bytes()
    noisy = name.startswith("noisy/")
    if first == second:
        return "same", []
    try:
        found = list(_differences(sides, name, first, second, noisy))
    except (Broken, ValueError, KeyError, TypeError) as error:
        found = [f"{type(error).__name__}: {error}"]
    return ("different", found) if found else ("but for noise" if noisy else "same", [])


def _differences(sides: Sides, name: str, old: bytes, new: bytes, noisy: bool) -> Iterator[str]:
    path = PurePosixPath(name)
    if path.suffix in SUFFIXES:
        yield from containers(name, read_container(old), read_container(new), sides.hashes, noisy)
    elif path.suffix in MESSAGES:
        yield from containers(name, read_message(old), read_message(new), sides.hashes, noisy)
    elif path.suffix in CHAINS:
        fresh = noisy or "secure" in name  # hashes of files with fresh noise, or under fresh masks
        yield from entries(_events(old, fresh), _events(new, fresh), "entry", sides.hashes)
    elif path.suffix == ".npy":
        yield from arrays("", np.load(io.BytesIO(old)), np.load(io.BytesIO(new)), NOISY_CLOSE if noisy else None)
    elif path.suffix == ".json":
        left_out = next((fields for part, fields in TIMES.items() if part in name), set())
        before, after = _without(json.loads(old), left_out), _without(json.loads(new), left_out)
        in_new_names = entries_in_new_names(name, before, after)
        as_before = in_new_names == before
        yield from entries(in_new_names, after, "", sides.hashes, order=as_before)
        if not left_out and as_before and _spaced(old) != _spaced(new):
            yield "the same content is written in another way"
    elif path.suffix == ".parquet":
        yield f"its bytes differ: {len(old)} and {len(new)}"
    else:
        yield from lines(*(_normal(name, text.decode(), about) for text, about in zip((old, new), sides.about)))


def containers(name: str, old: Container, new: Container, same: dict[str, str], noisy: bool = False) -> Iterator[str]:
    """Header fields and arrays that differ; the version of the library may."""
    of_both = (header_in_new_names(name, old, new), new.header)
    headers = ({k: of_one[k] for k in sorted(of_one) if k != "unpooled"} for of_one in of_both)
    before, after = (_without(one, NOISY_FIELDS) if noisy else one for one in headers)
    yield from entries(before, after, "header field ", same, order=False)
    if list(old.arrays) != list(new.arrays):
        yield f"arrays {', '.join(old.arrays)} became {', '.join(new.arrays)}"
        return
    for key, array in old.arrays.items():
        if array.dtype == np.uint8 and array.ndim == 1 and not noisy:  # a file within a message
            yield from (f"in {key}: {one}" for one in _files(name, array, new.arrays[key], same))
        else:
            yield from arrays(f"array {key}: ", array, new.arrays[key], np.inf if noisy else None)
    if old.layout != new.layout:
        yield "the arrays are laid out in another way"


def _files(name: str, old: np.ndarray, new: np.ndarray, same: dict[str, str]) -> Iterator[str]:
    if not np.array_equal(old, new):
        yield from containers(name, read_container(old.tobytes()), read_container(new.tobytes()), same)


def arrays(name: str, old: np.ndarray, new: np.ndarray, tolerance: float | None) -> Iterator[str]:
    """Whether two arrays differ in a bit; with a tolerance, by more than that."""
    if (old.dtype, old.shape) != (new.dtype, new.shape):
        yield f"{name}it was {old.dtype} of shape {old.shape} and is {new.dtype} of shape {new.shape}"
    elif tolerance is not None:
        apart = float(np.max(np.abs(old - new), initial=0.0)) if tolerance < np.inf else 0.0
        if apart > tolerance:
            yield f"{name}it is {apart:.3g} apart, and noise explains {tolerance:g} at most"
    elif old.tobytes() != new.tobytes():
        bits = (np.ascontiguousarray(one).reshape(-1, 1).view(np.uint8) for one in (old, new))
        apart = np.flatnonzero(np.any(np.not_equal(*bits), axis=1))
        a, b = old.flat[apart[0]], new.flat[apart[0]]
        yield f"{name}{len(apart)} of {old.size} numbers differ, the first at {apart[0]}: {a!r} became {b!r}".lstrip(
            ": "
        )


def entries(old: Any, new: Any, place: str, same: dict[str, str], order: bool = True) -> Iterator[str]:
    """Every place in which two JSON contents differ; hashes may that are the ``same`` on both sides."""
    if isinstance(old, dict) and isinstance(new, dict):
        if order and old.keys() == new.keys() and list(old) != list(new):
            yield f"{place.rstrip('. ') or 'the file'} has its entries in another order"
        for key in dict.fromkeys([*old, *new]):
            if key not in old or key not in new:
                yield f"{place}{key} is only in {'the old' if key in old else 'the new'} one"
            else:
                yield from entries(old[key], new[key], f"{place}{key}.", same, order)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            yield from entries(a, b, f"{place}{i}.", same, order)
    elif repr(old) != repr(new) and not (isinstance(old, str) and same.get(old) == new):
        yield f"{place.rstrip('. ')} was {_short(old)} and is {_short(new)}"


def lines(old: str, new: str) -> Iterator[str]:
    """The first line in which two texts differ, and how many do."""
    first, second = old.splitlines(), new.splitlines()
    if len(first) != len(second):
        yield f"it had {len(first)} lines and has {len(second)}"
    for number, (a, b) in enumerate(zip(first, second), start=1):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            start = max(0, at - 30)
            yield f"line {number} was {_short(a[start:])} and is {_short(b[start:])}"
            return


def _events(content: bytes, without_hashes: bool) -> list[dict[str, Any]]:
    found = [entry["event"] for entry in read_chain(content)]
    return _without(found, {"sha256"}) if without_hashes else found


def _without(content: Any, names: set[str]) -> Any:
    if isinstance(content, dict):
        return {key: _without(value, names) for key, value in content.items() if key not in names}
    return [_without(item, names) for item in content] if isinstance(content, list) else content


def _spaced(content: bytes) -> list[bytes]:
    return [line[: len(line) - len(line.lstrip())] for line in content.splitlines()]


def _normal(name: str, text: str, about: dict[str, Any]) -> str:
    for known, word in ((about.get("folder"), "FOLDER"), (f"unpooled {about.get('version')}", "unpooled VERSION")):
        text = text.replace(known, word) if known else text
    if name.startswith(("said/version", "said/inspect", "said/process")):
        text = text.replace(str(about.get("version")), "VERSION")
    extra = next((rules for start, rules in SAID.items() if name.startswith(start)), ())
    for pattern, word in (*TEXTS, *extra):
        text = re.sub(pattern, word, text)
    return text


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return repr(text if len(text) <= 90 else text[:89] + "…")
