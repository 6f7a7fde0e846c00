"""PrivateRegressor: ε in, model out.

A learner, an engine and a transport meet at one place, :func:`run_rounds`. It is given public facts and the ``ask`` of
a :class:`~unpooled.privacy.rounds.custodian.Custodian`, and nothing else that leads to a record. In one process the
custodian is a :class:`RowHolder`, which sums with an engine; in a live study it is the server's end of a transport
(:mod:`unpooled.federation.server.rounds`), behind which each site has a RowHolder of its own. Both answer the same
question with the same bits if their noise is the same.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from .._base.checks import check_budget, check_positive
from .._base.fits import undo_on_failure
from .._base.kinds import VERBOSITY, CheckedValue, Switch, Whole, Word, declaration, parameter
from .._base.progress import Progress
from .._base.rows import ArraySource, Source, read_site_labels
from .._base.text import quote
from .._base.threads import silence_warnings
from ..bases import Basis, EmpiricalFeatures
from ..bases.base import FittedBasis, check_kernel_or_basis
from ..data.sources import UnreadRows, must_be_read, read_all
from ..engines import EngineKind, as_engine
from ..kernels import Kernel, as_kernel
from ..privacy import Expense, Guarantee, gaussian, mu_for
from ..privacy.ledger import Spending
from ..privacy.rounds.custodian import Custodian, RowHolder, check_noise_can_be_drawn, run_learner
from ..privacy.rounds.frame import Frame, build_made_up_frame, build_public_frame
from ..privacy.rounds.labels import N_MADE_UP_ROWS, ask_about_inputs
from ..privacy.rounds.learner import LearnedFunction, learn
from ..privacy.rounds.questions import NoisyAnswer, Question
from ..privacy.rounds.schedule import (
    RoundSchedule,
    is_rich,
    make_schedule,
    n_public_rows,
    public_features,
    standard_normal,
    usual_features,
    widen_basis,
)
from .facts import ModelFacts, if_fitted
from .private_model import DELTA, EPSILON, LEDGER, SEED, PrivateModel, Promise
from .public_rows import BoundedKernel, basis_and_rows, private_rows, site_counts
from .span import OnEngine
from .stored import SITES, SpanFunction, Tables

LOSSES = ("auto", "huber", "correntropy")
NOISES = ("total", "site")
HISTORY = Tables(round=int, mu=float, cut=float, length=float, scale=float, slope=float, degrees=float, error=float)
SMALLEST, LARGEST = 1e-100, 1e100  # label bounds whose squares are numbers still
PURPOSE = "a private regression"
MECHANISM = "discrete Gaussian noise on rounds of residual sums"
SECURE = "nothing but sums over all sites is seen, and each site adds its share of the noise"


def _check_label_bound(name: str, value: Any) -> None:
    """A bound whose square is a number still."""
    if not SMALLEST <= check_positive(name, value) <= LARGEST:
        raise ValueError(
            f"{name} must lie between {SMALLEST:g} and {LARGEST:g}, got {quote(value)}: "
            "bring the labels to another unit"
        )


BOUND = CheckedValue(_check_label_bound, "a positive number or None", none=True)


def _count_rows_through_noise(plan: RoundSchedule) -> float:
    """Return how many records would have as much to say through noise that is added once."""
    return plan.n_rows / math.sqrt(plan.sites)


def run_rounds(plan: RoundSchedule, frame: Frame, custodian: Custodian) -> tuple[LearnedFunction, list[Expense]]:
    """Learn from a custodian's noisy answers alone; return the function and the cost of each question."""
    return run_learner(
        learn(frame, _count_rows_through_noise(plan), plan.budget(), plan.label_bound, plan.loss), custodian.ask
    )


@dataclass(frozen=True)
class _CountingCustodian(Custodian):
    """A custodian whose questions a progress bar counts."""

    custodian: Custodian
    bar: Progress

    def ask(self, question: Question, mu: float) -> NoisyAnswer:
        self.bar.advance()
        return self.custodian.ask(question, mu)


