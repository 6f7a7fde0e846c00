"""The definition of a study: a public list of everything that the sites are asked, fixed in advance.

A digest identifies the study. ``study.toml``, beside the basis, is the form in which people write it.
"""

from __future__ import annotations

import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ... import bases
from ..._base import files
from ..._base.checks import check_choice, check_fit_intercept, check_positive, check_whole
from ..._base.text import join_lines, quote
from ..._solvers.span.residual_rounds import STEPS
from ...bases import Basis
from ...filters import as_filter, to_spec
from ...privacy import PrivacyRequest, mu_for
from ...privacy.noise_record import share_condition
from ...privacy.rounds.frame import Frame, build_public_frame
from ...privacy.rounds.labels import LOOKS
from ...privacy.rounds.schedule import ROUNDS
from ...summaries.contents import loss_of, spec_of
from ..secure.fixed_point import FixedPoint
from ..secure.keys import check_name
from ..secure.masks import FEWEST_MEMBERS
from .privacy import LIVE_ROUNDS, StudyPrivacy, check_private, describe_budget


class ConfigError(ValueError):
    """A configuration that cannot be read, or that has an impossible value."""


STUDY_NAME = "study.toml"
RESULTS = "results"  #: the folder beside it for the files of the study
_NEEDED = ("name", "basis", "targets", "members", "quorum", "timeout")


def read_study(folder: Path) -> Study:
    """Return the study that ``study.toml`` in a folder defines; a ConfigError says what is wrong with it."""
    path = folder / STUDY_NAME
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}): create one with `unpooled federation init`"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {quote(str(error))}") from None
    known = [field.name for field in fields(Study) if field.name != "id"]
    if "center" in content and "fit_intercept" not in content:  # the name that version 0.1 used
        content["fit_intercept"] = content.pop("center")
    _check_keys(path, content, known)
    if missing := [name for name in _NEEDED if name not in content]:
        raise ConfigError(f"{path} has no {', '.join(missing)}")
    if not isinstance(content["basis"], str):
        raise ConfigError(f"basis in {path} must be the name of a file beside it, got {quote(content['basis'])}")
    content["basis"] = folder / content["basis"]
    if "privacy" in content:
        _check_keys(path, content["privacy"], [field.name for field in fields(StudyPrivacy)])
    try:
        return Study(**content)
    except FileNotFoundError:
        raise ConfigError(f"{path} names the basis {content['basis']}, which does not exist: put it there") from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path}: {join_lines(error)}") from None


def _check_keys(path: Path, content: Any, known: list[str]) -> None:
    if not isinstance(content, dict):
        raise ConfigError(f"privacy in {path} must be a table, [privacy], got {quote(content)}")
    if unknown := sorted(set(content) - set(known)):
        raise ConfigError(f"{path} has the unknown entries {', '.join(unknown)}; choose from {', '.join(known)}")


KINDS = {
    "less": "one round of LESS: sums of first order",
    "second-order": "ridge regression on the pooled rows: sums of second order",
    "rounds": "rounds of residual sums of first order",
    "average": "each site's own ridge regression in the basis, averaged; λ by validation on halves",
    "private": "private rounds: noisy sums of residuals, each question from the noisy answers before it",
    "estimator": "an estimator of the server's, with first-order sums for many λ at once",
}
_ORDERS = {"second-order": 2, "average": 2}  # the order of all other kinds is 1
#: the word for fit_intercept in the definition of a study, which sites of every version read and which has a digest
INTERCEPT = "center"
_OUTSIDE = ("basis", "timeout", "patience", "poll")  # not in the digest, which has that of the basis instead


