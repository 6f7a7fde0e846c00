"""Statistics that a server may ask a site for: a few, by name, each a sum over rows, and nothing else.

A statistic knows how it travels (``parts``), what it is made of (``fields``), how a site makes it (``made``) and what
the server gets from the sum (``result``). A study says which belong to it; the others are refused on both sides.

Sums of a statistic that is no summary and no scores are :class:`Totals`: they are named by the statistic and add up
like the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..._base import files
from ..._base.checks import NotAddable
from ..._base.compensated import Sum
from ..._base.text import quote
from ...bases.maps import finite
from ...gate import Release, facts
from ...gate.gate import check_policy
from ...privacy import Noised
from ...privacy.ledger import Spending
from ...privacy.release import Asked, asked
from ...summaries import Candidates, Scores, Summary
from ...summaries.candidates import LEAVE_ONE_OUT, scores_of_source
from ...summaries.contents import Contents, check_sums, from_arrays, is_digest, loss_of, shapes, to_arrays
from ...summaries.passes import Functions, Target, residual_target
from ...summaries.summary import SUMS, of_target
from ..secure.fixed_point import Shapes, flattened, from_whole, restored, whole
from ..study.study import Study
from .config import SiteData

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Made:
    """A site's statistic, the facts its policy judges, and what was spent on it: nothing where it is not private."""

    part: Any  #: with ``n_rows``, ``sums`` and ``save``
    release: Release
    spending: Spending | None = None


class Statistic(ABC):
    """One question of a study."""

    called: ClassVar[str]
    study: Study

    @abstractmethod
    def parts(self) -> Parts:
        """The header and the arrays that it travels as."""

    @abstractmethod
    def fields(self) -> Shapes:
        """The sums, by name, and their shapes."""

    @abstractmethod
    def made(self, data: SiteData) -> Made:
        """The sums over the rows of a site."""

    @abstractmethod
    def result(self, n_rows: int, sums: dict[str, Sum], n_sites: int) -> Any:
        """What sums over so many sites are, checked."""

    @abstractmethod
    def loaded(self, path: Path, n_sites: int = 1) -> Any:
        """What is in a file that a site sent, or a sum over several; a ValueError where it is of another question."""

    def vector(self, part: Any) -> tuple[np.ndarray, np.ndarray]:
        """What a site adds to a secure sum: one vector of pairs high + low."""
        return flattened(part.n_rows, part.sums, self.fields())

    def from_vector(self, high: np.ndarray, low: np.ndarray) -> tuple[int, dict[str, Sum]]:
        """The number of rows and the sums, of one vector or of a sum of several."""
        return restored(high, low, self.fields())

    @cached_property
    def digest(self) -> str:
        """The same at the server and at all sites."""
        header, arrays = self.parts()
        return files.digest({"study": self.study.digest, "statistic": self.called, **header}, arrays)


