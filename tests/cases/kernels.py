"""The kernels that the tests of kernels run through, each with its formula in plain NumPy."""

import math
import re

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as gp

from tests import reference
from unpooled.kernels import FromFunction, Gaussian, Laplacian, Linear, Matern, Pairwise, Polynomial, as_kernel


def named(value):
    """A test's name for a parameter: the same in every process, so without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


few = settings(max_examples=30, deadline=None, derandomize=True)

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 12)
DTYPES = st.sampled_from([np.float32, np.float64])
TOLERANCE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-10}

# Each native kernel as (kernel of a length scale, the same in plain NumPy).
STATIONARY = {
    "gaussian": (Gaussian, reference.gaussian),
    "laplacian": (Laplacian, reference.laplacian),
    "matern 1/2": (lambda s: Matern(s, nu=0.5), lambda X, Z, s: reference.matern(X, Z, s, 0.5)),
    "matern 3/2": (lambda s: Matern(s, nu=1.5), lambda X, Z, s: reference.matern(X, Z, s, 1.5)),
    "matern 5/2": (lambda s: Matern(s, nu=2.5), lambda X, Z, s: reference.matern(X, Z, s, 2.5)),
}
OTHERS = {
    "linear": (Linear(), lambda X, Z: reference.polynomial(X, Z, 1, 1.0, 0.0)),
    "polynomial": (Polynomial(3, 0.5, 2.0), lambda X, Z: reference.polynomial(X, Z, 3, 0.5, 2.0)),
    "polynomial of degree 1": (Polynomial(1, 2.0, 0.0), lambda X, Z: reference.polynomial(X, Z, 1, 2.0, 0.0)),
    "polynomial of default gamma": (Polynomial(), lambda X, Z: reference.polynomial(X, Z, 3, 1 / X.shape[1], 1.0)),
    "sum": (Gaussian(0.7) + Linear(), lambda X, Z: reference.gaussian(X, Z, 0.7) + X @ Z.T),
    "product": (Laplacian(2.0) * Linear(), lambda X, Z: reference.laplacian(X, Z, 2.0) * (X @ Z.T)),
    "scaled": (2.5 * Matern(0.8), lambda X, Z: 2.5 * reference.matern(X, Z, 0.8)),
    "function of matrices": (FromFunction(lambda X, Z: (X @ Z.T) ** 2), lambda X, Z: (X @ Z.T) ** 2),
    "function of rows": (FromFunction(lambda x, z: float(np.dot(x, z)) ** 2), lambda X, Z: (X @ Z.T) ** 2),
}
BOUNDED = {  # kernel: κ
    "gaussian": (Gaussian(0.5), 1.0),
    "laplacian": (Laplacian(0.5), 1.0),
    "matern": (Matern(0.5, 2.5), 1.0),
    "scaled": (4.0 * Gaussian(1.0), 2.0),
    "sum": (3.0 * Gaussian(1.0) + 6.0 * Laplacian(1.0), 3.0),
    "product": ((4.0 * Gaussian(1.0)) * (9.0 * Matern(1.0)), 6.0),
    "rbf": (Pairwise("rbf"), 1.0),
    "manhattan laplacian": (Pairwise("laplacian"), 1.0),
    "cosine": (Pairwise("cosine"), 1.0),
}
UNBOUNDED = {
    "linear": Linear(),
    "polynomial": Polynomial(2, 0.5, 1.0),
    "sum": Gaussian(1.0) + Linear(),
    "product": Polynomial(2) * Linear(),
    "scaled": 3.0 * Linear(),
    "dot product of scikit-learn": as_kernel(gp.DotProduct()),
    "function": FromFunction(lambda X, Z: X @ Z.T),
}
GAUSSIAN_PROCESS = {
    "rbf": gp.RBF(0.7),
    "rbf of three scales": gp.RBF([0.7, 1.0, 2.0]),
    "rbf of one scale in a list": gp.RBF([0.7]),
    "matern 1/2": gp.Matern(0.7, nu=0.5),
    "matern 3/2": gp.Matern(0.7, nu=1.5),
    "matern 5/2": gp.Matern([0.7, 1.0, 2.0], nu=2.5),
    "matern of another order": gp.Matern(0.7, nu=0.8),
    "matern of infinite order": gp.Matern(0.7, nu=math.inf),
    "rational quadratic": gp.RationalQuadratic(0.7, 1.5),
    "periodic": gp.ExpSineSquared(1.0, 3.0),
    "dot product": gp.DotProduct(0.5),
    "constant times rbf": gp.ConstantKernel(2.5) * gp.RBF(0.7),
    "rbf times constant": gp.RBF(0.7) * gp.ConstantKernel(2.5),
    "constant": gp.ConstantKernel(2.5),
    "rbf plus white noise": gp.RBF(0.7) + gp.WhiteKernel(0.3),
    "product": gp.RBF(0.7) * gp.DotProduct(0.5),
    "power": gp.RBF(0.7) ** 2,
}


def cases(table):
    return pytest.mark.parametrize("case", table.values(), ids=table.keys())


def assert_close(actual, expected, dtype=np.float64):
    """Within rounding of ``dtype``, on the scale of the largest value."""
    expected = np.asarray(expected)
    scale = max(1.0, np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE[np.dtype(dtype)] * scale)
