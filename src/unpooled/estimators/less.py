"""LESSRegressor: a public basis, sums over the sites, a model; all at once from arrays."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from .._base.arrays import Floats
from .._base.checks import check_fit_intercept, check_positive_numbers
from .._base.fits import undo_on_failure
from .._base.kinds import VERBOSITY, Numbers, Real, Seed, Switch, Whole, Word, declaration, parameter
from .._base.text import quote
from .._solvers.span.residual_rounds import STEPS
from .._solvers.spectral import criteria
from ..bases import Basis, EmpiricalFeatures
from ..bases.base import FittedBasis, KernelWithoutBasis, check_kernel_or_basis
from ..data.sources import is_stream, open_labeled
from ..engines import EngineKind, as_engine
from ..filters import FilterKind, as_filter
from ..losses import LossKind, as_loss
from ..summaries.candidates import score_source
from ..summaries.contents import spec_of
from ..summaries.passes import map_once
from ..summaries.summary import Summary, summarize_source
from . import less_rounds
from .facts import ModelFacts, describe_sums, if_fitted
from .from_sums import FromSums, SumsFit, become_fit, make_path
from .public_rows import MOST, check_no_public, public_rows, site_counts
from .span import OnEngine, SpanModel
from .stored import LEARNED_FROM_SUMS, SITES, Entries, Floor, Tables


def _keeps_no_rows(model: Any) -> bool:
    try:
        squares = as_loss(model.loss).bound == np.inf
    except ValueError:  # no loss at all: for fit to say
        squares = True
    if model.rounds == 1 and squares:
        return True
    raise AttributeError("partial_fit keeps no rows, and rounds of residuals need the rows again: use rounds=1")


HISTORY = Tables(round=int, loss=float, left=float)


@declaration
@dataclass(eq=False, repr=False)
class LESSRegressor(OnEngine, SpanModel):
    """Kernel regression from sums and a public unlabeled sample (Qin and Guo 2019), and from further rounds of sums.

    The public sample gives features φ; the sites' rows enter only through sums over them. ``rounds=1`` with the
    squared loss is the paper's LESS, a_i = d_i/(λ_i^u + λ); how rows are split over sites has no effect on it. With
    ``public=None`` the sample is X itself, and LESS is kernel ridge regression. More rounds of the residuals' sums
    take it beyond the floor that a small public sample sets; ``order=2`` sends Σφφᵀ as well and needs a single round.

    Parameters
    ----------
    kernel : Kernel, str or None
        None is ``Gaussian()``, from the public sample.
    n_features : int or "auto"
        The number of features; "auto" keeps all that stand out from rounding (of at most 2000 points).
    lam : float, array or "auto"
        "auto" and an array choose: one round by its exact leave-one-out error, for which sites send sums only, several
        rounds by GCV.
    rounds : int, default 1
        The most rounds; they end earlier once they have converged to ``tol``.
    loss : "squared", "huber", "correntropy" or a Loss
        A robust loss given by its name finds its scale from counts of residuals.
    basis : a fitted basis of ``up.bases``, or None
        Used as it is, in place of ``kernel``, ``n_features`` and ``standardize``, and without ``public``.
    order : 1 or 2
        2 sends Σφφᵀ as well, which gives the fit of the pooled rows in one round.
    filter : {"tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu"} or Filter
        The filter that regularises; ``unpooled.filters`` has all of them, some with parameters.
    fit_intercept : True, False or "public", default True
        Fit an intercept; see :class:`SummaryRegressor`.
    ridge : bool, default False
        Keep a term -λa in every round, so that rounds converge to ridge regression and not to least squares.
    steps : {"plain", "conjugate"}
        The kind of steps that rounds take.
    tol : float, default 1e-8
        Rounds end when √(rᵀ(C^u+λ)⁻¹r) has fallen to this share of its first value.
    grid : array or None
        The λ that ``lam="auto"`` chooses from.
    standardize : bool, default False
        Bring every input to mean 0 and standard deviation 1 on the public sample.
    engine : None, "threads", "processes", "dask", a Dask client or an Engine
        The place where blocks of rows are processed.
    random_state : int, default 0
        Draws the points of the basis if the public sample has too many.
    verbose : int, default 0
        1 shows a progress bar on standard error, once the work takes longer than a second.

    Attributes
    ----------
    lam_, coef_, intercept_, path_, floor_, n_features_rule_, predictor_, kernel_ : see :class:`SummaryRegressor`
    summary_ : Summary, the sum that one round learned from
    targets_ : names of the labels, if they have names
    basis_ : the basis
    n_rounds_ : int, the number of rounds
    history_ : list of dict, loss and progress of every round
    loss_ : str, the loss with its scale
    sites_ : list of dict, the rows of every site

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> rng = np.random.default_rng(0)
    >>> X, U = rng.uniform(size=(400, 1)), rng.uniform(size=(400, 1))
    >>> y = np.sin(6 * X[:, 0])
    >>> model = up.LESSRegressor(up.kernels.Gaussian(0.2), rounds=10).fit(X, y, public=U, sites=np.arange(400) % 4)
    >>> bool(abs(model.predict(X) - y).max() < 0.05)
    True
    """

    kernel: Any = parameter(KernelWithoutBasis(), None)
    n_features: Any = parameter(Whole(1, "auto"), "auto")
    lam: Any = parameter(Numbers("auto"), "auto")
    rounds: int = parameter(Whole(), 1)
    loss: Any = parameter(LossKind(), "squared")
    _: KW_ONLY
    basis: Any = parameter(FittedBasis(), None)
    order: int = parameter(Whole(1, words="1 or 2", most=2), 1)
    filter: Any = parameter(FilterKind(), "tikhonov")
    fit_intercept: Any = parameter(Switch("public"), True)
    ridge: bool = parameter(Switch(), False)
    steps: str = parameter(Word(STEPS), "plain")
    tol: float = parameter(Real("a number from 0 to 1", lambda value: 0 <= value < 1), 1e-8)
    grid: Any = parameter(Numbers(none=True), None)
    standardize: bool = parameter(Switch(), False)
    engine: Any = parameter(EngineKind(in_files=False), None)
    random_state: Any = parameter(Seed(), 0)
    verbose: int = parameter(VERBOSITY, 0)

    _saved: ClassVar = (*LEARNED_FROM_SUMS, Floor(optional=True), Entries(history_=HISTORY, sites_=SITES))

    def fit(self, X: Any, y: Any, public: Any = None, sites: Any = None, sample_weight: Any = None) -> LESSRegressor:
        """Fit to rows ``X`` and labels ``y``, given as to :meth:`Summary.of`; ``public`` holds unlabeled public rows.

        ``sites`` holds one site label per row; it has no effect on the model, and ``sites_`` reports it.

        Parameters
        ----------
        X, y : as :meth:`Summary.of` takes them
        public : public rows without labels; None takes X
        sites : one site label per row
        sample_weight : one weight per row; a weight counts as repeated rows
        """
        with undo_on_failure(self):
            self._check_parameters()
            self._fit(X, y, public, sites, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, public: Any, sites: Any, sample_weight: Any) -> None:
        basis, same_sample = self._learn_basis(X, y, public, sample_weight)
        source = open_labeled(basis, X, y, sample_weight)
        same_sample = same_sample and not (is_stream(X) and source.n_rows > MOST)
        counts, engine = site_counts(sites, source.n_rows), as_engine(self.engine)
        with engine.session():
            seen, mapped = map_once(source, basis)
            if self.rounds == 1 and spec_of(self.loss) == "squared":
                self._one_round(seen, mapped, basis, same_sample, engine)
            else:
                self._many_rounds(seen, mapped, basis, engine)
        self.basis_, self.sites_, self.targets_ = basis, counts, source.target_names

    @available_if(_keeps_no_rows)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, public: Any = None, sample_weight: Any = None) -> LESSRegressor:
        """Add rows to those seen so far and learn from all of them; the basis is that of the first call.

        Only sums over the rows are kept, so λ is chosen from these sums, and only one round is possible.

        Parameters
        ----------
        X, y : as :meth:`Summary.of` takes them
        public : public rows without labels, at the first call; None takes X
        sample_weight : one weight per row; a weight counts as repeated rows

        Returns
        -------
        self
        """
        with undo_on_failure(self, from_scratch=False):
            self._check_parameters()
            if "basis_" not in vars(self):
                self.basis_, _ = self._learn_basis(X, y, public, sample_weight)
                self.__dict__.pop("summary_", None)
            basis = self.basis_
            source = open_labeled(basis, X, y, sample_weight)
            summary = summarize_source(basis, source, self.order, None, "squared", self.engine)
            if (so_far := vars(self).get("summary_")) is not None:
                summary = so_far + summary
            learned = self._rules().learn(summary, basis, None, same_sample=False)
            self.__dict__.pop("path_", None)
            self._take(learned, summary, basis)
            self.sites_ = []
            if learned.warning:
                warnings.warn(learned.warning, UserWarning, stacklevel=2)
        return self

    def _learn_basis(self, X: Any, y: Any, public: Any, sample_weight: Any) -> tuple[Basis, bool]:
        """Return the basis, and whether it was made from the rows themselves."""
        if self.basis is not None:
            check_no_public(public)
            return self.basis, False
        basis = EmpiricalFeatures(self.kernel, self.n_features, self.standardize, random_state=self.random_state)
        U, weights = public_rows(basis, X, y, public, sample_weight, self.random_state)
        return basis.fit(U, sample_weight=weights), public is None

    def _rules(self) -> FromSums:
        fit_intercept = check_fit_intercept(self.fit_intercept)
        return FromSums(as_filter(self.filter), self.lam, fit_intercept, "all", bool(self.ridge), self.grid)

    def _one_round(self, source: Any, mapped: Any, basis: Basis, same_sample: bool, engine: Any) -> None:
        summary = summarize_source(mapped, source, self.order, None, "squared", engine, self.verbose)
        rules, scores = self._rules(), None
        same_sample = same_sample and summary.order == 1
        if rules.is_choosing:
            self._check_rows(summary.n_rows)
            candidates = rules.candidates(summary, basis, *rules.solutions(summary, basis, same_sample))
            scores = score_source(candidates, mapped, source, engine, self.verbose)
        learned = rules.learn(summary, basis, scores, same_sample)
        self._take(learned, summary, basis)
        if same_sample:
            self.floor_ = None  # the sample is the rows: there is no floor
        if learned.warning:
            warnings.warn(learned.warning, UserWarning, stacklevel=4)

    def _take(self, learned: SumsFit, summary: Summary, basis: Basis) -> None:
        become_fit(self, learned, summary, basis)
        self.history_: list[dict[str, float]] = []

    def _many_rounds(self, source: Any, mapped: Any, basis: Basis, engine: Any) -> None:
        plan = less_rounds.RoundRules(
            as_filter(self.filter),
            self.loss,
            self._rules().fit_intercept,
            int(self.rounds),
            bool(self.ridge),
            self.steps,
            float(self.tol),
        )
        lams = self._grid(basis)
        if self._rules().is_choosing:
            self._check_rows(source.n_rows)
        outcome = less_rounds.run(source, basis, mapped, lams, plan, engine, self.verbose)
        chosen = 0
        if len(lams) > 1 or isinstance(self.lam, str):
            losses, n = less_rounds.mean_losses(source, mapped, outcome, engine)
            criterion = criteria.gcv(2.0 * losses, outcome.df, n)  # ρ(u) is u²/2 near zero
            self.path_ = make_path(basis, outcome, criterion, "gcv", outcome.df <= 0.5 * n, source.one_target)
            chosen = int(self.path_.index[0])
        self._settle(basis, outcome.coef[chosen].copy(), outcome.intercept[chosen].copy(), source.one_target)
        self.lam_ = float(lams[chosen])
        self.n_rounds_, self.history_, self.floor_ = outcome.n_rounds, outcome.history, None
        self.loss_ = spec_of(outcome.loss)
        self.n_features_rule_ = int(np.sum(basis.eigenvalues_ > basis.kappa_sq_ * self.lam_))

    def _check_rows(self, n_rows: int) -> None:
        if n_rows < 2:
            raise ValueError(
                f"lam={quote(self.lam, 40)} needs at least 2 rows and X has n_samples = {n_rows}: give lam as a number"
            )

    def _grid(self, basis: Basis) -> Floats:
        if not isinstance(self.lam, str):
            return np.atleast_1d(check_positive_numbers("lam", self.lam))
        if self.grid is not None:
            return np.atleast_1d(check_positive_numbers("grid", self.grid))
        return criteria.default_grid(basis.kappa_sq_, float(np.finfo(float).eps))[::2]

    def _check_together(self) -> None:
        check_kernel_or_basis(self.kernel, self.basis)
        if self.order != 1 and not (self.rounds == 1 and spec_of(self.loss) == "squared"):
            raise ValueError(
                "order=2 is exact with the squared loss and rounds=1: use order=1 with a robust loss or more rounds"
            )

    def facts(self, target: int = 0) -> ModelFacts:
        """Return the facts of the fitted model; ``target`` is the position of the label."""
        summary: Summary | None = if_fitted(self, "summary_")
        n_rows = sum(int(site["rows"]) for site in self.sites_) if summary is None else summary.n_rows
        return describe_sums(
            self,
            target,
            "in the span of a public basis, learned from sums over rows",
            n_rows=n_rows or None,
            sites=self.sites_,
            basis=if_fitted(self, "basis_"),
            order=int(self.order),
            summary=summary,
            history=self.history_,
            floor=self.floor_,
        )
