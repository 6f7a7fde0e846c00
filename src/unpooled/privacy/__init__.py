"""Differential privacy: the cost of noise, how noise is drawn, the influence of one record, and the ledger.

The proofs are in docs/privacy/. Drawing noise needs the extra ``privacy``; reading, pricing and planning do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import composition, gaussian, sgd
from .composition import NEIGHBOURS, Expense, Guarantee
from .gaussian import ApproximateEvent, Event, GaussianEvent, delta_of, epsilon_of, mu_for, rho_of, sigma_for
from .ledger import Charge, Ledger, LedgerError, Overspend, Reservation
from .noise import GridGaussian, calibrate_noise, draw
from .noise_record import NoiseRecord
from .sensitivity import WeightedSums, centered_kappa, first_order_sensitivity

if TYPE_CHECKING:
    from .release import PrivacyRequest
    from .rounds.forecast import Forecast, forecast


__all__ = [
    "NEIGHBOURS",
    "ApproximateEvent",
    "Charge",
    "Event",
    "Expense",
    "Forecast",
    "GaussianEvent",
    "GridGaussian",
    "Guarantee",
    "Ledger",
    "LedgerError",
    "NoiseRecord",
    "Overspend",
    "PrivacyRequest",
    "Reservation",
    "WeightedSums",
    "calibrate_noise",
    "centered_kappa",
    "composition",
    "delta_of",
    "draw",
    "epsilon_of",
    "first_order_sensitivity",
    "forecast",
    "gaussian",
    "mu_for",
    "rho_of",
    "sgd",
    "sigma_for",
]


# These build on summaries, and summaries on this package, so they can only be imported when they are used.
_LATE = {"PrivacyRequest": ".release", "Forecast": ".rounds.forecast", "forecast": ".rounds.forecast"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name], __name__), name)