@declaration
@dataclass(eq=False, repr=False)
class PrivateRegressor(OnEngine, PrivateModel):
    """Differentially private kernel regression by rounds of noisy residual sums (docs/privacy/rounds.md).

    The records are used through sums only: counts of labels at first, then in each round Σ ψ(r(y - f(x))) Wz/r over
    all records, ψ bounded and r = |Wz|/B, with noise for 2B·sup|ψ|; at the end the level and the spread of the
    function. The questions (W, B, the scale of ψ) follow from the public sample and from what earlier rounds released.
    There is nothing to tune, and there is always an intercept.

    The guarantee holds for replacing one record. The number of records, everything given to the constructor and
    ``public`` are public; the length scale, the scaling of inputs and the features come from ``public``.

    Parameters
    ----------
    epsilon, delta : float
        The budget of one fit. A δ above 1/n leads to a warning.
    label_bound : c > 0 or None
        From knowledge that does not come from the labels. Labels outside [−c, c] are clipped silently, and so are
        predictions. The bound may be generous: the noise follows the residuals. Without a bound labels may have any
        size, and the correntropy loss, whose scale is found privately, gives gross outliers almost no influence.
    kernel : Kernel, str or None
        A bounded kernel. None is ``Gaussian()`` from the public sample or, without one, from rows that are
        generated from noisy counts of each input.
    basis : a fitted basis of ``up.bases``, or None
        Made from public rows alone; in place of ``kernel``, ``n_features`` and ``standardize``, and without ``public``.
    n_features : int or "auto"
        "auto" is half the number of public rows and at most 500; with a large budget at most 1000, as long as the
        public rows inform about other rows.
    rounds : int or "auto"
        "auto" takes 10, 16 or 24 rounds, more of them for a larger budget and more records.
    loss : {"auto", "huber", "correntropy"}
        "auto" is Huber's loss with a ``label_bound``, and correntropy without.
    noise : {"total", "site"}
        With ``sites``: "total" is noise for the sum, and protects if nothing but the sum is seen (each site adds its
        share, under secure aggregation); with "site" every site adds all the noise that its own sums need.
    standardize : bool, default True
        Bring every input to mean 0 and standard deviation 1 on the public sample, or on the generated rows.
    ledger : None, a ``privacy.Ledger`` or the path of one
        Charged before the records are read; if its budget does not suffice, nothing is read.
    engine : None, "threads", "processes", "dask", a Dask client or an Engine
        Where blocks of rows are worked on.
    random_state : int, default 0
        Draws features, never the noise.
    verbose : int, default 0
        1 shows a progress bar on standard error, once the work takes longer than a second. It counts questions, of
        which there are as many as planned, or fewer if the noisy answers so far say that no more are needed.

    Attributes
    ----------
    privacy_ : Guarantee, which prints as a sentence
    schedule_ : RoundSchedule, all decisions made before the fit, with their reasons
    history_ : list of dict, the question of each round and the estimates after it; rounds taken back are left out
    coef_, intercept_, predictor_, basis_, kernel_ : the function and its features
    sites_ : list of dict, the rows of every site

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> rng = np.random.default_rng(0)
    >>> X, U = rng.uniform(-1, 1, size=(20_000, 2)), rng.uniform(-1, 1, size=(300, 2))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1]
    >>> model = up.PrivateRegressor(epsilon=1.0, delta=1e-6, label_bound=3.0).fit(X, y, public=U)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    epsilon: float = parameter(EPSILON)
    delta: float = parameter(DELTA)
    label_bound: float | None = parameter(BOUND, None)
    kernel: Any = parameter(BoundedKernel(), None)
    _: KW_ONLY
    basis: Any = parameter(FittedBasis(), None)
    n_features: Any = parameter(Whole(1, "auto"), "auto")
    rounds: Any = parameter(Whole(1, "auto", words="a whole number, at least 1, or 'auto'"), "auto")
    loss: str = parameter(Word(LOSSES), "auto")
    noise: str = parameter(Word(NOISES), "total")
    standardize: bool = parameter(Switch(), True)
    ledger: Any = parameter(LEDGER, None)
    engine: Any = parameter(EngineKind(in_files=False), None)
    random_state: Any = parameter(SEED, 0)
    verbose: int = parameter(VERBOSITY, 0)

    _saved: ClassVar = (
        SpanFunction(targets=False),
        Promise(RoundSchedule.from_dict, history_=HISTORY, sites_=SITES),
    )

    def fit(self, X: Any, y: Any, public: Any = None, sites: Any = None) -> PrivateRegressor:
        """Fit to private rows ``X`` and labels ``y``; ``public`` holds rows without labels that are no secret.

        All arguments are checked and everything is planned before the ledger is charged, and the ledger is charged
        before a value of X or y is read; lists and CSV must be read to learn their size, so the ledger is charged
        first. The charge stands even if rows turn out not to be finite numbers.

        Parameters
        ----------
        X, y : as :meth:`Summary.of` takes them
        public : array or frame; without it rows are generated from noisy counts of each input, which costs budget
        sites : one site label per row
        """
        with undo_on_failure(self):
            self._check_parameters()
            mu = mu_for(float(self.epsilon), float(self.delta))  # of all that will be asked: μ² adds up
            with Spending(self.ledger, gaussian.GaussianEvent(mu), PURPOSE) as spending:
                return self._fit(X, y, public, sites, mu, spending)

    def _fit(self, X: Any, y: Any, public: Any, sites: Any, mu: float, spending: Spending) -> PrivateRegressor:
        if must_be_read(X):
            spending.charge()
        known = public is not None or self.basis is not None
        basis: Basis | None = None
        if known:
            basis, rows = basis_and_rows(
                self, X, y, public, lambda kernel, _: self._new_basis(kernel, n_public_rows(public))
            )
        else:
            rows = private_rows(self, X, y, learn=True)
        check_budget(self.epsilon, self.delta, rows.count())
        site_rows = site_counts(sites, rows.count())
        adding = len(site_rows) if site_rows and self.noise == "site" else 1
        if basis is not None and public is not None and isinstance(self.n_features, str):
            rich = is_rich(rows.count(), mu / math.sqrt(adding))
            basis = widen_basis(basis, public) if rich else basis
        plan = make_schedule(
            rows.count(), float(self.epsilon), float(self.delta), self.label_bound,
            n_features=self._size_of_basis(N_MADE_UP_ROWS) if basis is None else basis.n_features_,
            n_public=None if basis is None else basis.n_public_,
            n_inputs=self.n_features_in_ if basis is None else basis.n_features_in_,
            rounds=self.rounds, loss=self.loss, sites=adding,
        )  # fmt: skip
        frame = None
        if basis is None:  # a kernel that does not go with the columns is refused here, before it is paid for
            self._frame_of(standard_normal(self.n_features_in_)[:8])
        else:
            frame = build_public_frame(basis, None if public is None else public_features(basis, public, 500))
        engine = as_engine(self.engine)
        check_noise_can_be_drawn(rows.count(), plan.n_features, [event.mu for _, event in plan.events()])
        with silence_warnings():
            learned, frame, spent = spending.read(lambda: self._rounds(rows, frame, plan, sites, engine))
        shared = bool(site_rows) and self.noise == "total"
        return self.settle_rounds(frame, plan, learned, spent, site_rows, known, (SECURE,) if shared else ())

    def settle_rounds(
        self, frame: Frame, plan: RoundSchedule, learned: LearnedFunction, spent: list[Expense],
        site_rows: list[dict[str, Any]], known: bool, conditions: tuple[str, ...],
    ) -> PrivateRegressor:  # fmt: skip
        """Become the function that was learned, with its guarantee; ``known`` is whether the basis was public."""
        coef, b = frame.coefficients(learned.coef)
        self._settle(frame.basis, coef[:, None], np.asarray([b]), True)
        self.basis_, self.schedule_, self.history_, self.sites_ = frame.basis, plan, learned.history, site_rows
        facts = ["the number of records" + (" of every site" if site_rows else "")]
        facts += ["the basis and how it was made"] if known else []
        facts += [f"the label bound {self.label_bound:g}"] if self.label_bound is not None else []
        self.privacy_ = Guarantee(
            float(self.epsilon), float(self.delta), MECHANISM, tuple(spent),
            public=(*facts, "all arguments and the plan"), conditions=conditions,
        )  # fmt: skip
        return self

    def _rounds(
        self, rows: UnreadRows, frame: Frame | None, plan: RoundSchedule, sites: Any, engine: Any
    ) -> tuple[LearnedFunction, Frame, list[Expense]]:
        """Do everything that touches the records; the result is made from noisy answers only."""
        sources = self._split(rows.read(), sites)
        spent: list[Expense] = []
        custodian = RowHolder(sources, rows.count(), plan.label_bound, engine, int(plan.sites))
        with engine.session(), Progress(len(plan.events()), "questions", self.verbose) as bar:
            counted = _CountingCustodian(custodian, bar)
            if frame is None:
                counting, mu = _count_rows_through_noise(plan), plan.mu * math.sqrt(plan.inputs)
                made_up, spent = run_learner(ask_about_inputs(counting, mu, self.n_features_in_), counted.ask)
                frame = self._frame_of(made_up)
            custodian.map_rows(frame)
            learned, more = run_rounds(plan, frame, counted)
        return learned, frame, spent + more

    def _split(self, source: Source, sites: Any) -> list[Source]:
        """Return the rows of each site that adds noise of its own, if they are in memory, or else all rows together."""
        if not isinstance(source, ArraySource):
            return [source]
        rows = read_all(source)
        labels = read_site_labels("sites", sites, len(rows)) if self.noise == "site" else None
        if labels is None:
            return [ArraySource(rows)]
        return [ArraySource(rows.take(np.flatnonzero(labels == name))) for name in np.unique(labels)]

    def _frame_of(self, made_up: np.ndarray) -> Frame:
        """Make a basis and its frame from rows that were generated from noisy counts."""
        kernel = as_kernel(self.kernel)
        basis = self._new_basis(kernel, len(made_up)).fit(made_up)
        if hasattr(self, "feature_names_in_"):
            basis.name_columns(self.feature_names_in_)
        return build_made_up_frame(basis, np.asarray(basis.features(made_up[:500])))

    def _size_of_basis(self, n_public: int) -> int:
        return usual_features(n_public) if isinstance(self.n_features, str) else int(self.n_features)

    def _new_basis(self, kernel: Kernel, n_public: int) -> Basis:
        seed = int(self.random_state)
        return EmpiricalFeatures(kernel, self._size_of_basis(n_public), bool(self.standardize), random_state=seed)

    def _check_together(self) -> None:
        check_kernel_or_basis(self.kernel, self.basis)

    def facts(self, target: int = 0) -> ModelFacts:
        """Return the facts of the fitted model; ``target`` is the position of the label."""
        return self._describe(
            target,
            "Differentially private kernel regression by rounds of noisy residual sums",
            n_rows=self.schedule_.n_rows,
            sites=self.sites_,
            basis=if_fitted(self, "basis_"),
            privacy=self.privacy_,
            schedule=self.schedule_,
            history=self.history_,
        )
