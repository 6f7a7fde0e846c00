"""The learner: it asks, is told with noise, believes, and asks better. It never sees a row.

Each round is a step of Newton's method with a public second derivative, diag(γq), on the messages of a bounded loss:

    message_i = w_i (1/n) Σ_j ψ(r_j u_j)/r_j ω_j z_ji + N(0, s²),    s = √(4B² sup|ψ|² + 2v²)/(nμ_t),

u_j = y_j - f(x_j), r_j = ω_j|Wz_j|/B. Three choices make it work at small budgets, all made anew for every round from
public and noised facts:

- *Where the noise goes.* A record reaches the length of Wz, so E|Wz|² = Σ w_i²q_i is what all coordinates share. The
  error Σ q_i Var(a_i), Var = s²/(w_iγq_i)² where the coefficient is learned at all, is least at w_i² ∝ k_i/q_i, k_i the
  share P/(P + Var) that is kept of an observation: by Cauchy and Schwarz (Σ q_i g_i)² in the place of the (Σ q_i)(Σ q_i
  g_i²) that unweighted features cost, g_i = k_i/q_i.
- *Where residuals are cut off* (:func:`.belief.choose_round`). Noise is proportional to B sup|ψ|, and what is cut off may be
  missed: the scale of ψ is the one for which the expected error plus a share of what is cut off is least. Residuals
  shrink over the rounds, and noise with them. What a record adds is cut off as a whole: the residual of a long row
  earlier, that of a short one later.
- *What is believed.* All rounds are averaged by their precisions and shrunk (:class:`Belief`), with what they have told
  together of the records' second moments (:mod:`.frame`).

**The last question** (:func:`calibrate`) is whether the function as a whole lies too high, and whether it reaches far
enough. Rounds cut residuals off so that little noise is needed, and what they learn of skewed labels is nearer to a
median than to a mean: the function is too flat where labels have a long tail, by a third and more. Along one direction,
the function itself, noise is cheap, so residuals can be cut off late there: with g = (f - m)/s of mean zero and
variance one on public rows,

    E ψ(ru)/r (1, g)  ≈  (κ_0 δ_0, κ_1 δ_1),    κ_0 = E ψ'(ru), κ_1 = E ψ'(ru) g²,

tells by which δ_0 + δ_1 g to correct it. Both are shrunk according to the noise on them.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from .belief import EDGES, LOSSES, PRIOR_SHARE, USABLE, Belief, ResidualLaw, Style, choose_round, visible_shares
from .frame import Frame, solve_rounds
from .labels import LabelLaw, ask_about_labels
from .questions import SLACK, Calibration, ClippedErrors, Question, Residuals

CALIBRATION_SHARE, CALIBRATION_FROM = 0.03, 200.0  # of μ², and the n·μ from which on it is spent
MULTIPLES = {"huber": (2.0, 4.0, 8.0, 16.0, 32.0), "correntropy": (2.0, 4.0)}  # of the scale; outliers stay outliers
LATER = 0.5  # of s: noise times the multiple may come to this
STRETCH = (1 / 3, 3.0)  # how far the function is stretched at most: what asks for more is noise
PRIOR = 0.5  # of s: how far the function may well be off, before it is asked
CALIBRATION_PURPOSE = "how high the function lies and how far it reaches"


def calibration_share(known: float) -> float:
    """The share of μ² for it, from n·μ."""
    return CALIBRATION_SHARE if known >= CALIBRATION_FROM else 0.0


def calibrate(
    frame: Frame, coef: np.ndarray, law: ResidualLaw, n: float, mu: float, name: str
) -> Generator[tuple[Calibration, float, str], tuple[np.ndarray, float], np.ndarray]:
    """Coroutine like the learner's: the coefficients after the answer."""
    spread = math.sqrt(float(frame.moments[1:] @ coef[1:] ** 2))
    if spread <= 1e-3 * law.scale:  # a constant: nothing to stretch
        return coef
    g = frame.rows[:, 1:] @ coef[1:] / spread
    lengths = np.hypot(1.0, g)
    length = float(np.median(lengths))
    for multiple in MULTIPLES[name]:
        tried = LOSSES[name](min(multiple * law.scale, law.largest))
        slopes = law.slopes(tried, lengths / length)
        mean = float(np.mean(slopes))
        shown = np.asarray([mean, (np.mean(slopes * g**2) + PRIOR_SHARE * mean) / (np.mean(g**2) + PRIOR_SHARE)])
        noise = 2.0 * tried.bound * length * SLACK / (n * mu) / shown
        if multiple == MULTIPLES[name][0] or multiple * float(np.max(noise)) <= LATER * spread:
            loss, seen = tried, shown
    message, sigma = yield Calibration(coef, float(coef[0]), spread, loss, length), mu, CALIBRATION_PURPOSE
    found, noise = message / seen, sigma / seen
    # As much of it as is not noise: nothing where noise alone would be as large (the non-negative garrote), all of what
    # is clear, and little where noise is larger than the function can be off.
    found *= np.maximum(1.0 - noise**2 / np.maximum(found**2, 1e-300), 0.0) / (1.0 + (noise / (PRIOR * spread)) ** 2)
    corrected = coef * np.clip(1.0 + found[1] / spread, *STRETCH)
    corrected[0] = coef[0] + found[0]
    return corrected


