"""Questions between server and site: averages of the sites' own fits, and the messages that ask for a statistic.

**Averages** in a basis are what rule (13) of Guo, Lin and Zhou (2017) asks for, here with ridge regression in the span.
Every site fits its own rows, f_j = a_jᵀφ + b_j for every λ, and the average is f̄ = Σ_j |D_j| f_j / Σ_j |D_j|, (4) of
the paper: a site sends |D_j| a_j and |D_j| b_j, which add up. λ is chosen by the error of the averages f̄ of the
training halves on the validation halves,

    (13)  (1/m) Σ_j (1/|D_j²|) Σ_{D_j²} (f̄(x) - y)²   every site counts alike, or
    (14)  (1/|D²|) Σ_j Σ_{D_j²} (f̄(x) - y)²            every row counts alike.

**Messages** are turned into the statistic they ask for, and a policy learns what a study would ask before any row is
looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..._base.compensated import Sum
from ..._base.rows import Block, Source
from ..._base.text import join_lines
from ...bases.maps import finite
from ...engines import as_engine
from ...estimators.from_sums import FromSums
from ...filters import as_filter
from ...gate import LabelShare, Release, facts
from ...summaries import Candidates
from ...summaries.passes import Functions, Target, mapped, stretches
from ...summaries.summary import of_source
from ..secure.fixed_point import Shapes, length
from ..study.study import Study
from ..wire.transport import Message, MessageError
from .config import SiteData
from .statistics import LeaveOneOut, Made, Parts, Statistic, Sums, Totals, sums_of


class Averaged(Statistic):
    """What the two statistics here share."""

    def result(self, n_rows: int, sums: dict[str, Sum], n_sites: int) -> Totals:
        """The totals over all sites."""
        if not np.all(sums["weight"].high > 0) or ("square" in sums and np.any(sums["square"].high < 0)):
            raise ValueError("a sum of weights or squares is negative")
        return Totals(self.digest, n_rows, sums)

    def loaded(self, path: Path, n_sites: int = 1) -> Totals:
        """See :class:`Statistic`."""
        found = Totals.load(path, self.fields())
        if found.statistic != self.digest:
            raise ValueError(f"the totals are of the statistic {found.statistic[:12]} and not of what was asked for")
        return self.result(found.n_rows, found.sums, n_sites)

    def _release(self, kind: str, n_rows: int, share: float) -> Release:
        study = self.study
        numbers, basis, targets = length(self.fields()), study.basis, study.targets
        order = 2 if kind == "functions" else 0
        return Release(
            kind, basis.digest, targets, order, n_rows, basis.n_features_, len(targets), share, False, None, numbers, 0
        )  # fmt: skip


@dataclass(frozen=True)
class Fits(Averaged):
    """Σ_j |D_j| a_j and Σ_j |D_j| b_j for every λ: each site's own ridge regression, of all its rows or of a half."""

    study: Study
    lam: np.ndarray
    halves: bool

    called: ClassVar[str] = "fits"

    def __post_init__(self) -> None:
        lam, chosen = np.atleast_1d(self.lam), isinstance(self.study.lam, str)
        good = lam.ndim == 1 and 0 < len(lam) <= 200 and np.all(np.isfinite(lam)) and np.all(lam > 0)
        wanted = chosen if self.halves else len(lam) == 1
        if self.study.kind != "average" or not good or not wanted:
            raise ValueError("these fits are not among those that the study asks for")

    def parts(self) -> Parts:
        """See :class:`Statistic`."""
        return {"halves": self.halves}, {"lam": self.lam}

    def fields(self) -> Shapes:
        """See :class:`Statistic`."""
        n_lam, M, T = len(self.lam), self.study.basis.n_features_, len(self.study.targets)
        return {"weight": (1,), "sites": (1,), "coef": (n_lam, M, T), "intercept": (n_lam, T)}

    def made(self, data: SiteData) -> Made:
        """See :class:`Statistic`."""
        study = self.study
        source, features = data.half(study, False) if self.halves else data.opened(study)
        summary = of_source(features, source, 2, None, "squared", None)
        rules = FromSums(as_filter(study.filter), self.lam, study.center, "all", ridge=False, grid=None)
        _, found = rules.solutions(summary, study.basis, same_sample=False)
        W = summary.weight
        sums = {"weight": np.asarray([W]), "sites": np.ones(1)}
        sums |= {"coef": W * found.coef, "intercept": W * found.intercept}
        part = Totals(self.digest, summary.n_rows, {name: Sum.of(value) for name, value in sums.items()})
        return Made(part, self._release("functions", summary.n_rows, summary.label_share))


