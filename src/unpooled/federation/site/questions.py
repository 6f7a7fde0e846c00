"""Questions between server and sites: averages of the sites' own fits, and the messages that ask for a statistic.

**Averages** in a basis follow Guo, Lin and Zhou (2017), with ridge regression in the span of the basis. Every site fits
its own rows, f_j = a_jᵀφ + b_j for every λ, and the average is f̄ = Σ_j |D_j| f_j / Σ_j |D_j|, their equation (4): a
site sends |D_j| a_j and |D_j| b_j, which add up. λ is chosen by the error of the averages f̄ of the training halves on
the validation halves, by one of their rules

    (13)  (1/m) Σ_j (1/|D_j²|) Σ_{D_j²} (f̄(x) - y)²   in which every site counts equally, or
    (14)  (1/|D²|) Σ_j Σ_{D_j²} (f̄(x) - y)²            in which every row counts equally.

**Messages** are turned into the statistics they ask for, and a policy can judge a study before any row is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._base.compensated import Sum
from ..._base.rows import Block, Source
from ..._base.text import join_lines, quote
from ...bases.maps import read_array
from ...engines import as_engine
from ...estimators.from_sums import FromSums
from ...filters import as_filter
from ...gate import LabelShare, Release, facts
from ...summaries import Candidates
from ...summaries.passes import Functions, Target, map_block, split_source
from ...summaries.summary import summarize_source
from ..secure.fixed_point import Shapes, vector_length
from ..study.study import Study
from ..wire.transport import Message, MessageError
from .config import SiteData
from .rounds import RoundQuestion, RowCount
from .rounds import expected_release as expected_answer
from .statistics import LeaveOneOut, Parts, SiteAnswer, Statistic, Sums, Totals, TotalsStatistic, read_sums


class AverageStatistic(TotalsStatistic):
    """The common part of the two statistics of averages."""

    def from_sums(self, n_rows: int, sums: dict[str, Sum], n_sites: int) -> Totals:
        """Return the totals over all sites."""
        if not np.all(sums["weight"].high > 0) or ("square" in sums and np.any(sums["square"].high < 0)):
            raise ValueError("a sum of weights or squares is negative")
        return Totals(self.digest, n_rows, sums)

    def _release(self, kind: str, n_rows: int, share: float) -> Release:
        study = self.study
        numbers, basis, targets = vector_length(self.shapes()), study.basis, study.targets
        order = 2 if kind == "functions" else 0
        return Release(
            kind, basis.digest, targets, order, n_rows, basis.n_features_, len(targets), share, False, None, numbers, 0
        )  # fmt: skip


@dataclass(frozen=True)
class SiteFits(AverageStatistic):
    """Each site's own ridge regression of all its rows or of a half: Σ_j |D_j| a_j and Σ_j |D_j| b_j for every λ."""

    study: Study
    lam: np.ndarray
    halves: bool

    name: ClassVar[str] = "fits"

    def __post_init__(self) -> None:
        lam, by_validation = np.atleast_1d(self.lam), isinstance(self.study.lam, str)
        good = lam.ndim == 1 and 0 < len(lam) <= 200 and np.all(np.isfinite(lam)) and np.all(lam > 0)
        wanted = by_validation if self.halves else len(lam) == 1
        if self.study.kind != "average" or not good or not wanted:
            raise ValueError("these fits do not belong to the study")

    def to_parts(self) -> Parts:
        """See :class:`Statistic`."""
        return {"halves": self.halves}, {"lam": self.lam}

    def shapes(self) -> Shapes:
        """See :class:`Statistic`."""
        n_lam, M, T = len(self.lam), self.study.basis.n_features_, len(self.study.targets)
        return {"weight": (1,), "sites": (1,), "coef": (n_lam, M, T), "intercept": (n_lam, T)}

    def compute(self, data: SiteData) -> SiteAnswer:
        """See :class:`Statistic`."""
        study = self.study
        source, features = data.open_half(study, False) if self.halves else data.open_rows(study)
        summary = summarize_source(features, source, 2, None, "squared", None)
        rules = FromSums(as_filter(study.filter), self.lam, study.fit_intercept, "all", ridge=False, grid=None)
        _, solutions = rules.solutions(summary, study.basis, same_sample=False)
        W = summary.weight
        sums = {"weight": np.asarray([W]), "sites": np.ones(1)}
        sums |= {"coef": W * solutions.coef, "intercept": W * solutions.intercept}
        part = Totals(self.digest, summary.n_rows, {name: Sum.of(value) for name, value in sums.items()})
        return SiteAnswer(part, self._release("functions", summary.n_rows, summary.label_share))