TAILS_SHARE = (
    0.01  # of μ² for whether tails are long: E min(u², L²) with L ten standard deviations, in units of their square
)
TAILS_FROM = 600.0  # n·μ below which noise would hide all but the most absurd tails, and nothing is asked
TAILS_PURPOSE = "whether the labels have long tails"
LIMIT, LONG = 10.0, 1.5  # and from which value on they are; the normal law has 1
GOOD_COUNT_NOISE = 0.02  # noise on the share of a bin that counts should have, where it is cheap
COUNTS_WEIGHTS = (0.05, 0.5)  # the weight of counts, in units of what a residual may add
LEAST_LEFT = 0.4  # of the labels' variance: what is taken to be left where nobody can count it
GROWTH = 1.2  # of μ² from round to round: later ones know better what to ask
WORSE = 1.0  # residuals that have grown by more than this share (and 25 times the noise) were stepped too far for
CHECK_SHARE = 0.01  # of μ² for a comparison of the last function with the best so far and with a constant
CHECK_FROM = 200.0  # n·μ below which no difference could be clear
CHECK_PURPOSE = "which function is best"
SURE = 6.0  # standard deviations of noise by which another must be better
STEEPER = 3.0  # times what is assumed, and second moments are taken to be larger

PricedQuestion = tuple[Question, float, str]  # what is asked, at which μ, and in words
NoisyAnswer = tuple[np.ndarray, float]  # means over the records with noise, and its standard deviation


@dataclass
class Budget:
    """How a total μ is shared: μ² adds up."""

    mu: float
    rounds: int
    labels: float  #: the share of μ² for where the labels lie
    check: float = CHECK_SHARE  #: the share of μ² for a comparison at the end
    tails: float = 0.0  #: the share of μ² for the tails of the labels
    calibration: float = 0.0  #: the share of μ² for how high the function lies and how far it reaches

    @property
    def _rounds(self) -> float:
        return 1.0 - self.labels - self.check - self.tails - self.calibration

    def round(self, t: int) -> float:
        """μ of round t."""
        return self.mu * math.sqrt(self._rounds * GROWTH**t / self._all(0))

    def mu_from(self, t: int) -> float:
        """μ of round t and all after it, together."""
        return self.mu * math.sqrt(self._rounds * self._all(t) / self._all(0))

    def _all(self, t: int) -> float:
        return math.fsum(GROWTH**s for s in range(t, self.rounds))


@dataclass
class LearnedFunction:
    """The outcome: coefficients of z, and how they were come by."""

    coef: np.ndarray
    history: list[dict[str, float]]


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


