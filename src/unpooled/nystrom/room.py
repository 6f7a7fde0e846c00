"""Room for matrices of M × M numbers: how many preconditioners rounds keep, and what is refused before it starts."""

from __future__ import annotations

import numpy as np

from ..resources import memory
from .machine import SOLVING, Machine

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
