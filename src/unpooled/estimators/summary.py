"""SummaryRegressor: a model from sums. LESS at first order, ridge regression on the pooled rows at second.

The error of LESS has a floor, because its public sample differs from the rows. ``floor_`` reports this floor in the
units of y, and ``fit_summary`` warns where it matters.
"""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from .._base.arrays import Floats
from .._base.checks import check_fit_intercept, check_fitted
from .._base.declared import Arrays, Header, digest_of
from .._base.fits import undo_on_failure
from .._base.kinds import VERBOSITY, Numbers, Switch, Whole, Word, declaration, parameter
from .._base.text import quote
from .._solvers.span.residual_rounds import (
    NUMBERS,
    STATE,
    STEPS,
    Rounds,
    centred_message,
    message_at_mean,
    preconditioners,
    public_system,
    ridge_term,
    to_coefficients,
)
from ..bases.base import Basis
from ..bases.maps import read_array
from ..filters import FilterKind, as_filter
from ..privacy.composition import Guarantee
from ..summaries.candidates import CENTERINGS, Candidates, Scores
from ..summaries.contents import Contents, check_sums, field_shapes, from_arrays, read_noise_record, to_arrays
from ..summaries.summary import Summary
from .facts import ModelFacts, describe_sums, if_fitted
from .from_sums import FromSums, become_fit, check_round, check_usable, guarantee_of, means_of
from .span import SpanModel
from .stored import LEARNED_FROM_SUMS, Floor, is_table


class _SumsPart:
    """The sum that a model was learned from, and its rounds since, which another round or summary needs."""

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        summary: Summary = model.summary_
        header |= {"centering": model.centering_, "summary": {"order": summary.order, "n_rows": summary.n_rows}}
        if summary.privacy is not None:
            header["summary"]["privacy"] = summary.privacy.to_dict()
            header["privacy"] = model.privacy_.to_dict()
        arrays |= {"feature_mean": model.shift_} | vars(model).get("rounds_", {})
        arrays |= {f"summary.{name}": array for name, array in to_arrays(summary.sums).items()}

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        M, T = model.coef_matrix_.shape
        model.shift_, model.centering_ = read_array("feature_mean", arrays, ndim=1), header["centering"]
        if model.centering_ not in CENTERINGS or model.shift_.shape != (M,):
            raise ValueError("it does not say where its features are centred")
        about = header["summary"]
        noised = about.get("privacy") if isinstance(about, dict) else None
        if not is_table(about, order=int, n_rows=int, **({} if noised is None else {"privacy": dict})):
            raise ValueError("its summary does not say its order, and how many rows it is of")
        if about["n_rows"] < 1 or about["order"] not in (1, 2):
            raise ValueError("its summary does not say how many rows it is of")
        contents = Contents(model.basis_digest_, M, about["order"], T, model.loss_)
        privacy = read_noise_record(noised, contents)
        sums = from_arrays(arrays, field_shapes(contents, privacy), "summary.")
        check_sums(sums, about["n_rows"], privacy)
        model.summary_ = Summary(contents, about["n_rows"], sums, model.targets_, model.one_target_, privacy=privacy)
        promised = header.get("privacy")
        if (privacy is None) != (promised is None):
            raise ValueError("it claims privacy of the model and not of its sums, or of its sums and not of the model")
        model.privacy_ = None if privacy is None else _guarantee(promised, privacy)
        if about["order"] == 1:
            with_intercept = model.centering_ != "none"
            model.rounds_ = _read_rounds(
                arrays, (M + with_intercept, T), privacy is not None or model.loss_ == "squared"
            )
            model._asked = to_coefficients(model.rounds_["rounds.point"], model.shift_, with_intercept)


def _guarantee(content: Any, privacy: Any) -> Guarantee:
    """Return the guarantee of the model: the cost of its sum and of the rounds since."""
    promise, own = Guarantee.from_dict(content), privacy.guarantee
    if (
        promise.spent_on[: len(own.spent_on)] != own.spent_on
        or promise.delta < own.delta
        or promise.epsilon < own.epsilon
    ):
        raise ValueError("it promises more privacy than the sums that it was learned from")
    return promise


