"""Golden files by kind: one way each to keep models, arrays, numbers, sentences and what commands print.

A case is a function of a :class:`Folder` that is registered with :func:`case`. What it warns of is kept too. A case
that fails leaves ``failed/NAME.txt`` behind, and the others go on.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import re
import runpy
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import unpooled as up
from golden import inputs, stand_ins

ABOUT = "about.json"  # where and by what a folder was written; never compared


class Folder:
    """A folder that golden files are kept in."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def place(self, name: str) -> Path:
        """The path of a file or folder, in a folder that is made."""
        found = self.path / name
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def array(self, name: str, values: Any) -> None:
        """Keep numbers to the bit."""
        values = values.numpy() if hasattr(values, "numpy") and not isinstance(values, np.ndarray) else values
        np.save(self.place(f"{name}.npy"), np.ascontiguousarray(values))

    def arrays(self, name: str, **values: Any) -> None:
        """Keep several arrays of one case, a file each."""
        for each, array in values.items():
            self.array(f"{name}/{each}", array)

    def json(self, name: str, content: Any) -> None:
        """Keep numbers and words as JSON, which has every digit of them."""
        text = json.dumps(plain(content), indent=1, ensure_ascii=False)
        self.place(f"{name}.json").write_text(text + "\n", encoding="utf-8")

    def text(self, name: str, text: Any) -> None:
        """Keep a text."""
        self.place(f"{name}.txt").write_text(str(text) + "\n", encoding="utf-8")

    def model(self, name: str, model: Any, rows: str = "rows", saved: bool = True, loaded: bool = False) -> None:
        """Keep a fitted model: its file, its predictions before and after saving, its path and its attributes.

        One that was ``loaded`` from a file has no predictions for other λ than its own.
        """
        X = inputs.NEW_ROWS[rows]
        self.array(f"models/{name}/predictions", model.predict(X))
        self.json(f"models/{name}/attributes", attributes(model))
        if (path := getattr(model, "path_", None)) is not None:
            self.json(f"models/{name}/path", {"shown": repr(path), "columns": path.as_dict()})
            if hasattr(path, "predict") and not loaded:
                self.array(f"models/{name}/path_predictions", path.predict(np.asarray(X)))
        if saved:
            place = self.place(f"models/{name}/a.model")
            up.save(model, place)
            self.text(f"models/{name}/rows", rows)
            self.array(f"models/{name}/predictions_from_file", up.load(place).predict(X))

    def refusal(self, name: str, call: Callable[[], Any]) -> None:
        """Keep the sentence with which a call is refused."""
        try:
            call()
        except Exception as error:
            self.text(f"refusals/{name}", f"{type(error).__name__}: {error}")
        else:
            raise AssertionError(f"{name} was not refused")

    def command(self, name: str, *words: Any, plain_too: bool = False) -> Any:
        """Run ``python -m unpooled`` in this folder's ``commands``; keep what it says with ``--json``, and plainly."""
        if plain_too:
            self.text(f"said/{name}", said("commands", self, words))
        text = said("commands", self, [*words, "--json"])
        self.text(f"said/{name} as JSON", text)
        return text


def said(inside: str, folder: Folder, words: Any) -> str:
    """Run a command in a folder; give everything that it prints, and its exit code."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    place = folder.place(f"{inside}/x").parent
    arguments, stdin, before = sys.argv, sys.stdin, os.getcwd()
    try:
        sys.argv, sys.stdin = ["unpooled", *map(str, words)], io.StringIO()
        os.chdir(place)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            runpy.run_module("unpooled", run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv, sys.stdin = arguments, stdin
        os.chdir(before)
    return f"$ unpooled {' '.join(map(str, words))}\n{out.getvalue()}--- errors\n{err.getvalue()}--- exit code {code}"


def attributes(model: Any) -> dict[str, Any]:
    """Fitted attributes that users read."""
    return {name: value for name, value in sorted(vars(model).items()) if name.endswith("_") and name[0] != "_"}


def plain(value: Any) -> Any:
    """Make JSON of a value, nothing rounded; long arrays by their SHA-256, objects by their type."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        if value.size <= 200:
            return plain(value.tolist())
        sha256 = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"dtype": value.dtype.str, "shape": list(value.shape), "sha256": sha256}
    if isinstance(value, (up.kernels.Kernel, up.filters.Filter, up.losses.Loss)):
        return re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # the address of a function
    return type(value).__name__


Case = Callable[[Folder], None]
_CASES: dict[str, tuple[Case, tuple[str, ...], bool]] = {}


def case(*needs: str, slow: bool = False) -> Callable[[Case], Case]:
    """Register a case, which needs these packages beside the library's own; a slow one runs if that is asked for."""

    def register(function: Case) -> Case:
        _CASES[function.__name__] = (function, needs, slow)
        return function

    return register


def write_all(path: Path, only: list[str], slow: bool) -> bool:
    """Run the cases, or those that are named, and the slow ones too or not; False where one failed."""
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise SystemExit(f"{path} is not empty: name a folder that is, or does not exist")
    if unknown := sorted(set(only) - set(_CASES)):
        raise SystemExit(f"there is no case {unknown[0]}: the cases are {', '.join(_CASES)}")
    kept, skipped, failed = Folder(path), {}, []
    for name, (function, needs, is_slow) in _CASES.items():
        if (name not in only) if only else (is_slow and not slow):
            continue
        if missing := [package for package in needs if find_spec(package) is None]:
            skipped[name] = f"needs {', '.join(missing)}"
            print(f"{name:<28} skipped: {skipped[name]}", flush=True)
            continue
        start = time.perf_counter()
        try:
            with _noted(kept, name), stand_ins.fixed_names():
                function(kept)
        except Exception:
            failed.append(name)
            kept.text(f"failed/{name}", traceback.format_exc())
        print(f"{name:<28} {time.perf_counter() - start:6.1f} s{'  FAILED' if name in failed else ''}", flush=True)
    about = {"folder": str(kept.path), "version": up.__version__, "library": up.__file__, "skipped": skipped}
    about |= {"python": platform.python_version(), "numpy": np.__version__, "machine": platform.machine()}
    (path / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    for name in failed:
        print((path / "failed" / f"{name}.txt").read_text(encoding="utf-8"), file=sys.stderr)
    return not failed


@contextlib.contextmanager
def _noted(kept: Folder, name: str) -> Iterator[None]:
    """Keep the warnings of a case, each sentence once."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        yield
    sentences = sorted({f"{one.category.__name__}: {' '.join(str(one.message).split())}" for one in noted})
    kept.text(f"warnings/{name}", "\n".join(sentences))
