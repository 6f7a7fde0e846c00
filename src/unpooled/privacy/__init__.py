"""Differential privacy: what noise costs, how it is drawn, how far one record reaches, and who keeps the books.

The proofs are in docs/privacy/. Drawing noise needs the extra ``privacy``; reading, pricing and planning do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import composition, gaussian, sgd
from .composition import NEIGHBOURS, Guarantee, Spent
from .gaussian import ApproximateEvent, Event, GaussianEvent, delta_of, epsilon_of, mu_for, rho_of, sigma_for
from .ledger import Charge, Ledger, LedgerError, Overspend, Reservation
from .noise import GridGaussian, draw, plan
from .noised import Noised
from .sensitivity import Released, centered_kappa, first_order

if TYPE_CHECKING:
    from .release import Private
    from .rounds.forecast import Forecast, forecast


__all__ = [
    "NEIGHBOURS",
    "ApproximateEvent",
    "Charge",
    "Event",
    "Forecast",
    "GaussianEvent",
    "GridGaussian",
    "Guarantee",
    "Ledger",
    "LedgerError",
    "Noised",
    "Overspend",
    "Private",
    "Released",
    "Reservation",
    "Spent",
    "centered_kappa",
    "composition",
    "delta_of",
    "draw",
    "epsilon_of",
    "first_order",
    "forecast",
    "gaussian",
    "mu_for",
    "plan",
    "rho_of",
    "sgd",
    "sigma_for",
]


# These stand above summaries, whose files name the records of noise in this room: they are loaded when asked for.
_LATE = {"Private": ".release", "Forecast": ".rounds.forecast", "forecast": ".rounds.forecast"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name], __name__), name)
