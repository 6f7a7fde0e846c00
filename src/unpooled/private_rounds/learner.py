"""The learner: asks, is told with noise, believes, asks better. It never sees a row.

Each round is a step of Newton's method with a public second derivative, diag(γq), on the messages of a bounded loss:

    message_i = w_i (1/n) Σ_j ψ(y_j - f(x_j)) ω(z_j) z_ji + N(0, s²),    s = √(4B² sup|ψ|² + 2v²)/(nμ_t),

and three choices make it work at small budgets. All are made anew for every round from public and noised facts:

- *Where the noise goes.* A record reaches B = the length of Wz, so E|Wz|² = Σ w_i²q_i is what all coordinates share.
  The error Σ q_i Var(a_i), Var = s²/(w_iγq_i)² where the coefficient is learned at all, is least at w_i² ∝ k_i/q_i, k_i
  the share P/(P + Var) that is kept of an observation: by Cauchy and Schwarz (Σ q_i g_i)² in the place of the
  (Σ q_i)(Σ q_i g_i²) that unweighted features cost, g_i = k_i/q_i. B is a quantile; longer rows count a little less.
- *Where residuals are cut off.* Noise is proportional to sup|ψ|, and what is cut off may be missed: the scale of ψ
  makes the expected error plus a share of E(u - ψ(u))² least. Residuals shrink over the rounds, and noise with them.
- *What is believed.* All rounds are averaged by their precisions and shrunk (:class:`Belief`), with what they have
  told together of the records' second moments (:mod:`.secants`).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from ..losses import Correntropy, Huber, Loss
from .belief import Belief
from .frame import Frame
from .labels import LabelLaw, labels_asked
from .questions import Losses, Question, Residuals
from .residual_law import EDGES, USABLE, ResidualLaw
from .secants import solved

MULTIPLES = {"huber": (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0), "correntropy": (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)}
FOR_TAILS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)  # where labels have long tails, which a mean must not lose
LOSSES: dict[str, type[Huber] | type[Correntropy]] = {"huber": Huber, "correntropy": Correntropy}
LONGER, LONGER_FOR_TAILS = 0.3, 0.8  # the quantile of |Wz| that is B
TAILS = 0.01  # of μ² for whether tails are long: E min(u², L²) with L ten standard deviations, in units of their square
TAILS_ASKED = "whether the labels have long tails"
LIMIT, LONG = 10.0, 1.5  # and from which value on they are; the normal law has 1
COUNTED = 0.02  # noise on the share of a bin that counts should have, where it is cheap
GROWTH = 1.2  # of μ² from round to round: later ones know better what to ask
WORSE = 1.0  # residuals that have grown by more than this share (and 25 times the noise) were stepped too far for
CHECK = 0.01  # of μ² for a comparison of the last function with the best so far and with a constant
CHECKING = "which function is best"
SURE = 6.0  # standard deviations of noise by which another must be better
STEEPER = 3.0  # times what is assumed, and second moments are taken to be larger
STEPS = 5  # towards the fixed point of the weights

Asking = tuple[Question, float, str]  # what is asked, at which μ, and in words
Told = tuple[np.ndarray, float]  # means over the records with noise, and its standard deviation


@dataclass
class Budget:
    """How a total μ is shared: μ² adds up."""

    mu: float
    rounds: int
    labels: float  #: the share of μ² for where the labels lie
    check: float = CHECK  #: the share of μ² for a comparison at the end
    tails: float = 0.0  #: the share of μ² for the tails of the labels

    @property
    def _rounds(self) -> float:
        return 1.0 - self.labels - self.check - self.tails

    def round(self, t: int) -> float:
        """μ of round t."""
        return self.mu * math.sqrt(self._rounds * GROWTH**t / self._all(0))

    def left(self, t: int) -> float:
        """μ of round t and all after it, together."""
        return self.mu * math.sqrt(self._rounds * self._all(t) / self._all(0))

    def _all(self, t: int) -> float:
        return math.fsum(GROWTH**s for s in range(t, self.rounds))


@dataclass
class Learned:
    """The outcome: coefficients of z, and how they were come by."""

    coef: np.ndarray
    history: list[dict[str, float]]


@dataclass
class Asked:
    """A choice for one round."""

    loss: Loss
    weights: np.ndarray
    length: float
    unseen: float  #: variance that what is cut off may add to a coordinate, over q_i
    score: float


@dataclass(frozen=True)
class Gradient:
    """C(a* - a) as a round told it, C the records' second moments."""

    at: np.ndarray  #: a
    values: np.ndarray
    noise: np.ndarray  #: variance of the noise
    others: np.ndarray  #: variance of everything else

    def steepness(self, before: Gradient, moments: np.ndarray) -> float:
        """sᵀCs/sᵀqs for the step s that lies between two gradients, less five standard deviations of noise on it."""
        s = self.at - before.at
        length = float(s @ (moments * s))
        if length <= 0:
            return 0.0
        noise = math.sqrt(float(s**2 @ (self.noise + before.noise)))
        return (float(s @ (before.values - self.values)) - 5.0 * noise) / length