@dataclass(frozen=True)
class Errors(Averaged):
    """Σ (f(x) - y)² over the validation halves for several functions; divided by |D_j²| where sites count alike."""

    study: Study
    functions: Functions

    called: ClassVar[str] = "errors"

    def __post_init__(self) -> None:
        M, n, f = self.study.basis.n_features_, len(self.study.targets), self.functions
        if self.study.kind != "average" or not isinstance(self.study.lam, str):
            raise ValueError("errors of functions are not among what the study asks for")
        if f.coef.shape != (M, len(f.intercept)) or not len(f.intercept) or len(f.intercept) % n:
            raise ValueError("the functions do not go with the basis and the targets of the study")

    def parts(self) -> Parts:
        """See :class:`Statistic`."""
        return {}, {"coef": self.functions.coef, "intercept": self.functions.intercept}

    def fields(self) -> Shapes:
        """See :class:`Statistic`."""
        T = len(self.study.targets)
        return {"weight": (1,), "square": (len(self.functions.intercept) // T, T)}

    def made(self, data: SiteData) -> Made:
        """See :class:`Statistic`."""
        source, features = data.half(self.study, True)
        sums, share, n_rows = _squares(source, features, self.functions)
        weight, square = sums["weight"], sums["square"].reshape(self.fields()["square"])
        if self.study.score_by == "sites":
            weight, square = np.ones(1), square / weight
        part = Totals(self.digest, n_rows, {"weight": Sum.of(weight), "square": Sum.of(square)})
        return Made(part, self._release("scores", n_rows, share))


def _squares(source: Source, features: Any, functions: Functions) -> tuple[dict[str, np.ndarray], float, int]:
    """Σw and Σw(y - f(x))², one record's largest share in the errors, and the rows."""
    from ...losses import Squared

    target = Target(Squared(), functions.coef, functions.intercept)
    found: _Found = as_engine(None).map_reduce(
        _squared, stretches(source, features), _plus, args=(features, target), label="validating"
    )
    return {name: value.high for name, value in found.sums.items()}, found.share.value, found.n_rows


@dataclass(frozen=True)
class _Found:
    sums: dict[str, Sum]
    share: LabelShare
    n_rows: int


def _squared(block: Block, features: Any, target: Target) -> _Found:
    assert target.coef is not None
    sums = {"weight": Sum.of(np.zeros(1)), "square": Sum.of(np.zeros(target.coef.shape[1]))}
    share, n_rows = LabelShare(), 0
    for rows, phi in mapped(block, features):
        u = target.residual(rows.X, phi, np.asarray(rows.Y, dtype=np.float64))
        w = np.ones(len(phi)) if rows.weights is None else rows.weights
        sums = {"weight": sums["weight"] + Sum.of(w.sum()[None]), "square": sums["square"] + Sum.of(w @ (u * u))}
        share.add(u, rows.weights)
        n_rows += len(phi)
    return _Found(sums, share, n_rows)


def _plus(a: _Found, b: _Found) -> _Found:
    sums = {name: value + b.sums[name] for name, value in a.sums.items()}
    return _Found(sums, a.share + b.share, a.n_rows + b.n_rows)


def fits_of(study: Study, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Fits:
    """From the parts; a ValueError where they are not fits that the study asks for."""
    if set(header) != {"halves"} or type(header["halves"]) is not bool or set(arrays) != {"lam"}:
        raise ValueError("the fits that are asked for cannot be read")
    return Fits(study, finite("lam", arrays, ndim=1), header["halves"])


def errors_of(study: Study, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Errors:
    """From the parts; a ValueError where they are not errors that the study asks for."""
    if header or set(arrays) != {"coef", "intercept"}:
        raise ValueError("the functions whose errors are asked for cannot be read")
    return Errors(study, Functions(finite("coef", arrays, ndim=2), finite("intercept", arrays, ndim=1)))


_READERS: dict[str, Callable[..., Statistic]] = {
    Sums.called: sums_of,
    LeaveOneOut.called: lambda study, header, arrays: LeaveOneOut(study, Candidates.from_parts(header, arrays)),
    Fits.called: fits_of,
    Errors.called: errors_of,
}
PLENTY = 2**40  # rows: whatever is refused with so many is refused with any


def question(statistic: Statistic, **header: Any) -> Message:
    """The message that asks a site for a statistic."""
    about, arrays = statistic.parts()
    asked = {"study": statistic.study.digest, "statistic": statistic.called, "about": about, "digest": statistic.digest}
    return Message("ask", asked | header, arrays)


def statistic_of(study: Study, message: Message) -> Statistic:
    """The inverse; a MessageError where it is no statistic, or none of this study."""
    called, about = message.header.get("statistic"), message.header.get("about")
    if not isinstance(called, str) or called not in _READERS or not isinstance(about, dict):
        names = ", ".join(_READERS)
        raise MessageError(f"a site answers {names}, and nothing else")
    try:
        found = _READERS[called](study, about, message.arrays)
    except (ValueError, TypeError) as error:
        raise MessageError(f"the question cannot be answered: {join_lines(error)}") from None
    if message.header.get("digest") != found.digest:
        raise MessageError("the question is not the one that its digest says")
    return found


def planned(study: Study) -> Release:
    """The facts of what a study asks for, as if there were plenty of rows and no record stood out."""
    basis, targets, private = study.basis, study.targets, None
    if study.privacy is not None:
        q = Sums(study, 0, None, study.loss, study.order).question()
        private = facts.of_guarantee(q.privacy.record(q.bounds, q.noise, q.purpose).guarantee)
    kind = "functions" if study.kind == "average" else "summary"
    residual = study.rounds > 1
    return Release(
        kind, basis.digest, targets, study.order, PLENTY, basis.n_features_, len(targets), 0.0, residual, private, 0, 0
    )  # fmt: skip
