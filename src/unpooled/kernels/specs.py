"""Kernels as plain dictionaries, for the headers of files, and back; and the kind of parameter that is a kernel."""

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
from .parts import free_parts, with_length_scales

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
    """A JSON-ready description from which :func:`from_spec` makes an equal kernel."""
    name = type(kernel).__name__
    if _KNOWN.get(name) is not type(kernel):
        raise ValueError(
            f"a model with the kernel {name} cannot be saved: only kernels of unpooled and scikit-learn can be "
            "written without pickle"
        )
    params = {key: _plain(value) for key, value in kernel.get_params(deep=False).items()}
    return {"type": name, **params}


def from_spec(spec: Any) -> Kernel:
    """The kernel that :func:`to_spec` described; anything else is a ValueError."""
    name = spec.get("type") if isinstance(spec, dict) else None
    if not (isinstance(name, str) and name in _KNOWN):
        raise ValueError(f"{quote(spec)} does not describe a kernel of this version of unpooled")
    try:
        kernel = _KNOWN[name](**{key: _rich(value) for key, value in spec.items() if key != "type"})
    except TypeError as error:
        raise ValueError(f"{quote(spec)} does not describe a kernel: {error}") from None
    parts = [part for name, part in kernel.get_params(deep=False).items() if name in ("left", "right", "kernel")]
    if not all(isinstance(part, (Kernel, gp.Kernel)) for part in parts):
        raise ValueError(f"{quote(spec)} does not describe a kernel: it is made of parts that are none")
    return kernel


def check_described(kernel: Kernel, written: Any) -> None:
    """Raise a ValueError unless a header describes a fitted kernel in full, its length scales filled in."""
    if not is_same(to_spec(kernel), written):
        raise ValueError(f"{quote(written)} is not how unpooled describes the kernel of a fitted model or basis")


MOST_PARTS = 100  # of a kernel that a file brings


def fitted_from_spec(spec: Any) -> Kernel:
    """The kernel of a fitted function: a ValueError unless it has numbers for its length scales, and few parts.

    It is not resolved here: a file could otherwise ask for a search over its points in every one of many parts.
    """
    kernel = from_spec(spec)
    _check_parts(kernel)
    values = kernel.get_params(deep=True).values()
    if any(isinstance(value, str) and value in ("median", "auto") for value in values):
        raise ValueError("the kernel of its function has a length scale that is still to be chosen")
    return kernel


def _check_parts(kernel: Kernel) -> None:
    parts = sum(isinstance(value, Kernel) for value in kernel.get_params(deep=True).values())
    if parts > MOST_PARTS:
        raise ValueError(f"a kernel in it has {parts} parts, and a file may bring one of at most {MOST_PARTS}")


def _plain(value: Any) -> Any:
    if isinstance(value, Kernel):
        return to_spec(value)
    if isinstance(value, gp.Kernel):
        name = type(value).__name__
        if _GP.get(name) is not type(value):
            raise ValueError(f"a model with scikit-learn's kernel {name} cannot be saved")
        return {"scikit-learn": name, **{k: _plain(v) for k, v in value.get_params(deep=False).items()}}
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else to_numpy(value).tolist()


def _rich(value: Any) -> Any:
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
        raise ValueError(f"{quote(value)} are not the numbers of a kernel")
    return numbers


class KernelKind(Kind):
    """Whatever a user calls a kernel."""

    words = "a Kernel, a scikit-learn kernel or its name, a function, or None"

    def check(self, name: str, value: Any) -> None:
        as_kernel(value)

    def check_values(self, value: Any, n_features: int) -> None:
        """Raise a ValueError where a kernel has no values at rows of so many features."""
        if value is None or isinstance(kernel := as_kernel(value), Precomputed):
            return
        free = free_parts(kernel)
        kernel = with_length_scales(kernel, free, [1.0] * len(free))
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
