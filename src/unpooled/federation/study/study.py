"""A study: what is asked of the sites, all of it public, fixed before the first is asked, and named by a digest.

``study.toml`` is a study as the people who run it write it down, beside its basis.
"""

from __future__ import annotations

import math
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ... import bases
from ..._base import files
from ..._base.checks import check_budget, check_center, check_choice, check_positive, check_whole
from ..._base.text import join_lines, quote
from ..._solvers.span.residual_rounds import STEPS
from ...bases import Basis
from ...filters import as_filter, to_spec
from ...privacy import Private, epsilon_of, mu_for
from ...summaries.contents import loss_of, spec_of
from ..secure.fixed_point import FixedPoint
from ..secure.keys import check_name
from ..secure.masks import FEWEST


class ConfigError(ValueError):
    """A configuration that cannot be read, or that says something it cannot mean."""


STUDY_NAME = "study.toml"
RESULTS = "results"  #: the folder beside it that the study's own files come to be in
NEEDED = ("name", "basis", "targets", "members", "quorum", "timeout")


def read_study(folder: Path) -> Study:
    """The study that ``study.toml`` in a folder asks for; a ConfigError says what is wrong with it."""
    path = folder / STUDY_NAME
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}): make one with `unpooled federation init`"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {quote(str(error))}") from None
    known = [field.name for field in fields(Study) if field.name != "id"]
    _only(path, content, known)
    if missing := [name for name in NEEDED if name not in content]:
        raise ConfigError(f"{path} lacks {', '.join(missing)}")
    if not isinstance(content["basis"], str):
        raise ConfigError(f"basis in {path} must be the name of a file beside it, got {quote(content['basis'])}")
    content["basis"] = folder / content["basis"]
    if "privacy" in content:
        _only(path, content["privacy"], [field.name for field in fields(StudyPrivacy)])
    try:
        return Study(**content)
    except FileNotFoundError:
        raise ConfigError(f"{path} speaks of {content['basis']}, which does not exist: put the basis there") from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path}: {join_lines(error)}") from None


def _only(path: Path, content: Any, known: list[str]) -> None:
    if not isinstance(content, dict):
        raise ConfigError(f"privacy in {path} must be a table, [privacy], got {quote(content)}")
    if unknown := sorted(set(content) - set(known)):
        raise ConfigError(f"{path} has {', '.join(unknown)}, which a study does not have; it has {', '.join(known)}")


KINDS = {
    "less": "one round of LESS: sums of first order",
    "second-order": "ridge regression on the pooled rows: sums of second order",
    "rounds": "rounds of residual sums of first order",
    "average": "each site's own ridge regression in the basis, averaged; λ by validation on halves",
    "estimator": "an estimator of the server's, with first-order sums for many λ at once",
}
_ORDERS = {"second-order": 2, "average": 2}  # of the others it is 1
OUTSIDE = ("basis", "timeout", "patience", "poll")  # what the digest takes by other means, or leaves to the server


@dataclass(frozen=True)
class StudyPrivacy:
    """ε and δ of a whole study. Every round takes an equal part.

    Parameters
    ----------
    epsilon, delta : what the study may spend
    label_bound, means, labels, kappa : as in :class:`unpooled.privacy.Private`
    """

    epsilon: float
    delta: float
    label_bound: float | None = None
    _: KW_ONLY
    means: float = 0.25
    labels: float = 1.0
    kappa: float | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        Private(self.epsilon, self.delta, self.label_bound, means=self.means, labels=self.labels, kappa=self.kappa)

    def of_round(self, rounds: int, parties: int, missing: int, purpose: str, ledger: Any = None) -> Private:
        """What one of so many rounds asks for: μ² is split evenly."""
        epsilon = _epsilon_of_round(self.epsilon, self.delta, rounds)
        if not epsilon > 0:
            raise ValueError(f"epsilon {self.epsilon:g} is too little for {rounds} rounds: take fewer rounds")
        facts = {"means": self.means, "labels": self.labels, "kappa": self.kappa, "purpose": purpose, "ledger": ledger}
        return Private(epsilon, self.delta, self.label_bound, parties=parties, missing=missing, **facts)


@cache
def _epsilon_of_round(epsilon: float, delta: float, rounds: int) -> float:
    return epsilon_of(mu_for(epsilon, delta) / math.sqrt(rounds), delta)


