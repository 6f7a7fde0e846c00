"""The learner: it asks a question, gets a noisy answer, updates its beliefs, and asks a better question.

It never sees a row. Each round is a step of Newton's method with a public second derivative, diag(γq), on the messages
of a bounded loss:

    message_i = w_i (1/n) Σ_j ψ(r_j u_j)/r_j ω_j z_ji + N(0, s²),    s = √(4B² sup|ψ|² + 2v²)/(nμ_t),

u_j = y_j - f(x_j), r_j = ω_j|Wz_j|/B. Three choices make it work at small budgets. All are made anew for every round
from public and noisy facts:

- *How noise is distributed.* A record contributes a vector of length up to |Wz|, so all coordinates share the noise
  that E|Wz|² = Σ w_i²q_i requires. The error is Σ q_i Var(a_i), with Var = s²/(w_iγq_i)² if the coefficient is learned
  at all. It is smallest for w_i² ∝ k_i/q_i, where k_i = P/(P + Var) is the share of an observation that is kept. With
  g_i = k_i/q_i, the cost is then (Σ q_i g_i)² instead of (Σ q_i)(Σ q_i g_i²) for unweighted features, which is no less
  by the Cauchy-Schwarz inequality.
- *Where residuals are clipped* (:func:`.belief.choose_round`). The noise is proportional to B sup|ψ|, and clipping
  loses signal. The scale of ψ minimises the expected error plus a share of the clipped part. Residuals shrink over the
  rounds, and the noise shrinks with them. The contribution of a record is clipped as a whole: the residual of a long
  row earlier, that of a short row later.
- *How rounds are combined.* All rounds are averaged with their precisions as weights and shrunk (:class:`Belief`),
  using what they reveal together about the records' second moments (:mod:`.frame`).

**The last question** (:func:`calibrate`) corrects the level and the scale of the function as a whole. Rounds clip
residuals to keep the noise low, so for skewed labels they learn something closer to a median than to a mean: with a
long tail the function is too flat, by a third or more. In the single direction of the function itself noise is cheap,
so residuals need little clipping there. With g = (f - m)/s, which has mean zero and variance one on public rows,

    E ψ(ru)/r (1, g)  ≈  (κ_0 δ_0, κ_1 δ_1),    κ_0 = E ψ'(ru), κ_1 = E ψ'(ru) g²,

gives the correction δ_0 + δ_1 g. Both coefficients are shrunk according to their noise.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from .belief import EDGES, LOSSES, PRIOR_SHARE, USABLE, Belief, ResidualLaw, Style, choose_round, visible_shares
from .frame import Frame, solve_rounds
from .labels import LabelLaw, ask_about_labels
from .questions import SLACK, Calibration, ClippedErrors, NoisyAnswer, Question, Residuals

CALIBRATION_SHARE, _CALIBRATION_FROM = 0.03, 200.0  # the share of μ², and the n·μ from which it is spent
MULTIPLES = {
    "huber": (2.0, 4.0, 8.0, 16.0, 32.0),
    "correntropy": (2.0, 4.0),
}  # of the scale; Correntropy keeps outliers
_LATER = 0.5  # the largest product of noise and multiple, in units of s
_STRETCH = (1 / 3, 3.0)  # limits of the factor of the function; anything beyond them would be noise
_PRIOR = 0.5  # the prior standard deviation of the correction, in units of s
CALIBRATION_PURPOSE = "how high the function lies and how far it reaches"


def calibration_share(known: float) -> float:
    """Return the share of μ² for calibration, from n·μ."""
    return CALIBRATION_SHARE if known >= _CALIBRATION_FROM else 0.0


def calibrate(
    frame: Frame, coef: np.ndarray, law: ResidualLaw, n: float, mu: float, name: str
) -> Generator[tuple[Calibration, float, str], tuple[np.ndarray, float], np.ndarray]:
    """Correct the level and the scale of the function, as a coroutine like the learner; returns the coefficients."""
    spread = math.sqrt(float(frame.moments[1:] @ coef[1:] ** 2))
    if spread <= 1e-3 * law.scale:  # a constant has no scale to correct
        return coef
    g = frame.rows[:, 1:] @ coef[1:] / spread
    lengths = np.hypot(1.0, g)
    length = float(np.median(lengths))
    for multiple in MULTIPLES[name]:
        tried = LOSSES[name](min(multiple * law.scale, law.largest))
        slopes = law.slopes(tried, lengths / length)
        mean = float(np.mean(slopes))
        kappas = np.asarray([mean, (np.mean(slopes * g**2) + PRIOR_SHARE * mean) / (np.mean(g**2) + PRIOR_SHARE)])
        noise = 2.0 * tried.bound * length * SLACK / (n * mu) / kappas
        if multiple == MULTIPLES[name][0] or multiple * float(np.max(noise)) <= _LATER * spread:
            loss, seen = tried, kappas
    message, sigma = yield Calibration(coef, float(coef[0]), spread, loss, length), mu, CALIBRATION_PURPOSE
    delta, noise = message / seen, sigma / seen
    # Shrink by the non-negative garrote, which drops a correction no larger than its noise and keeps a clear one, and
    # by the prior, which keeps little when the noise exceeds any likely correction.
    delta *= np.maximum(1.0 - noise**2 / np.maximum(delta**2, 1e-300), 0.0) / (1.0 + (noise / (_PRIOR * spread)) ** 2)
    corrected = coef * np.clip(1.0 + delta[1] / spread, *_STRETCH)
    corrected[0] = coef[0] + delta[0]
    return corrected


# The share of μ² for the length of the tails, E min(u², L²) in units of the variance, with L ten standard deviations.
TAILS_SHARE = 0.01
TAILS_FROM = 600.0  # the n·μ below which noise would hide all but extreme tails, so nothing is asked
TAILS_PURPOSE = "whether the labels have long tails"
LIMIT, LONG = 10.0, 1.5  # L in standard deviations, and the value from which tails are long; the normal law has 1
_GOOD_COUNT_NOISE = 0.02  # the noise on the share of a bin to aim for, where it is cheap
_COUNTS_WEIGHTS = (0.05, 0.5)  # limits of the weight of counts, in units of the bound on a residual's contribution
_LEAST_LEFT = 0.4  # the least share of the labels' variance assumed to be unexplained when residuals cannot be counted
_GROWTH = 1.2  # the growth of μ² from round to round: later rounds ask better questions
_WORSE = 1.0  # a step was too far if residuals grew by more than this share (and by 25 times the noise)
CHECK_SHARE = 0.01  # the share of μ² for comparing the last function with the best so far and with a constant
CHECK_FROM = 200.0  # the n·μ below which no difference would be clear
CHECK_PURPOSE = "which function is best"
SURE = 6.0  # another function is taken only if it is better by this many standard deviations of the noise
_STEEPER = 3.0  # second moments are assumed larger if they exceed the current assumption by this factor

PricedQuestion = tuple[Question, float, str]  # a question, its μ, and its purpose in words


@dataclass
class Budget:
    """The division of a total μ among the questions; μ² adds up."""

    mu: float
    rounds: int
    labels: float  #: the share of μ² for the location of the labels
    check: float = CHECK_SHARE  #: the share of μ² for a comparison at the end
    tails: float = 0.0  #: the share of μ² for the tails of the labels
    calibration: float = 0.0  #: the share of μ² for the level and the scale of the function

    @property
    def _share_of_rounds(self) -> float:
        return 1.0 - self.labels - self.check - self.tails - self.calibration

    def round(self, t: int) -> float:
        """Return μ of round t."""
        return self.mu * math.sqrt(self._share_of_rounds * _GROWTH**t / self._sum_growth(0))

    def mu_from(self, t: int) -> float:
        """Return μ of round t and all later rounds together."""
        return self.mu * math.sqrt(self._share_of_rounds * self._sum_growth(t) / self._sum_growth(0))

    def _sum_growth(self, t: int) -> float:
        return math.fsum(_GROWTH**s for s in range(t, self.rounds))


@dataclass
class LearnedFunction:
    """The result of the learner: coefficients of z, and a history with one entry per round."""

    coef: np.ndarray
    history: list[dict[str, float]]


@dataclass(frozen=True)
class Gradient:
    """The estimate of C(a* - a) from one round, where C are the records' second moments."""

    at: np.ndarray  #: a
    values: np.ndarray
    noise: np.ndarray  #: the variance of the noise
    others: np.ndarray  #: the variance from all other sources

    def steepness(self, before: Gradient, moments: np.ndarray) -> float:
        """Return a lower bound on sᵀCs/sᵀqs for the step s between two gradients (five standard deviations below)."""
        s = self.at - before.at
        length = float(s @ (moments * s))
        if length <= 0:
            return 0.0
        noise = math.sqrt(float(s**2 @ (self.noise + before.noise)))
        return (float(s @ (before.values - self.values)) - 5.0 * noise) / length


