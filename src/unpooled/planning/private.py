"""up.plan: the memory and time of a fit before it runs, or a forecast of what a privacy budget would buy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._base.checks import check_budget, check_positive, check_whole, name_argument
from .._base.drawing import Curve, Guide, Picture, draw
from .._base.text import quote
from ..bases import Basis, EmpiricalFeatures
from ..estimators.private_plan import decided, is_rich, usual_features
from ..estimators.public_rows import check_bounded, n_public_rows, public_features, standard_normal, widened
from ..privacy import mu_for
from ..privacy.rounds.frame import Frame, build_made_up_frame, build_public_frame
from ..privacy.rounds.learner import learn
from ..privacy.rounds.questions import run_learner
from ..privacy.rounds.simulation import SimulatedRecords
from .plan import planned
from .table import Table, is_rows

TARGETS = {"rough": -0.75, "usual": -0.25, "smooth": 0.5}  # β of the made-up targets
SPREAD = 0.3  # of the labels, in units of their bound
DRAWS = 2
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class Prediction:
    """What one ε is expected to buy: the R² for a rough, a usual and a smooth target."""

    epsilon: float
    rough: float
    usual: float
    smooth: float
    rounds: int
    n_features: int


@dataclass(frozen=True)
class Plan:
    """Predicted R² against ε. ``ceiling`` is what no method could exceed: the share of the labels that is signal.

    Attributes
    ----------
    n : records
    delta : δ of every line
    ceiling : the share of the labels' variance that is signal
    n_features : features of the basis, where the budget is not large enough for more
    n_public : public rows; 0 where there were none
    predictions : one for every ε, with ``epsilon``, ``rough``, ``usual``, ``smooth``, ``rounds`` and ``n_features``
    """

    n: int
    delta: float
    ceiling: float
    n_features: int
    n_public: int
    predictions: tuple[Prediction, ...]

    def __str__(self) -> str:
        known = (
            f"{self.n_public} public rows" if self.n_public else "no public rows: inputs like the standard normal law"
        )
        lines = [
            f"{self.n} records, δ = {self.delta:g}, {self.n_features} features, {known}",
            f"predicted R², if {self.ceiling:.0%} of the labels' variance can be explained at all:",
            f"{'ε':>8} {'rough target':>14} {'usual':>8} {'smooth':>8} {'rounds':>8} {'features':>9}",
        ]
        for row in self.predictions:
            values = f"{row.rough:>14.2f} {row.usual:>8.2f} {row.smooth:>8.2f}"
            lines.append(f"{row.epsilon:>8g} {values} {row.rounds:>8} {row.n_features:>9}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from .._base import html

        first, second, *_ = str(self).splitlines()
        rows = []
        for row in self.predictions:
            reached = [f"{getattr(row, name):.2f}" for name in TARGETS]
            rows.append([f"{row.epsilon:g}", *reached, str(row.rounds), str(row.n_features)])
        header = ["ε", *(f"{name} target" for name in TARGETS), "rounds", "features"]
        return html.paragraph(f"{first}; {second}") + html.table(header, rows)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"predictions": [asdict(row) for row in self.predictions]}

    def picture(self, error: bool = False) -> Picture:
        """R² against ε for three kinds of targets; with ``error`` what is left of 1, on a logarithmic axis."""
        epsilons = [row.epsilon for row in self.predictions]
        curves = []
        for name in TARGETS:
            reached = np.asarray([getattr(row, name) for row in self.predictions])
            curves.append(Curve(epsilons, 1.0 - reached if error else reached, f"{name} target", marker="o"))
        return Picture(
            "ε",
            "predicted share of the variance left, 1 - R²" if error else "predicted R²",
            curves,
            guides=[Guide(1.0 - self.ceiling if error else self.ceiling, "not private, at best")],
            xscale="log",
            yscale="log" if error else "linear",
            title=f"{self.n:,} records, δ = {self.delta:g}",
            legend="small",
        )

    def plot(self, ax: Any = None) -> Any:
        """R² against ε, with matplotlib."""
        return draw(self.picture(), ax)


def plan(
    n: Any,
    public: Any = None,
    epsilon: float | Sequence[float] | None = None,
    delta: float = 1e-6,
    label_bound: float | None = 1.0,
    kernel: Any = None,
    *,
    explained: float = 0.9,
    sites: int = 1,
    n_inputs: int | None = None,
    random_state: int = 0,
    d: int | None = None,
    y: Any = None,
    targets: int | None = None,
    dtype: Any = None,
    lam: Any = None,
    n_features: Any = None,
    memory: Any = None,
    time: float | None = None,
    device: Any = None,
    rates: Any = None,
) -> Any:
    """Look ahead: what a fit would take, or what a privacy budget would buy.

    ``plan(X, y)``, ``plan("table.parquet", "label")`` and ``plan(n=1_000_000, d=10)`` give a :class:`ResourcePlan`: for
    every route (exact, averaged, a basis by one pass or by rounds) the memory and the time it would take on this
    machine, the route to take, and its ``estimator()``. Of a Parquet file only the metadata are read.

    ``plan(n, public, epsilon)`` gives a :class:`Plan`: what :class:`PrivateRegressor` would reach, from public
    knowledge alone; nothing is spent. The learner is played against made-up targets, rough ones (a*_i ~ N(0, vq_i^β),
    β = -0.75) to smooth ones (0.5) in the features of the public rows, with noise as it would be.

    Parameters
    ----------
    n : number of rows there will be; or the rows themselves, or where they are
    public : public rows without labels; without them inputs are taken to be of the standard normal law in ``n_inputs``
        columns, which is a guess. After rows: their labels, or the name of their column.
    epsilon, delta : of privacy: one ε or several, None is five from 0.1 to 10; and δ
    label_bound : of privacy: c or None; labels are taken to spread over 0.3 c
    kernel : as for the regressors
    explained : of privacy: the share of the labels' variance that a function of the inputs could explain
    sites : of privacy: sites that add all of the noise each (``noise="site"``)
    n_inputs : of privacy: the number of inputs, where there are no public rows
    random_state : draws the made-up targets
    d : features of rows that are given by their number
    y : labels, or the name of their column
    targets, dtype : columns of labels, and precision, of rows that are given by their number
    lam : the λ of the fit; None if it is to be chosen
    n_features : the points of a basis; None takes as many as pay and fit
    memory : bytes, or text such as "8 GB", that a fit may take beside its rows; None is what is free, the quota of a
        container counted
    time : seconds that it may take; None is 300
    device : as for :class:`NystromRegressor`
    rates : those of another machine, which a plan made there has as ``.rates``; None measures them, once a process

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> outlook = up.plan(n=1_000_000, d=10, memory="16 GB")
    >>> outlook["exact"].fits, outlook.estimator().n_features >= 500
    (False, True)
    >>> U = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> outlook = up.plan(20_000, U, epsilon=[0.1, 1.0])
    >>> outlook.predictions[0].usual < outlook.predictions[1].usual
    True
    """
    of_resources = {"lam": lam, "memory": memory, "time": time, "device": device, "rates": rates}
    of_rows = {"d": d, "targets": targets, "dtype": dtype}
    if not is_rows(n) and d is None:
        others = of_resources | of_rows | {"y": y, "n_features": n_features}
        _refuse(others, "plans of memory and time, which need rows or their number and d")
        values = EPSILONS if epsilon is None else epsilon
        return _private(n, public, values, delta, label_bound, kernel, explained, sites, n_inputs, random_state)
    _refuse({"epsilon": epsilon, "n_inputs": n_inputs}, "plans of a private regression, which are plan(n, public, ...)")
    if is_rows(n):
        _refuse(of_rows, "plans for rows that are given by their number")
        table = Table.of_rows(n, public if y is None else y)
    else:
        _refuse({"public": public, "y": y}, "plans for rows that are there")
        table = Table.of_size(n, d, 1 if targets is None else targets, dtype)
    of_basis = "auto" if n_features is None else n_features
    return planned(table, kernel=kernel, n_features=of_basis, **of_resources)


def _refuse(arguments: dict[str, Any], kind: str) -> None:
    """Arguments of another kind of plan."""
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise ValueError(f"{' and '.join(given)} belong to {kind}")


def _private(
    n: Any,
    public: Any,
    epsilon: float | Sequence[float],
    delta: float,
    label_bound: float | None,
    kernel: Any,
    explained: float,
    sites: int,
    n_inputs: int | None,
    random_state: int,
) -> Plan:
    n, sites = check_whole("n", n), check_whole("sites", sites)
    epsilons = [check_budget(value, delta, n)[0] for value in np.atleast_1d(np.asarray(epsilon, dtype=float)).tolist()]
    if not epsilons:
        raise ValueError("epsilon must be a number or several, got none")
    if label_bound is not None:
        check_positive("label_bound", label_bound)
    if not (isinstance(explained, (int, float)) and 0 < explained < 1):
        raise ValueError(f"explained must be a share between 0 and 1, got {quote(explained)}")
    check_bounded(kernel)
    frame = _frame(public, kernel, n_inputs)
    M, known = len(frame.moments) - 1, 0 if public is None and not isinstance(kernel, Basis) else frame.basis.n_public_
    # As the fit itself does: a large budget has more features.
    free = public is not None and not isinstance(kernel, Basis)
    rich = [free and is_rich(n, mu_for(value, delta) / math.sqrt(sites)) for value in epsilons]
    wide = _wider(frame, public) if any(rich) else frame
    found = [
        _predicted(wide if more else frame, n, value, delta, label_bound, explained, sites, random_state)
        for value, more in zip(epsilons, rich)
    ]
    return Plan(n, float(delta), float(explained), M, known, tuple(found))


def _predicted(
    frame: Frame,
    n: int,
    epsilon: float,
    delta: float,
    label_bound: float | None,
    explained: float,
    sites: int,
    seed: int,
) -> Prediction:
    spread = SPREAD * (1.0 if label_bound is None else float(label_bound))
    way = decided(
        n,
        epsilon,
        delta,
        label_bound,
        n_features=len(frame.moments) - 1,
        sites=sites,
        n_public=None if frame.doubt else frame.basis.n_public_,
        n_inputs=frame.basis.n_features_in_,
    )
    reached = {}
    for name, smoothness in TARGETS.items():
        errors = []
        for number in range(DRAWS):
            rng = np.random.default_rng([seed, number])
            truth = SimulatedRecords(frame, n, smoothness, explained, spread, sites, rng)
            learned, _ = run_learner(
                learn(frame, n / math.sqrt(sites), way.budget(), way.label_bound, way.loss), truth.answer
            )
            errors.append(truth.error(learned.coef))
        reached[name] = explained - float(np.mean(errors)) / spread**2
    return Prediction(epsilon, **reached, rounds=way.rounds, n_features=way.n_features)


def _frame(public: Any, kernel: Any, n_inputs: int | None) -> Frame:
    if isinstance(kernel, Basis):
        return build_public_frame(kernel, None)
    if public is None and n_inputs is None:
        raise ValueError(
            "give public rows as public, or the number of input columns as n_inputs (d, for a plan of memory and time)"
        )
    rows = standard_normal(check_whole("n_inputs", n_inputs)) if public is None else public
    basis = EmpiricalFeatures(kernel, usual_features(n_public_rows(rows)), standardize=True)
    with name_argument("public"):
        basis.fit(rows)
    phi = public_features(basis, rows, 500)
    return build_made_up_frame(basis, phi) if public is None else build_public_frame(basis, phi)


def _wider(frame: Frame, public: Any) -> Frame:
    basis = widened(frame.basis, public)
    return build_public_frame(basis, public_features(basis, public, 500))
