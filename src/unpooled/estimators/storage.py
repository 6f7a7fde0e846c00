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
    """The predictor, what is known of the columns, and the parameters that every estimator has."""
    header, arrays = model.predictor_.to_parts()
    header |= {
        "params": {
            "kernel": None if model.kernel is None else kernel_spec(as_kernel(model.kernel)),
            "center": bool(model.center),
            "cv": int(model.cv) if isinstance(model.cv, (int, np.integer)) else 5,
            "random_state": int(model.random_state) if isinstance(model.random_state, (int, np.integer)) else None,
        },
        "n_features_in": int(model.n_features_in_),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "one_target": bool(model.one_target_),
        "solver": model.solver_,
    }
    b = model.intercept_ if isinstance(model.intercept_, float) else to_numpy(model.intercept_)
    arrays["b"] = np.atleast_1d(b)
    return header, arrays


def shared_params(header: dict[str, Any]) -> dict[str, Any]:
    """The parameters in a header, the kernel made of its description."""
    params = dict(header["params"])
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


def to_parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays; only scalars, lists and strings in the header."""
    header, arrays = shared_parts(model)
    params = header["params"]
    params["solver"], params["per_target"] = model.solver, bool(model.per_target)
    params["filter"] = to_spec(as_filter(model.filter))
    params["lam"] = model.lam if isinstance(model.lam, str) else np.asarray(model.lam, dtype=float).tolist()
    params["grid"] = None if model.grid is None else np.asarray(model.grid, dtype=float).tolist()
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
    params = shared_params(header)
    params["filter"] = from_spec(params["filter"])
    model = cls(**params)
    restore_shared(model, header, arrays)
    model.filter_ = params["filter"]
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
