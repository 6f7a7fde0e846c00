"""Kernel regression for data that cannot be pooled.

This file lists the public names; everything else may change. A name is loaded when it is first used, so
that ``import unpooled`` costs next to nothing and a fit never waits for drawing, reports or networks.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._base.files import __version__

if TYPE_CHECKING:
    from . import (
        auditing,
        bases,
        blocks,
        datasets,
        engines,
        federation,
        filters,
        gate,
        kernels,
        losses,
        plot,
        privacy,
        theory,
    )
    from ._base.engine import BlockError
    from ._base.files import FileError
    from ._solvers.averaging.search import BlockPath
    from ._solvers.predictors import BasisPredictor, KernelExpansion
    from .auditing.audit import audit
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
    from .estimators.length_scales import choose_length_scales
    from .estimators.paths import DescentPath, RegularizationPath, SummaryPath
    from .models import load, save
    from .planning.plan import plan
    from .planning.resource_plan import ResourcePlan
    from .reports.writing import Report, report
    from .summaries import Candidates, Scores, Summary


__all__ = [
    "AveragedRegressor",
    "BasisPredictor",
    "BlockError",
    "BlockPath",
    "Candidates",
    "CorrentropyRegressor",
    "DescentPath",
    "FileError",
    "KernelExpansion",
    "LESSRegressor",
    "NystromRegressor",
    "PrivateRegressor",
    "PrivateSGDRegressor",
    "RegularizationPath",
    "Report",
    "ResourcePlan",
    "Scores",
    "SpectralRegressor",
    "Summary",
    "SummaryPath",
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
    "gate",
    "kernels",
    "load",
    "losses",
    "plan",
    "plot",
    "privacy",
    "report",
    "save",
    "theory",
]

# The room of every public name; a room that is public itself stands for itself.
_HOMES = {
    "BlockError": "_base.engine",
    "FileError": "_base.files",
    "BlockPath": "_solvers.averaging.search",
    "BasisPredictor": "_solvers.predictors",
    "KernelExpansion": "_solvers.predictors",
    "audit": "auditing",
    "AveragedRegressor": "estimators",
    "CorrentropyRegressor": "estimators",
    "LESSRegressor": "estimators",
    "NystromRegressor": "estimators",
    "PrivateRegressor": "estimators",
    "PrivateSGDRegressor": "estimators",
    "SpectralRegressor": "estimators",
    "SummaryRegressor": "estimators",
    "choose_length_scales": "estimators.length_scales",
    "DescentPath": "estimators.paths",
    "RegularizationPath": "estimators.paths",
    "SummaryPath": "estimators.paths",
    "load": "models",
    "save": "models",
    "ResourcePlan": "planning.resource_plan",
    "plan": "planning.plan",
    "Report": "reports.writing",
    "report": "reports.writing",
    "Candidates": "summaries",
    "Scores": "summaries",
    "Summary": "summaries",
}
_ROOMS = {name for name in __all__ if name not in _HOMES and name != "__version__"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _ROOMS:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
