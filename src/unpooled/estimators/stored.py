"""Fitted models as a file's header and arrays, and back: the part that all of them share, and SpectralRegressor's own.

The header of a model in the span of a basis is checked before anything is made of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._base.arrays import to_numpy
from .._base.checks import check_center, check_choice, positive_numbers
from .._base.text import shown
from .._solvers.predictors import KernelExpansion
from .._solvers.span.moments import Mismatch
from .._solvers.span.residual_rounds import NUMBERS, STATE, STEPS
from ..bases.maps import finite
from ..filters import as_filter, from_spec, to_spec
from ..kernels import as_kernel
from ..kernels.specs import from_spec as kernel_from_spec
from ..kernels.specs import to_spec as kernel_spec
from .paths import Path, SummaryPath


def shared_parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The predictor, and what is known of the columns."""
    header, arrays = model.predictor_.to_parts()
    header |= {
        "n_features_in": int(model.n_features_in_),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "one_target": bool(model.one_target_),
        "solver": getattr(model, "solver_", ""),
    }
    b = model.intercept_ if isinstance(model.intercept_, float) else to_numpy(model.intercept_)
    arrays["b"] = np.atleast_1d(b)
    return header, arrays


def common_params(model: Any) -> dict[str, Any]:
    """The parameters that estimators with one kernel share."""
    return {
        "kernel": None if model.kernel is None else kernel_spec(as_kernel(model.kernel)),
        "center": bool(model.center),
        "cv": int(model.cv) if isinstance(model.cv, (int, np.integer)) else 5,
        "random_state": whole_or_none(model.random_state),
    }


def whole_or_none(value: Any) -> int | None:
    """A seed that a file can hold; a generator is not one."""
    return int(value) if isinstance(value, (int, np.integer)) else None


def restored_params(written: dict[str, Any]) -> dict[str, Any]:
    """The parameters in a header, the kernel made of its description."""
    params = dict(written)
    params["kernel"] = None if params["kernel"] is None else kernel_from_spec(params["kernel"])
    return params


def restore_shared(model: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Give a new model what :func:`shared_parts` wrote."""
    model.predictor_ = KernelExpansion.from_parts(header, arrays)
    model.kernel_ = model.predictor_.kernel
    model.n_features_in_ = int(header["n_features_in"])
    if header["feature_names"]:
        model.feature_names_in_ = np.asarray(header["feature_names"], dtype=object)
    model.one_target_, model.solver_ = bool(header["one_target"]), str(header["solver"])
    b = arrays["b"]
    model.intercept_ = float(b[0]) if model.one_target_ else b


def params_of(model: Any) -> dict[str, Any]:
    """The constructor's arguments, as a header holds them."""
    return common_params(model) | {
        "solver": model.solver,
        "per_target": bool(model.per_target),
        "filter": to_spec(as_filter(model.filter)),
        "lam": numbers(model.lam),
        "grid": numbers(model.grid),
    }


def numbers(value: Any) -> Any:
    """A number or an array as JSON has them; a name or None as it is."""
    return value if value is None or isinstance(value, str) else np.asarray(value, dtype=float).tolist()


def with_params(cls: Any, written: dict[str, Any]) -> Any:
    """The estimator that was given these, not fitted."""
    params = restored_params(written)
    return cls(**params | {"filter": from_spec(params["filter"])})


def to_parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays; only scalars, lists and strings in the header."""
    header, arrays = shared_parts(model)
    header["params"] = params_of(model)
    header["one_lam"] = isinstance(model.lam_, float)
    arrays["lam"] = np.atleast_1d(model.lam_)
    path: Path | None = getattr(model, "path_", None)
    if path is not None:
        header["path"] = {"criterion": path.criterion_name, "exact": path.exact}
        arrays |= {
            "path.lam": path.lam,
            "path.criterion": path.scored,
            "path.df": path.freedom,
            "path.index": path.index,
        }
        if path.iterations is not None:
            arrays["path.iterations"] = path.iterations
    return header, arrays


def from_parts(cls: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The model; a ValueError, KeyError or TypeError where the parts are not one."""
    model = with_params(cls, header["params"])
    restore_shared(model, header, arrays)
    model.filter_ = model.filter
    lam = arrays["lam"]
    model.lam_ = float(lam[0]) if header["one_lam"] else lam
    if "path" in header:
        model.path_ = Path(
            lam=arrays["path.lam"],
            scored=arrays["path.criterion"],
            freedom=arrays["path.df"],
            criterion_name=str(header["path"]["criterion"]),
            exact=bool(header["path"]["exact"]),
            iterations=arrays.get("path.iterations"),
            index=arrays["path.index"],
        )
    return model


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