@dataclass(frozen=True)
class Study:
    """A study, which lists everything that sites are asked; a site agrees to this list, and nothing else is asked.

    Parameters
    ----------
    name : a name for people
    basis : the public basis, or the path of its file
    targets : the columns to predict
    members : the names of the sites
    quorum : the fewest sites in a sum; at least three if sums are secure
    timeout : the seconds that a site has for an answer
    kind : "less", "second-order", "rounds", "average", or "estimator" (for :class:`FederatedEngine`)
    order : the order of the sums, 1 or 2; 0 means that of the kind
    rounds : the number of rounds for the kind "rounds", and the largest number for the kind "estimator"; for the kind
        "private" 16, or "auto", which decides when the rows are counted
    loss : for the kind "rounds": "squared", or a loss with its scale such as "huber 1.5" or "correntropy 3.0"; for the
        kind "private": "auto", "huber" or "correntropy"
    lam : a number; "auto", from the sums alone; or "loo", by leave-one-out errors that sites send in one more exchange
        (kind "average": "rule13", by validation on every site's second half)
    grid : the λ to choose from; None is the default
    filter, fit_intercept, ridge, steps : as in :class:`unpooled.SummaryRegressor`
    score_by : of kind "average": "sites" is rule (13) as printed, every site counts alike; "rows", every row
    privacy : a StudyPrivacy, or None for sums without noise
    secure : whether the server sees only sums over all sites
    fraction_bits : the fraction bits of the numbers in a secure sum, at least 40
    steady : whether the study ends if a site drops out after the first sum. Otherwise it continues as long as there is
        a quorum; the sums before and after then differ by that site, so its number of rows and Σφ follow from them
    patience : the seconds to wait for sites that are not connected yet, or whose staff have not approved the study
    poll : the seconds until such a site is asked again
    id : distinguishes this study from other runs of the same study; random if it is not given
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
    rounds: Any = 0
    loss: str = ""
    lam: Any = "auto"
    grid: tuple[float, ...] | None = None
    filter: Any = "tikhonov"
    fit_intercept: Any = True
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
        private = self.kind == "private"
        change["rounds"] = (
            (LIVE_ROUNDS if private else 1) if type(self.rounds) is int and not self.rounds else self.rounds
        )
        change["loss"] = ("auto" if private else "squared") if self.loss == "" else self.loss
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
        check_fit_intercept(self.fit_intercept)
        as_filter(self.filter)
        if not (self.kind == "private" and self.rounds == "auto"):
            check_whole("rounds", self.rounds)
        if not 1 <= check_whole("quorum", self.quorum) <= len(self.members):
            raise ValueError(f"quorum must be at most the number of members, {len(self.members)}, got {self.quorum}")
        if self.secure and self.quorum < FEWEST_MEMBERS:
            raise ValueError(f"quorum must be at least {FEWEST_MEMBERS} if sums are secure, got {self.quorum}")
        for name in ("secure", "steady", "ridge"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"{name} must be true or false, got {quote(getattr(self, name))}")
        check_positive("timeout", self.timeout)
        check_positive("poll", self.poll)
        check_positive("patience", self.patience, zero=True)
        FixedPoint(len(self.members), self.fraction_bits)
        self._check_choices()

    def _check_choices(self) -> None:
        if self.privacy is not None and self.secure and self.quorum <= self.privacy.colluding:
            raise ValueError(
                f"quorum must be more than the {self.privacy.colluding} sites that may collude, got {self.quorum}"
            )
        if self.kind == "private":
            check_private(self)
            return
        rules = {"average": ("rule13",), "rounds": ("auto", "loo"), "estimator": ("auto",)}.get(self.kind)
        if isinstance(self.lam, str):
            check_choice("lam", self.lam, rules or ("auto", "loo"))
        if self.kind not in ("rounds", "estimator") and self.rounds != 1:
            raise ValueError(f"rounds must be 1 for the kind {self.kind!r}, got {self.rounds}")
        if self.order not in (1, 2) or (self.kind != "estimator" and self.order != _ORDERS.get(self.kind, 1)):
            raise ValueError(f"order does not belong to the kind {self.kind!r}, got {quote(self.order)}")
        if self.order == 2 and self.rounds > 1:
            raise ValueError("rounds must be 1 at order 2, which is exact in one round")
        if spec_of(loss_of(self.loss)) != self.loss:
            raise ValueError(
                f'loss must be "squared" or a loss with its scale, such as "huber 1.5"; got {quote(self.loss)}'
            )
        if self.loss != "squared" and (self.kind not in ("rounds", "estimator") or self.lam == "loo"):
            raise ValueError(f'loss {self.loss!r} needs the kind "rounds" or "estimator", and a lam other than "loo"')
        if self.privacy is None:
            return
        if self.kind not in ("less", "second-order", "rounds") or self.lam == "loo" or len(self.targets) > 1:
            raise ValueError(
                "a private study must have one target, the kind less, second-order or rounds, and a number or 'auto' "
                "for lam: there are no private averages, scores or sums for many λ at once"
            )
        self.privacy_request(0).bounds(self.basis.kernel_, self.basis.n_features_, self.order, loss_of(self.loss).bound)

    @property
    def promise(self) -> StudyPrivacy:
        """The privacy of a private study."""
        assert self.privacy is not None
        return self.privacy

    @property
    def mu(self) -> float:
        """The price of the whole study, as the μ of a Gaussian event."""
        return mu_for(self.promise.epsilon, self.promise.delta)

    @property
    def mechanism(self) -> str:
        """The mechanism of private rounds."""
        return "discrete Gaussian noise on rounds of residual sums"

    @property
    def shares(self) -> tuple[int, int]:
        """The shares of the noise, and how many may be missing: (1, 0) if each site adds all of it.

        As many may be missing as may drop out, and besides those of t sites, each of which can take off its own.
        """
        n = len(self.members)
        return (n, n - self.quorum + self.promise.colluding) if self.secure else (1, 0)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the guarantee."""
        return (share_condition(*self.shares),) if self.secure else ()

    @cached_property
    def frame(self) -> Frame:
        """The public coordinates in which a private study asks; sites use those that came with the study."""
        return build_public_frame(self.basis, None)

    @cached_property
    def frame_digest(self) -> str:
        """The digest of the coordinates, which each question about functions names."""
        return files.digest({}, {"rotation": self.frame.rotation, "shift": self.frame.shift})

    def take_frame(self, rotation: Any, shift: Any) -> None:
        """Use the coordinates of the server: another machine's eigenvectors may differ in their last bits or signs."""
        M = self.basis.n_features_
        for array, shape in ((rotation, (M, M)), (shift, (M,))):
            if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.shape != shape:
                raise ValueError("the coordinates of the study do not match its basis")
            if not np.all(np.isfinite(array)):
                raise ValueError("the coordinates of the study must be finite numbers")
        self.__dict__["frame"] = replace(self.frame, rotation=rotation, shift=shift)

    @property
    def exchanges(self) -> int:
        """The largest number of different statistics that the study asks for."""
        if self.kind == "private":  # the count of rows, looks at the labels, tails, rounds, check and calibration
            return 1 + LOOKS + 1 + (self.rounds if self.rounds != "auto" else max(ROUNDS.values())) + 2
        if self.kind == "average":
            return 3 if isinstance(self.lam, str) else 1
        if self.kind == "estimator":
            return self.rounds + 2  # the first exchange counts the rows, and the last sums the loss of every λ
        return self.rounds + (self.lam == "loo")

    def privacy_request(self, number: int, ledger: Any = None) -> PrivacyRequest:
        """Return the request of round ``number``; if sums are secure, the noise is made in shares."""
        assert self.privacy is not None
        parties, missing = self.shares
        return self.privacy.request_for_round(self.rounds, parties, missing, f"{self.name}, round {number + 1}", ledger)

    def definition(self) -> dict[str, Any]:
        """Return everything that a site is told, for JSON; the basis is identified by its digest."""
        content = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _OUTSIDE}
        content |= {"basis": self.basis.digest, "filter": to_spec(as_filter(self.filter))}
        content |= {"privacy": None if self.privacy is None else describe_budget(self.privacy)}
        content |= {name: list(content[name]) for name in ("targets", "members")}
        content["grid"] = None if self.grid is None else list(self.grid)
        return {INTERCEPT if name == "fit_intercept" else name: value for name, value in content.items()}

    @cached_property
    def digest(self) -> str:
        """The digest that identifies the study."""
        return files.digest(self.definition(), {})

    @classmethod
    def from_definition(cls, content: Any, basis: Basis, timeout: float = 1.0) -> Study:
        """Return the study that a site was told; a ValueError says what is wrong with it."""
        from ...filters import from_spec

        names = {f.name for f in fields(cls)} - {"timeout", "patience", "poll", "fit_intercept"} | {INTERCEPT}
        if not isinstance(content, dict) or set(content) != names:
            raise ValueError(f"the definition of a study must have exactly the entries {', '.join(sorted(names))}")
        if content["basis"] != basis.digest:
            raise ValueError(
                f"the study has the basis {quote(content['basis'])[1:13]}, but {basis.digest[:12]} came with it"
            )
        try:
            inner = {**content, "basis": basis, "filter": from_spec(content["filter"]), "timeout": timeout}
            return cls(fit_intercept=inner.pop(INTERCEPT), **inner)
        except (TypeError, KeyError) as error:
            raise ValueError(f"the study cannot be read: {quote(error)}") from None

    def with_id(self, id: str) -> Study:
        """Return the study with the id of an earlier run."""
        return replace(self, id=id)

    def describe(self) -> str:
        """Describe the study for the people who decide at a site."""
        names = ", ".join(self.targets)
        lines = [
            f"study {self.name!r} ({self.digest[:12]}): {KINDS[self.kind]}",
            f"to predict {names}, in the basis {self.basis.digest[:12]} of {self.basis.n_features_} features",
            f"members: {', '.join(self.members)}; sums over fewer than {self.quorum} sites are not used",
            "secure sums: nobody sees this site's numbers, only the sum over all sites"
            if self.secure
            else "plain sums: the server sees this site's own numbers",
        ]
        most = self.exchanges
        if most > 1 and self.secure and not self.steady:
            lines.append("if this site drops out after the first exchange, its number of rows follows from the sums")
        lines.append("one exchange" if most == 1 else f"up to {most} exchanges, each of other sums of the same rows")
        if self.loss not in ("squared", "auto"):
            lines.append(f"loss: {self.loss}")
        if self.privacy is None:
            lines.append("no noise is added")
        else:
            lines.append(f"with noise: ε = {self.privacy.epsilon:g} and δ = {self.privacy.delta:g} for the whole study")
            if self.kind == "private":
                most_spent = self.privacy.epsilon_with_repeats
                lines.append(
                    f"questions asked again because a site dropped out cost again: ε = {most_spent:.3g} at most"
                )
                lines.append("numbers of rows are told without noise")
            if self.secure:
                lines.append(f"the noise is made in shares: this holds even if {self.privacy.colluding} sites collude")
        return "\n".join(lines)
