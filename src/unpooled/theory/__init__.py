"""Theorems of the papers as numbers: partition limits, rates and schedules, and the effective dimension of a sample.

Throughout, r is the regularity of the target, f_ρ = L_K^r h_ρ, and s the capacity of the kernel, 𝒩(λ) ≤ C λ^{-s} (Guo,
Lin and Zhou 2017 write β for s). N is the number of rows of ALL blocks together.
"""

from .dimension import DimensionExponent, dimension_exponent, effective_dimension, eigenvalues
from .limits import largest_supported_blocks, partition_limit
from .schedules import Schedule, lam, n_iter, rate, scale, schedule

__all__ = [
    "DimensionExponent",
    "Schedule",
    "dimension_exponent",
    "effective_dimension",
    "eigenvalues",
    "lam",
    "largest_supported_blocks",
    "n_iter",
    "partition_limit",
    "rate",
    "scale",
    "schedule",
]
