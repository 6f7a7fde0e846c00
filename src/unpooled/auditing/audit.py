"""up.audit: run mechanisms on neighbouring data sets, and compare their outputs with what the mechanisms claim.

The list of every private mechanism that the library ships is here. A new one to audit is a new line in it. The result
is a table: what was claimed, what was found, and the verdict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from .._base.checks import check_probability, check_whole
from .._base.progress import Progress
from .._base.text import quote
from . import of_models, of_summaries
from .estimate import CONFIDENCE, LEAST_RUNS, LowerBound, attainable, lower_bound
from .faults import FAULTS
from .mechanism import FEW_RUNS_EPSILON, Mechanism


def every_run_a_call(mechanism: Mechanism, runs: int = 5_000, quick_runs: int = 200) -> Mechanism:
    """The same without anything taken together: what a user calls is called in every run.

    That is slow, and few runs can refute a small ε only: claim one.
    """
    name, note = f"{mechanism.name}, call by call", "the call that a user makes, in every run"
    return replace(mechanism, name=name, many=None, runs=runs, quick_runs=quick_runs, note=note)


SHIPPED: dict[str, Callable[[], Mechanism]] = {
    "noise": of_summaries.grid_noise,
    "noise-small-epsilon": lambda: of_summaries.grid_noise(1.0, 0.01, size=1),
    "shares": of_summaries.in_shares,
    "summary-1": of_summaries.first_order,
    "summary-1-calls": lambda: every_run_a_call(of_summaries.first_order(FEW_RUNS_EPSILON)),
    "summary-2": of_summaries.second_order,
    "residuals": of_summaries.residual_round,
    "ledger": of_summaries.through_a_ledger,
    "sgd-tight": of_models.tight_descent,
    "sgd-tight-calls": lambda: every_run_a_call(of_models.tight_descent(FEW_RUNS_EPSILON)),
    "sgd-paper": of_models.paper_descent,
    "regressor": of_models.rounds,
    "regressor-no-public": of_models.rounds_without_public_rows,
    "regressor-no-bound": of_models.rounds_without_bound,
    "regressor-sites": of_models.rounds_at_sites,
}


PARTS = 10  # steps of the bar for each mechanism and data set


def audit(
    mechanisms: Any = None,
    *,
    neighbours: tuple[Any, Any] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    runs: int | None = None,
    confidence: float = CONFIDENCE,
    quick: bool = False,
    progress: bool = True,
) -> Audit:
    """Run private mechanisms many times on two neighbouring data sets, and bound their ε from below.

    Parameters
    ----------
    mechanisms : what to audit
        None is everything the library ships, and planted faults that have to be caught; or names of these, or
        ``auditing.Mechanism`` objects, one or several. Or a function of one data set that returns a number or an array
        with fresh noise, and then ``neighbours``, ``epsilon`` and ``delta`` say what it claims.
    neighbours, epsilon, delta : of such a function: two data sets, and how hard they are to tell apart
    runs : on each data set; None is what each mechanism suggests
    confidence : with which each lower bound holds
    quick : fewer runs: a minute and not several
    progress : whether to show a bar, where somebody waits for it

    Returns
    -------
    Audit, which prints as a table; ``ok`` says whether no claim was refuted and every planted fault was caught. It is
    False too where the runs are too few to refute a claim, whatever the mechanism does. A claim that was not refuted
    is not proved: docs/privacy/audit.md.

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> rng = np.random.default_rng(0)
    >>> def mean(y):
    ...     return np.mean(y) + rng.laplace(scale=0.01)  # should be 2/(nε) = 0.02 for labels in ±1
    >>> y = np.zeros(100)
    >>> found = up.audit(mean, neighbours=(np.append(y, 1.0), np.append(y, -1.0)), epsilon=1.0, delta=0.0, runs=5000)
    >>> found.ok
    False
    """
    if runs is not None:
        runs = check_whole("runs", runs, LEAST_RUNS)
    confidence = check_probability("confidence", confidence)
    chosen = [make() for make in _makers(mechanisms, neighbours, epsilon, delta)]
    rows = []
    with Progress(2 * PARTS * len(chosen), "runs", int(progress)) as bar:
        for mechanism in chosen:
            each = mechanism.runs_of(runs, quick)
            first, second = (_outputs(mechanism, data, each, bar) for data in mechanism.neighbours)
            bound = lower_bound(first, second, mechanism.delta, confidence, mechanism.direction)
            rows.append(Audited.of(mechanism, bound))
    return Audit(tuple(sorted(rows, key=lambda row: row.fault)), confidence)


def _outputs(mechanism: Mechanism, data: Any, runs: int, bar: Progress) -> np.ndarray:
    found = []
    for part in np.array_split(np.arange(runs), PARTS):
        found.append(mechanism.outputs(data, len(part)))
        bar.advance()
    return np.concatenate(found)


def _makers(
    mechanisms: Any, neighbours: tuple[Any, Any] | None, epsilon: float | None, delta: float | None
) -> Sequence[Callable[[], Mechanism]]:
    """What makes each of the mechanisms; names are looked up, and nothing is made before all are known."""
    claim = {"neighbours": neighbours, "epsilon": epsilon, "delta": delta}
    if callable(mechanisms):
        missing = [name for name, value in claim.items() if value is None]
        if missing:
            raise ValueError(f"a function to audit needs its claim: give {', '.join(missing)}")
        name = getattr(mechanisms, "__name__", type(mechanisms).__name__)
        own = Mechanism(name, mechanisms, **claim)  # type: ignore[arg-type]
        return [lambda: own]
    given = [name for name, value in claim.items() if value is not None]
    if given:
        raise ValueError(f"{', '.join(given)} belong to a function to audit: leave them out, or give the function")
    known = SHIPPED | FAULTS
    if mechanisms is None:
        return list(known.values())
    if isinstance(mechanisms, (str, Mechanism)):
        mechanisms = [mechanisms]
    if not isinstance(mechanisms, Iterable):
        raise ValueError(
            f"mechanisms must be a name, a Mechanism, several of these or a function, got {quote(mechanisms)}"
        )
    return [_maker(item, known) for item in mechanisms]


def _maker(item: Any, known: dict[str, Callable[[], Mechanism]]) -> Callable[[], Mechanism]:
    if isinstance(item, Mechanism):
        return lambda: item
    if isinstance(item, str) and item in known:
        return known[item]
    raise ValueError(f"there is no mechanism {quote(item)}: the names are {', '.join(known)}")


HEADS = ("mechanism", "claimed ε", "at δ", "found ε ≥", "if Gaussian", "runs", "verdict")


@dataclass(frozen=True)
class Audited:
    """One line: ``found`` is the lower bound that decides, ``found_if_gaussian`` the one that assumes more.

    ``attainable`` is the largest bound that so many runs can show: that of outputs without any noise.

    Attributes
    ----------
    name : of the mechanism
    fault : whether it is a planted one, that must be caught
    epsilon, delta : what is claimed
    found : the lower bound on ε that decides
    found_if_gaussian : the one that holds if the mechanism is Gaussian
    runs : on each of the two data sets
    attainable : the largest bound that so many runs can show
    note : a remark
    """

    name: str
    fault: bool
    epsilon: float
    delta: float
    found: float
    found_if_gaussian: float
    runs: int
    attainable: float
    note: str = ""

    @classmethod
    def of(cls, mechanism: Mechanism, bound: LowerBound) -> Audited:
        """The line of a mechanism."""
        m, b = mechanism, bound
        most = attainable(b.runs, m.delta, b.confidence)
        return cls(m.name, m.fault, m.epsilon, m.delta, b.epsilon, b.gaussian_epsilon, b.runs, most, m.note)

    @property
    def exceeds(self) -> bool:
        """Whether the claim is refuted."""
        return self.found > self.epsilon

    @property
    def can_refute(self) -> bool:
        """Whether so many runs could refute the claim at all; where not, they are no evidence for it."""
        return self.attainable > self.epsilon

    @property
    def ok(self) -> bool:
        """A claim must not be refuted though it could have been; that of a planted fault must be."""
        return self.can_refute and self.exceeds == self.fault

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.can_refute:
            return "too few runs to refute"
        if self.fault:
            return "caught" if self.exceeds else "NOT CAUGHT"
        return "EXCEEDS ITS CLAIM" if self.exceeds else "within its claim"

    @property
    def cells(self) -> tuple[str, ...]:
        """As the table shows them, in the order of its columns."""
        numbers = (f"{self.epsilon:.4g}", f"{self.delta:.4g}", f"{self.found:.2f}", f"{self.found_if_gaussian:.2f}")
        return (self.name, *numbers, f"{self.runs:,}", self.verdict)


@dataclass(frozen=True)
class Audit:
    """What :func:`unpooled.audit` found; it prints as a table.

    Attributes
    ----------
    rows : a line for each mechanism, planted faults last
    confidence : with which each lower bound holds
    """

    rows: tuple[Audited, ...]
    confidence: float

    @property
    def ok(self) -> bool:
        """Whether every claim could have been refuted and none was, and every planted fault was caught."""
        return all(row.ok for row in self.rows)

    @property
    def reading(self) -> str:
        """What the numbers mean, in two sentences."""
        return (
            f"Each lower bound holds but with probability {1 - self.confidence:.1g}. The one that decides assumes "
            "nothing of the mechanism; the other is nearer to the truth, and assumes that it is μ-Gaussian private."
        )

    def __str__(self) -> str:
        lines = [HEADS, *(row.cells for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
        table = ["  ".join(_aligned(line, widths)).rstrip() for line in lines]
        first_fault = next((i for i, row in enumerate(self.rows) if row.fault), None)
        if first_fault is not None:
            table.insert(1 + first_fault, "planted faults")
        return "\n".join([*table, self.reading])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows = [asdict(row) | {"verdict": row.verdict, "ok": row.ok} for row in self.rows]
        return {"confidence": self.confidence, "kept": self.ok, "rows": rows}

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)


def _aligned(cells: tuple[str, ...], widths: list[int]) -> list[str]:
    """Names and verdicts to the left, numbers to the right."""
    last = len(cells) - 1
    return [c.ljust(w) if i in (0, last) else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))]
