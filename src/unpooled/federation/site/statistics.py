"""The few statistics that a server may ask a site for; each has a name and is a sum over rows.

A statistic knows its form in a message (``to_parts``), the shapes of its sums (``shapes``), how a site computes it
(``compute``) and what the server makes of the sum (``from_sums``). A study determines which statistics belong to it;
both sides refuse the others.

The sums of a statistic are a summary, scores, or else :class:`Totals`, which carry the digest of the statistic.
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
from ...bases.maps import read_array
from ...gate import Release, facts
from ...gate.gate import check_policy
from ...privacy import NoiseRecord, mu_for
from ...privacy.ledger import Spending
from ...privacy.release import CheckedRequest, check_request
from ...summaries import Candidates, Scores, Summary
from ...summaries.candidates import LEAVE_ONE_OUT, score_source
from ...summaries.contents import Contents, check_sums, field_shapes, from_arrays, is_digest, loss_of, to_arrays
from ...summaries.passes import Functions, Target, make_target
from ...summaries.summary import SUMS, summarize_target
from ..secure.fixed_point import Shapes, flatten, from_whole_numbers, restore, to_whole_numbers
from ..study.study import Study
from .config import SiteData

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]


@dataclass(frozen=True)
class SiteAnswer:
    """A site's answer: the statistic, the facts that its policy judges, and the privacy spending, if there is any."""

    part: Any  #: an object with ``n_rows``, ``sums`` and ``save``
    release: Release
    spending: Spending | None = None


