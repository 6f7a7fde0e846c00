"""The checks of scikit-learn that no private estimator can pass, with the reason, in one place.

Each of them fits twice and wants the same numbers. Noise that comes from a seed would be no noise to whoever knows the
seed, so it has none. With the noise taken out (``without_noise``) every one of them holds, and that is tested too.

There are five of them. Three say so by their names or by themselves: the same fit again, the same fit in a pipeline
(the one check that would skip itself by the tag ``non_deterministic``), and labels as whole numbers and as others. Two
do not: ``check_regressor_data_not_an_array`` fits to an array and to what can be made one, ``check_supervised_y_2d`` to
labels as a vector and as a column, and both want equal predictions.

The tag also makes scikit-learn leave out two checks that fit once and compare predictions of that one fit (in another
order, and in parts). They hold with noise, so the list of checks is made with the tag off.
"""

from __future__ import annotations

import numpy as np
import pytest
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
    with pytest.MonkeyPatch.context() as patch:
        deterministic(estimator, patch)
        found = [pair for pair in estimator_checks_generator(estimator) if "array_api" not in pair[1].func.__name__]
    named = [pair for pair in found if pair[1].func.__name__ in NOT_FOR_PRIVATE]
    return [pair for pair in found if pair not in named], named


def deterministic(estimator, monkeypatch):
    """Its class without the tag that makes scikit-learn leave out checks, and a check skip itself."""
    original = type(estimator).__sklearn_tags__

    def tags_of(self):
        tags = original(self)
        tags.non_deterministic = False
        return tags

    monkeypatch.setattr(type(estimator), "__sklearn_tags__", tags_of)


def without_noise(monkeypatch):
    """What a fit would release without privacy, and the order of visits of Algorithm 1 from a seed."""
    monkeypatch.setattr(noise, "_add_discrete_gaussian", lambda units, _scale: units)
    monkeypatch.setattr(
        private_sgd, "draw_rows", lambda n, steps: np.random.default_rng(n).integers(0, n, steps).astype(np.intp)
    )