def _read_rounds(arrays: Arrays, size: tuple[int, int], quadratic: bool) -> dict[str, np.ndarray]:
    """Read the state of rounds, and check the shape of every part; J is absent for squares."""
    shapes = {f"rounds.{name}": (size[1],) if name in NUMBERS else size for name in STATE if name != "J"}
    shapes |= {} if quadratic else {"rounds.J": (size[1],)}
    state = {name: read_array(name, arrays, len(shape)) for name, shape in shapes.items()}
    known = [name for name in ("rounds.S", "rounds.CS", "rounds.E") if name in arrays]
    state |= {name: read_array(name, arrays, 1 if name == "rounds.E" else 2) for name in known}
    spans = {(size[0], state[name].shape[-1]) if name == "rounds.E" else state[name].shape for name in known}
    together = len(known) in (0, 3) and len(spans) < 2 and all(n == size[0] and k <= n for n, k in spans)
    surplus = [name for name in arrays if name.startswith("rounds.") and name not in state]
    if surplus or not together or any(state[name].shape != shape for name, shape in shapes.items()):
        raise ValueError("the arrays of its rounds do not match")
    return state


@declaration
@dataclass(eq=False, repr=False)
class SummaryRegressor(SpanModel):
    """Kernel regression from a sum of summaries, without any row.

    With d = (1/n) Σ y_j φ(x_j) the model is f = Σ_i a_i φ_i + b, a = g_λ(C) d, where C is

    - at order 1 diag(λ^u) of the public sample: LESS (Qin and Guo 2019), a_i = d_i/(λ_i^u + λ) with Tikhonov. Its error
      has a floor, because the public sample differs from the rows; ``floor_`` reports it.
    - at order 2 the covariance of the rows: regression on the pooled rows in the span of the basis, exactly.

    Parameters
    ----------
    filter : {"tikhonov", "iterated-tikhonov", "cutoff", "landweber", "nu"} or Filter
        The filter that regularises; ``unpooled.filters`` has all of them, some with parameters.
    lam : float, array or "auto"
        "auto", and an array, choose by GCV at order 2 and by an estimate of the risk at order 1, both from the summary
        alone; or by leave-one-out, if ``fit_summary`` gets the scores of a second exchange. From private summaries
        both account for the noise, whose size is public: more noise leads to more regularisation.
    fit_intercept : True, False or "public", default True
        True fits an intercept, with features and labels centred at their means over the rows: adding a constant to y
        then moves the intercept by it and changes nothing else. "public" centres the features at their mean over the
        public sample, which at order 1 needs no Σφ(x).
    n_features : "all", "rule" or int
        "rule" keeps at order 1, for each λ, the eigenvalues above κ²λ: the paper's choice of N. An int keeps that many.
    ridge : bool, default False
        In rounds of residuals keep a term -λa, so that they converge to ridge regression and not to least squares.
    steps : {"plain", "conjugate"}
        The kind of steps that rounds take: the paper's full steps, held back where they would overshoot, or conjugate
        gradients, which need far fewer rounds.
    grid : array or None
        The λ to choose from. None is κ²·10⁰ ... κ²·10⁻⁹, three per decade.
    verbose : int, default 0
        Accepted as in the other estimators, without effect: learning from sums is a single step with no progress to
        show.

    Attributes
    ----------
    lam_ : float
    coef_ : (M,) or (M, T), of the features of the basis
    intercept_ : float or (T,)
    predictor_ : BasisPredictor
    kernel_ : the kernel of the basis
    loss_ : str, the loss with its scale
    targets_ : names of the labels, if they have names
    path_ : SummaryPath
        Score and degrees of freedom of every λ, if λ was chosen.
    floor_ : Mismatch
        The cost of the public sample for LESS: exact at order 2, expected at order 1.
    n_features_rule_ : int, the N of the paper's rule at the chosen λ
    summary_ : Summary, the sum that was learned from
    n_rounds_ : int, the exchanges that the model was learned from
    privacy_ : Guarantee
        The promise to every record if the summaries are private; None otherwise.

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> rng = np.random.default_rng(0)
    >>> X, U = rng.uniform(size=(400, 1)), rng.uniform(size=(100, 1))
    >>> y = np.sin(6 * X[:, 0])
    >>> basis = up.bases.EmpiricalFeatures(up.kernels.Gaussian(0.2)).fit(U)
    >>> sites = [up.Summary.of(basis, X[i::4], y[i::4], order=2) for i in range(4)]
    >>> model = up.SummaryRegressor().fit_summary(sum(sites))
    >>> bool(abs(model.predict(X) - y).max() < 0.01)
    True
    """

    filter: Any = parameter(FilterKind(), "tikhonov")
    lam: Any = parameter(Numbers("auto"), "auto")
    fit_intercept: Any = parameter(Switch("public"), True)
    _: KW_ONLY
    n_features: Any = parameter(Whole(1, "all", "rule", words="'all', 'rule' or a positive whole number"), "all")
    ridge: bool = parameter(Switch(), False)
    steps: str = parameter(Word(STEPS), "plain")
    grid: Any = parameter(Numbers(none=True), None)
    verbose: int = parameter(VERBOSITY, 0)

    _saved: ClassVar = (*LEARNED_FROM_SUMS, Floor(), _SumsPart())

    def fit_summary(
        self, summary: Summary, *, scores: Scores | None = None, basis: Basis | None = None
    ) -> SummaryRegressor:
        """Learn from a summary, in general the sum of the sites' summaries.

        ``scores`` is the sum of the sites' answers to :meth:`candidates`. The summary finds its ``basis`` if that is in
        this process or beside the summary's file.

        Parameters
        ----------
        summary : the summary of all rows
        scores : the scores of the candidates on all rows, if there was a second exchange
        basis : the basis; needed only if it cannot be found

        Returns
        -------
        self
        """
        with undo_on_failure(self):
            self._check_parameters()
            if not isinstance(summary, Summary):
                raise ValueError(f"summary must be a Summary, got {quote(summary)}")
            if summary.contents.model is not None:
                raise ValueError(
                    "summary must be a summary of labels, and this is one of residuals: "
                    "pass it to update() of the model it belongs to"
                )
            check_usable(summary, scores)
            self._fit(summary, summary.basis(basis), scores)
        return self

    def _fit(self, summary: Summary, basis: Basis, scores: Scores | None) -> None:
        learned = self._rules().learn(summary, basis, scores, same_sample=False)
        become_fit(self, learned, summary, basis)
        self.privacy_: Guarantee | None = guarantee_of(summary)
        self.shift_: Floats = learned.equations.shift
        self.centering_: str = learned.equations.centering
        if summary.order == 1:
            self._begin_rounds(summary, basis)
        if learned.warning:
            warnings.warn(learned.warning, UserWarning, stacklevel=3)

    def partial_fit(self, summary: Summary, *, basis: Basis | None = None) -> SummaryRegressor:
        """Add a summary to those seen so far and learn from all of them.

        Parameters
        ----------
        summary : a summary of rows that no earlier summary contains
        basis : the basis; needed only if it cannot be found

        Returns
        -------
        self
        """
        if not isinstance(summary, Summary):
            raise ValueError(f"summary must be a Summary, got {quote(summary)}")
        so_far: Summary | None = vars(self).get("summary_")
        return self.fit_summary(summary if so_far is None else so_far + summary, basis=basis)

    def candidates(self, *, basis: Basis | None = None) -> Candidates:
        """Return the models of every λ of the grid, for sites to score; their scores go to :meth:`fit_summary`.

        Parameters
        ----------
        basis : the basis; needed only if it cannot be found

        Returns
        -------
        Candidates
        """
        check_fitted(self)
        rules, fitted_basis = self._rules(), self.summary_.basis(basis)
        return rules.candidates(
            self.summary_, fitted_basis, *rules.solutions(self.summary_, fitted_basis, same_sample=False)
        )

    def update(self, residuals: Summary, *, basis: Basis | None = None) -> SummaryRegressor:
        """Learn one more round, from the summary of this model's residuals.

        Sites make it with ``Summary.of(basis, X, y, residuals_of=model)``, and with the loss of the first summary.

        Parameters
        ----------
        residuals : the summary of the residuals of all rows, which is the sum of the sites' summaries
        basis : the basis; needed only if it cannot be found

        Returns
        -------
        self
        """
        check_fitted(self)
        if not isinstance(residuals, Summary):
            raise ValueError(f"residuals must be a Summary, got {quote(residuals)}")
        of, mine = residuals.contents.model, digest_of(self)
        if of != mine:
            what = "labels" if of is None else f"the residuals of model {of[:12]}"
            raise ValueError(f"residuals must be of this model, {mine[:12]}, but this is a summary of {what}")
        if residuals.contents.loss != self.loss_:
            raise ValueError(
                f"the residuals are for the loss {residuals.contents.loss}, but the model has {self.loss_}"
            )
        if residuals.digest != self.basis_digest_:
            names = f"{residuals.digest[:12]}, but the model has {self.basis_digest_[:12]}"
            raise ValueError(f"the residuals belong to the basis {names}: summarise them in the model's basis")
        if self.targets_ and residuals.targets and residuals.targets != self.targets_:
            names = f"{', '.join(residuals.targets)}, but the model predicts {', '.join(self.targets_)}"
            raise ValueError(f"the residuals belong to the label {names}")
        check_round(residuals, self.privacy_ is not None)
        with undo_on_failure(self, from_scratch=False):
            self._check_parameters()
            fitted_basis = residuals.basis(basis)
            rounds = self._rounds(fitted_basis)
            rounds.receive(*self._message(residuals))
            coef, intercept = to_coefficients(rounds.result, self.shift_, self.centering_ != "none")
            self._settle(fitted_basis, coef, intercept, self.one_target_)
            self.privacy_ = guarantee_of(residuals, self.privacy_)
            self._keep_rounds(rounds)
        return self

    def _rules(self) -> FromSums:
        fit_intercept = check_fit_intercept(self.fit_intercept)
        return FromSums(as_filter(self.filter), self.lam, fit_intercept, self.n_features, bool(self.ridge), self.grid)

    def _begin_rounds(self, summary: Summary, basis: Basis) -> None:
        rounds = self._rounds(basis, begun=False)
        message, square, loss = self._message(summary)
        if self.centering_ == "rows" and self.loss_ == "squared":
            message = message_at_mean(rounds, message)
        rounds.receive(message, square, loss)
        self._keep_rounds(rounds)

    def _rounds(self, basis: Basis, begun: bool = True) -> Rounds:
        """The rounds so far, ready for the next message."""
        if self.summary_order_ != 1:
            raise ValueError("a model of second order is exact already, so rounds of residuals are for order 1 only")
        with_intercept = self.centering_ != "none"
        M, T = basis.n_features_, self.summary_.contents.n_outputs
        lams = np.full(T, self.lam_)
        public = public_system(basis, self._rules().fit_intercept, self.n_features)
        plain, careful = preconditioners(public, as_filter(self.filter), lams, self.n_features, with_intercept)
        rounds = Rounds(
            plain,
            np.zeros((M + with_intercept, T)),
            ridge_term(lams if self.ridge else 0.0 * lams, M, with_intercept),
            quadratic=self.loss_ == "squared",
            steps=self.steps,
            careful=careful if self.ridge or self.privacy_ is not None else None,
            kappa=float(np.sqrt(basis.kappa_sq_)),
            n_rows=float(self.summary_.n_rows),
            noisy=self.privacy_ is not None,
        )
        return rounds.restore(self.rounds_, self.n_rounds_) if begun else rounds

    @property
    def summary_order_(self) -> int:
        """1 or 2."""
        return self.summary_.order

    def _message(self, summary: Summary) -> tuple[Floats, Floats, Floats | None]:
        loss, means = summary.loss_sum, means_of(summary)
        message = centred_message(means, self.shift_, self.centering_ != "none")
        return message, np.maximum(means.yy, 0.0), None if loss is None else loss / summary.weight

    def _keep_rounds(self, rounds: Rounds) -> None:
        self.rounds_, self.n_rounds_ = rounds.to_arrays(), rounds.n_received
        self._asked = to_coefficients(rounds.point, self.shift_, self.centering_ != "none")

    def coefficients_in(self, basis: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the a and b at which residuals are to be taken next.

        They are the model's own or, once plain steps have proved too long, those of the point that rounds ask about.

        Parameters
        ----------
        basis : a fitted basis

        Returns
        -------
        (array, array) or None
        """
        known = super().coefficients_in(basis)
        return known if known is None or self.summary_order_ != 1 else self._asked

    def facts(self, target: int = 0) -> ModelFacts:
        """Return the facts of the fitted model; ``target`` is the position of the label."""
        return describe_sums(
            self,
            target,
            "learned from sums over rows, and from no individual row",
            n_rows=self.summary_.n_rows,
            summary=self.summary_,
            solve_again=(lambda basis: self._rules().solutions(self.summary_, basis, same_sample=False)[1])
            if self.n_rounds_ == 1
            else None,
            privacy=self.privacy_,
            floor=if_fitted(self, "floor_"),
        )