def learn(frame: Frame, n: float, budget: Budget, label_bound: float, loss: str) -> Generator[Asking, Told, Learned]:
    """Coroutine: yields what to ask and at which price, is sent what came back, returns what was learned."""
    labels: LabelLaw = yield from labels_asked(n, budget.mu * math.sqrt(budget.labels), label_bound)
    tails = False
    if budget.tails:
        centre = np.zeros((len(frame.moments), 1))
        centre[0] = labels.centre
        limit = LIMIT * math.sqrt(labels.variance)
        spread, noise = yield Losses(centre, limit), budget.mu * math.sqrt(budget.tails), TAILS_ASKED
        tails = LIMIT**2 * (float(spread[0]) - 3.0 * noise) > LONG
    belief = Belief(frame.moments, labels.variance, labels.unsure)
    law = ResidualLaw.normal(math.sqrt(labels.variance), 2.0 * label_bound)
    apart = 0.6 * labels.variance  # how far the function so far is believed to be from the best, squared
    history: list[dict[str, float]] = []
    start, gradients = belief, list[Gradient]()
    best = (math.inf, belief, law, apart, 0)
    made_up = frame.careful > 1.0
    careful = frame.careful  # the moments are taken to be so many times larger than the public rows have them
    for t in range(budget.rounds):
        mu = budget.round(t)
        counting = float(np.clip(2.0 / (n * mu * COUNTED), 0.05, 0.5))  # v, in units of B sup|ψ|
        chosen = _chosen(frame, belief, law, apart, n, budget.left(t), counting, loss, tails)
        bound = chosen.loss.bound * chosen.length
        at = belief.mean.copy()
        at[0] += labels.centre
        edges = EDGES * law.scale
        asked = Residuals(at, chosen.loss, chosen.weights, chosen.length, edges, counting * bound)
        values, sigma = yield asked, mu, f"round {t + 1} of residuals"
        message, shares = values[: len(at)], values[len(at) :] / (counting * bound)
        noise = sigma / (counting * bound)
        before, law = law, law.counted(shares, noise)
        if law.scale > best[0] * (1.0 + max(WORSE, 25.0 * noise)) and noise <= USABLE:
            # The last step went too far: the records spread more than the public rows do. Back, and on with care.
            _, belief, law, apart, known = best
            careful, gradients = 2.0 * careful, gradients[:known]
            best = (math.inf, belief, law, apart, known)
            continue
        if law.scale < best[0] and noise <= USABLE:
            best = (law.scale, belief, law, apart, len(gradients))
        slope = law.slope(chosen.loss)
        seen = slope * frame.shrinking(chosen.weights, chosen.length)
        told = Gradient(
            belief.mean,
            message / chosen.weights / seen,
            (sigma / chosen.weights / seen) ** 2,
            frame.moments * (before.scale**2 / n + apart * frame.doubt + chosen.unseen) / seen**2,
        )
        if made_up and gradients:
            # Records may spread more than made-up rows: what gradients told is then taken in again, with care.
            steeper = told.steepness(gradients[-1], frame.moments)
            careful = steeper if steeper > STEEPER * careful else careful
        gradients.append(told)
        old, belief = belief.mean, _believed(start, gradients, careful * frame.moments, frame.mismatch)
        moved = float(frame.moments @ (belief.mean - old) ** 2)
        apart = min(max(belief.error, 0.25 * moved), law.scale**2)
        history.append(
            {
                "round": t + 1,
                "mu": mu,
                "cut": float(chosen.loss.bound),
                "length": chosen.length,
                "scale": law.scale,
                "slope": slope,
                "degrees": belief.degrees,
                "error": belief.error,
            }
        )
    coefs = np.column_stack([np.zeros_like(belief.mean), best[1].mean, belief.mean])
    coefs[0] += labels.centre
    limit = min(3.0 * math.sqrt(labels.variance), law.largest)
    losses, noise = yield Losses(coefs, limit), budget.mu * math.sqrt(budget.check), CHECKING
    # The last one, unless another is clearly better: it is where all that was asked has gone.
    clearly = losses < losses[-1] - SURE * noise
    chosen_one = int(np.argmin(losses)) if clearly.any() else len(losses) - 1
    return Learned(coefs[:, chosen_one], history)


