"""Conversion of kernels to plain dictionaries for the headers of files, and back; the kind of a kernel parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as gp

from .._base.arrays import to_numpy
from .._base.kinds import Kind, from_header, is_same
from .._base.text import quote
from . import adapters, base, centered, pointwise, stationary
from .adapters import Precomputed, as_kernel
from .base import Kernel
from .parts import find_free_parts, replace_length_scales

_KNOWN: dict[str, type[Kernel]] = {
    cls.__name__: cls
    for cls in (
        stationary.Gaussian,
        stationary.Matern,
        stationary.Laplacian,
        pointwise.Linear,
        pointwise.Polynomial,
        pointwise.Brownian,
        base.Sum,
        base.Product,
        base.Scaled,
        centered.Centered,
        adapters.Pairwise,
        adapters.Precomputed,
        adapters.GaussianProcessKernel,
    )
}
_GP = {
    name: getattr(gp, name)
    for name in ("RBF", "Matern", "RationalQuadratic", "ExpSineSquared", "DotProduct", "ConstantKernel", "WhiteKernel")
}


def to_spec(kernel: Kernel) -> dict[str, Any]:
    """Describe a kernel by a JSON-ready dictionary from which :func:`from_spec` makes an equal one."""
    name = type(kernel).__name__
    if _KNOWN.get(name) is not type(kernel):
        raise ValueError(
            f"a model with the kernel {name} cannot be saved: files contain no pickle, and so only kernels of unpooled "
            "and scikit-learn"
        )
    params = {key: _to_plain(value) for key, value in kernel.get_params(deep=False).items()}
    return {"type": name, **params}


def from_spec(spec: Any) -> Kernel:
    """Make the kernel that :func:`to_spec` described; raise a ValueError for anything else."""
    name = spec.get("type") if isinstance(spec, dict) else None
    if not (isinstance(name, str) and name in _KNOWN):
        raise ValueError(f"{quote(spec)} does not describe a kernel of this version of unpooled")
    try:
        kernel = _KNOWN[name](**{key: _from_plain(value) for key, value in spec.items() if key != "type"})
    except TypeError as error:
        raise ValueError(f"{quote(spec)} does not describe a kernel: {error}") from None
    parts = [part for name, part in kernel.get_params(deep=False).items() if name in ("left", "right", "kernel")]
    if not all(isinstance(part, (Kernel, gp.Kernel)) for part in parts):
        raise ValueError(f"{quote(spec)} does not describe a kernel: one of its parts is not a kernel")
    return kernel


def check_described(kernel: Kernel, written: Any) -> None:
    """Raise a ValueError unless a header describes a fitted kernel in full, its length scales filled in."""
    if not is_same(to_spec(kernel), written):
        raise ValueError(f"{quote(written)} is not how unpooled describes the kernel of a fitted model or basis")


_MOST_PARTS = 100  # of a kernel that a file brings


def from_fitted_spec(spec: Any) -> Kernel:
    """Make the kernel of a fitted function; raise a ValueError unless its length scales are numbers and its parts few.

    The kernel is not resolved here, because a file could then ask for the median distance in each of many parts.
    """
    kernel = from_spec(spec)
    _check_parts(kernel)
    values = kernel.get_params(deep=True).values()
    if any(stationary.is_median(value) or stationary.is_auto(value) for value in values):
        raise ValueError("the kernel of its function has a word for a length scale, but a fitted one has numbers")
    return kernel


def _check_parts(kernel: Kernel) -> None:
    parts = sum(isinstance(value, Kernel) for value in kernel.get_params(deep=True).values())
    if parts > _MOST_PARTS:
        raise ValueError(f"a kernel in it has {parts} parts, and a file may bring one of at most {_MOST_PARTS}")


def _to_plain(value: Any) -> Any:
    if isinstance(value, Kernel):
        return to_spec(value)
    if isinstance(value, gp.Kernel):
        name = type(value).__name__
        if _GP.get(name) is not type(value):
            raise ValueError(f"a model with scikit-learn's kernel {name} cannot be saved")
        return {"scikit-learn": name, **{k: _to_plain(v) for k, v in value.get_params(deep=False).items()}}
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return [_to_plain(v) for v in value] if isinstance(value, (list, tuple)) else to_numpy(value).tolist()


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict) and "scikit-learn" in value:
        if value["scikit-learn"] not in _GP:
            raise ValueError(f"{quote(value['scikit-learn'])} is not a kernel of scikit-learn that a file may name")
        params = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items() if k != "scikit-learn"}
        return _GP[value["scikit-learn"]](**params)
    if isinstance(value, dict):
        return from_spec(value)
    if not isinstance(value, list):
        return value
    numbers = np.asarray(value, dtype=float)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"a kernel's numbers must be finite, got {quote(value)}")
    return numbers


class KernelKind(Kind):
    """The kind of a parameter that :func:`as_kernel` accepts."""

    words = "a Kernel, the name of one, a scikit-learn kernel, a function, or None"

    def check(self, name: str, value: Any) -> None:
        as_kernel(value)

    def check_values(self, value: Any, n_features: int) -> None:
        """Raise a ValueError if the kernel cannot be computed for rows of ``n_features`` features."""
        if value is None or isinstance(kernel := as_kernel(value), Precomputed):
            return
        free = find_free_parts(kernel)
        kernel = replace_length_scales(kernel, free, [1.0] * len(free))
        rows = np.random.default_rng(0).uniform(size=(3, n_features))
        with np.errstate(all="ignore"):
            kernel.resolve(rows).block(rows, rows)

    def to_plain(self, value: Any) -> Any:
        return None if value is None else to_spec(as_kernel(value))

    def from_plain(self, written: Any) -> Any:
        kernel = None if written is None else from_header(written, from_spec, to_spec)
        if kernel is not None:
            _check_parts(kernel)
        return kernel
