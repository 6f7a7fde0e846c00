"""LESSRegressor: a public basis, sums over the sites, a model; all at once from arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.arrays import Floats
from .._base.checks import check_center, check_choice, check_fitted, positive_numbers
from .._base.text import shown
from .._solvers.span.residual_rounds import STEPS
from .._solvers.spectral import criteria
from ..bases import Basis, EmpiricalFeatures
from ..data.sources import is_stream, open_labeled
from ..engines import as_engine
from ..filters import as_filter
from ..losses import as_loss
from ..summaries.candidates import scores_of_source
from ..summaries.contents import spec_of
from ..summaries.passes import mapped_once
from ..summaries.summary import Summary, of_source
from . import less_rounds, less_storage
from .facts import ModelFacts, if_fitted, method_name
from .paths import SummaryPath
from .public_rows import MOST, public_rows, site_counts
from .span import OnEngine, SpanModel
from .summary import SummaryRegressor, _is_number


def _keeps_no_rows(model: Any) -> bool:
    try:
        squares = as_loss(model.loss).bound == np.inf
    except ValueError:  # no loss at all: for fit to say
        squares = True
    if model.rounds == 1 and squares:
        return True
    raise AttributeError("partial_fit keeps no rows, and rounds of residuals need them again: use rounds=1")


class LESSRegressor(OnEngine, SpanModel):
    """Learning from summary statistics with a public unlabeled sample (Qin and Guo 2019), and beyond its floor.

    The public sample gives features φ; the sites' rows enter only through sums over them. ``rounds=1`` with the
    squared loss is the paper's LESS, a_i = d_i/(λ_i^u + λ); how rows are split over sites has no effect on it. With
    ``public=None`` the sample is X itself, and LESS is kernel ridge regression. More rounds of the residuals' sums
    take it beyond the floor that a small public sample sets; ``order=2`` sends Σφφᵀ as well and is there at once.

    Parameters
    ----------
    kernel : Kernel, str or None
        None is ``Gaussian("median")``, from the public sample. Also a fitted basis of ``up.bases``, used as it is.
    n_features : int or "auto"
        Features of the basis; "auto" keeps all that are more than rounding (of at most 2000 points).
    lam : float, array or "auto"
        "auto" and an array choose: one round by its exact leave-one-out error, of which sites only need to send sums,
        several rounds by GCV.
    rounds : int, default 1
        The most rounds; fewer where they have converged to ``tol``.
    loss : "squared", "huber", "correntropy" or a Loss
        A robust loss by its name finds its scale itself, from counts of residuals.
    order : 1 or 2
    filter : {"tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu"} or Filter
    center : False, True or "public"
        Fit an intercept; see :class:`SummaryRegressor`.
    ridge : bool, default False
        Keep a term -λa in every round, so that rounds converge to ridge regression and not to least squares.
    steps : {"plain", "conjugate"}
        How rounds step.
    tol : float, default 1e-8
        Rounds end when √(rᵀ(C^u+λ)⁻¹r) has fallen to this share of what it was at first.
    grid : array or None
        The λ that ``lam="auto"`` chooses from.
    standardize : bool, default False
        Bring every input to the mean and standard deviation it has on the public sample.
    engine : None, "threads", "processes", "dask", a Dask client or an Engine
        Where blocks of rows are worked on.
    random_state : int, default 0
        Draws the points of the basis where the public sample has too many.
    verbose : int, default 0
        1 shows progress.

    Attributes
    ----------
    lam_, coef_, intercept_, path_, floor_, predictor_ : see :class:`SummaryRegressor`
    basis_ : the basis
    n_rounds_ : int, the rounds it took
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

    def __init__(
        self,
        kernel: Any = None,
        n_features: Any = "auto",
        lam: Any = "auto",
        rounds: int = 1,
        loss: Any = "squared",
        *,
        order: int = 1,
        filter: Any = "tikhonov",
        center: Any = False,
        ridge: bool = False,
        steps: str = "plain",
        tol: float = 1e-8,
        grid: Any = None,
        standardize: bool = False,
        engine: Any = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.lam = lam
        self.rounds = rounds
        self.loss = loss
        self.order = order
        self.filter = filter
        self.center = center
        self.ridge = ridge
        self.steps = steps
        self.tol = tol
        self.grid = grid
        self.standardize = standardize
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, public: Any = None, sites: Any = None, sample_weight: Any = None) -> LESSRegressor:
        """Fit to rows ``X`` and labels ``y``, given as to :meth:`Summary.of`; ``public`` holds unlabeled public rows.

        ``sites`` holds a label a row; it has no effect on the model, and ``sites_`` reports it.

        Parameters
        ----------
        X, y : as :meth:`Summary.of` takes them
        public : public rows without labels; None takes X
        sites : a label a row
        sample_weight : one a row; weights count as repeated rows
        """
        self._check_parameters()
        basis, own = self._learn_basis(X, y, public, sample_weight)
        source = open_labeled(basis, X, y, sample_weight)
        own = own and not (is_stream(X) and source.n_rows > MOST)
        self.sites_ = site_counts(sites, source.n_rows)
        engine = as_engine(self.engine)
        self._forget()
        with engine.session():
            seen, mapped = mapped_once(source, basis)
            if self.rounds == 1 and spec_of(self.loss) == "squared":
                self._one_round(seen, mapped, basis, own, engine)
            else:
                self._many_rounds(seen, mapped, basis, engine)
        self.basis_ = basis
        self.targets_ = source.target_names
        return self

    @available_if(_keeps_no_rows)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, public: Any = None, sample_weight: Any = None) -> LESSRegressor:
        """Add rows to those seen so far, and learn from them all; the basis is that of the first call.

        Only sums are kept of the rows, so λ is chosen from those, and only one round is possible.

        Parameters
        ----------
        X, y : as :meth:`Summary.of` takes them
        public : public rows without labels, at the first call; None takes X
        sample_weight : one a row; weights count as repeated rows

        Returns
        -------
        self
        """
        self._check_parameters()
        if not hasattr(self, "basis_"):
            self.basis_, _ = self._learn_basis(X, y, public, sample_weight)
            self.__dict__.pop("summary_", None)
        source = open_labeled(self.basis_, X, y, sample_weight)
        new = of_source(self.basis_, source, self.order, None, "squared", self.engine)
        so_far: Summary | None = getattr(self, "summary_", None)
        inner = self._inner()
        inner.fit_summary(new if so_far is None else so_far + new, basis=self.basis_)
        self.__dict__.pop("path_", None)
        self._take(inner, self.basis_)
        self.sites_, self.targets_ = [], inner.targets_
        return self

    def _learn_basis(self, X: Any, y: Any, public: Any, sample_weight: Any) -> tuple[Basis, bool]:
        """The basis, and whether it is of the very rows."""
        if isinstance(self.kernel, Basis):
            check_is_fitted(self.kernel, "map_")
            if public is not None:
                raise ValueError("kernel is a fitted basis, which has its public sample already: leave public out")
            return self.kernel, False
        basis = EmpiricalFeatures(self.kernel, self.n_features, self.standardize, random_state=self.random_state)
        U, weights = public_rows(basis, X, y, public, sample_weight, self.random_state)
        return basis.fit(U, sample_weight=weights), public is None

    def _inner(self) -> SummaryRegressor:
        return SummaryRegressor(self.filter, self.lam, self.center, ridge=self.ridge, steps=self.steps, grid=self.grid)

    def _one_round(self, source: Any, mapped: Any, basis: Basis, own: bool, engine: Any) -> None:
        summary = of_source(mapped, source, self.order, None, "squared", engine, self.verbose)
        inner = self._inner()
        scores = None
        own = own and summary.order == 1
        if isinstance(self.lam, str) or np.ndim(self.lam) > 0:
            self._check_rows(summary.n_rows)
            equations, found = inner._solutions(summary, basis, own)
            candidates = inner._candidates(summary, basis, equations, found)
            scores = scores_of_source(candidates, mapped, source, engine, self.verbose)
        inner._fit(summary, basis, scores, own)
        self._take(inner, basis)
        if own:
            self.floor_ = None  # the sample is the rows: there is no floor

    def _take(self, inner: SummaryRegressor, basis: Basis) -> None:
        self._settle(basis, inner.coef_matrix_, inner.predictor_.intercept, inner.one_target_)
        for name in ("lam_", "summary_", "floor_", "n_features_rule_", "loss_", "n_rounds_"):
            setattr(self, name, getattr(inner, name))
        if hasattr(inner, "path_"):
            self.path_ = inner.path_
        self.history_: list[dict[str, float]] = []

    def _many_rounds(self, source: Any, mapped: Any, basis: Basis, engine: Any) -> None:
        if self.order != 1:
            raise ValueError("order=2 is exact with the squared loss and rounds=1; rounds of residuals are of order 1")
        plan = less_rounds.Plan(
            as_filter(self.filter),
            self.loss,
            check_center(self.center),
            int(self.rounds),
            bool(self.ridge),
            self.steps,
            float(self.tol),
        )
        lams = self._grid(basis)
        if not _is_number(self.lam):
            self._check_rows(source.n_rows)
        found = less_rounds.run(source, basis, mapped, lams, plan, engine)
        chosen = 0
        if len(lams) > 1 or isinstance(self.lam, str):
            losses, n = less_rounds.mean_losses(source, mapped, found, engine)
            criterion = criteria.gcv(2.0 * losses, found.df, n)  # ρ(u) is u²/2 near zero
            trusted = found.df <= 0.5 * n
            judged = np.where(trusted[:, None] if np.any(trusted) else True, criterion, np.inf)
            index = criteria.best_index(judged, lams, per_target=False)
            chosen = int(index[0])
            one = source.one_target
            self.path_ = SummaryPath(
                lams,
                criterion[:, 0] if one else criterion,
                found.df,
                "gcv",
                index,
                basis.map_,
                np.stack([basis.coefficients_ @ coef for coef in found.coef]),
                found.intercept,
            )
        self._settle(basis, found.coef[chosen].copy(), found.intercept[chosen].copy(), source.one_target)
        self.lam_ = float(lams[chosen])
        self.n_rounds_, self.history_, self.floor_ = found.n_rounds, found.history, None
        self.loss_ = spec_of(found.loss)
        self.n_features_rule_ = int(np.sum(basis.eigenvalues_ > basis.kappa_sq_ * self.lam_))

    def _check_rows(self, n_rows: int) -> None:
        if n_rows < 2:
            raise ValueError(
                f"lam={shown(self.lam, 40)} needs at least 2 rows and X has n_samples = {n_rows}: give lam as a number"
            )

    def _grid(self, basis: Basis) -> Floats:
        if not isinstance(self.lam, str):
            return np.atleast_1d(positive_numbers("lam", self.lam))
        if self.grid is not None:
            return np.atleast_1d(positive_numbers("grid", self.grid))
        return criteria.default_grid(basis.kappa_sq_, float(np.finfo(float).eps))[::2]

    def _forget(self) -> None:
        for name in ("path_", "summary_", "history_", "floor_", "basis_"):
            self.__dict__.pop(name, None)

    def _check_parameters(self) -> None:
        check_center(self.center)
        check_choice("steps", self.steps, STEPS)
        as_filter(self.filter)
        as_loss(self.loss)
        if isinstance(self.lam, str):
            check_choice("lam", self.lam, ("auto",))
        else:
            positive_numbers("lam", self.lam)
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, (int, np.integer)) or self.rounds < 1:
            raise ValueError(f"rounds must be a positive whole number, got {shown(self.rounds)}")
        if self.order not in (1, 2) or isinstance(self.order, bool):
            raise ValueError(f"order must be 1 or 2, got {shown(self.order)}")
        if isinstance(self.tol, bool) or not isinstance(self.tol, (int, float, np.number)) or not 0 <= self.tol < 1:
            raise ValueError(f"tol must be a number from 0 to 1, got {shown(self.tol)}")

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        check_fitted(self)
        return less_storage.to_parts(self)

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> LESSRegressor:
        model: LESSRegressor = less_storage.from_parts(cls, header, arrays)
        return model

    def facts(self, target: int = 0) -> ModelFacts:
        """The facts of the fitted model; ``target`` is the position of the label."""
        path: SummaryPath | None = if_fitted(self, "path_")
        summary: Summary | None = if_fitted(self, "summary_")
        method = as_filter(self.filter)
        n_rows = sum(int(site["rows"]) for site in self.sites_) if summary is None else summary.n_rows
        return self._describe(
            target,
            f"{method_name(method)} in the span of a public basis, learned from sums over rows",
            lam=self.lam_,
            path=path,
            tune=None if path is None else lambda: path.tuning(target, squared=self.loss_ == "squared"),
            rounds=self.n_rounds_,
            center=check_center(self.center),
            filter=method,
            loss=self.loss_,
            n_rows=n_rows or None,
            sites=self.sites_,
            basis=if_fitted(self, "basis_"),
            order=int(self.order),
            summary=summary,
            history=self.history_,
            floor=self.floor_,
        )
