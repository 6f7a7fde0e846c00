"""The scikit-learn face of the library, one family a file."""

from .averaged import AveragedRegressor
from .correntropy import CorrentropyRegressor
from .spectral import SpectralRegressor

__all__ = ["AveragedRegressor", "CorrentropyRegressor", "SpectralRegressor"]
