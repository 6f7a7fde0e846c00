"""Estimators with scikit-learn's manners, one family a file."""

from .averaged import AveragedRegressor
from .correntropy import CorrentropyRegressor
from .less import LESSRegressor
from .nystrom import NystromRegressor
from .private import PrivateRegressor
from .private_sgd import PrivateSGDRegressor
from .spectral import SpectralRegressor
from .summary import SummaryRegressor

__all__ = [
    "AveragedRegressor",
    "CorrentropyRegressor",
    "LESSRegressor",
    "NystromRegressor",
    "PrivateRegressor",
    "PrivateSGDRegressor",
    "SpectralRegressor",
    "SummaryRegressor",
]
