"""LESSRegressor as a file's header and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bases import Basis
from ..filters import as_filter, from_spec, to_spec
from ..kernels import as_kernel
from ..kernels.specs import from_spec as kernel_from_spec
from ..kernels.specs import to_spec as kernel_spec
from ..losses import as_loss
from ..losses import from_spec as loss_from_spec
from ..losses import to_spec as loss_spec
from .stored import check_params, numbers, whole_or_none
from .summary_storage import restore_shared, shared_parts

PLAIN = ("n_features", "rounds", "order", "center", "ridge", "steps", "tol", "standardize", "verbose")


def to_parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What predicting needs, with the choice of λ and its scores; not the basis, not the sums."""
    header, arrays = shared_parts(model)
    kernel = model.kernel_ if isinstance(model.kernel, Basis) else model.kernel
    params = {name: getattr(model, name) for name in PLAIN}
    header["params"] = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()} | {
        "kernel": None if kernel is None else kernel_spec(as_kernel(kernel)),
        "lam": numbers(model.lam),
        "grid": numbers(model.grid),
        "filter": to_spec(as_filter(model.filter)),
        "loss": model.loss if isinstance(model.loss, str) else loss_spec(as_loss(model.loss)),
        "random_state": whole_or_none(model.random_state),
    }
    header["history"], header["sites"] = model.history_, model.sites_
    return header, arrays


def from_parts(cls: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The model; a ValueError, KeyError or TypeError where the parts are not one."""
    params = dict(header["params"])
    check_params(params)
    params["kernel"] = None if params["kernel"] is None else kernel_from_spec(params["kernel"])
    params["filter"] = from_spec(params["filter"])
    params["loss"] = params["loss"] if isinstance(params["loss"], str) else loss_from_spec(params["loss"])
    model = cls(**params)
    model._check_parameters()
    restore_shared(model, header, arrays)
    if not hasattr(model, "floor_"):
        model.floor_ = None
    model.history_ = [dict(entry) for entry in header["history"]]
    model.sites_ = [dict(entry) for entry in header["sites"]]
    return model
