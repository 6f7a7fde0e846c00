"""PrivateSGDRegressor: stochastic gradient descent on random features, noise on its outcome (Wang and Guo 2024)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from .._base.arrays import to_numpy
from .._base.checks import check_budget, check_choice, check_positive
from .._base.fits import undo_on_failure
from .._base.kinds import CheckedValue, Real, Switch, Whole, Word, declaration, parameter
from .._base.threads import silence_warnings
from .._solvers.descent.sgd import (
    MOST_ROWS,
    clip_rows,
    coordinates,
    descend,
    descend_one_by_one,
    draw_rows,
    draw_shuffled,
    shrink,
)
from ..bases import Basis, CosineFeatures, EmpiricalFeatures, RandomFeatures
from ..data.sources import UnreadRows, must_be_read, read_all
from ..kernels import Kernel
from ..privacy import Approximate, Event, Expense, Gaussian, Guarantee, mu_for
from ..privacy.ledger import Spending
from ..privacy.noise import load_opendp
from .facts import ModelFacts, if_fitted
from .private_model import COUNT, DELTA, EPSILON, LEDGER, SEED, SIZE, PrivateModel, Promise
from .private_sgd_plan import SGDPlan, coordinate_scale, paper_plan, tight_plan
from .public_rows import BoundedKernel, basis_and_rows, public_features, standard_normal
from .stored import SpanFunction

METHODS = ("tight", "paper")
IN_MEMORY = 1 << 27  # features that are kept for all passes: 1 GiB. Beyond, each batch is mapped anew
MECHANISM = "discrete Gaussian noise on the outcome of stochastic gradient descent"
PURPOSE = {"tight": "the weights of a regression", "paper": "the weights of a regression (Algorithm 1 of paper 004)"}


def check_precondition(name: str, value: Any) -> None:
    """ "auto" or a positive number."""
    if isinstance(value, str):
        check_choice(name, value, ("auto",))
    else:
        check_positive(name, value)


@declaration
@dataclass(eq=False, repr=False)
class PrivateSGDRegressor(PrivateModel):
    """Differentially private regression: descent from zero, and noise on where it ends (Wang and Guo 2024, mended).

    ``method="tight"`` visits every record once in each of several shuffled passes, in batches, with residuals clipped
    (Huber's loss), and adds the noise that this needs; ``method="paper"`` is Algorithm 1 of the paper with its errata
    mended, for comparison: private, and far too noisy to be of use. Proofs are in docs/privacy/sgd.md.

    The guarantee holds for replacing one record. Public are the number of records, everything given to the
    constructor, and ``public``, from which length scale, scaling of the inputs, features, step, clip and passes are
    chosen. Labels are moved into [-c, c] without a word, and so are predictions.

    Parameters
    ----------
    epsilon, delta : what one fit may spend. A δ above 1/n is warned of
    label_bound : c > 0, from knowledge that does not come from the labels
    kernel : Kernel, str or None
        A bounded kernel; without ``public`` a stationary one. None is ``Gaussian("median")`` from the public sample,
        or ``Gaussian(1.0)`` without one. Also a fitted basis of ``up.bases`` that was made from public rows alone.
    n_features : int, default 500
        The most features. Noise does not grow with their number.
    method : {"tight", "paper"}
    step : η; None chooses
    n_steps : T of "paper"; None is the schedule of the paper's Theorem 1 for η = 1/n, r = 0.75 and α = 0.8
    passes, batch_size : of "tight"; None chooses
    clip : C of "tight", None chooses
    lam, averaged : weight decay, and whether the mean of all iterates is released; of "tight"
    precondition : "auto", a positive number λ₀ or None
        Descend in the coordinates φ_i/√(λ_i + λ₀), λ_i the public eigenvalues, or in φ itself; of "tight".
    intercept : bool or None
        A constant feature. None is yes for "tight" and no for "paper", which has none.
    shrink : bool, default True
        Take out of the noisy weights what noise alone would make of them, by blocks; of "tight".
    standardize : bool, default False
        Bring every input to the mean and standard deviation it has on the public sample.
    ledger : None, a ``privacy.Ledger`` or the path of one
        Charged before the records are looked at; without budget left nothing is looked at.
    random_state : int, default 0
        Draws features and, in "tight", the order of visits, which may both be known to anyone. Never the noise, nor the
        order of "paper", whose proof needs it to be random.

    Attributes
    ----------
    privacy_ : Guarantee, which prints as a sentence
    plan_ : SGDPlan, what was chosen and why
    sensitivity_, sigma_ : how far one record moves the weights, and the standard deviation of the noise on each
    coef_, intercept_ : of the features of ``basis_``, with noise
    basis_, predictor_, kernel_ : the features, the fitted function (not moved into [-c, c]), the kernel

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> rng = np.random.default_rng(0)
    >>> X, U = rng.uniform(-1, 1, size=(20_000, 2)), rng.uniform(-1, 1, size=(300, 2))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1]
    >>> model = up.PrivateSGDRegressor(1.0, 1e-6, label_bound=2.0).fit(X, y, public=U)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    epsilon: float = parameter(EPSILON)
    delta: float = parameter(DELTA)
    label_bound: float = parameter(CheckedValue(check_positive, "a positive, finite number"))
    kernel: Any = parameter(BoundedKernel(), None)
    n_features: int = parameter(Whole(), 500)
    method: str = parameter(Word(METHODS), "tight")
    _: KW_ONLY
    step: float | None = parameter(SIZE, None)
    n_steps: int | None = parameter(COUNT, None)
    passes: int | None = parameter(COUNT, None)
    batch_size: int | None = parameter(COUNT, None)
    clip: float | None = parameter(SIZE, None)
    lam: float = parameter(Real("a finite number that is not negative", lambda value: 0 <= value < math.inf), 0.0)
    averaged: bool = parameter(Switch(), False)
    precondition: Any = parameter(
        CheckedValue(check_precondition, "'auto', a positive number or None", none=True), "auto"
    )
    intercept: bool | None = parameter(Switch(none=True), None)
    shrink: bool = parameter(Switch(), True)
    standardize: bool = parameter(Switch(), False)
    ledger: Any = parameter(LEDGER, None)
    random_state: Any = parameter(SEED, 0)

    _saved: ClassVar = (SpanFunction(targets=False), Promise(SGDPlan.from_dict, ("sensitivity_", "sigma_")))

    def fit(self, X: Any, y: Any, public: Any = None) -> PrivateSGDRegressor:
        """Fit to private rows ``X`` and labels ``y``; ``public`` holds rows without labels that are no secret.

        All arguments are checked and everything is planned before budget is charged, and budget is charged before a
        value of X or y is looked at. Rows that turn out not to be finite numbers then have cost it all the same.

        Parameters
        ----------
        X, y : arrays or frames
        public : array or frame of rows, or None
        """
        with undo_on_failure(self):
            self._check_parameters()
            epsilon, delta = float(self.epsilon), float(self.delta)
            price: Event = Approximate(epsilon, delta) if self.method == "paper" else Gaussian(mu_for(epsilon, delta))
            with Spending(self.ledger, price, PURPOSE[self.method]) as spending:
                return self._fit(X, y, public, price, spending)

    def _fit(self, X: Any, y: Any, public: Any, price: Event, spending: Spending) -> PrivateSGDRegressor:
        if must_be_read(X):
            spending.charge()
        basis, rows = self._basis_and_rows(X, y, public)
        check_budget(self.epsilon, self.delta, rows.count())
        if self.method == "paper":
            plan, noise = paper_plan(self, basis, rows.count())
        else:
            plan, noise = tight_plan(self, basis, rows.count(), *features_to_plan_with(self, basis, public))
        load_opendp()  # without which no noise can be drawn: better said before it is paid for
        with silence_warnings():
            before = spending.read(lambda: weights_before_noise(self, rows, basis, plan))
        weights = noise.add(before)
        self._become(basis, plan, weights)
        facts = ("the number of records", "the basis and how it was made", f"the label bound {self.label_bound:g}")
        self.privacy_ = Guarantee(
            float(self.epsilon), float(self.delta), MECHANISM, (Expense(PURPOSE[self.method], price),),
            public=(*facts, "all arguments and the plan"),
        )  # fmt: skip
        return self

    def _become(self, basis: Basis, plan: SGDPlan, weights: np.ndarray) -> None:
        """What follows from the noisy weights alone."""
        coef, b = np.zeros(basis.n_features_), 0.0
        if self.method == "paper":
            coef[:] = weights
        else:
            weights = shrink(weights, plan.sigma) if self.shrink else weights
            if plan.constant:
                b, weights = float(weights[0]) * plan.constant, weights[1:]
            coef[: len(weights)] = weights * coordinate_scale(basis, plan.ridge)
        self._settle(basis, coef[:, None], np.asarray([b]), True)
        self.basis_, self.plan_ = basis, plan
        self.sensitivity_, self.sigma_ = plan.sensitivity, plan.sigma

    def _basis_and_rows(self, X: Any, y: Any, public: Any) -> tuple[Basis, UnreadRows]:
        if public is None and self.standardize and not isinstance(self.kernel, Basis):
            raise ValueError("standardize=True needs to know the inputs: give public rows without labels as public")
        return basis_and_rows(
            self, X, y, public, lambda kernel, known: self._new_basis(kernel, known and self.method == "tight")
        )

    def _new_basis(self, kernel: Kernel, empirical: bool) -> Basis:
        M, seed = int(self.n_features), int(self.random_state)
        if empirical:
            return EmpiricalFeatures(kernel, M, bool(self.standardize), random_state=seed)
        cls = CosineFeatures if self.method == "paper" else RandomFeatures
        return cls(kernel, M, seed, bool(self.standardize))

    def _check_together(self) -> None:
        if self.method == "tight":
            if self.n_steps is not None:
                raise ValueError("n_steps is of method='paper': give passes to method='tight'")
            return
        given = [name for name in ("passes", "batch_size", "clip") if getattr(self, name) is not None]
        given += [name for name in ("lam", "averaged", "intercept") if getattr(self, name)]
        if given:
            raise ValueError(f"Algorithm 1 has no {', '.join(given)}: leave that out, or use method='tight'")

    def facts(self, target: int = 0) -> ModelFacts:
        """The facts of the fitted model; ``target`` is the position of the label."""
        return self._describe(
            target,
            "Differentially private kernel regression by gradient descent with noise on where it ends",
            n_rows=self.plan_.n_rows,
            basis=if_fitted(self, "basis_"),
            privacy=self.privacy_,
            plan=self.plan_,
        )