def learn(
    frame: Frame, n: float, budget: Budget, label_bound: float, loss: str
) -> Generator[PricedQuestion, NoisyAnswer, LearnedFunction]:
    """Coroutine: yields what to ask and at which price, is sent what came back, returns what was learned."""
    labels: LabelLaw = yield from ask_about_labels(n, budget.mu * math.sqrt(budget.labels), label_bound)
    tails = False
    if budget.tails:
        centre = np.zeros((len(frame.moments), 1))
        centre[0] = labels.centre
        limit = LIMIT * math.sqrt(labels.variance)
        spread, noise = yield ClippedErrors(centre, limit), budget.mu * math.sqrt(budget.tails), TAILS_PURPOSE
        tails = LIMIT**2 * (float(spread[0]) - 3.0 * noise) > LONG
    style = Style.of(loss, tails, n * budget.mu)
    belief = Belief(frame.moments, labels.variance, labels.uncertainty)
    law = ResidualLaw.normal(math.sqrt(labels.variance), 2.0 * label_bound)
    apart = 0.6 * labels.variance  # how far the function so far is believed to be from the best, squared
    history: list[dict[str, float]] = []
    start, gradients = belief, list[Gradient]()
    best = (math.inf, belief, law, apart, 0)
    made_up = frame.caution > 1.0
    careful = frame.caution  # the moments are taken to be so many times larger than the public rows have them
    for t in range(budget.rounds):
        mu = budget.round(t)
        counting = _counts_weight(n * mu)
        choice = choose_round(frame, belief, law, style, apart=apart, n=n, mu=budget.mu_from(t), counting=counting)
        bound = choice.loss.bound * choice.length
        at = belief.mean.copy()
        at[0] += labels.centre
        edges = EDGES * law.scale
        asked = Residuals(at, choice.loss, choice.weights, choice.length, choice.longest, edges, counting * bound)
        values, sigma = yield asked, mu, f"round {t + 1} of residuals"
        message, shares = values[: len(at)], values[len(at) :] / (counting * bound)
        noise = sigma / (counting * bound)
        before, law = law, law.update_from_counts(shares, noise)
        if law.scale > best[0] * (1.0 + max(WORSE, 25.0 * noise)) and noise <= USABLE:
            # The last step went too far: the records spread more than the public rows do. Back, and on with care.
            _, belief, law, apart, known = best
            careful, gradients = 2.0 * careful, gradients[:known]
            best = (math.inf, belief, law, apart, known)
            continue
        if law.scale < best[0] and noise <= USABLE:
            best = (law.scale, belief, law, apart, len(gradients))
        shown = visible_shares(frame, law, choice)
        told = Gradient(
            belief.mean,
            message / choice.weights / shown,
            (sigma / choice.weights / shown) ** 2,
            frame.moments * (before.scale**2 / n + apart * frame.doubt + choice.unseen) / shown**2,
        )
        if made_up and gradients:
            # Records may spread more than made-up rows: what gradients told is then taken in again, with care.
            steeper = told.steepness(gradients[-1], frame.moments)
            careful = steeper if steeper > STEEPER * careful else careful
        gradients.append(told)
        old, belief = belief.mean, _update_belief(start, gradients, careful * frame.moments, frame.mismatch)
        moved = float(frame.moments @ (belief.mean - old) ** 2)
        apart = min(max(belief.error, 0.25 * moved), law.scale**2)
        if noise > USABLE:  # counts say nothing; what is believed to be explained is not left
            left = labels.variance - float(frame.moments[1:] @ belief.mean[1:] ** 2)
            law = ResidualLaw.normal(math.sqrt(max(left, LEAST_LEFT * labels.variance)), law.largest)
        history.append(
            {
                "round": t + 1,
                "mu": mu,
                "cut": float(choice.loss.bound),
                "length": choice.length,
                "scale": law.scale,
                "slope": float(np.mean(shown)),
                "degrees": belief.degrees,
                "error": belief.error,
            }
        )
    coef = belief.mean.copy()
    coef[0] += labels.centre
    if budget.check:
        coefs = np.column_stack([np.zeros_like(coef), best[1].mean, belief.mean])
        coefs[0] += labels.centre
        limit = min(3.0 * math.sqrt(labels.variance), law.largest)
        losses, noise = yield ClippedErrors(coefs, limit), budget.mu * math.sqrt(budget.check), CHECK_PURPOSE
        # The last one, unless another is clearly better: it is where all that was asked has gone.
        if (losses < losses[-1] - SURE * noise).any():
            coef, law = coefs[:, int(np.argmin(losses))], best[2]
    if budget.calibration:
        mu = budget.mu * math.sqrt(budget.calibration)
        coef = yield from calibrate(frame, coef, law, n, mu, loss)
    return LearnedFunction(coef, history)


def _counts_weight(known: float) -> float:
    """v in units of B sup|ψ|, from n·μ of the round: as large as counts need, and small where it would be in vain."""
    v = float(np.clip(2.0 / (known * GOOD_COUNT_NOISE), *COUNTS_WEIGHTS))
    return v if 2.0 / (known * v) <= USABLE else COUNTS_WEIGHTS[0]


def _update_belief(start: Belief, gradients: list[Gradient], moments: np.ndarray, mismatch: float) -> Belief:
    """All gradients together as an observation of a*, the records' second moments being about diag(moments)."""
    root = np.sqrt(moments)
    points, values, noise, others = (
        np.stack([getattr(g, name) for g in gradients]) for name in ("at", "values", "noise", "others")
    )
    variances = (noise + others) / moments
    observed = solve_rounds(points * root, values / root, noise / moments, variances, mismatch)
    return start.update(observed / root, 1.0 / np.sum(moments / variances, axis=0))