class Statistic(ABC):
    """One question of a study."""

    name: ClassVar[str]
    study: Study

    @property
    def price(self) -> float:
        """The price of an answer, as the μ of a Gaussian event; 0 without noise."""
        return 0.0

    @abstractmethod
    def to_parts(self) -> Parts:
        """Return the header and the arrays for a message."""

    @abstractmethod
    def shapes(self) -> Shapes:
        """Return the names of the sums and their shapes."""

    @abstractmethod
    def compute(self, data: SiteData) -> SiteAnswer:
        """Compute the sums over the rows of a site."""

    @abstractmethod
    def from_sums(self, n_rows: int, sums: dict[str, Sum], n_sites: int) -> Any:
        """Return the result that the sums over ``n_sites`` sites make, after checking them."""

    @abstractmethod
    def load(self, path: Path, n_sites: int = 1) -> Any:
        """Return the content of a file from a site, or of a sum over sites; another question raises a ValueError."""

    def to_vector(self, part: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return a site's contribution to a secure sum: one vector of pairs high + low."""
        return flatten(part.n_rows, part.sums, self.shapes())

    def from_vector(self, high: np.ndarray, low: np.ndarray) -> tuple[int, dict[str, Sum]]:
        """Return the number of rows and the sums from one vector or from a sum of vectors."""
        return restore(high, low, self.shapes())

    @cached_property
    def digest(self) -> str:
        """The digest of the question, which is the same at the server and at all sites."""
        header, arrays = self.to_parts()
        return files.digest({"study": self.study.digest, "statistic": self.name, **header}, arrays)


@dataclass(frozen=True)
class Sums(Statistic):
    """The sums of a summary of labels, or of ψ(y - f(x)) for one or several functions f in the span of the basis."""

    study: Study
    number: int = 0  #: the number of the round
    functions: Functions | None = None
    loss: str = "squared"
    order: int = 1
    probes: int = 0

    name: ClassVar[str] = SUMS.name

    def __post_init__(self) -> None:
        study, estimator = self.study, self.study.kind == "estimator"
        # An estimator first counts rows by sums of labels; its other questions have the study's order and loss.
        orders = {study.order, 1} if estimator else {study.order}
        losses = {study.loss, "squared"} if estimator else {study.loss}
        most = {"rounds": study.rounds, "estimator": study.exchanges}.get(study.kind, 1)
        allowed = study.kind in ("less", "second-order", "rounds", "estimator")
        allowed = allowed and self.order in orders and self.loss in losses and 0 <= self.number < most
        if study.kind == "rounds":
            allowed = allowed and (self.functions is None) == (self.number == 0)
        allowed = allowed and (self.functions is None or study.kind in ("rounds", "estimator"))
        if not allowed or (self.probes and not estimator) or not 0 <= self.probes <= 8:
            raise ValueError("these sums do not belong to the study")
        if self.functions is not None:
            self._check_functions(self.functions.coef, self.functions.intercept)

    def _check_functions(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        M, n = self.study.basis.n_features_, len(self.study.targets) + self.probes
        good = coef.ndim == 2 and intercept.ndim == 1 and coef.shape == (M, len(intercept)) and len(intercept) > 0
        if not good or len(intercept) % n or (self.study.kind == "rounds" and len(intercept) != n):
            raise ValueError("the model of the residuals does not match the basis and the targets")
        if not (np.all(np.isfinite(coef)) and np.all(np.isfinite(intercept))):
            raise ValueError("the model of the residuals has coefficients that are not finite numbers")

    @property
    def price(self) -> float:
        """See :class:`Statistic`."""
        if self.study.privacy is None:
            return 0.0
        request = self.study.privacy_request(self.number)
        return mu_for(request.epsilon, request.delta)

    def to_parts(self) -> Parts:
        """See :class:`Statistic`."""
        header = {"number": self.number, "loss": self.loss, "order": self.order, "probes": self.probes}
        f = self.functions
        return header, {} if f is None else {"coef": f.coef, "intercept": f.intercept}

    @property
    def contents(self) -> Contents:
        """The facts that the summaries of all sites share."""
        basis, f = self.study.basis, self.functions
        n = len(self.study.targets) + self.probes if f is None else len(f.intercept)
        digest = None if f is None else f.digest
        return Contents(basis.digest, basis.n_features_, self.order, n, self.loss, digest)

    def private_request(self, ledger: Any = None) -> CheckedRequest:
        """Return the checked request for these sums with noise."""
        privacy = self.study.privacy_request(self.number, ledger)
        return check_request(self.study.basis, self.order, self.functions, loss_of(self.loss), None, privacy)

    @cached_property
    def noise_record(self) -> NoiseRecord | None:
        """The record of the noise of one site, which is known before the site is asked; None without privacy."""
        if self.study.privacy is None:
            return None
        q = self.private_request()
        return q.privacy.record(q.bounds, q.noise, q.purpose)

    def shapes(self) -> Shapes:
        """See :class:`Statistic`."""
        return field_shapes(self.contents, self.noise_record)

    def compute(self, data: SiteData) -> SiteAnswer:
        """See :class:`Statistic`; with noise, first the policy is checked, then the ledger charged, then rows read."""
        study, share, spending = self.study, 0.0, None
        if study.privacy is not None:
            if data.weight is not None:
                raise ValueError("this site has weights, which a private summary cannot use")
            question = self.private_request(data.ledger)
            check_policy(data.policy, question)
            spending = question.spending()
            summary = question.release(question.read(spending, *data.locate_rows(study)))
            if study.secure and summary.privacy is not None and summary.privacy.grid != question.noise.grid:
                raise ValueError("this site has more rows than the shares of the noise allow")
        else:
            source, features = data.open_rows(study)
            if source.n_outputs != len(study.targets):
                raise ValueError(f"there are {source.n_outputs} labels, but the study has {len(study.targets)}")
            _, target = make_target(features, self.functions, loss_of(self.loss))
            target = replace(target, probes=self.probes)
            summary = summarize_target(features, source, self.contents, target, None)
            share = summary.label_share
        release = facts.of_summary(summary, share)
        release = replace(release, targets=study.targets, n_targets=len(study.targets))
        return SiteAnswer(self._with_targets(summary), release, spending)

    def to_vector(self, part: Summary) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`Statistic`; with noise in shares the vector holds whole numbers, which are never rounded."""
        if self.study.privacy is None:
            return super().to_vector(part)
        q, sums = self.private_request(), {name: value.high for name, value in part.sums.items()}
        high = np.concatenate(
            [[part.n_rows], sums["weight"], to_whole_numbers(sums, q.bounds.weighted_sums, q.noise.grid)]
        )
        return high, np.zeros_like(high)

    def from_vector(self, high: np.ndarray, low: np.ndarray) -> tuple[int, dict[str, Sum]]:
        """See :class:`Statistic`."""
        if self.study.privacy is not None:
            q = self.private_request()
            sums = {"weight": high[1:2], **from_whole_numbers(high[2:], q.bounds.weighted_sums, q.noise.grid)}
            high = np.concatenate([high[:1], *(sums[name] for name in self.shapes())])
            low = np.zeros_like(high)
        return super().from_vector(high, low)

    def _with_targets(self, summary: Summary) -> Summary:
        """Return the summary with the names of the targets, if it has one function for each."""
        names = self.study.targets if self.contents.n_outputs == len(self.study.targets) else ()
        return replace(summary, targets=names, one_target=self.contents.n_outputs == 1, known_basis=self.study.basis)

    def from_sums(self, n_rows: int, sums: dict[str, Sum], n_sites: int) -> Summary:
        """Return the summary of all rows."""
        one = self.noise_record
        record = None if one is None else sum((one for _ in range(n_sites - 1)), start=one)
        check_sums(sums, n_rows, record)
        return self._with_targets(Summary(self.contents, n_rows, sums, privacy=record))

    def load(self, path: Path, n_sites: int = 1) -> Summary:
        """See :class:`Statistic`."""
        summary, wanted, record = Summary.load(path), self.contents, self.noise_record
        if summary.contents != wanted:
            raise ValueError(
                f"the summary is of something else than was asked for: {_describe_difference(summary, wanted)}"
            )
        if (summary.privacy is None) != (record is None):
            raise ValueError("the summary has noise that was not requested, or lacks noise that was")
        if record is not None and summary.privacy is not None:
            wrong = record.difference(summary.privacy) if n_sites == 1 else ""
            if wrong or summary.privacy.shares != n_sites:
                raise ValueError(f"the noise of the summary is not the requested noise{': ' if wrong else ''}{wrong}")
        if summary.targets not in ((), self.study.targets):
            raise ValueError(f"the summary has the targets {', '.join(summary.targets)}, not those of the study")
        return self._with_targets(summary)


def _describe_difference(summary: Summary, wanted: Contents) -> str:
    for name, value in vars(wanted).items():
        own = getattr(summary.contents, name)
        if own != value:
            return f"its {name} is {quote(own)}, not {quote(value)}"
    return "its contents"


@dataclass(frozen=True)
class LeaveOneOut(Statistic):
    """The leave-one-out errors of candidates for every λ."""

    study: Study
    candidates: Candidates

    name: ClassVar[str] = LEAVE_ONE_OUT.name

    def __post_init__(self) -> None:
        study, c = self.study, self.candidates
        if study.privacy is not None or not (study.lam == "loo" or study.kind == "estimator"):
            raise ValueError("scores of candidates do not belong to the study")
        if c.basis != study.basis.digest or c.coef.shape[1:] != (study.basis.n_features_, len(study.targets)):
            raise ValueError("the candidates do not match the basis and the targets of the study")

    def to_parts(self) -> Parts:
        """See :class:`Statistic`."""
        return self.candidates.to_parts()

    def shapes(self) -> Shapes:
        """See :class:`Statistic`."""
        n_lam, _, n_targets = self.candidates.coef.shape
        return {"weight": (1,), "square": (n_lam, n_targets)}

    def compute(self, data: SiteData) -> SiteAnswer:
        """See :class:`Statistic`."""
        source, features = data.open_rows(self.study)
        scores = score_source(self.candidates, features, source)
        share = facts.error_share_of(self.candidates, features, source)
        return SiteAnswer(scores, facts.of_scores(scores, self.candidates, self.study.targets, share))

    def from_sums(self, n_rows: int, sums: dict[str, Sum], n_sites: int) -> Scores:
        """Return the scores over all rows."""
        if not (sums["weight"].high[0] > 0 and np.all(sums["square"].high >= 0)):
            raise ValueError("a sum of weights or squares is negative")
        return Scores(self.candidates.digest, n_rows, sums, self.candidates.question)

    def load(self, path: Path, n_sites: int = 1) -> Scores:
        """See :class:`Statistic`."""
        scores = Scores.load(path)
        if scores.candidates != self.candidates.digest or scores.sums["square"].high.shape != self.shapes()["square"]:
            raise ValueError(f"the scores are of the candidates {scores.candidates[:12]}, not of those that were sent")
        return scores


def read_sums(study: Study, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Sums:
    """Return the sums that a message asks for; raise a ValueError if they do not belong to the study."""
    if set(header) != {"number", "loss", "order", "probes"} or any(type(header[k]) is not int for k in _COUNTS):
        raise ValueError("the question about sums cannot be read")
    if set(arrays) not in (set(), {"coef", "intercept"}):
        raise ValueError("the model of the residuals is not complete")
    functions = None
    if arrays:
        functions = Functions(read_array("coef", arrays, ndim=2), read_array("intercept", arrays, ndim=1))
    return Sums(study, header["number"], functions, str(header["loss"]), header["order"], header["probes"])


_COUNTS = ("number", "order", "probes")


def _make_sums(study: Study, number: int, contents: Contents, target: Target) -> Sums:
    """Return the sums for an estimator; sites only know models that are functions in the span of the basis."""
    if type(target) is not Target or target.predictor is not None or not target.with_loss:
        raise ValueError("sites can only take residuals of functions in the span of the basis, not of other models")
    f, intercept = target.coef, target.intercept
    functions = None if f is None or intercept is None else Functions(f, intercept)
    return Sums(study, number, functions, contents.loss, contents.order, target.probes)


#: functions that turn the question of an estimator into a statistic, by the name of its :class:`NamedStatistic`
STATISTIC_MAKERS: dict[str, Callable[..., Statistic]] = {
    SUMS.name: _make_sums,
    LEAVE_ONE_OUT.name: lambda study, _, candidates: LeaveOneOut(study, candidates),
}


@dataclass(frozen=True)
class Totals:
    """Sums of one statistic over the rows of one or several sites."""

    statistic: str  #: the digest of the statistic
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
        """Write the totals to one file."""
        files.write(path, "totals", {"statistic": self.statistic, "n_rows": self.n_rows}, to_arrays(self.sums))

    @classmethod
    def load(cls, path: files.PathLike, fields: Shapes) -> Totals:
        """Return the totals in a file, which must have these fields."""
        header, arrays = files.read(path, "totals")
        try:
            with files.open_content(header, arrays, "file of totals") as (entries, numbers):
                statistic, n_rows = entries["statistic"], entries["n_rows"]
                if not is_digest(statistic) or type(n_rows) is not int or n_rows < 1:
                    raise ValueError("its header does not identify the statistic and the number of rows")
                return cls(statistic, n_rows, from_arrays(numbers, fields))
        except ValueError as error:
            raise files.FileError(f"{path} does not hold complete totals: {error}") from None


class TotalsStatistic(Statistic):
    """A statistic whose sums travel as :class:`Totals`."""

    def load(self, path: Path, n_sites: int = 1) -> Totals:
        """See :class:`Statistic`."""
        totals = Totals.load(path, self.shapes())
        if totals.statistic != self.digest:
            raise ValueError(f"the totals are of the statistic {totals.statistic[:12]}, which was not asked for")
        return self.from_sums(totals.n_rows, totals.sums, n_sites)
