"""The six places that release something of private rows, and a diary of what each does with ledger, rows and noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from typer.testing import CliRunner

import unpooled as up
from tests.cases.federation import Consortium
from tests.made_up import CUBE, columns, points, regression, sine
from unpooled.auditing import of_summaries
from unpooled.cli import app
from unpooled.federation import Message, StudyPrivacy
from unpooled.federation.site.questions import ask_message
from unpooled.federation.site.statistics import Sums
from unpooled.federation.wire.transport import as_array
from unpooled.privacy import Ledger, PrivacyRequest
from unpooled.privacy.noise import GridGaussian

EPSILON, DELTA, BOUND, N = 1.0, 1e-6, 8.0, 120
X, Y = regression(7, N, between=CUBE, function=sine(3, slope=1.0))
TABLE = pa.table(columns(X, Y))
U = points(99, 60, between=CUBE)
BASIS = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 6).fit(U)
NAMED = up.bases.EmpiricalFeatures(up.kernels.Gaussian(1.0), 6).fit(pa.table({"a": U[:, 0], "b": U[:, 1]}))


@dataclass
class Diary:
    """A record of the events at ledger, rows and noise, in order; ``fails`` raises at the first event of a kind."""

    events: list[str] = field(default_factory=list)
    fails: dict[str, BaseException] = field(default_factory=dict)

    def note(self, event: str) -> None:
        self.events.append(event)
        if len(self.events) > 500:  # an audit goes on until a ledger refuses, which one that is never charged does not
            raise RuntimeError("there is no end to it")
        if event in self.fails:
            raise self.fails.pop(event)

    def check(self) -> None:
        """Rows are read under an open charge only, and no release is noted before its sums were read and noised."""
        charged = read = noised = False
        for event in self.events:
            if event == "charged":
                charged, read, noised = True, False, False
            elif event == "read":
                assert charged, f"the rows were read before they were paid for: {self.events}"
                read = True
            elif event == "noise":
                assert read, f"noise was drawn before anything was read: {self.events}"
                noised = True
            else:
                assert event == "released"
                assert charged, f"a release was noted that nobody has paid for: {self.events}"
                assert noised, f"a release was noted before it had its noise: {self.events}"
                charged = False


def basis_of(X: Any) -> Any:
    """The basis that knows the names of a file's columns, or none."""
    return NAMED if isinstance(X, Path) else BASIS


class Rows:
    """An array that says its shape, and writes down in the diary when somebody looks at its values."""

    def __init__(self, diary: Diary, values: np.ndarray) -> None:
        self._diary, self._values = diary, values
        self.shape, self.ndim, self.dtype = values.shape, values.ndim, values.dtype

    def __len__(self) -> int:
        return len(self._values)

    def __array__(self, *how: Any, **named: Any) -> np.ndarray:
        self._diary.note("read")
        return np.array(self._values)


class Cell:
    """A number in a list, which writes down that it was looked at."""

    def __init__(self, diary: Diary, value: float) -> None:
        self._diary, self._value = diary, value

    def __float__(self) -> float:
        if self._diary.events[-1:] != ["read"]:
            self._diary.note("read")
        return self._value


def keep(diary: Diary, monkeypatch: Any) -> None:
    """Write down every line of a ledger, every look at a file's rows, and every drawing of noise."""

    def after(owner: Any, name: str, event: Callable[..., str]) -> None:
        original = getattr(owner, name)

        def watched(*args: Any, **how: Any) -> Any:
            found = original(*args, **how)
            diary.note(event(*args))
            return found

        monkeypatch.setattr(owner, name, watched)

    after(Ledger, "_append", lambda _, event, *__: event["what"])
    after(GridGaussian, "add", lambda *_: "noise")
    for owner, name in ((pq.ParquetFile, "read_row_group"), (pq.ParquetFile, "iter_batches"), (pa.csv, "open_csv")):
        after(owner, name, lambda *_: "read")


def of_a_summary(diary: Diary, folder: Path, X: Any, y: Any, epsilon: float = EPSILON) -> Any:
    """``Summary.of``."""
    asked = PrivacyRequest(epsilon, DELTA, BOUND, ledger=folder / "rows.ledger")
    return up.Summary.of(basis_of(X), X, y, privacy=asked)