def weights_before_noise(model: PrivateSGDRegressor, rows: UnreadRows, basis: Basis, plan: SGDPlan) -> np.ndarray:
    """The weights before there is noise on them: never kept, never shown."""
    found, c = read_all(rows.read()), float(model.label_bound)
    X, y = found.X, np.clip(to_numpy(found.Y)[:, 0], -c, c)
    if model.method == "paper":
        phi = clip_rows(basis.features(X), plan.kappa)
        return descend_one_by_one(phi, y, draw_rows(len(X), plan.steps), plan.step)
    scale = coordinate_scale(basis, plan.ridge)

    def mapped(X: np.ndarray) -> np.ndarray:
        return coordinates(basis.features(X), scale, plan.constant, plan.kappa)

    Z = mapped(X) if len(X) * plan.size <= IN_MEMORY else None
    order = np.random.default_rng([int(model.random_state), 1])
    assert plan.passes is not None
    assert plan.clip is not None
    return descend(
        lambda batch: (mapped(X[batch]) if Z is None else Z[batch], y[batch]),
        draw_shuffled(len(X), plan.passes, plan.batch_size, order),
        plan.size,
        step=plan.step,
        batch_size=plan.batch_size,
        clip=plan.clip,
        lam=plan.lam,
        averaged=plan.averaged,
    )


def features_to_plan_with(model: PrivateSGDRegressor, basis: Basis, public: Any) -> tuple[np.ndarray, str]:
    """Features for the plan to simulate on, and whose they are: public rows, or rows of no one."""
    if public is not None:
        phi = public_features(basis, public, MOST_ROWS)
        return phi, f"{len(phi)} public rows"
    if isinstance(model.kernel, Basis):  # its rows are gone, the spectrum that they had is known
        phi = np.random.default_rng(0).standard_normal((MOST_ROWS, basis.n_features_)) * np.sqrt(basis.spread_)
        return phi, "made-up rows with the spectrum of the basis"
    return basis.features(standard_normal(basis.n_features_in_)[:MOST_ROWS]), "rows of the standard normal law"
