"""What a file says of a model in the span of a basis, looked at before anything is made of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..bases.maps import finite
from ..messages import shown
from ..solvers.moments import Mismatch
from ..solvers.residual_rounds import NUMBERS, STATE, STEPS
from .span import check_center, check_choice
from .spectral import positive_numbers
from .summary_path import SummaryPath


def texts(what: str, value: Any, counts: tuple[int, ...]) -> list[str]:
    """A list of names, as many as there may be."""
    if not isinstance(value, list) or len(value) not in counts or not all(isinstance(name, str) for name in value):
        raise ValueError(f"the names of its {what} do not go with their number")
    return value


def check_params(params: Any) -> None:
    """The arguments that both models have, of the kinds they may be."""
    check_center(params["center"])
    check_choice("steps", params["steps"], STEPS)
    if not (isinstance(params["lam"], str) and params["lam"] == "auto"):
        positive_numbers("lam", params["lam"])
    if params["grid"] is not None:
        positive_numbers("grid", params["grid"])
    if type(params["ridge"]) not in (bool, int):
        raise ValueError(f"ridge must be true or false, got {shown(params['ridge'])}")
    n_features = params["n_features"]
    if not (n_features in ("all", "rule", "auto") if isinstance(n_features, str) else _whole(n_features)):
        raise ValueError(f"n_features must be a word or a positive whole number, got {shown(n_features)}")


def floor_of(value: Any) -> Mismatch | None:
    """What the public sample costs, where the file says it."""
    if value is None:
        return None
    found = Mismatch(**value)
    sizes = [found.error, found.expected, found.n, *(x for x in (found.mean, found.operator) if x is not None)]
    if not (all(type(size) is float and 0 <= size < math.inf for size in sizes) and _whole(found.n_public)):
        raise ValueError("what it says of its floor are no numbers")
    return found


def path_of(name: Any, arrays: dict[str, np.ndarray], n_outputs: int, one_target: bool) -> SummaryPath:
    """The path of λ, without its predictions."""
    lam, df, index = finite("path.lam", arrays, ndim=1), finite("path.df", arrays, ndim=1), arrays["path.index"]
    L, criterion = len(lam), arrays["path.criterion"]
    shape = (L,) if one_target else (L, n_outputs)
    good = criterion.dtype == np.float64 and criterion.shape == shape  # and may be infinite
    chosen = index.dtype.kind == "i" and index.shape == (n_outputs,) and L and np.all((index >= 0) & (index < L))
    if not (good and chosen and df.shape == (L,) and np.all(lam > 0) and isinstance(name, str)):
        raise ValueError("its path of λ does not fit together")
    return SummaryPath(lam, criterion, df, name, index)


def rounds_of(arrays: dict[str, np.ndarray], size: tuple[int, int], quadratic: bool) -> dict[str, np.ndarray]:
    """The state of rounds: every part there is, of the shape it has; J other than for squares."""
    shapes = {f"rounds.{name}": (size[1],) if name in NUMBERS else size for name in STATE if name != "J"}
    shapes |= {} if quadratic else {"rounds.J": (size[1],)}
    found = {name: finite(name, arrays, len(shape)) for name, shape in shapes.items()}
    known = [name for name in ("rounds.S", "rounds.CS", "rounds.E") if name in arrays]
    found |= {name: finite(name, arrays, 1 if name == "rounds.E" else 2) for name in known}
    spans = {(size[0], found[name].shape[-1]) if name == "rounds.E" else found[name].shape for name in known}
    together = len(known) in (0, 3) and len(spans) < 2 and all(n == size[0] and k <= n for n, k in spans)
    surplus = [name for name in arrays if name.startswith("rounds.") and name not in found]
    if surplus or not together or any(found[name].shape != shape for name, shape in shapes.items()):
        raise ValueError("the state of its rounds does not fit together")
    return found


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 1
