"""Kernel regression for data that cannot be pooled.

The public surface is what this file lists; everything else may move.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

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
    NystromRegressor,
    PrivateRegressor,
    PrivateSGDRegressor,
    SpectralRegressor,
    SummaryRegressor,
)
from .estimators.descent_path import DescentPath
from .files import FileError
from .length_scales import choose_length_scales
from .models import load, save
from .path import Path
from .planning import Plan, plan
from .predictors import BasisPredictor, KernelExpansion
from .resources.plan import ResourcePlan
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
    "NystromRegressor",
    "Path",
    "Plan",
    "PrivateRegressor",
    "PrivateSGDRegressor",
    "Report",
    "ResourcePlan",
    "Scores",
    "SpectralRegressor",
    "Summary",
    "SummaryRegressor",
    "__version__",
    "audit",
    "auditing",
    "bases",
    "blocks",
    "choose_length_scales",
    "datasets",
    "engines",
    "federation",
    "filters",
    "kernels",
    "load",
    "losses",
    "plan",
    "plot",
    "privacy",
    "report",
    "save",
    "site",
    "theory",
]

# Drawing, reports and networks are not needed to fit or to predict: they are loaded when they are asked for.
_LATER = {
    "federation": ("federation", ""),
    "plot": ("plot", ""),
    "report": ("reports.writing", "report"),
    "Report": ("reports.writing", "Report"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, inner = _LATER[name]
    found = import_module(f".{module}", __name__)
    return getattr(found, inner) if inner else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
