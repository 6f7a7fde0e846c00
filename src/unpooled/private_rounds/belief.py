"""What is believed of the coefficients, from noised messages alone: a normal law for each, and its hyper-parameters.

A round tells, in each coordinate, γ q_i (a*_i - a_i) plus noise of known variance, a the function it was asked at. So
x_i = a_i + message/(γ q_i) is an observation of a*_i, and rounds are averaged by their precisions: no round is lost.
The prior is a*_i ~ N(0, v q_i^β): large β is a smooth target (for r the paper's regularity, β = 2r - 1 + 1/α for
eigenvalues like i^{-α}), v its size. Both are averaged over by how likely they make the observations (empirical
Bayes); where there is more noise than signal that shrinks to nothing by itself.
"""

from __future__ import annotations

import copy

import numpy as np

SMOOTHNESS = np.asarray([-1.25, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])  # β
SIZES = np.logspace(-3, 0.5, 15)  # of the target's variance, in units of the labels'; more would be noise
USUAL, SPREAD = (-0.25, 0.6), (0.6, 0.7)  # before anything is seen: β and v, and how far both may well be from it


class Belief:
    """A normal law for each coefficient; the constant's is first and has a flat prior around where it starts.

    Parameters
    ----------
    moments : q, with 1 for the constant
    variance : about the variance of the labels
    constant : the variance with which the constant's coefficient is known at first, to be zero
    """

    def __init__(self, moments: np.ndarray, variance: float, constant: float) -> None:
        self.moments, self.variance = moments, variance
        q = moments[1:]
        shapes = (q / q[0]) ** SMOOTHNESS[:, None]
        shapes /= np.sum(q * shapes, axis=1, keepdims=True)
        self._priors = (variance * SIZES[None, :, None] * shapes[:, None, :]).reshape(-1, len(q))
        usual = -0.5 * (((SMOOTHNESS - USUAL[0]) / SPREAD[0]) ** 2)[:, None]
        self._before = (usual - 0.5 * ((np.log(SIZES / USUAL[1]) / SPREAD[1]) ** 2)[None, :]).ravel()
        self.precision = np.zeros(len(moments))
        self.precision[0] = 1.0 / constant
        self._weighted = np.zeros(len(moments))
        self._settle()

    def after(self, values: np.ndarray, variances: np.ndarray) -> Belief:
        """What is believed after an observation of all coefficients."""
        found = copy.copy(self)  # arrays are replaced, never written to
        found._weighted = self._weighted + values / variances
        found.precision = self.precision + 1.0 / variances
        found._settle()
        return found

    def _settle(self) -> None:
        precision, weighted = self.precision[1:], self._weighted[1:]
        # With x̄ = weighted/precision ~ N(0, P + 1/precision): the likelihood, up to what does not depend on P.
        gain = self._priors * precision
        likelihood = self._before - 0.5 * np.sum(np.log1p(gain) - self._priors * weighted**2 / (1.0 + gain), axis=1)
        odds = np.exp(likelihood - likelihood.max())
        self._odds = odds / odds.sum()
        kept = self._priors / (1.0 + gain)
        means = kept * weighted
        mean = self._odds @ means
        variance = self._odds @ kept + np.maximum(self._odds @ means**2 - mean**2, 0.0)
        self.mean = np.concatenate([self._weighted[:1] / self.precision[:1], mean])
        self.spread = np.concatenate([1.0 / self.precision[:1], variance])
        self.prior = np.concatenate([[self.variance], self._odds @ self._priors])

    @property
    def degrees(self) -> float:
        """Σ P/(P + 1/precision): how many coefficients are known."""
        gain = self._priors * self.precision[1:]
        return float(self._odds @ np.sum(gain / (1.0 + gain), axis=1))

    @property
    def error(self) -> float:
        """Σ q_i Var(a_i): about the squared error of the function."""
        return float(self.moments @ self.spread)