@dataclass(frozen=True)
class Sums(Statistic):
    """The sums of a summary: of labels, or of ψ(y - f(x)) for functions f in the span of the basis, one or several."""

    study: Study
    number: int = 0  #: the round
    functions: Functions | None = None
    loss: str = "squared"
    order: int = 1
    probes: int = 0

    called: ClassVar[str] = SUMS.name

    def __post_init__(self) -> None:
        study, estimator = self.study, self.study.kind == "estimator"
        # An estimator counts rows first, by sums of labels; the rest it asks for is of the study's order and loss.
        orders = {study.order, 1} if estimator else {study.order}
        losses = {study.loss, "squared"} if estimator else {study.loss}
        most = {"rounds": study.rounds, "estimator": study.exchanges}.get(study.kind, 1)
        allowed = study.kind in ("less", "second-order", "rounds", "estimator")
        allowed = allowed and self.order in orders and self.loss in losses and 0 <= self.number < most
        if study.kind == "rounds":
            allowed = allowed and (self.functions is None) == (self.number == 0)
        allowed = allowed and (self.functions is None or study.kind in ("rounds", "estimator"))
        if not allowed or (self.probes and not estimator) or not 0 <= self.probes <= 8:
            raise ValueError("these sums are not among those that the study asks for")
        if self.functions is not None:
            self._check_functions(self.functions.coef, self.functions.intercept)

    def _check_functions(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        M, n = self.study.basis.n_features_, len(self.study.targets) + self.probes
        good = coef.ndim == 2 and intercept.ndim == 1 and coef.shape == (M, len(intercept)) and len(intercept) > 0
        if not good or len(intercept) % n or (self.study.kind == "rounds" and len(intercept) != n):
            raise ValueError("the model whose residuals are asked for does not go with the basis and the targets")
        if not (np.all(np.isfinite(coef)) and np.all(np.isfinite(intercept))):
            raise ValueError("the model whose residuals are asked for has coefficients that are no numbers")

    def parts(self) -> Parts:
        """See :class:`Statistic`."""
        header = {"number": self.number, "loss": self.loss, "order": self.order, "probes": self.probes}
        f = self.functions
        return header, {} if f is None else {"coef": f.coef, "intercept": f.intercept}

    @property
    def contents(self) -> Contents:
        """What the summaries of all sites have in common."""
        basis, f = self.study.basis, self.functions
        n = len(self.study.targets) + self.probes if f is None else len(f.intercept)
        digest = None if f is None else f.digest
        return Contents(basis.digest, basis.n_features_, self.order, n, self.loss, digest)

    def question(self, ledger: Any = None) -> Asked:
        """The private form."""
        privacy = self.study.private(self.number, ledger)
        return asked(self.study.basis, self.order, self.functions, loss_of(self.loss), None, privacy)

    @cached_property
    def noised(self) -> Noised | None:
        """What is known of the noise of one site before it is asked; None without privacy."""
        if self.study.privacy is None:
            return None
        q = self.question()
        return q.privacy.record(q.bounds, q.noise, q.purpose)

    def fields(self) -> Shapes:
        """See :class:`Statistic`."""
        return shapes(self.contents, self.noised)

    def made(self, data: SiteData) -> Made:
        """See :class:`Statistic`; with noise the policy, the ledger and the rows are looked at in that order."""
        study, share, spending = self.study, 0.0, None
        if study.privacy is not None:
            if data.weight is not None:
                raise ValueError("this site has weights, and a private summary has none")
            question = self.question(data.ledger)
            check_policy(data.policy, question)
            spending = question.spending()
            summary = question.release(question.read(spending, *data.named(study)))
            if study.secure and summary.privacy is not None and summary.privacy.grid != question.noise.grid:
                raise ValueError("this site has more rows than shares of one noise are planned for")
        else:
            source, mapped = data.opened(study)
            if source.n_outputs != len(study.targets):
                raise ValueError(f"there are {source.n_outputs} labels, and the study has {len(study.targets)}")
            _, target = residual_target(mapped, self.functions, loss_of(self.loss))
            target = replace(target, probes=self.probes)
            summary = of_target(mapped, source, self.contents, target, None)
            share = summary.label_share
        release = facts.of_summary(summary, share)
        release = replace(release, targets=study.targets, n_targets=len(study.targets))
        return Made(self._named(summary), release, spending)

    def vector(self, part: Summary) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`Statistic`; with noise in shares the whole numbers that nothing rounds."""
        if self.study.privacy is None:
            return super().vector(part)
        q, sums = self.question(), {name: value.high for name, value in part.sums.items()}
        high = np.concatenate([[part.n_rows], sums["weight"], whole(sums, q.bounds.released, q.noise.grid)])
        return high, np.zeros_like(high)

    def from_vector(self, high: np.ndarray, low: np.ndarray) -> tuple[int, dict[str, Sum]]:
        """See :class:`Statistic`."""
        if self.study.privacy is not None:
            q = self.question()
            sums = {"weight": high[1:2], **from_whole(high[2:], q.bounds.released, q.noise.grid)}
            high = np.concatenate([high[:1], *(sums[name] for name in self.fields())])
            low = np.zeros_like(high)
        return super().from_vector(high, low)

    def _named(self, summary: Summary) -> Summary:
        """With the targets for names, where there is one function for each."""
        names = self.study.targets if self.contents.n_outputs == len(self.study.targets) else ()
        return replace(summary, targets=names, one_target=self.contents.n_outputs == 1, attached=self.study.basis)

    def result(self, n_rows: int, sums: dict[str, Sum], n_sites: int) -> Summary:
        """The summary of all rows."""
        one = self.noised
        noised = None if one is None else sum((one for _ in range(n_sites - 1)), start=one)
        check_sums(sums, n_rows, noised)
        return self._named(Summary(self.contents, n_rows, sums, privacy=noised))

    def loaded(self, path: Path, n_sites: int = 1) -> Summary:
        """See :class:`Statistic`."""
        summary, wanted, noised = Summary.load(path), self.contents, self.noised
        if summary.contents != wanted:
            raise ValueError(f"the summary is of something else than was asked for: {_different(summary, wanted)}")
        if (summary.privacy is None) != (noised is None):
            raise ValueError("the summary has noise where none was asked for, or none where it was")
        if noised is not None and summary.privacy is not None:
            wrong = noised.difference(summary.privacy) if n_sites == 1 else ""
            if wrong or summary.privacy.shares != n_sites:
                raise ValueError(f"the noise of the summary is not what was asked for{': ' if wrong else ''}{wrong}")
        if summary.targets not in ((), self.study.targets):
            raise ValueError(f"the summary is of {', '.join(summary.targets)}")
        return self._named(summary)


def _different(summary: Summary, wanted: Contents) -> str:
    for name, value in vars(wanted).items():
        own = getattr(summary.contents, name)
        if own != value:
            return f"its {name} is {quote(own)} and not {quote(value)}"
    return "its contents"


@dataclass(frozen=True)
class LeaveOneOut(Statistic):
    """The leave-one-out errors of candidates, one for each λ."""

    study: Study
    candidates: Candidates

    called: ClassVar[str] = LEAVE_ONE_OUT.name

    def __post_init__(self) -> None:
        study, c = self.study, self.candidates
        if study.privacy is not None or not (study.lam == "loo" or study.kind == "estimator"):
            raise ValueError("scores of candidates are not among what the study asks for")
        if c.basis != study.basis.digest or c.coef.shape[1:] != (study.basis.n_features_, len(study.targets)):
            raise ValueError("the candidates do not go with the basis and the targets of the study")

    def parts(self) -> Parts:
        """See :class:`Statistic`."""
        return self.candidates.to_parts()

    def fields(self) -> Shapes:
        """See :class:`Statistic`."""
        n_lam, _, n_targets = self.candidates.coef.shape
        return {"weight": (1,), "square": (n_lam, n_targets)}

    def made(self, data: SiteData) -> Made:
        """See :class:`Statistic`."""
        source, mapped = data.opened(self.study)
        scores = scores_of_source(self.candidates, mapped, source)
        share = facts.error_share_of(self.candidates, mapped, source)
        return Made(scores, facts.of_scores(scores, self.candidates, self.study.targets, share))

    def result(self, n_rows: int, sums: dict[str, Sum], n_sites: int) -> Scores:
        """The scores over all rows."""
        if not (sums["weight"].high[0] > 0 and np.all(sums["square"].high >= 0)):
            raise ValueError("a sum of weights or squares is negative")
        return Scores(self.candidates.digest, n_rows, sums, self.candidates.question)

    def loaded(self, path: Path, n_sites: int = 1) -> Scores:
        """See :class:`Statistic`."""
        scores = Scores.load(path)
        if scores.candidates != self.candidates.digest or scores.sums["square"].high.shape != self.fields()["square"]:
            raise ValueError(f"the scores are of the candidates {scores.candidates[:12]} and not of those sent")
        return scores


def sums_of(study: Study, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Sums:
    """From the parts; a ValueError where they are not sums that the study asks for."""
    if set(header) != {"number", "loss", "order", "probes"} or any(type(header[k]) is not int for k in _COUNTS):
        raise ValueError("the sums that are asked for cannot be read")
    if set(arrays) not in (set(), {"coef", "intercept"}):
        raise ValueError("the model whose residuals are asked for is not complete")
    functions = None
    if arrays:
        functions = Functions(finite("coef", arrays, ndim=2), finite("intercept", arrays, ndim=1))
    return Sums(study, header["number"], functions, str(header["loss"]), header["order"], header["probes"])


_COUNTS = ("number", "order", "probes")


def _sums_asked(study: Study, number: int, contents: Contents, target: Target) -> Sums:
    """Sites know functions in the span of the basis, and no other model."""
    if type(target) is not Target or target.predictor is not None or not target.with_loss:
        raise ValueError("sites take residuals of functions in the span of the basis, and of no other model")
    f, intercept = target.coef, target.intercept
    functions = None if f is None or intercept is None else Functions(f, intercept)
    return Sums(study, number, functions, contents.loss, contents.order, target.probes)


#: what an estimator may ask for in one of the exchanges: by the name of a :class:`NamedStatistic`, from its question
ASKED: dict[str, Callable[..., Statistic]] = {
    SUMS.name: _sums_asked,
    LEAVE_ONE_OUT.name: lambda study, _, candidates: LeaveOneOut(study, candidates),
}


@dataclass(frozen=True)
class Totals:
    """Sums over the rows of one site or several, of the same statistic."""

    statistic: str  #: its digest
    n_rows: int
    sums: dict[str, Sum] = field(repr=False)

    def __add__(self, other: object) -> Totals:
        if not isinstance(other, Totals):
            return NotImplemented
        if self.statistic != other.statistic:
            reason = f"one is of the statistic {self.statistic[:12]} and the other of {other.statistic[:12]}"
            raise NotAddable(f"these totals do not add up: {reason}", reason)
        sums = {name: value + other.sums[name] for name, value in self.sums.items()}
        return replace(self, n_rows=self.n_rows + other.n_rows, sums=sums)

    def save(self, path: files.PathLike) -> None:
        """Write them to one file."""
        files.write(path, "totals", {"statistic": self.statistic, "n_rows": self.n_rows}, to_arrays(self.sums))

    @classmethod
    def load(cls, path: files.PathLike, fields: Shapes) -> Totals:
        """The totals in a file, which must have these fields."""
        header, arrays = files.read(path, "totals")
        try:
            with files.open_content(header, arrays, "file of totals") as (entries, numbers):
                statistic, n_rows = entries["statistic"], entries["n_rows"]
                if not is_digest(statistic) or type(n_rows) is not int or n_rows < 1:
                    raise ValueError("its header does not say what it is of")
                return cls(statistic, n_rows, from_arrays(numbers, fields))
        except ValueError as error:
            raise files.FileError(f"{path} does not hold complete totals: {error}") from None
