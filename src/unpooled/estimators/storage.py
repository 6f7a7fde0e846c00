"""Fitted models as a file's header and arrays, and back: what all of them share, and SpectralRegressor's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..filters import as_filter, from_spec, to_spec
from ..kernels import as_kernel
from ..kernels.specs import from_spec as kernel_from_spec
from ..kernels.specs import to_spec as kernel_spec
from ..path import Path
from ..predictors import KernelExpansion


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
