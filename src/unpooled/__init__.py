"""Kernel regression for data that cannot be pooled.

The public surface is what this file lists; everything else may move.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("unpooled")
except PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "0+unknown"

from . import datasets, filters, kernels
from .estimators import SpectralRegressor
from .files import FileError
from .models import load, save
from .path import Path
from .predictors import KernelExpansion

__all__ = [
    "FileError",
    "KernelExpansion",
    "Path",
    "SpectralRegressor",
    "__version__",
    "datasets",
    "filters",
    "kernels",
    "load",
    "save",
]