def _believed(start: Belief, gradients: list[Gradient], moments: np.ndarray, mismatch: float) -> Belief:
    """All gradients together as an observation of a*, the records' second moments being about diag(moments)."""
    root = np.sqrt(moments)
    points, values, noise, others = (
        np.stack([getattr(g, name) for g in gradients]) for name in ("at", "values", "noise", "others")
    )
    variances = (noise + others) / moments
    seen = solved(points * root, values / root, noise / moments, variances, mismatch)
    return start.after(seen / root, 1.0 / np.sum(moments / variances, axis=0))


def _chosen(
    frame: Frame,
    belief: Belief,
    law: ResidualLaw,
    apart: float,
    n: float,
    mu: float,
    counting: float,
    name: str,
    tails: bool,
) -> Asked:
    """The loss and the weights with which the budget that is left makes the expected error least."""
    best: Asked | None = None
    weights_sq = belief.prior / (belief.variance + belief.prior) / frame.moments  # a start that knows no units
    active = max(belief.degrees, 10.0)
    longer = LONGER_FOR_TAILS if tails else LONGER
    for multiple in FOR_TAILS if tails else MULTIPLES[name]:
        loss = LOSSES[name](min(multiple * law.scale, law.largest))
        missed = law.cut(loss, robust=name == "correntropy")
        extra = frame.moments * (law.scale**2 / n + apart * frame.doubt + missed / active)
        slope = law.slope(loss)
        for step in range(STEPS if best is None else 2):  # near the last one's weights already
            length = math.sqrt(float(np.quantile(frame.lengths @ weights_sq, longer)))
            sigma = math.hypot(2.0, math.sqrt(2.0) * counting) * loss.bound * length / (n * mu)
            precision = belief.precision + (slope * frame.moments) ** 2 / (sigma**2 / weights_sq + extra)
            kept = belief.prior * precision / (1.0 + belief.prior * precision)
            if step < STEPS - 1:
                weights_sq = np.sqrt(weights_sq * np.maximum(kept, 1e-6) / frame.moments)
        length = math.sqrt(float(np.quantile(frame.lengths @ weights_sq, longer)))
        score = float(np.sum(frame.moments * belief.prior / (1.0 + belief.prior * precision))) + missed
        if best is None or score < best.score:
            best = Asked(loss, np.sqrt(weights_sq), length, missed / active, score)
    assert best is not None
    return best
