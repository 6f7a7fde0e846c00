"""The scikit-learn face of the library, one family a file."""

from .spectral import SpectralRegressor

__all__ = ["SpectralRegressor"]