def learn(
    frame: Frame, n: float, budget: Budget, label_bound: float, loss: str
) -> Generator[PricedQuestion, NoisyAnswer, LearnedFunction]:
    """Learn a function, as a coroutine that yields priced questions and is sent their noisy answers."""
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
    apart = 0.6 * labels.variance  # the estimated squared distance from the current function to the best one
    history: list[dict[str, float]] = []
    start, gradients = belief, list[Gradient]()
    best = (math.inf, belief, law, apart, 0)
    made_up = frame.caution > 1.0
    caution = frame.caution  # the factor by which the moments are assumed to exceed those of the public rows
    for t in range(budget.rounds):
        mu = budget.round(t)
        counting = _counts_weight(n * mu)
        choice = choose_round(frame, belief, law, style, apart=apart, n=n, mu=budget.mu_from(t), counting=counting)
        bound = choice.loss.bound * choice.length
        at = belief.mean.copy()
        at[0] += labels.centre
        edges = EDGES * law.scale
        question = Residuals(at, choice.loss, choice.weights, choice.length, choice.longest, edges, counting * bound)
        values, sigma = yield question, mu, f"round {t + 1} of residuals"
        message, shares = values[: len(at)], values[len(at) :] / (counting * bound)
        noise = sigma / (counting * bound)
        before, law = law, law.update_from_counts(shares, noise)
        if law.scale > best[0] * (1.0 + max(_WORSE, 25.0 * noise)) and noise <= USABLE:
            # The last step went too far, because records spread more than public rows. Go back and take smaller steps.
            _, belief, law, apart, n_kept = best
            caution, gradients = 2.0 * caution, gradients[:n_kept]
            best = (math.inf, belief, law, apart, n_kept)
            continue
        if law.scale < best[0] and noise <= USABLE:
            best = (law.scale, belief, law, apart, len(gradients))
        gamma = visible_shares(frame, law, choice)
        gradient = Gradient(
            belief.mean,
            message / choice.weights / gamma,
            (sigma / choice.weights / gamma) ** 2,
            frame.moments * (before.scale**2 / n + apart * frame.doubt + choice.unseen) / gamma**2,
        )
        if made_up and gradients:
            # Records may spread more than synthetic rows. All gradients are then reinterpreted with larger moments.
            steeper = gradient.steepness(gradients[-1], frame.moments)
            caution = steeper if steeper > _STEEPER * caution else caution
        gradients.append(gradient)
        old, belief = belief.mean, _update_belief(start, gradients, caution * frame.moments, frame.mismatch)
        moved = float(frame.moments @ (belief.mean - old) ** 2)
        apart = min(max(belief.error, 0.25 * moved), law.scale**2)
        if noise > USABLE:  # counts are of no use; the scale follows from the variance that the belief does not explain
            left = labels.variance - float(frame.moments[1:] @ belief.mean[1:] ** 2)
            law = ResidualLaw.normal(math.sqrt(max(left, _LEAST_LEFT * labels.variance)), law.largest)
        history.append(
            {
                "round": t + 1,
                "mu": mu,
                "cut": float(choice.loss.bound),
                "length": choice.length,
                "scale": law.scale,
                "slope": float(np.mean(gamma)),
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
        # Keep the last function, which rests on all answers, unless another one is clearly better.
        if (losses < losses[-1] - SURE * noise).any():
            coef, law = coefs[:, int(np.argmin(losses))], best[2]
    if budget.calibration:
        mu = budget.mu * math.sqrt(budget.calibration)
        coef = yield from calibrate(frame, coef, law, n, mu, loss)
    return LearnedFunction(coef, history)


def _counts_weight(known: float) -> float:
    """Return v in units of B sup|ψ|, from n·μ of the round: as large as the counts need, or the least if in vain."""
    v = float(np.clip(2.0 / (known * _GOOD_COUNT_NOISE), *_COUNTS_WEIGHTS))
    return v if 2.0 / (known * v) <= USABLE else _COUNTS_WEIGHTS[0]


def _update_belief(start: Belief, gradients: list[Gradient], moments: np.ndarray, mismatch: float) -> Belief:
    """Update the belief by all gradients together, if the records' second moments are about diag(moments)."""
    root = np.sqrt(moments)
    points, values, noise, others = (
        np.stack([getattr(g, name) for g in gradients]) for name in ("at", "values", "noise", "others")
    )
    variances = (noise + others) / moments
    observed = solve_rounds(points * root, values / root, noise / moments, variances, mismatch)
    return start.update(observed / root, 1.0 / np.sum(moments / variances, axis=0))
