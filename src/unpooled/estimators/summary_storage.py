"""SummaryRegressor and LESSRegressor as a file's header and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._solvers.predictors import BasisPredictor
from .._solvers.span.residual_rounds import from_point
from ..bases.maps import finite
from ..filters import as_filter, from_spec, to_spec
from ..privacy.composition import Guarantee
from ..summaries.candidates import CENTERINGS
from ..summaries.contents import (
    Contents,
    check_sums,
    from_arrays,
    is_digest,
    loss_of,
    noised_of,
    shapes,
    spec_of,
    to_arrays,
)
from ..summaries.summary import Summary
from .paths import SummaryPath
from .stored import check_params, floor_of, numbers, path_of, rounds_of, texts


def shared_parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What every model in the span of a basis has."""
    header, arrays = model.predictor_.to_parts()
    header |= {
        "basis": model.basis_digest_,
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "one_target": bool(model.one_target_),
        "targets": list(getattr(model, "targets_", ())),
        "lam": model.lam_,
        "loss": model.loss_,
        "n_rounds": model.n_rounds_,
        "n_features_rule": model.n_features_rule_,
        "floor": vars(model.floor_) if getattr(model, "floor_", None) is not None else None,
    }
    arrays["coef"] = model.coef_matrix_
    path: SummaryPath | None = getattr(model, "path_", None)
    if path is not None:
        header["path"] = path.criterion_name
        arrays |= {
            "path.lam": path.lam,
            "path.criterion": path.criterion,
            "path.df": path.df,
            "path.index": path.index,
        }
    return header, arrays


def restore_shared(model: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Give a new model what :func:`shared_parts` wrote."""
    predictor = BasisPredictor.from_parts(header, arrays)
    coef, names, lam = finite("coef", arrays, ndim=2), header["feature_names"], header["lam"]
    if coef.shape[1] != len(predictor.intercept) or not is_digest(header["basis"]):
        raise ValueError("its coefficients do not go with its basis")
    if not (isinstance(lam, float) and lam > 0 and type(header["n_rounds"]) is int and header["n_rounds"] > 0):
        raise ValueError("its λ or number of rounds is not a positive number")
    T, one_target = coef.shape[1], header["one_target"]
    texts("columns", names, (0, predictor.map.n_features_in))
    texts("labels", header["targets"], (0, T))
    if type(one_target) is not bool or (one_target and T != 1) or type(header["n_features_rule"]) is not int:
        raise ValueError("it does not say how many labels it predicts, or with how many features")
    model.predictor_, model.coef_matrix_, model.lam_ = predictor, coef, lam
    model.basis_digest_, model.kernel_ = header["basis"], predictor.map.kernel
    model.coef_ = coef[:, 0] if one_target else coef
    model.intercept_ = float(predictor.intercept[0]) if one_target else predictor.intercept
    model.one_target_, model.n_features_in_ = one_target, predictor.map.n_features_in
    model.targets_ = tuple(header["targets"])
    model.loss_, model.n_rounds_ = spec_of(loss_of(header["loss"])), header["n_rounds"]
    model.n_features_rule_ = header["n_features_rule"]
    if names:
        model.feature_names_in_ = np.asarray(names, dtype=object)
    if (floor := floor_of(header["floor"])) is not None:
        model.floor_ = floor
    if "path" in header:
        model.path_ = path_of(header["path"], arrays, T, one_target)


def to_parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A SummaryRegressor, with the sum it has learned from: what another round, or another summary, needs."""
    header, arrays = shared_parts(model)
    summary: Summary = model.summary_
    header |= {
        "params": {
            "filter": to_spec(as_filter(model.filter)),
            "lam": numbers(model.lam),
            "center": bool(model.center) if isinstance(model.center, np.bool_) else model.center,
            "n_features": model.n_features if isinstance(model.n_features, str) else int(model.n_features),
            "ridge": bool(model.ridge),
            "steps": model.steps,
            "grid": numbers(model.grid),
        },
        "centering": model.centering_,
        "summary": {"order": summary.order, "n_rows": summary.n_rows},
    }
    if summary.privacy is not None:
        header["summary"]["privacy"] = summary.privacy.to_dict()
        header["privacy"] = model.privacy_.to_dict()
    arrays |= {"feature_mean": model.shift_} | getattr(model, "rounds_", {})
    arrays |= {f"summary.{name}": array for name, array in to_arrays(summary.sums).items()}
    return header, arrays


def from_parts(cls: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The model; a ValueError, KeyError or TypeError where the parts are not one."""
    params = dict(header["params"])
    check_params(params)
    model = cls(**params | {"filter": from_spec(params["filter"])})
    restore_shared(model, header, arrays)
    M, T = model.coef_matrix_.shape
    model.shift_, model.centering_ = finite("feature_mean", arrays, ndim=1), str(header["centering"])
    about = header["summary"]
    if model.centering_ not in CENTERINGS:
        raise ValueError("it does not say where its features are centred")
    if type(about["n_rows"]) is not int or about["n_rows"] < 1 or about["order"] not in (1, 2):
        raise ValueError("its summary does not say how many rows it is of")
    contents = Contents(model.basis_digest_, M, about["order"], T, model.loss_)
    own = {name.removeprefix("summary."): a for name, a in arrays.items() if name.startswith("summary.")}
    privacy = noised_of(about.get("privacy"), contents)
    sums = from_arrays(own, shapes(contents, privacy))
    check_sums(sums, about["n_rows"], privacy)
    model.summary_ = Summary(contents, about["n_rows"], sums, model.targets_, model.one_target_, privacy=privacy)
    if (privacy is None) != (header.get("privacy") is None):
        raise ValueError("it claims privacy of the model and not of its sums, or of its sums and not of the model")
    model.privacy_ = None if privacy is None else _guarantee(header["privacy"], privacy)
    if model.shift_.shape != (M,):
        raise ValueError("the mean of its features does not go with its coefficients")
    if about["order"] == 1:
        with_intercept = model.centering_ != "none"
        model.rounds_ = rounds_of(arrays, (M + with_intercept, T), privacy is not None or model.loss_ == "squared")
        model._asked = from_point(model.rounds_["rounds.point"], model.shift_, with_intercept)
    return model


def _guarantee(content: Any, privacy: Any) -> Guarantee:
    """What the model promises: all that its sum has cost, and the rounds since."""
    found, own = Guarantee.from_dict(content), privacy.guarantee
    if found.spent_on[: len(own.spent_on)] != own.spent_on or found.delta < own.delta or found.epsilon < own.epsilon:
        raise ValueError("it promises more privacy than the sums that it was learned from")
    return found