@dataclass(frozen=True)
class Study:
    """What is asked. Whatever a site agrees to is in here; what it does not hold is never asked.

    Parameters
    ----------
    name : what people call it
    basis : the public basis, or the path of its file
    targets : the columns to predict
    members : the sites by name
    quorum : how many of them a sum needs at least; at least three where sums are secure
    timeout : how many seconds a site has for an answer
    kind : "less", "second-order", "rounds", "average", or "estimator" (what :class:`FederatedEngine` runs)
    order : of the sums, 1 or 2; 0 is what follows from the kind
    rounds : of kind "rounds", how many; of kind "estimator" the most
    loss : of kind "rounds": "squared", or with a scale "huber 1.5", "correntropy 3.0"
    lam : a number; "auto", from the sums alone; or "loo", by leave-one-out errors that sites send in one more exchange
        (kind "average": "rule13", by validation on every site's second half)
    grid : the λ to choose from; None is the default
    filter, center, ridge, steps : as in :class:`unpooled.SummaryRegressor`
    score_by : of kind "average": "sites" is rule (13) as printed, every site counts alike; "rows", every row
    privacy : a StudyPrivacy, or None for sums without noise
    secure : whether the server sees nothing but sums over all sites
    fraction_bits : of the numbers of a secure sum, at least 40
    steady : whether a study ends where a site drops out after the first sum. Otherwise it goes on while the quorum
        holds; then the sums before and after differ by that site, and its number of rows and Σφ follow from them
    patience : how many seconds the study waits for sites that are not connected yet, or whose people have not said yes
    poll : how many seconds pass until such a site is asked again
    id : tells this study from another run of the same; made up where it is not given
    """

    name: str
    basis: Basis = field(repr=False)
    targets: tuple[str, ...]
    members: tuple[str, ...]
    quorum: int
    timeout: float
    _: KW_ONLY
    kind: str = "less"
    order: int = 0
    rounds: int = 1
    loss: str = "squared"
    lam: Any = "auto"
    grid: tuple[float, ...] | None = None
    filter: Any = "tikhonov"
    center: Any = True
    ridge: bool = False
    steps: str = "plain"
    score_by: str = "rows"
    privacy: StudyPrivacy | None = None
    secure: bool = False
    fraction_bits: int = 64
    steady: bool = False
    patience: float = 0.0
    poll: float = 2.0
    id: str = ""

    def __post_init__(self) -> None:
        change: dict[str, Any] = {}
        if isinstance(self.basis, (str, Path)):
            change["basis"] = bases.load(self.basis)
        for name in ("targets", "members"):
            given = getattr(self, name)
            change[name] = (given,) if isinstance(given, str) else tuple(given)
        change["members"] = tuple(sorted(change["members"]))
        change["id"] = self.id or secrets.token_hex(8)
        change["order"] = self.order or _ORDERS.get(self.kind, 1)
        change["grid"] = None if self.grid is None else tuple(float(lam) for lam in np.atleast_1d(self.grid))
        change["lam"] = self.lam if isinstance(self.lam, str) else check_positive("lam", self.lam)
        if isinstance(self.privacy, Mapping):
            change["privacy"] = StudyPrivacy(**self.privacy)
        for name, value in change.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if not (isinstance(self.basis, Basis) and hasattr(self.basis, "map_")):
            raise ValueError(f"basis must be a fitted basis of up.bases or the path of one, got {quote(self.basis)}")
        check_name(self.name, "the name of a study")
        check_name(self.id, "the id of a study")
        for what, names in (("targets", self.targets), ("members", self.members)):
            if not names or len(set(names)) < len(names):
                raise ValueError(f"{what} must be names, each once, got {quote(names)}")
            for name in names:
                check_name(name, f"each of the {what}")
        check_choice("kind", self.kind, tuple(KINDS))
        check_choice("steps", self.steps, STEPS)
        check_choice("score_by", self.score_by, ("rows", "sites"))
        check_center(self.center)
        as_filter(self.filter)
        check_whole("rounds", self.rounds)
        if not 1 <= check_whole("quorum", self.quorum) <= len(self.members):
            raise ValueError(f"quorum is {self.quorum}, and there are {len(self.members)} members")
        if self.secure and self.quorum < FEWEST:
            raise ValueError(f"a secure sum needs a quorum of at least {FEWEST} sites, got {self.quorum}")
        for name in ("secure", "steady", "ridge"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"{name} must be true or false, got {quote(getattr(self, name))}")
        check_positive("timeout", self.timeout)
        check_positive("poll", self.poll)
        check_positive("patience", self.patience, zero=True)
        FixedPoint(len(self.members), self.fraction_bits)
        self._check_choices()

    def _check_choices(self) -> None:
        rules = {"average": ("rule13",), "rounds": ("auto", "loo"), "estimator": ("auto",)}.get(self.kind)
        if isinstance(self.lam, str):
            check_choice("lam", self.lam, rules or ("auto", "loo"))
        if self.kind not in ("rounds", "estimator") and self.rounds != 1:
            raise ValueError(f'rounds is {self.rounds}, and only studies of the kind "rounds" have more than one')
        if self.order not in (1, 2) or (self.kind != "estimator" and self.order != _ORDERS.get(self.kind, 1)):
            raise ValueError(f"order is {quote(self.order)}, and sums of the kind {self.kind!r} have another")
        if self.order == 2 and self.rounds > 1:
            raise ValueError("sums of order 2 are exact in one round: rounds of residuals are of order 1")
        if spec_of(loss_of(self.loss)) != self.loss:
            raise ValueError(f'loss must be "squared", or one with its scale, "huber 1.5"; got {quote(self.loss)}')
        if self.loss != "squared" and (self.kind not in ("rounds", "estimator") or self.lam == "loo"):
            raise ValueError(f'loss is {self.loss!r}: it goes with kind="rounds", and with lam other than "loo"')
        if self.privacy is None:
            return
        if self.kind not in ("less", "second-order", "rounds") or self.lam == "loo" or len(self.targets) > 1:
            raise ValueError(
                "a private study is of one target, of the kinds less, second-order or rounds, and chooses lam from the "
                "sums alone: averages, scores and many λ at once have no private form"
            )
        self.private(0).bounds(self.basis.kernel_, self.basis.n_features_, self.order, loss_of(self.loss).bound)

    @property
    def exchanges(self) -> int:
        """How many different statistics it asks for, at most."""
        if self.kind == "average":
            return 3 if isinstance(self.lam, str) else 1
        if self.kind == "estimator":
            return self.rounds + 2  # the rows are counted first, and the losses of every λ are summed at the end
        return self.rounds + (self.lam == "loo")

    def private(self, number: int, ledger: Any = None) -> Private:
        """What round ``number`` asks for; noise is made in shares where nothing but the sum is seen."""
        assert self.privacy is not None
        n = len(self.members)
        # One more than may drop out: a member that sees the total can take its own share off.
        parties, missing = (n, n - self.quorum + 1) if self.secure else (1, 0)
        return self.privacy.of_round(self.rounds, parties, missing, f"{self.name}, round {number + 1}", ledger)

    def definition(self) -> dict[str, Any]:
        """Everything that a site is told, as JSON; the basis by its digest."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in OUTSIDE}
        found |= {"basis": self.basis.digest, "filter": to_spec(as_filter(self.filter))}
        found |= {"privacy": None if self.privacy is None else asdict(self.privacy)}
        found |= {name: list(found[name]) for name in ("targets", "members")}
        found["grid"] = None if self.grid is None else list(self.grid)
        return found

    @cached_property
    def digest(self) -> str:
        """What tells it from other studies."""
        return files.digest(self.definition(), {})

    @classmethod
    def from_definition(cls, content: Any, basis: Basis, timeout: float = 1.0) -> Study:
        """The inverse, as a site reads it; a ValueError says what is wrong."""
        from ...filters import from_spec

        names = {f.name for f in fields(cls)} - {"timeout", "patience", "poll"}
        if not isinstance(content, dict) or set(content) != names:
            raise ValueError(f"a study must say {', '.join(sorted(names))}, and nothing else")
        if content["basis"] != basis.digest:
            raise ValueError(
                f"the study is of the basis {quote(content['basis'])[1:13]}, and {basis.digest[:12]} came with it"
            )
        try:
            inner = {**content, "basis": basis, "filter": from_spec(content["filter"]), "timeout": timeout}
            return cls(**inner)
        except (TypeError, KeyError) as error:
            raise ValueError(f"the study cannot be read: {quote(error)}") from None

    def with_id(self, id: str) -> Study:
        """The same study as an earlier run of it."""
        return replace(self, id=id)

    def describe(self) -> str:
        """What is asked, for the people who decide at a site."""
        names = ", ".join(self.targets)
        said = [
            f"study {self.name!r} ({self.digest[:12]}): {KINDS[self.kind]}",
            f"to predict {names}, in the basis {self.basis.digest[:12]} of {self.basis.n_features_} features",
            f"members: {', '.join(self.members)}; sums of fewer than {self.quorum} are not used",
            "secure sums: nobody sees this site's numbers, only the sum over all sites"
            if self.secure
            else "plain sums: the server sees this site's own numbers",
        ]
        most = self.exchanges
        if most > 1 and self.secure and not self.steady:
            said.append("if this site drops out after the first exchange, its number of rows follows from the sums")
        said.append("one exchange" if most == 1 else f"up to {most} exchanges, each of other sums of the same rows")
        if self.loss != "squared":
            said.append(f"loss: {self.loss}")
        if self.privacy is None:
            said.append("no noise is added")
        else:
            said.append(f"with noise: ε = {self.privacy.epsilon:g} and δ = {self.privacy.delta:g} for the whole study")
        return "\n".join(said)
