"""PrivateSGDRegressor: stochastic gradient descent on random features, noise on its outcome (Wang and Guo 2024)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from .._base.arrays import to_numpy
from .._base.checks import check_budget, check_choice, check_positive
from .._base.fits import undo_on_failure
from .._base.kinds import VERBOSITY, CheckedValue, Real, Switch, Whole, Word, declaration, parameter
from .._base.progress import Progress
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
from ..bases.base import FittedBasis, check_kernel_or_basis
from ..data.sources import UnreadRows, must_be_read, read_all
from ..kernels import Kernel
from ..privacy import ApproximateEvent, Event, Expense, GaussianEvent, Guarantee, mu_for
from ..privacy.ledger import Spending
from ..privacy.noise import load_opendp
from ..privacy.rounds.schedule import public_features, standard_normal
from .facts import ModelFacts, if_fitted
from .private_model import COUNT, DELTA, EPSILON, LEDGER, SEED, SIZE, PrivateModel, Promise
from .private_sgd_plan import DescentSchedule, coordinate_scale, paper_plan, tight_plan
from .public_rows import BoundedKernel, basis_and_rows
from .stored import SpanFunction

METHODS = ("tight", "paper")
IN_MEMORY = 1 << 27  # features that are kept for all passes: 1 GiB. Beyond, each batch is mapped anew
MECHANISM = "discrete Gaussian noise on the outcome of stochastic gradient descent"
PURPOSE = {
    "tight": "the weights of a regression",
    "paper": "the weights of a regression (Wang and Guo (2024), Algorithm 1)",
}


def _check_precondition(name: str, value: Any) -> None:
    """ "auto" or a positive number."""
    if isinstance(value, str):
        check_choice(name, value, ("auto",))
    else:
        check_positive(name, value)


@declaration
@dataclass(eq=False, repr=False)
class PrivateSGDRegressor(PrivateModel):
    """Differentially private regression by gradient descent with noise on its result (Wang and Guo 2024, corrected).

    ``method="tight"`` visits every record once in each of several shuffled passes, in batches, with residuals clipped
    (Huber's loss), and adds the noise that this needs; ``method="paper"`` is Algorithm 1 of the paper with its errata
    corrected, for comparison: it is private, and far too noisy to be useful. Proofs are in docs/privacy/sgd.md.

    The guarantee holds for replacing one record. The number of records, everything given to the constructor and
    ``public`` are public; length scale, scaling of the inputs, features, step, clip and passes are chosen from these.
    Labels outside [−c, c] are clipped silently, and so are predictions.

    Parameters
    ----------
    epsilon, delta : float
        The budget of one fit. A δ above 1/n leads to a warning.
    label_bound : c > 0
        From knowledge that does not come from the labels.
    kernel : Kernel, str or None
        A bounded kernel; without ``public`` a stationary one. None is ``Gaussian()`` from the public sample,
        or ``Gaussian(1.0)`` without one.
    n_features : int, default 500
        The most features. Noise does not grow with their number.
    method : {"tight", "paper"}
        The two methods that are described above.
    basis : a fitted basis of ``up.bases``, or None
        Made from public rows alone; in place of ``kernel``, ``n_features`` and ``standardize``, and without ``public``.
    step : float or None
        The step size η; None chooses it.
    n_steps : int or None
        The number of steps T of "paper". None is the schedule of Theorem 1 for η = 1/n, r = 0.75 and α = 0.8.
    passes, batch_size : int or None
        The passes over the records and the size of a batch, of "tight"; None chooses them.
    clip : float or None
        The bound C at which "tight" clips residuals; None chooses it.
    weight_decay : float, default 0
        The λ of a penalty λ|w|²/2 on the weights, of "tight".
    averaged : bool, default False
        Release the mean of all iterates in place of the last one, of "tight".
    precondition : "auto", a positive number λ₀ or None
        Descend in the coordinates φ_i/√(λ_i + λ₀), λ_i the public eigenvalues, or in φ itself; of "tight".
    fit_intercept : bool, default True
        Whether there is a constant feature. Algorithm 1 has none: pass ``fit_intercept=False`` with "paper".
    shrink : bool, default True
        Shrink blocks of the noisy weights by the share that noise alone explains; of "tight".
    standardize : bool, default False
        Bring every input to mean 0 and standard deviation 1 on the public sample.
    ledger : None, a ``privacy.Ledger`` or the path of one
        Charged before the records are read; if its budget does not suffice, nothing is read.
    random_state : int, default 0
        Draws features and, in "tight", the order of visits, which may both be known to anyone. Never the noise, nor the
        order of "paper", whose proof needs it to be random.
    verbose : int, default 0
        1 shows a progress bar on standard error, once the batches of "tight" take longer than a second.

    Attributes
    ----------
    privacy_ : Guarantee, which prints as a sentence
    schedule_ : DescentSchedule, all choices made before the fit, with their reasons
    sensitivity_, sigma_ : how far one record moves the weights, and the standard deviation of the noise on each
    coef_, intercept_ : of the features of ``basis_``, with noise
    basis_, predictor_, kernel_ : the features, the fitted function (not clipped to [−c, c]), the kernel

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
    basis: Any = parameter(FittedBasis(), None)
    step: float | None = parameter(SIZE, None)
    n_steps: int | None = parameter(COUNT, None)
    passes: int | None = parameter(COUNT, None)
    batch_size: int | None = parameter(COUNT, None)
    clip: float | None = parameter(SIZE, None)
    weight_decay: float = parameter(
        Real("a finite number that is not negative", lambda value: 0 <= value < math.inf), 0.0
    )
    averaged: bool = parameter(Switch(), False)
    precondition: Any = parameter(
        CheckedValue(_check_precondition, "'auto', a positive number or None", none=True), "auto"
    )
    fit_intercept: bool = parameter(Switch(), True)
    shrink: bool = parameter(Switch(), True)
    standardize: bool = parameter(Switch(), False)
    ledger: Any = parameter(LEDGER, None)
    random_state: Any = parameter(SEED, 0)
    verbose: int = parameter(VERBOSITY, 0)

    _saved: ClassVar = (SpanFunction(targets=False), Promise(DescentSchedule.from_dict, ("sensitivity_", "sigma_")))

    def fit(self, X: Any, y: Any, public: Any = None) -> PrivateSGDRegressor:
        """Fit to private rows ``X`` and labels ``y``; ``public`` holds rows without labels that are no secret.

        All arguments are checked and everything is planned before the ledger is charged, and the ledger is charged
        before a value of X or y is read. The charge stands even if rows turn out not to be finite numbers.

        Parameters
        ----------
        X, y : arrays or frames
        public : array or frame of rows, or None
        """
        with undo_on_failure(self):
            self._check_parameters()
            epsilon, delta = float(self.epsilon), float(self.delta)
            price: Event = (
                ApproximateEvent(epsilon, delta) if self.method == "paper" else GaussianEvent(mu_for(epsilon, delta))
            )
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

    def _become(self, basis: Basis, plan: DescentSchedule, weights: np.ndarray) -> None:
        """Become the function of the noisy weights, from these weights alone."""
        coef, b = np.zeros(basis.n_features_), 0.0
        if self.method == "paper":
            coef[:] = weights
        else:
            weights = shrink(weights, plan.sigma) if self.shrink else weights
            if plan.constant:
                b, weights = float(weights[0]) * plan.constant, weights[1:]
            coef[: len(weights)] = weights * coordinate_scale(basis, plan.ridge)
        self._settle(basis, coef[:, None], np.asarray([b]), True)
        self.basis_, self.schedule_ = basis, plan
        self.sensitivity_, self.sigma_ = plan.sensitivity, plan.sigma

    def _basis_and_rows(self, X: Any, y: Any, public: Any) -> tuple[Basis, UnreadRows]:
        if public is None and self.standardize and self.basis is None:
            raise ValueError(
                "standardize=True needs public rows without labels: pass them as public, or use standardize=False"
            )
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
        check_kernel_or_basis(self.kernel, self.basis)
        if self.method == "tight":
            if self.n_steps is not None:
                raise ValueError("n_steps belongs to method='paper': use passes with method='tight'")
            return
        given = [name for name in ("passes", "batch_size", "clip") if getattr(self, name) is not None]
        given += [name for name in ("weight_decay", "averaged") if getattr(self, name)]
        if given:
            raise ValueError(
                f"Algorithm 1 of Wang and Guo (2024) has no {', '.join(given)}: leave that out, or use method='tight'"
            )
        if self.fit_intercept:
            raise ValueError(
                "Algorithm 1 of Wang and Guo (2024) has no intercept: pass fit_intercept=False with method='paper'"
            )

    def facts(self, target: int = 0) -> ModelFacts:
        """Return the facts of the fitted model; ``target`` is the position of the label."""
        return self._describe(
            target,
            "Differentially private kernel regression by gradient descent with noise added to its result",
            n_rows=self.schedule_.n_rows,
            basis=if_fitted(self, "basis_"),
            privacy=self.privacy_,
            schedule=self.schedule_,
        )


def weights_before_noise(
    model: PrivateSGDRegressor, rows: UnreadRows, basis: Basis, plan: DescentSchedule
) -> np.ndarray:
    """Compute the weights before noise is added, which are never kept and never shown."""
    data, c = read_all(rows.read()), float(model.label_bound)
    X, y = data.X, np.clip(to_numpy(data.Y)[:, 0], -c, c)
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
    batches = draw_shuffled(len(X), plan.passes, plan.batch_size, order)
    with Progress(plan.steps, "batches", model.verbose) as bar:
        return descend(
            lambda batch: (mapped(X[batch]) if Z is None else Z[batch], y[batch]),
            bar.counting(batches),
            plan.size,
            step=plan.step,
            batch_size=plan.batch_size,
            clip=plan.clip,
            lam=plan.weight_decay,
            averaged=plan.averaged,
        )


def features_to_plan_with(model: PrivateSGDRegressor, basis: Basis, public: Any) -> tuple[np.ndarray, str]:
    """Features for the plan to simulate on, and whose they are: public rows, or rows of no one."""
    if public is not None:
        phi = public_features(basis, public, MOST_ROWS)
        return phi, f"{len(phi)} public rows"
    if model.basis is not None:  # its rows are gone, the spectrum that they had is known
        phi = np.random.default_rng(0).standard_normal((MOST_ROWS, basis.n_features_)) * np.sqrt(basis.spread_)
        return phi, "made-up rows with the spectrum of the basis"
    return basis.features(standard_normal(basis.n_features_in_)[:MOST_ROWS]), "standard normal rows"
