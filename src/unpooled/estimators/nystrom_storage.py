"""NystromRegressor as a file's header and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._solvers.nystrom.routes import PRECISIONS
from .._solvers.predictors import BasisPredictor
from ..kernels import as_kernel
from ..kernels.specs import from_spec as kernel_from_spec
from ..kernels.specs import to_spec as kernel_spec
from .stored import numbers, path_of, texts, whole_or_none

PLAIN = ("n_features", "center", "solver", "precision", "standardize", "tol", "max_rounds", "verbose")


def to_parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What predicting needs, with the choice of λ and its scores; not the sums, and no device of this machine."""
    header, arrays = model.predictor_.to_parts()
    params = {name: getattr(model, name) for name in PLAIN}
    header["params"] = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()} | {
        "kernel": None if model.kernel is None else kernel_spec(as_kernel(model.kernel)),
        "lam": numbers(model.lam),
        "grid": numbers(model.grid),
        "random_state": whole_or_none(model.random_state),
    }
    header |= {
        "lam": model.lam_,
        "solver": model.solver_,
        "precision": model.precision_,
        "n_rounds": model.n_rounds_,
        "jitter": model.jitter_,
        "one_target": bool(model.one_target_),
        "targets": list(model.targets_),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
    }
    path = getattr(model, "path_", None)
    if path is not None:
        arrays |= {"path.lam": path.lam, "path.df": path.df, "path.index": path.index, "path.criterion": path.criterion}
    return header, arrays


def from_parts(cls: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The model; a ValueError, KeyError or TypeError where the parts are not one."""
    params = dict(header["params"])
    params["kernel"] = None if params["kernel"] is None else kernel_from_spec(params["kernel"])
    model = cls(**params)
    model._check_parameters()
    predictor = BasisPredictor.from_parts(header, arrays)
    T, one_target, lam = len(predictor.intercept), header["one_target"], header["lam"]
    if type(one_target) is not bool or (one_target and T != 1):
        raise ValueError("it does not say how many labels it predicts")
    if not (isinstance(lam, float) and lam > 0 and type(header["n_rounds"]) is int and header["n_rounds"] >= 0):
        raise ValueError("its λ or number of rounds is not a number that it can be")
    if not (isinstance(header["jitter"], float) and header["jitter"] >= 0):
        raise ValueError("its jitter is not a number that it can be")
    if header["solver"] not in ("gram", "rounds") or header["precision"] not in PRECISIONS[1:]:
        raise ValueError("it does not say how it was found")
    names = texts("columns", header["feature_names"], (0, predictor.map.n_features_in))
    model.targets_ = tuple(texts("labels", header["targets"], (0, T)))
    model.predictor_, model.kernel_, model.lam_ = predictor, predictor.map.kernel, lam
    model.solver_, model.precision_, model.n_rounds_ = header["solver"], header["precision"], header["n_rounds"]
    model.jitter_ = header["jitter"]
    model.one_target_, model.n_features_in_ = one_target, predictor.map.n_features_in
    model.coef_ = predictor.coef[:, 0] if one_target else predictor.coef
    model.intercept_ = float(predictor.intercept[0]) if one_target else predictor.intercept
    if names:
        model.feature_names_in_ = np.asarray(names, dtype=object)
    if "path.lam" in arrays:
        model.path_ = path_of("gcv", arrays, T, one_target)
    return model
