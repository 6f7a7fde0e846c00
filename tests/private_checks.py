"""The checks of scikit-learn that no private estimator can pass, with the reason, in one place.

Each of them fits twice and wants the same numbers. Noise that comes from a seed would be no noise to whoever knows the
seed, so it has none. With the noise taken out (``without_noise``) every one of them holds, and that is tested too.
"""

from __future__ import annotations

import numpy as np
from sklearn.utils.estimator_checks import estimator_checks_generator

import unpooled.estimators.private_sgd as private_sgd
from unpooled.privacy import noise

REASON = "it compares two fits, and each has noise of its own"
NOT_FOR_PRIVATE = {
    "check_fit_idempotent": REASON,
    "check_pipeline_consistency": REASON,
    "check_regressor_data_not_an_array": REASON,
    "check_regressors_int": REASON,
    "check_supervised_y_2d": REASON,
}


def checks(estimator):
    """(the others, those that are named here), each as (estimator, check)."""
    found = [pair for pair in estimator_checks_generator(estimator) if "array_api" not in pair[1].func.__name__]
    named = [pair for pair in found if pair[1].func.__name__ in NOT_FOR_PRIVATE]
    return [pair for pair in found if pair not in named], named


def without_noise(monkeypatch):
    """What a fit would release without privacy, and the order of visits of Algorithm 1 from a seed."""
    monkeypatch.setattr(noise, "_with_noise", lambda units, _scale: units)
    monkeypatch.setattr(
        private_sgd, "drawn", lambda n, steps: np.random.default_rng(n).integers(0, n, steps).astype(np.intp)
    )
