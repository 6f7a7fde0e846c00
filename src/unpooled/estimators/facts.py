"""The facts that every fitted model answers about itself, in one type for all kinds of model.

Reports, plots, notebooks and the command line read these facts, and never ask a model which attributes it has. A new
estimator answers ``facts`` by naming in ``describe`` the facts that it has; all others are None or empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from .._base import html
from .._base.arrays import Array, to_numpy
from .._base.checks import check_fit_intercept
from .._base.path import SearchPath, Tuning
from .._base.text import format_count, format_number
from .._solvers.predictors import Average, BasisPredictor, KernelExpansion
from .._solvers.span.moments import Mismatch, Solutions
from ..bases.base import Basis
from ..bases.maps import Scaling
from ..filters import Filter, Tikhonov, as_filter
from ..kernels.base import Kernel
from ..privacy.composition import Guarantee
from ..summaries.summary import Summary


@dataclass(frozen=True)
class ModelFacts:
    """A fitted model in the terms that all models share, for one of its labels.

    Attributes
    ----------
    name : of its class
    kind : what it is, as the subject of a sentence
    target : the position of the label that the facts are about
    inputs, targets : names of the columns of inputs and of labels; empty if they have none
    n_inputs, n_targets : their numbers
    predictor : the fitted function
    kernel : with its length scale filled in
    lam : λ of the label
    scale : of the loss of a descent
    n_iter : the steps of a descent, or the passes over the rows
    path, tune : the path of what was tried, and a function that gives its scores for the label
    rounds : how many exchanges with the holders of the rows
    solver : the route that the fit took
    fit_intercept : whether there is an intercept, or "public"
    filter, loss : the filter, and the name of the loss
    n_rows : rows it was learned from
    blocks, sites : the blocks of an average, the sites with their rows; None if there is no such thing
    n_sites : of an average of sites' own models
    order : of the sums that sites were, or would be, asked for
    basis, basis_digest, n_features : of a model in the span of a basis
    summary : the sums that the model holds
    solve_again : the functions of every λ from these sums and the basis
    privacy, schedule : what is promised to every record, and what was planned for it
    history : what each round has left
    floor : what the public sample costs
    """

    name: str
    kind: str
    target: int
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    n_inputs: int
    n_targets: int
    predictor: KernelExpansion | BasisPredictor | Average
    kernel: Kernel | None = None
    lam: float | None = None
    scale: float | None = None
    n_iter: int | None = None
    path: SearchPath | None = None
    tune: Callable[[], Tuning | None] | None = field(default=None, repr=False)
    rounds: int | None = None
    solver: str | None = None
    fit_intercept: bool | str = False
    filter: Filter | None = None
    loss: str = "squared"
    n_rows: int | None = None
    n_blocks: int | None = None
    blocks: Sequence[dict[str, Any]] | None = None
    sites: Sequence[dict[str, Any]] | None = None
    n_sites: int | None = None
    order: int = 1
    basis: Basis | None = None
    basis_digest: str | None = None
    n_features: int | None = None
    summary: Summary | None = None
    solve_again: Callable[[Basis], Solutions] | None = field(default=None, repr=False)
    privacy: Guarantee | None = None
    schedule: object = None
    history: Sequence[dict[str, Any]] = ()
    floor: Mismatch | None = None

    @property
    def label(self) -> str:
        """The name of the label, if it has one."""
        return self.targets[self.target] if self.targets else "the label"

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs, or their numbers."""
        return self.inputs or tuple(f"input {j + 1}" for j in range(self.n_inputs))

    @cached_property
    def tuning(self) -> Tuning | None:
        """The scores along the path for the label; None if nothing was tried."""
        return None if self.tune is None else self.tune()

    @property
    def expansion(self) -> tuple[Kernel, np.ndarray] | None:
        """The kernel and the points it is expanded in, as the kernel sees them; None if there are none."""
        if self.predictor.expansion is None or self.predictor.n_functions < 2:
            return None
        kernel, points = self.predictor.expansion
        return kernel, to_numpy(points).astype(float)

    @property
    def scaling(self) -> Scaling | None:
        """The scaling of inputs before the kernel sees them; None if there is none."""
        return self.predictor.scaling

    @property
    def n_functions(self) -> int:
        """The kernel functions or waves that one prediction takes."""
        return self.predictor.n_functions

    @property
    def choice(self) -> str:
        """The parameters, who chose them and how, in one sentence without its full stop."""
        parts = []
        if self.lam is not None:
            parts.append(f"λ = {format_number(self.lam)}")
        if self.n_iter is not None and self.scale is not None:
            parts.append(f"{self.n_iter:,} steps at scale {format_number(self.scale)}")
        if self.rounds is not None and self.rounds > 1:
            parts.append(f"{self.rounds} rounds")
        if self.n_blocks is not None:
            parts.append(format_count(self.n_blocks, "block"))
        if self.privacy is not None:
            parts += [f"ε = {self.privacy.epsilon:.3g}", f"δ = {format_number(self.privacy.delta)}"]
        if not parts:
            return "There was nothing to choose"
        said = f"{_join_words(parts)} {'were' if len(parts) > 1 else 'was'}"
        tuning = self.tuning
        if tuning is None:
            return f"{said} given"
        df = (
            ""
            if tuning.df is None
            else f", which leaves {format_number(float(tuning.df[tuning.chosen]))} degrees of freedom"
        )
        return f"{said} chosen among {len(tuning.values)} by {tuning.order}{df}"


