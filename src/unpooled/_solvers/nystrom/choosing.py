"""The choice of a machine, of its precision and of a route, from what is known before a pass; and the memory they need.

The memory is the room for matrices of M × M numbers. It decides how many preconditioners rounds keep, and what is
refused before it starts.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..._base import memory
from ..._base.arrays import Floats
from ..._base.text import shown
from ...bases.maps import KernelMap
from ...kernels.stationary import Stationary
from ..spectral.criteria import three_a_decade
from . import fixed, on_torch
from .from_gram import smallest
from .machine import SOLVING, Machine, OnCores
from .on_torch import OnTorch, torch


def device_of(device: Any, X: Any) -> Any:
    """Where torch is to work: where the user says, where the rows are if they are tensors, else nowhere (None)."""
    if device is None:
        loaded = sys.modules.get("torch")
        return X.device if loaded is not None and isinstance(X, loaded.Tensor) else None
    try:
        found = torch().device(device)
        torch().empty(0, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f"device={shown(device)} cannot be used by torch on this machine: take None, 'cpu', or a GPU that it has"
        ) from error
    return found


SOLVERS = ("auto", "gram", "rounds")
PRECISIONS = ("auto", "fixed", "single", "double")
SINGLE_FLOOR = 1e-9  # of κ²: for smaller λ rounding of single kernel values would act like a larger one
SMOOTH = 5e-4  # of κ⁴: functions that vary less want large coefficients at small λ, which single kernel values spoil


def machine_for(map_: KernelMap, device: Any, precision: str) -> Machine:
    """NumPy without a device, torch on one; tiles in registers where the GPU, the kernel and the rows allow it."""
    if precision == "fixed":
        return fixed.InFixedPoint(map_)
    if device is None:
        return OnCores(map_, precision == "single")
    if precision == "single" and on_torch.suits(map_.kernel, map_.n_features_in, device):
        return on_torch.Fused(map_, device)
    return OnTorch(map_, device, precision == "single")


def chosen_machine(
    map_: KernelMap, device: Any, wanted: str, rows_single: bool, lams: Floats | None, kappa_sq: float
) -> tuple[Machine, str]:
    """The machine and the precision of its kernel values, what is wanted or "single" or "double".

    "auto" is single for rows of single precision, and on a GPU, unless λ is too small for it; for the default grid, of
    which ``lams`` is None, unless kernel values hardly vary. Only kernels of the distance: those keep their values
    within κ² whatever the rows are.
    """
    if wanted == "fixed":
        fixed.require(map_.kernel, device, lams)
    if wanted != "auto":
        return machine_for(map_, device, wanted), wanted
    single = rows_single or (device is not None and device.type == "cuda")
    if single and isinstance(map_.kernel, Stationary):
        machine = machine_for(map_, device, "single")
        if machine.spread(kappa_sq) >= SMOOTH if lams is None else np.min(lams) >= SINGLE_FLOOR * kappa_sq:
            return machine, "single"
    return machine_for(map_, device, "double"), "double"


def default_grid(kappa_sq: float, least: float) -> Floats:
    """Three λ a decade from 0.3κ² to where a Gram matrix ends, or single precision."""
    return three_a_decade(kappa_sq, -0.5, np.log10(max(least / kappa_sq, SINGLE_FLOOR)))


def lams_for(machine: Machine, precision: str, kappa_sq: float, n: int, asked: Floats | None) -> tuple[Floats, float]:
    """λ that are asked for or the default grid, and the smallest that a Gram matrix of n rows should be good for."""
    least = smallest(kappa_sq, machine.spread(kappa_sq), machine.rounding(n))
    least = fixed.LEAST if precision == "fixed" else least
    return (default_grid(kappa_sq, least) if asked is None else asked), least


def route(solver: str, machine: Machine, lams: Floats, least: float, n: int, n_columns: int) -> str:
    """ "gram" or "rounds": the cheaper one; λ below the least that a Gram matrix is good for leaves rounds."""
    too_small = np.min(lams) < least * (1 - 1e-9)
    if solver == "gram" and too_small:
        raise ValueError(
            f"solver='gram' is good for lam down to {least:.1e} on these rows, and {np.min(lams):.1e} is asked for: "
            "use solver='rounds'"
        )
    if solver != "auto":
        return solver
    return "rounds" if too_small or not machine.prefers_gram(n, n_columns) else "gram"


FACTORS = {False: 2 << 30, True: 40 << 30}  # bytes of preconditioners, without and with a GPU


def factors(machine: Machine, n_lams: int) -> int:
    """Preconditioners that rounds keep: one for each λ, or fewer that neighbouring λ share."""
    return max(1, min(n_lams, FACTORS[machine.on_gpu] // (8 * machine.map.size**2)))


def require(machine: Machine, solver: str, n_lams: int) -> None:
    """Refuse more points than there is memory for, before any row is worked on."""
    M = machine.map.size
    gram = max(SOLVING[machine.on_gpu], machine.gram_matrices)
    matrices = 2.0 + factors(machine, n_lams) if solver == "rounds" else gram
    what = f"a basis of n_features={M} points with solver={solver!r}"
    memory.require(8.0 * M * M * matrices, machine.array(np.zeros(1)), what, "take a smaller n_features")


def affordable(machine: Machine, solver: str, n_lams: int, asked_for: bool) -> str:
    """The route, or rounds where there is no room for a Gram matrix that nobody has asked for."""
    try:
        require(machine, solver, n_lams)
    except MemoryError:
        if solver == "rounds" or asked_for:
            raise
        require(machine, "rounds", n_lams)
        return "rounds"
    return solver
