"""The forecast of a privacy budget: what a private regression would reach, from public knowledge alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..._base.checks import check_budget, check_positive, check_whole, name_argument
from ..._base.drawing import Curve, Guide, Picture, draw
from ..._base.text import quote
from ...bases import Basis, EmpiricalFeatures
from ..gaussian import mu_for
from .custodian import run_learner
from .frame import Frame, build_made_up_frame, build_public_frame
from .learner import learn
from .schedule import (
    check_bounded,
    is_rich,
    make_schedule,
    n_public_rows,
    public_features,
    standard_normal,
    usual_features,
    widen_basis,
)
from .simulation import SimulatedRecords

TARGETS = {"rough": -0.75, "usual": -0.25, "smooth": 0.5}  # β of the made-up targets
SPREAD = 0.3  # of the labels, in units of their bound
DRAWS = 2
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class Prediction:
    """The R² that one ε is expected to buy, for a rough, a usual and a smooth target."""

    epsilon: float
    rough: float
    usual: float
    smooth: float
    rounds: int
    n_features: int


@dataclass(frozen=True)
class Forecast:
    """Predicted R² of a private regression for every ε; :func:`forecast` makes it.

    Attributes
    ----------
    n : records
    delta : δ of every line
    ceiling : the share of the labels' variance that is signal, which no method can exceed
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
        from ..._base import html

        first, second, *_ = str(self).splitlines()
        rows = []
        for row in self.predictions:
            reached = [f"{getattr(row, name):.2f}" for name in TARGETS]
            rows.append([f"{row.epsilon:g}", *reached, str(row.rounds), str(row.n_features)])
        header = ["ε", *(f"{name} target" for name in TARGETS), "rounds", "features"]
        return html.paragraph(f"{first}; {second}") + html.table(header, rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as a dictionary for JSON."""
        return asdict(self) | {"predictions": [asdict(row) for row in self.predictions]}

    def picture(self, error: bool = False) -> Picture:
        """Draw R² against ε for three kinds of targets, or with ``error`` 1 - R² on a logarithmic axis."""
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
        """Draw R² against ε with matplotlib."""
        return draw(self.picture(), ax)


def forecast(
    n: Any,
    public: Any = None,
    epsilon: float | Sequence[float] | None = None,
    delta: float = 1e-6,
    label_bound: float | None = 1.0,
    kernel: Any = None,
    *,
    basis: Basis | None = None,
    explained: float = 0.9,
    sites: int = 1,
    n_inputs: int | None = None,
    random_state: int = 0,
) -> Forecast:
    """Predict the R² that :class:`unpooled.PrivateRegressor` would reach for each ε, from public knowledge alone.

    Nothing is spent and no private row is read. The learner is played against made-up targets, rough ones
    (a*_i ~ N(0, vq_i^β), β = -0.75) to smooth ones (0.5) in the features of the public rows, with noise as it would be.

    Parameters
    ----------
    n : the number of records
    public : public rows without labels; without them inputs are taken to be of the standard normal law in ``n_inputs``
        columns, which is a guess
    epsilon, delta : one ε or several, None is five from 0.1 to 10; and δ
    label_bound : c or None; labels are taken to spread over 0.3 c
    kernel : as for :class:`unpooled.PrivateRegressor`
    basis : a basis that was fitted to public rows, in place of ``public`` and ``kernel``
    explained : the share of the labels' variance that a function of the inputs could explain
    sites : the number of sites that each add all of the noise (``noise="site"``)
    n_inputs : the number of inputs, where there are no public rows
    random_state : draws the made-up targets

    Examples
    --------
    >>> import numpy as np, unpooled as up
    >>> U = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> outlook = up.privacy.forecast(20_000, U, epsilon=[0.1, 1.0])
    >>> outlook.predictions[0].usual < outlook.predictions[1].usual
    True
    """
    n, sites = check_whole("n", n), check_whole("sites", sites)
    values = np.atleast_1d(np.asarray(EPSILONS if epsilon is None else epsilon, dtype=float)).tolist()
    epsilons = [check_budget(value, delta, n)[0] for value in values]
    if not epsilons:
        raise ValueError("epsilon must be a number or several, got none")
    if label_bound is not None:
        check_positive("label_bound", label_bound)
    if not (isinstance(explained, (int, float)) and 0 < explained < 1):
        raise ValueError(f"explained must be a share between 0 and 1, got {quote(explained)}")
    frame = _frame(public, kernel, basis, n_inputs)
    M, known = len(frame.moments) - 1, 0 if frame.doubt else frame.basis.n_public_
    # A large budget has more features in the fit as well.
    rich = [public is not None and is_rich(n, mu_for(value, delta) / math.sqrt(sites)) for value in epsilons]
    wide = _wider_frame(frame, public) if any(rich) else frame
    predictions = [
        _predict(wide if more else frame, n, value, delta, label_bound, explained, sites, random_state)
        for value, more in zip(epsilons, rich)
    ]
    return Forecast(n, float(delta), float(explained), M, known, tuple(predictions))


def _predict(
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
    way = make_schedule(
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


def _frame(public: Any, kernel: Any, basis: Basis | None, n_inputs: int | None) -> Frame:
    if basis is not None:
        given = {"public": public, "kernel": kernel, "n_inputs": n_inputs}
        if names := [name for name, value in given.items() if value is not None]:
            raise ValueError(f"basis was fitted already and has its public sample: leave {' and '.join(names)} out")
        return build_public_frame(basis, None)
    check_bounded(kernel)
    if public is None and n_inputs is None:
        raise ValueError("give public rows as public, a fitted basis as basis, or the number of inputs as n_inputs")
    rows = standard_normal(check_whole("n_inputs", n_inputs)) if public is None else public
    features = EmpiricalFeatures(kernel, usual_features(n_public_rows(rows)), standardize=True)
    with name_argument("public"):
        features.fit(rows)
    phi = public_features(features, rows, 500)
    return build_made_up_frame(features, phi) if public is None else build_public_frame(features, phi)


def _wider_frame(frame: Frame, public: Any) -> Frame:
    basis = widen_basis(frame.basis, public)
    return build_public_frame(basis, public_features(basis, public, 500))