def _join_words(parts: list[str]) -> str:
    *rest, last = parts
    return f"{', '.join(rest)} and {last}" if rest else last


class FittedModel(Protocol):
    """A fitted model: it predicts, and answers facts about itself."""

    n_features_in_: int

    def predict(self, X: Any) -> Array: ...

    def facts(self, target: int = 0) -> ModelFacts: ...


def describe(model: Any, target: int, kind: str, **facts: Any) -> ModelFacts:
    """The facts of a fitted model: those that are named, and those that every model has."""
    predictor = model.predictor_
    several = not model.one_target_ and not isinstance(predictor, Average)
    return ModelFacts(
        type(model).__name__,
        kind,
        target,
        tuple(str(name) for name in if_fitted(model, "feature_names_in_", ())),
        tuple(str(name) for name in if_fitted(model, "targets_", ())),
        int(model.n_features_in_),
        len(np.atleast_1d(predictor.intercept)) if several else 1,
        predictor,
        **facts,
    )


def if_fitted(model: Any, name: str, otherwise: Any = None) -> Any:
    """Return a fitted attribute, or ``otherwise`` where the fit had nothing to keep in it."""
    return vars(model).get(name, otherwise)


def of_target(values: Any, target: int) -> Any:
    """The value of one label, where there is one for each or one for all; None if there is none."""
    if values is None:
        return None
    values = np.atleast_1d(values)
    return values[min(target, len(values) - 1)].item()


def method_name(filter: Filter) -> str:
    """Regression with a filter, by its usual name."""
    return "Kernel ridge regression" if type(filter) is Tikhonov else f"Kernel regression with the filter {filter!r}"


def describe_sums(model: Any, target: int, how: str, **facts: Any) -> ModelFacts:
    """Return the facts of a model that was learned from sums: those that are named, and those that all of them have."""
    path = if_fitted(model, "path_")
    filter: Filter = as_filter(model.filter)
    facts_of_model: ModelFacts = model._describe(
        target,
        f"{method_name(filter)} {how}",
        lam=model.lam_,
        path=path,
        tune=None if path is None else lambda: path.tuning(target, squared=model.loss_ == "squared"),
        rounds=model.n_rounds_,
        fit_intercept=check_fit_intercept(model.fit_intercept),
        filter=filter,
        loss=model.loss_,
        **facts,
    )
    return facts_of_model


class ShowsChoices(html.NotebookMixin):
    """Put before scikit-learn's classes: below the picture of a fitted estimator stands what was chosen."""

    def facts(self, target: int = 0) -> ModelFacts:
        """Return the facts of the fitted model, in one form for all kinds of model.

        Parameters
        ----------
        target : the position of the label, if there are several

        Returns
        -------
        ModelFacts
        """
        raise NotImplementedError(f"{type(self).__name__} must answer facts()")

    def __sklearn_is_fitted__(self) -> bool:
        return "predictor_" in vars(self)

    def _below_picture(self) -> str:
        return html.paragraph(f"{self.facts().choice}.") if self.__sklearn_is_fitted__() else ""