@dataclass(frozen=True)
class ValidationErrors(AverageStatistic):
    """Errors of several functions, Σ (f(x) - y)² over the validation halves, per |D_j²| if sites count equally."""

    study: Study
    functions: Functions

    name: ClassVar[str] = "errors"

    def __post_init__(self) -> None:
        M, n, f = self.study.basis.n_features_, len(self.study.targets), self.functions
        if self.study.kind != "average" or not isinstance(self.study.lam, str):
            raise ValueError("errors of functions do not belong to the study")
        if f.coef.shape != (M, len(f.intercept)) or not len(f.intercept) or len(f.intercept) % n:
            raise ValueError("the functions do not match the basis and the targets of the study")

    def to_parts(self) -> Parts:
        """See :class:`Statistic`."""
        return {}, {"coef": self.functions.coef, "intercept": self.functions.intercept}

    def shapes(self) -> Shapes:
        """See :class:`Statistic`."""
        T = len(self.study.targets)
        return {"weight": (1,), "square": (len(self.functions.intercept) // T, T)}

    def compute(self, data: SiteData) -> SiteAnswer:
        """See :class:`Statistic`."""
        source, features = data.open_half(self.study, True)
        sums, share, n_rows = _sum_squares(source, features, self.functions)
        weight, square = sums["weight"], sums["square"].reshape(self.shapes()["square"])
        if self.study.score_by == "sites":
            weight, square = np.ones(1), square / weight
        part = Totals(self.digest, n_rows, {"weight": Sum.of(weight), "square": Sum.of(square)})
        return SiteAnswer(part, self._release("scores", n_rows, share))


def _sum_squares(source: Source, features: Any, functions: Functions) -> tuple[dict[str, np.ndarray], float, int]:
    """Return Σw and Σw(y - f(x))², the largest share of one record in the errors, and the number of rows."""
    from ...losses import Squared

    target = Target(Squared(), functions.coef, functions.intercept)
    total: _SquaredErrors = as_engine(None).map_reduce(
        _square_block, split_source(source, features), _add, args=(features, target), label="validating"
    )
    return {name: value.high for name, value in total.sums.items()}, total.share.value, total.n_rows


@dataclass(frozen=True)
class _SquaredErrors:
    sums: dict[str, Sum]
    share: LabelShare
    n_rows: int


def _square_block(block: Block, features: Any, target: Target) -> _SquaredErrors:
    assert target.coef is not None
    sums = {"weight": Sum.of(np.zeros(1)), "square": Sum.of(np.zeros(target.coef.shape[1]))}
    share, n_rows = LabelShare(), 0
    for rows, phi in map_block(block, features):
        u = target.residual(rows.X, phi, np.asarray(rows.Y, dtype=np.float64))
        w = np.ones(len(phi)) if rows.weights is None else rows.weights
        sums = {"weight": sums["weight"] + Sum.of(w.sum()[None]), "square": sums["square"] + Sum.of(w @ (u * u))}
        share.add(u, rows.weights)
        n_rows += len(phi)
    return _SquaredErrors(sums, share, n_rows)


def _add(a: _SquaredErrors, b: _SquaredErrors) -> _SquaredErrors:
    sums = {name: value + b.sums[name] for name, value in a.sums.items()}
    return _SquaredErrors(sums, a.share + b.share, a.n_rows + b.n_rows)


def _read_fits(study: Study, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> SiteFits:
    """Return the fits that a message asks for; raise a ValueError if they do not belong to the study."""
    if set(header) != {"halves"} or type(header["halves"]) is not bool or set(arrays) != {"lam"}:
        raise ValueError("the question about fits cannot be read")
    return SiteFits(study, read_array("lam", arrays, ndim=1), header["halves"])


def _read_errors(study: Study, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> ValidationErrors:
    """Return the errors that a message asks for; raise a ValueError if they do not belong to the study."""
    if header or set(arrays) != {"coef", "intercept"}:
        raise ValueError("the question about errors cannot be read")
    return ValidationErrors(
        study, Functions(read_array("coef", arrays, ndim=2), read_array("intercept", arrays, ndim=1))
    )


def _read_count(study: Study, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> RowCount:
    """Return the count that a message asks for; raise a ValueError if it does not belong to the study."""
    if header or arrays:
        raise ValueError("the question about the number of rows cannot be read")
    return RowCount(study)


_READERS: dict[str, Callable[..., Statistic]] = {
    Sums.name: read_sums,
    LeaveOneOut.name: lambda study, header, arrays: LeaveOneOut(study, Candidates.from_parts(header, arrays)),
    SiteFits.name: _read_fits,
    ValidationErrors.name: _read_errors,
    RowCount.name: _read_count,
    RoundQuestion.name: RoundQuestion.read,
}
_PLENTY = 2**40  # a study that a policy refuses with this many rows is refused with any number


def ask_message(statistic: Statistic, **header: Any) -> Message:
    """Return the message that asks a site for a statistic."""
    about, arrays = statistic.to_parts()
    content = {"study": statistic.study.digest, "statistic": statistic.name, "about": about, "digest": statistic.digest}
    return Message("ask", content | header, arrays)


def read_statistic(study: Study, message: Message) -> Statistic:
    """Return the statistic that a message asks for; raise a MessageError if it does not belong to the study."""
    name, about = message.header.get("statistic"), message.header.get("about")
    if not isinstance(name, str) or name not in _READERS or not isinstance(about, dict):
        names = ", ".join(_READERS)
        raise MessageError(f"{quote(name)} is not among the statistics that sites answer, which are {names}")
    try:
        statistic = _READERS[name](study, about, message.arrays)
    except (ValueError, TypeError) as error:
        raise MessageError(f"the question cannot be answered: {join_lines(error)}") from None
    if message.header.get("digest") != statistic.digest:
        raise MessageError("the question does not match its digest")
    return statistic


def expected_release(study: Study) -> Release:
    """Return the facts of the most that a study asks for, if there are many rows and no record stands out."""
    if study.kind == "private":
        return expected_answer(study, _PLENTY, 0, True)
    basis, targets, private = study.basis, study.targets, None
    if study.privacy is not None:
        q = Sums(study, 0, None, study.loss, study.order).private_request()
        private = facts.of_guarantee(q.privacy.record(q.bounds, q.noise, q.purpose).guarantee)
    kind = "functions" if study.kind == "average" else "summary"
    residual = study.rounds > 1
    return Release(
        kind, basis.digest, targets, study.order, _PLENTY, basis.n_features_, len(targets), 0.0, residual, private, 0, 0
    )  # fmt: skip