def of_rounds(diary: Diary, folder: Path, X: Any, y: Any, epsilon: float = EPSILON) -> Any:
    """``PrivateRegressor``."""
    model = up.PrivateRegressor(epsilon, DELTA, BOUND, basis=basis_of(X), rounds=2, ledger=str(folder / "rows.ledger"))
    return model.fit(X, y)


def of_descent(diary: Diary, folder: Path, X: Any, y: Any, epsilon: float = EPSILON) -> Any:
    """``PrivateSGDRegressor``."""
    model = up.PrivateSGDRegressor(
        epsilon, DELTA, BOUND, basis=basis_of(X), passes=1, ledger=Ledger(folder / "rows.ledger")
    )
    return model.fit(X, y)


def of_a_command(diary: Diary, folder: Path, X: Any, y: Any, epsilon: float = EPSILON) -> Any:
    """``unpooled summarize``."""
    NAMED.save(folder / "study.basis")
    options = {"--target": y, "--epsilon": epsilon, "--delta": DELTA, "--label-bound": BOUND}
    options |= {"--ledger": folder / "rows.ledger", "-o": folder / "out.summary"}
    given = [str(part) for option in options.items() for part in option]
    result = CliRunner().invoke(app, ["summarize", str(folder / "study.basis"), str(X), *given])
    if result.exit_code:
        raise RuntimeError(f"{result.exit_code}: {result.output}")


def of_a_site(diary: Diary, folder: Path, X: Any, y: Any, epsilon: float = EPSILON) -> Any:
    """A site of a federation that is asked for sums; a refusal is raised, as is what the site lets through."""
    place = folder / f"sites {sum(1 for _ in folder.iterdir())}"
    north = Consortium(place, names=("north",), secure_keys=False)
    north.reconfigure("north", data=Path(X), ledger=folder / "rows.ledger")
    study = north.study(kind="less", quorum=1, privacy=StudyPrivacy(epsilon, DELTA, label_bound=BOUND))
    study.basis.save(place / "study.basis")
    content = {"basis": as_array((place / "study.basis").read_bytes())}
    site = north.sites["north"]
    for message in (
        Message("join", {"digest": study.digest, "study": study.definition(), "next": None}, content),
        ask_message(Sums(study), attempt=None),
    ):
        answer = site.answer(message)
        if answer.kind not in ("joined", "answer"):
            raise RuntimeError(str(answer.header))
    return answer


def of_an_audit(diary: Diary, folder: Path, X: Any, y: Any, epsilon: float = EPSILON) -> Any:
    """The audit of a ledger: several summaries of the same rows, each paid for, until the ledger refuses."""
    return of_summaries.through_a_ledger().release((X, y))


#: Each place, and the kinds of rows that it takes.
PLACES: dict[Callable[..., Any], tuple[str, ...]] = {
    of_a_summary: ("arrays", "parquet", "csv", "lists"),
    of_rounds: ("arrays", "parquet", "csv", "lists"),
    of_descent: ("arrays", "parquet", "csv", "lists"),
    of_a_command: ("parquet", "csv"),
    of_a_site: ("parquet", "csv"),
    of_an_audit: ("arrays",),
}
CASES = [(place, kind) for place, kinds in PLACES.items() for kind in kinds]


def rows_of(kind: str, diary: Diary, folder: Path, place: Callable[..., Any], table: pa.Table = TABLE) -> tuple:
    """Return rows as arrays that write into the diary, as files, or as lists."""
    if kind == "parquet":
        pq.write_table(table, folder / "rows.parquet")
        return folder / "rows.parquet", "y"
    if kind == "csv":
        pa.csv.write_csv(table, folder / "rows.csv")
        return folder / "rows.csv", "y"
    names = [name for name in table.column_names if name != "y"]
    inputs, labels = np.column_stack([table[name] for name in names]), table["y"].to_numpy()
    if place is of_an_audit:  # whose basis is of one input, and whose δ is for few rows
        inputs, labels = inputs[:60, :1], labels[:60]
    if kind == "lists":
        return [[Cell(diary, x) for x in row] for row in inputs.tolist()], [Cell(diary, y) for y in labels.tolist()]
    return Rows(diary, inputs), Rows(diary, labels)
