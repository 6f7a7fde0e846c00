"""Read every file of a golden folder with the library of today, and write it again: formats that stay readable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import unpooled as up
from golden.inputs import NEW_ROWS
from golden.keep import ABOUT, Folder


def read_again(source: Path, target: Path) -> None:
    """Load and save models, bases, sums, messages and records; predict as before; verify logs and ledgers."""
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise SystemExit(f"{target} is not empty: name a folder that is, or does not exist")
    kept = Folder(target)
    about = json.loads((source / ABOUT).read_text(encoding="utf-8")) | {"version": up.__version__}
    (target / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    for path in sorted(source.rglob("*")):
        if path.is_file():
            _again(kept, path, path.relative_to(source).as_posix())


def _again(kept: Folder, path: Path, name: str) -> None:
    folder = name.rpartition("/")[0]
    if path.suffix in (".model", ".basis"):
        found = up.load(path) if path.suffix == ".model" else up.bases.load(path)
        if path.suffix == ".model":
            up.save(found, kept.place(name))
        else:
            found.save(kept.place(name))
        rows = path.with_name("rows.txt")
        if rows.exists():
            X = NEW_ROWS[rows.read_text(encoding="utf-8").strip()]
            if path.suffix == ".model":
                kept.array(f"{folder}/predictions_from_file", found.predict(X))
            else:
                kept.array(f"{folder}/features_from_file", found.transform(X))
    elif path.suffix in (".summary", ".candidates", ".scores"):
        kinds = {".summary": up.Summary, ".candidates": up.Candidates, ".scores": up.Scores}
        kinds[path.suffix].load(path).save(kept.place(name))
    elif path.suffix in (".message", ".study"):
        kept.place(name).write_bytes(up.federation.Message.from_bytes(path.read_bytes()).to_bytes())
    elif path.name == "record.json":
        up.federation.StudyRecord.load(path.parent).save(kept.place(name).parent)
    elif path.suffix == ".toml" and "policy" in path.name:
        up.gate.Policy.read(path)
    elif path.suffix in (".ledger", ".jsonl", ".log"):
        log = up.privacy.Ledger(path) if path.suffix == ".ledger" else up.gate.Log(path)
        checked = log.verify()
        if not checked.ok:
            raise ValueError(str(checked))
        shutil.copy(path, kept.place(name))
