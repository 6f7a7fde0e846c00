"""The schedule of private rounds: features and rounds, decided from public rows before any record is looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..._base.arrays import to_numpy
from ..._base.checks import check_X
from ..._base.kinds import POSITIVE, Bound, Real, Sentences, Whole, Word, from_plain, parameter, to_plain
from ...bases import Basis
from ...kernels import as_kernel
from ...kernels.parts import find_free_parts
from ..gaussian import GaussianEvent, mu_for
from ..sensitivity import require_kernel_bound
from . import learner
from .labels import INPUT_PURPOSE, LABEL_PURPOSES, LOOKS, inputs_share, labels_share
from .learner import (
    CHECK_FROM,
    CHECK_PURPOSE,
    CHECK_SHARE,
    TAILS_FROM,
    TAILS_PURPOSE,
    TAILS_SHARE,
    Budget,
)

RICH = 5_000  # n·μ from which more still teaches: what is left is how the public sample differs from the rows
ROUNDS = {0: 10, 1_000: 16, 15_000: 24}  # from so large an n·μ: none is lost, and each needs a pass over the rows
MOST_FEATURES, MOST_IF_RICH = 500, 1000
STAND_IN = 1000  # rows of the standard normal law in the place of a public sample
FRESH = 100.0  # times its second moment on the public rows: beyond that a feature knows these rows and no others


def usual_features(n_public: int) -> int:
    """Choose half as many features as there are public rows, which say little about further ones."""
    return max(min(MOST_FEATURES, n_public // 2), 1)


def telling_features(eigenvalues: np.ndarray, spread: np.ndarray) -> int:
    """Count the features whose size at a new row is known from the public rows.

    kin40k has 800 of them, and 500 take 0.02 of R² from it at ε = 3 and 10; protein has 500, and 1000 take 0.03.
    """
    beyond = spread > FRESH * eigenvalues
    return int(np.argmax(beyond)) if np.any(beyond) else len(beyond)


def is_rich(n: float, mu: float) -> bool:
    """Whether a budget can pay for more features and rounds than the usual."""
    return n * mu >= RICH


SHARE = Real("a share below 1", lambda value: 0 <= value < 1)


@dataclass(frozen=True)
class RoundSchedule:
    """The schedule of private rounds: all decisions made before a record is read, all public, with their reasons.

    Attributes
    ----------
    n_rows : number of records
    n_features : M
    rounds : T
    loss : "huber" or "correntropy"
    mu : the budget as μ of a Gaussian event; μ² is what is shared
    labels, inputs : the shares of μ² for where the labels lie, and for where inputs lie without public rows
    label_bound : c; infinite where there is none
    sites : the variance of all the noise together, divided by that of noise for the sum: the number of sites if each
        adds all of the noise, J/(J - t) if J sites add shares of which t may be known
    why : sentences
    """

    n_rows: int = parameter(Whole())
    n_features: int = parameter(Whole())
    rounds: int = parameter(Whole())
    loss: str = parameter(Word(("huber", "correntropy")))
    mu: float = parameter(POSITIVE)
    labels: float = parameter(SHARE)
    inputs: float = parameter(SHARE)
    label_bound: float = parameter(Bound())
    sites: float = parameter(Real("a number from 1 to a million", lambda value: 1 <= value <= 1e6), 1)
    why: tuple[str, ...] = parameter(Sentences(), (), repr=False)

    def budget(self) -> Budget:
        """The part of it that the rounds and the labels have."""
        mu = self.mu * math.sqrt(1.0 - self.inputs)
        known = self.n_rows * mu / math.sqrt(self.sites)
        bounded = self.labels > 0 and self.loss == "huber" and math.isfinite(self.label_bound)
        return Budget(
            mu,
            self.rounds,
            self.labels,
            check=CHECK_SHARE if known >= CHECK_FROM else 0.0,
            tails=TAILS_SHARE if bounded and known >= TAILS_FROM else 0.0,
            calibration=learner.calibration_share(known),
        )

    def events(self) -> list[tuple[str, GaussianEvent]]:
        """Everything that may be asked, with its price; not all looks at the labels need be taken."""
        events, budget = [], self.budget()
        if self.inputs:
            events += [(INPUT_PURPOSE, GaussianEvent(self.mu * math.sqrt(self.inputs / LOOKS)))] * LOOKS
        if self.labels:
            each = GaussianEvent(budget.mu * math.sqrt(self.labels / LOOKS))
            events += [(LABEL_PURPOSES[look > 0], each) for look in range(LOOKS)]
        if budget.tails:
            events.append((TAILS_PURPOSE, GaussianEvent(budget.mu * math.sqrt(budget.tails))))
        events += [(f"round {t + 1} of residuals", GaussianEvent(budget.round(t))) for t in range(self.rounds)]
        if budget.check:
            events.append((CHECK_PURPOSE, GaussianEvent(budget.mu * math.sqrt(budget.check))))
        if budget.calibration:
            events.append((learner.CALIBRATION_PURPOSE, GaussianEvent(budget.mu * math.sqrt(budget.calibration))))
        return events

    def __str__(self) -> str:
        return "\n".join(self.why)

    def _repr_html_(self) -> str:
        from ..._base import html

        return html.bullets(str(self).splitlines())

    def to_dict(self) -> dict[str, Any]:
        """For the header of a file."""
        return to_plain(self)

    @classmethod
    def from_dict(cls, content: Any) -> RoundSchedule:
        """The inverse; a ValueError where it is no plan."""
        return from_plain(cls, content, "the schedule of private rounds")


def make_schedule(
    n: int,
    epsilon: float,
    delta: float,
    label_bound: float | None,
    *,
    n_features: int,
    n_public: int | None,
    n_inputs: int = 1,
    rounds: Any = "auto",
    loss: str = "auto",
    sites: float = 1,
) -> RoundSchedule:
    """Make the schedule of n records; ``n_public`` is None without public rows, ``sites`` add noise each."""
    mu = mu_for(epsilon, delta)
    loss = ("correntropy" if label_bound is None else "huber") if loss == "auto" else loss
    known = n * mu / math.sqrt(sites)
    T = max(T for least, T in ROUNDS.items() if known >= least) if isinstance(rounds, str) else int(rounds)
    bound = math.inf if label_bound is None else float(label_bound)
    inputs = 0.0 if n_public else inputs_share(n, mu / math.sqrt(sites), n_inputs)
    share = labels_share(n, mu * math.sqrt((1.0 - inputs) / sites), bound)
    noisy = "" if sites == 1 else f"; {sites} sites add all of the noise each, √{sites} times as much together"
    if not isinstance(sites, int):
        noisy = f"; sites add shares of the noise, √{sites:.4g} times as much together, as some of them may be known"
    why = [
        f"{n} records at ε = {epsilon:g}, δ = {delta:g}: Gaussian noise of μ = {mu:.4g}, n·μ = {n * mu:.4g}{noisy}",
        f"{T} rounds of residuals"
        + (": " if isinstance(rounds, str) else ", as asked for: ")
        + "messages are averaged, so none is lost, and later ones are asked with smaller residuals and less noise",
        f"{n_features} features"
        + (f" of {n_public} public rows" if n_public else f" of made-up rows, for which {inputs:.1%} of μ² is spent"),
        f"loss {loss}: "
        + (
            "without a label bound one record must not push further the further off it is"
            if loss == "correntropy" and label_bound is None
            else "its scale, and with it the noise, follows the residuals down"
        ),
        f"{share:.1%} of μ² tells where the labels lie and how far they spread"
        if share
        else "where the labels lie is not asked: at this budget the answer would be noise",
        "weights, scale of the loss and shrinkage of each round are made from what earlier rounds released",
    ]
    plan = RoundSchedule(n, n_features, T, loss, mu, share, inputs, bound, sites)
    if calibration := plan.budget().calibration:
        why.append(f"{calibration:.0%} of μ² tells at the end how high the function lies and how far it reaches")
    return replace(plan, why=tuple(why))


def n_public_rows(public: Any) -> int:
    """Return the number of public rows where they state it; the basis finds out whether they are rows at all."""
    shape = getattr(public, "shape", None)
    if isinstance(shape, tuple) and shape:
        return int(shape[0])
    return len(public) if isinstance(public, (list, tuple)) else STAND_IN


def standard_normal(d: int) -> np.ndarray:
    """Return rows that stand for inputs of which nothing is known, always the same; the guarantee needs none."""
    return np.random.default_rng(0).standard_normal((STAND_IN, d))


def public_features(basis: Basis, public: Any, most: int) -> np.ndarray:
    """Return the features of at most so many public rows."""
    rows = to_numpy(check_X(basis, public, reset=False)).astype(np.float64)
    return np.asarray(basis.features(rows[np.random.default_rng(0).permutation(len(rows))[:most]]))


def widen_basis(basis: Basis, public: Any) -> Basis:
    """Fit a basis of the same kind with all the features that say something about rows other than the public ones."""
    wide: Basis = clone(basis).set_params(n_features=MOST_IF_RICH).fit(public)
    telling = telling_features(wide.eigenvalues_, wide.spread_)
    if telling <= basis.n_features_:
        return basis
    return wide if telling >= wide.n_features_ else clone(basis).set_params(n_features=telling).fit(public)


def check_bounded(kernel: Any) -> None:
    """Refuse a kernel without a bound, and one whose length scales would be chosen with the help of private labels."""
    if kernel is None:
        return
    kernel = as_kernel(kernel)
    if find_free_parts(kernel):
        raise ValueError(
            "length_scale='auto' would look at private labels: give numbers or 'median', or take the kernel from "
            "unpooled.choose_length_scales(kernel, X, y) on public rows"
        )
    advice = (
        "use Gaussian, Laplacian or Matern, or give a basis that was fitted to public rows, with which the influence "
        "of every record is bounded"
    )
    require_kernel_bound(kernel, "the weights", advice)
