"""The audit table: what was claimed, what was found, and the verdict."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from .estimate import LowerBound, attainable
from .mechanism import Mechanism

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
