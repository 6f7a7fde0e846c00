"""A fitted CorrentropyRegressor as a file's header and arrays, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..losses import Loss, as_loss, from_spec, to_spec
from .paths import DescentPath
from .stored import common_params, restore_shared, restored_params, shared_parts

_INFINITE = -1.0  # JSON has no infinity


def params_of(model: Any) -> dict[str, Any]:
    """The constructor's arguments, as a header holds them."""
    return common_params(model) | {
        "loss": to_spec(model.loss) if isinstance(model.loss, Loss) else model.loss,
        "scale": model.scale if isinstance(model.scale, str) else _finite(model.scale),
        "n_iter": model.n_iter if isinstance(model.n_iter, str) else np.asarray(model.n_iter).tolist(),
        "step": float(model.step),
        "decay": float(model.decay),
        "jump": float(model.jump),
    }


def with_params(cls: Any, written: dict[str, Any]) -> Any:
    """The estimator that was given these, not fitted."""
    params = restored_params(written)
    params["loss"] = from_spec(params["loss"]) if isinstance(params["loss"], dict) else params["loss"]
    params["scale"] = params["scale"] if isinstance(params["scale"], str) else _infinite(params["scale"])
    return cls(**params)


def to_parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays; only scalars, lists and strings in the header."""
    header, arrays = shared_parts(model)
    header["params"] = params_of(model)
    header |= {"one_scale": isinstance(model.scale_, float), "one_n_iter": isinstance(model.n_iter_, int)}
    arrays |= {"scale": np.atleast_1d(model.scale_), "n_iter": np.atleast_1d(model.n_iter_)}
    path: DescentPath = model.path_
    arrays["path.n_iter"] = path.n_iter
    if path.score is not None and path.scales is not None and path.tried is not None:
        arrays |= {"path.scales": path.scales, "path.tried": path.tried, "path.score": path.score}
    return header, arrays


def from_parts(cls: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The model; a ValueError, KeyError or TypeError where the parts are not one."""
    model = with_params(cls, header["params"])
    restore_shared(model, header, arrays)
    scale, n_iter = arrays["scale"], arrays["n_iter"]
    model.scale_ = float(scale[0]) if header["one_scale"] else scale
    model.n_iter_ = int(n_iter[0]) if header["one_n_iter"] else n_iter
    model.loss_ = as_loss(model.loss).at(model.scale_)
    model.path_ = DescentPath(
        n_iter=arrays["path.n_iter"],
        one_target=model.one_target_,
        scales=arrays.get("path.scales"),
        tried=arrays.get("path.tried"),
        score=arrays.get("path.score"),
    )
    return model


def _finite(scale: Any) -> Any:
    scale = np.asarray(scale, dtype=float)
    return np.where(np.isfinite(scale), scale, _INFINITE).tolist()


def _infinite(scale: Any) -> Any:
    scale = np.asarray(scale, dtype=float)
    scale = np.where(scale == _INFINITE, math.inf, scale)
    return scale if scale.ndim else float(scale)
