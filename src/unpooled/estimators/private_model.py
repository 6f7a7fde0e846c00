"""PrivateModel, the common part of private models: one label, noise in every fit, bounded predictions, files, a ledger.

Predictions stay within the label bound. A private model in the span of a basis is written as a file's header and
arrays, and read back, and its guarantee travels with it. A class says how its plan is read with ``_plan_class``
(``to_dict`` and ``from_dict``). Its other facts are kept too: ``sensitivity_`` and ``sigma_``, or ``history_`` and
``sites_``. The ledger is a place on one machine, and so is an engine, so neither is kept. Nor is the basis, since
predicting does not need it.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags

from .._base.arrays import Array, namespace
from .._base.checks import check_fitted, positive
from .._base.text import shown
from .._solvers.predictors import BasisPredictor
from ..bases import Basis
from ..bases.maps import finite
from ..kernels import as_kernel
from ..kernels.specs import from_spec as kernel_from_spec
from ..kernels.specs import to_spec as kernel_spec
from ..losses import Loss
from ..losses import from_spec as loss_from_spec
from ..losses import to_spec as loss_spec
from ..privacy import Guarantee
from .span import SpanModel
from .stored import texts

NUMBERS = ("sensitivity_", "sigma_")
LISTS = ("history_", "sites_")


def to_parts(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What predicting needs, what was promised, and why it was done so."""
    header, arrays = model.predictor_.to_parts()
    header |= {
        "basis": model.basis_digest_,
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "one_target": bool(model.one_target_),
        "params": _params(model),
        "privacy": model.privacy_.to_dict(),
        "plan": model.plan_.to_dict(),
        "numbers": {name: float(getattr(model, name)) for name in NUMBERS if hasattr(model, name)},
        "lists": {name: getattr(model, name) for name in LISTS if hasattr(model, name)},
    }
    return header, arrays | {"coef": model.coef_matrix_}


def from_parts(cls: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The model; a ValueError, KeyError or TypeError where the parts are not one."""
    params = {name: _restored(name, value) for name, value in dict(header["params"]).items()}
    model = cls(**params, ledger=None)
    model._check_parameters()
    predictor = BasisPredictor.from_parts(header, arrays)
    coef, one_target = finite("coef", arrays, ndim=2), header["one_target"]
    names = texts("columns", header["feature_names"], (0, predictor.map.n_features_in))
    T = len(predictor.intercept)
    if not (isinstance(one_target, bool) and coef.shape[0] and coef.shape[1] == T and (T == 1 or not one_target)):
        raise ValueError("its coefficients do not go with its targets")
    if not isinstance(header["basis"], str):
        raise ValueError("it does not name its basis")
    model.predictor_, model.coef_matrix_, model.one_target_ = predictor, coef, one_target
    model.basis_digest_, model.kernel_ = header["basis"], predictor.map.kernel
    model.coef_ = coef[:, 0] if one_target else coef
    model.intercept_ = float(predictor.intercept[0]) if one_target else predictor.intercept
    model.n_features_in_ = predictor.map.n_features_in
    if names:
        model.feature_names_in_ = np.asarray(names, dtype=object)
    model.privacy_ = Guarantee.from_dict(header["privacy"])
    _check_promise(model)
    model.plan_ = cls._plan_class.from_dict(header["plan"])
    numbers = dict(header["numbers"])
    if not set(numbers) <= set(NUMBERS):
        raise ValueError(f"it has the unknown numbers {shown(sorted(set(numbers) - set(NUMBERS)))}")
    for name, value in numbers.items():
        setattr(model, name, positive(name, value))
    lists = dict(header["lists"])
    if not set(lists) <= set(LISTS):
        raise ValueError(f"it has the unknown lists {shown(sorted(set(lists) - set(LISTS)))}")
    for name, value in lists.items():
        setattr(model, name, _facts(name, value))
    return model


def _check_promise(model: Any) -> None:
    """The guarantee is the one that was asked for."""
    promise = model.privacy_
    if not (math.isclose(promise.epsilon, model.epsilon) and math.isclose(promise.delta, model.delta)):
        raise ValueError("its guarantee is not that of its epsilon and delta")


def _facts(name: str, value: Any) -> list[dict[str, Any]]:
    """A list of small tables: words and finite numbers by their names."""
    good = isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
    for entry in value if good else ():
        for fact in entry.values():
            good = good and (isinstance(fact, str) or (type(fact) in (int, float) and -math.inf < fact < math.inf))
    if not good:
        raise ValueError(f"its {name} cannot be {shown(value)}")
    return list(value)


def _params(model: Any) -> dict[str, Any]:
    found = model.get_params(deep=False)
    for name in ("ledger", "engine"):
        found.pop(name, None)
    kernel = found.pop("kernel")
    if isinstance(kernel, Basis):  # which is not kept; of its kernel only what may be asked for without it
        kernel = model.kernel_ if math.isfinite(model.kernel_.kappa()) else None
    plain = {name: _plain(value) for name, value in found.items()}
    return plain | {"kernel": None if kernel is None else kernel_spec(as_kernel(kernel))}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Loss):
        return {"loss": loss_spec(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"a model with the argument {shown(value)} cannot be saved")


def _restored(name: str, value: Any) -> Any:
    if name == "kernel":
        return None if value is None else kernel_from_spec(value)
    if isinstance(value, dict):
        return loss_from_spec(value["loss"])
    if not (value is None or isinstance(value, (bool, int, float, str))):
        raise ValueError(f"its argument {name} cannot be {shown(value)}")
    return value


class PrivateModel(SpanModel):
    """A private model in the span of a basis; ``label_bound`` and ``ledger`` are among its arguments."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        tags.regressor_tags.poor_score = True  # on the few hundred rows of scikit-learn's checks noise drowns all
        tags.non_deterministic = True
        return tags

    def predict(self, X: Any) -> Array:
        """f(X), in the order of the rows, moved into [-c, c] where there is a label bound c.

        Parameters
        ----------
        X : rows without labels: arrays, frames, a path to Parquet or CSV, a Dask collection

        Returns
        -------
        array of shape (n,)
        """
        values = super().predict(X)
        if self.label_bound is None:
            return values
        c = float(self.label_bound)
        return namespace(values).clip(values, -c, c)

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        check_fitted(self)
        return to_parts(self)

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        model: Self = from_parts(cls, header, arrays)
        return model
