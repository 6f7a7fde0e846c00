"""The parts of a kernel whose length scales are free: ``length_scale="auto"``, to be chosen with the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from .._base.arrays import Floats
from .base import Kernel
from .stationary import is_auto

PartPath = tuple[str, ...]  #: the parameters that lead from a kernel to one inside it; () is the kernel itself


def find_free_parts(kernel: Kernel) -> list[PartPath]:
    """List the parts of the kernel whose length scales are to be chosen."""
    paths = [tuple(name.split("__")) for name, value in kernel.get_params(deep=True).items() if is_auto(value)]
    parts = [path[:-1] for path in paths if path[-1] == "length_scale"]
    return sorted(part for part in parts if hasattr(_get_part(kernel, part), "length_scale_gradient"))


def replace_length_scales(kernel: Kernel, parts: Sequence[PartPath], values: Sequence[Any]) -> Kernel:
    """Return a copy of the kernel with these length scales in its free parts."""
    return clone(kernel).set_params(**{"__".join((*path, "length_scale")): value for path, value in zip(parts, values)})


def _get_part(kernel: Any, path: PartPath) -> Any:
    for name in path:
        kernel = getattr(kernel, name)
    return kernel


def compute_gradients(kernel: Any, parts: Sequence[PartPath], X: Floats, G: Floats) -> list[Floats]:
    """Differentiate ⟨G, 𝕂⟩ by log ℓ of every part, with the chain rule through sums, products and scalings."""
    inner = kernel.pull_back(X, G) if any(parts) else {}
    found: list[Floats] = []
    for path in parts:
        if path and path[0] not in inner:
            raise ValueError(
                f"length_scale='auto' cannot be chosen inside {type(kernel).__name__}, which has no pull_back for the "
                "kernel in it: give length_scale as numbers or 'median'"
            )
        if path:
            found += compute_gradients(getattr(kernel, path[0]), [path[1:]], X, inner[path[0]])
        else:
            found.append(kernel.length_scale_gradient(X, G))
    return found
