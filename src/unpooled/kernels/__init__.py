"""Kernels. Each computes blocks of values, its diagonal, κ and, if it is stationary, random frequencies."""

from .adapters import FromFunction, GaussianProcessKernel, Pairwise, Precomputed, as_kernel
from .base import Kernel, Product, Scaled, Sum, sample_frequencies
from .centered import Centered
from .pointwise import Brownian, Linear, Polynomial
from .stationary import Gaussian, Laplacian, Matern, Stationary

__all__ = [
    "Brownian",
    "Centered",
    "FromFunction",
    "Gaussian",
    "GaussianProcessKernel",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Pairwise",
    "Polynomial",
    "Precomputed",
    "Product",
    "Scaled",
    "Stationary",
    "Sum",
    "as_kernel",
    "sample_frequencies",
]
