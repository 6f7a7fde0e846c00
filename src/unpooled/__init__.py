"""Kernel regression for data that cannot be pooled.

The public surface is what this file lists; everything else may move.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("unpooled")
except PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "0+unknown"

from . import auditing, bases, blocks, datasets, engines, filters, kernels, losses, privacy, site, theory
from .auditing import audit
from .engines import BlockError
from .estimators import (
    AveragedRegressor,
    CorrentropyRegressor,
    LESSRegressor,
    PrivateRegressor,
    PrivateSGDRegressor,
    SpectralRegressor,
    SummaryRegressor,
)
from .estimators.descent_path import DescentPath
from .files import FileError
from .models import load, save
from .path import Path
from .planning import Plan, plan
from .predictors import BasisPredictor, KernelExpansion
from .summaries import Candidates, Scores, Summary

__all__ = [
    "AveragedRegressor",
    "BasisPredictor",
    "BlockError",
    "Candidates",
    "CorrentropyRegressor",
    "DescentPath",
    "FileError",
    "KernelExpansion",
    "LESSRegressor",
    "Path",
    "Plan",
    "PrivateRegressor",
    "PrivateSGDRegressor",
    "Scores",
    "SpectralRegressor",
    "Summary",
    "SummaryRegressor",
    "__version__",
    "audit",
    "auditing",
    "bases",
    "blocks",
    "datasets",
    "engines",
    "filters",
    "kernels",
    "load",
    "losses",
    "plan",
    "privacy",
    "save",
    "site",
    "theory",
]
