"""Differential privacy: the cost of noise, how noise is drawn, the influence of one record, and the ledger.

The proofs are in docs/privacy/. Drawing noise needs the extra ``privacy``; reading, pricing and planning do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import composition, gaussian, sgd
from .composition import NEIGHBOURS, Expense, Guarantee
from .gaussian import Approximate, Event, Gaussian, delta_of, epsilon_of, mu_for, rho_of, sigma_for
from .ledger import Charge, Ledger, LedgerError, Overspend, Reservation
from .noise import GridGaussian, calibrate_noise, draw
from .noise_record import NoiseRecord
from .sensitivity import WeightedSums, centered_kappa, first_order_sensitivity

if TYPE_CHECKING:
    from .release import PrivacyRequest


__all__ = [
    "NEIGHBOURS",
    "Approximate",
    "Charge",
    "Event",
    "Expense",
    "Gaussian",
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
    "gaussian",
    "mu_for",
    "rho_of",
    "sgd",
    "sigma_for",
]


def __getattr__(name: str) -> Any:
    # PrivacyRequest builds on summaries, and summaries on this package, so it can only be imported when it is used.
    if name != "PrivacyRequest":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(".release", __name__).PrivacyRequest
