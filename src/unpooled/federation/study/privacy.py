"""The privacy of a study: its budget, and the choices that private rounds leave open."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cache
from typing import Any

from ..._base.checks import check_budget, check_choice, check_whole
from ...filters import as_filter, to_spec
from ...kernels.adapters import FromFunction, GaussianProcessKernel, Pairwise, Precomputed
from ...kernels.pointwise import Brownian
from ...privacy import PrivacyRequest, epsilon_of, mu_for
from ...privacy.rounds.schedule import check_bounded

LIVE_ROUNDS = 16  #: of a private study
REPEATS = 2  #: all answers of private rounds, repeated ones included, cost at most so many times μ² of the study
_LOSSES = ("auto", "huber", "correntropy")  # of private rounds, which choose the scale themselves
_UNUSED = {  # choices that mean nothing to private rounds, which choose for themselves
    "lam": "auto", "grid": None, "filter": "tikhonov", "fit_intercept": True, "ridge": False, "steps": "plain",
}  # fmt: skip
_FAIL_ON_VALUES = (Brownian, Pairwise, GaussianProcessKernel, FromFunction, Precomputed)


@dataclass(frozen=True)
class StudyPrivacy:
    """The privacy budget of a whole study; every round takes an equal part of it (those of kind "private" differ).

    Parameters
    ----------
    epsilon, delta : the budget of the study
    label_bound, means, labels, kappa : as in :class:`unpooled.privacy.PrivacyRequest`; the kind "private" uses
        label_bound alone, and without it labels may have any size
    colluding : t, the number of sites that may pool what they know: each share of the noise is then 1/(J - t) of it
    """

    epsilon: float
    delta: float
    label_bound: float | None = None
    _: KW_ONLY
    means: float = 0.25
    labels: float = 1.0
    kappa: float | None = None
    colluding: int = 1

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        check_whole("colluding", self.colluding)
        PrivacyRequest(
            self.epsilon, self.delta, self.label_bound, means=self.means, labels=self.labels, kappa=self.kappa
        )

    def request_for_round(
        self, rounds: int, parties: int, missing: int, purpose: str, ledger: Any = None
    ) -> PrivacyRequest:
        """Return the request of one of several rounds, among which μ² is split evenly."""
        epsilon = _epsilon_of_round(self.epsilon, self.delta, rounds)
        if not epsilon > 0:
            raise ValueError(f"epsilon {self.epsilon:g} is too small for {rounds} rounds: choose fewer rounds")
        facts = {"means": self.means, "labels": self.labels, "kappa": self.kappa, "purpose": purpose, "ledger": ledger}
        return PrivacyRequest(epsilon, self.delta, self.label_bound, parties=parties, missing=missing, **facts)

    @property
    def epsilon_with_repeats(self) -> float:
        """The most that private rounds cost a site if questions are asked again because other sites dropped out."""
        return epsilon_of(math.sqrt(REPEATS) * mu_for(self.epsilon, self.delta), self.delta)


@cache
def _epsilon_of_round(epsilon: float, delta: float, rounds: int) -> float:
    return epsilon_of(mu_for(epsilon, delta) / math.sqrt(rounds), delta)


def describe_budget(privacy: StudyPrivacy) -> dict[str, Any]:
    """Return the budget for a definition; what came later is named only if it is not as usual, so digests stay."""
    content = asdict(privacy)
    if privacy.colluding == 1:
        del content["colluding"]
    return content


def check_private(study: Any) -> None:
    """Raise a ValueError unless the choices of a study are those of private rounds."""
    check_choice("loss", study.loss, _LOSSES)
    chosen = {name: getattr(study, name) for name in _UNUSED} | {"filter": to_spec(as_filter(study.filter))}
    for name, usual in (_UNUSED | {"filter": to_spec(as_filter("tikhonov"))}).items():
        if chosen[name] != usual:
            raise ValueError(f"{name} must be left out of a study of the kind 'private', which chooses for itself")
    if study.privacy is None or len(study.targets) > 1 or study.order != 1:
        raise ValueError("a study of the kind 'private' must have one target, and privacy with epsilon and delta")
    kernel = study.basis.kernel_
    check_bounded(kernel)
    for part in (kernel, *kernel.get_params(deep=True).values()):
        # Their errors follow from the values of rows, and an error would reveal a record.
        if isinstance(part, _FAIL_ON_VALUES):
            raise ValueError(f"a study of the kind 'private' cannot have the kernel {type(part).__name__}")
