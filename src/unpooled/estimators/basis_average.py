"""BasisAverage: the average of functions that sites fitted to their own rows, in the span of one basis."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.checks import check_fitted
from .._solvers.predictors import BasisPredictor
from ..bases.base import Basis
from ..bases.maps import finite
from ..summaries.contents import is_digest
from .facts import ModelFacts
from .span import SpanModel
from .stored import texts


class BasisAverage(SpanModel):
    """f̄ = Σ_j |D_j| f_j / Σ_j |D_j| of ridge regressions f_j = a_jᵀφ + b_j, each of one site's rows (paper 001, (4)).

    A federated study of the kind "average" makes it; ``settle`` takes the sums that sites have sent.

    Attributes
    ----------
    lam_ : float
    n_sites_ : int
    coef_, intercept_, predictor_ : the average
    validation_ : dict, the λ that were tried and their validation errors, where λ was chosen
    """

    def settle(
        self, basis: Basis, coef: np.ndarray, intercept: np.ndarray, lam: float, targets: tuple[str, ...], n_sites: int
    ) -> BasisAverage:
        """Become the average with coefficients (M, T) and intercepts (T,)."""
        self._settle(basis, coef, intercept, len(targets) == 1)
        self.lam_, self.targets_, self.n_sites_ = float(lam), targets, int(n_sites)
        self.validation_: dict[str, np.ndarray] = {}
        return self

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        check_fitted(self)
        header, arrays = self.predictor_.to_parts()
        header |= {
            "basis": self.basis_digest_,
            "feature_names": [str(name) for name in getattr(self, "feature_names_in_", [])],
            "targets": list(self.targets_),
            "lam": self.lam_,
            "n_sites": self.n_sites_,
        }
        return header, arrays | {"coef": self.coef_matrix_} | {
            f"validation.{k}": v for k, v in self.validation_.items()
        }

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> BasisAverage:
        predictor, coef = BasisPredictor.from_parts(header, arrays), finite("coef", arrays, ndim=2)
        lam, n_sites, T = header["lam"], header["n_sites"], coef.shape[1]
        if len(predictor.intercept) != T or not is_digest(header["basis"]):
            raise ValueError("its coefficients do not go with its basis")
        if not (isinstance(lam, float) and lam > 0 and type(n_sites) is int and n_sites > 0):
            raise ValueError("its λ or number of sites is not a positive number")
        names = texts("columns", header["feature_names"], (0, predictor.map.n_features_in))
        model = cls()
        model.predictor_, model.coef_matrix_, model.kernel_ = predictor, coef, predictor.map.kernel
        model.basis_digest_, model.lam_, model.n_sites_ = header["basis"], lam, n_sites
        model.targets_ = tuple(texts("labels", header["targets"], (T,)))
        model.one_target_, model.n_features_in_ = T == 1, predictor.map.n_features_in
        model.coef_ = coef[:, 0] if T == 1 else coef
        model.intercept_ = float(predictor.intercept[0]) if T == 1 else predictor.intercept
        if names:
            model.feature_names_in_ = np.asarray(names, dtype=object)
        found = {name.removeprefix("validation."): arrays[name] for name in arrays if name.startswith("validation.")}
        if found:
            tried, errors = finite("validation.lam", arrays, ndim=1), finite("validation.error", arrays, ndim=2)
            if set(found) != {"lam", "error"} or errors.shape != (len(tried), T):
                raise ValueError("what it says of the λ that were tried does not fit together")
        model.validation_ = found
        return model

    def facts(self, target: int = 0) -> ModelFacts:
        """The facts of the fitted model; ``target`` is the position of the label."""
        return self._describe(target, "Kernel regression, a BasisAverage", lam=self.lam_, n_sites=self.n_sites_)
