"""PrivateModel, the common part of private models: one label, noise in every fit, bounded predictions, files, a ledger.

Predictions stay within the label bound. A private model in the span of a basis is written as a file's header and
arrays, and read back, and its guarantee travels with it. The ledger is a place on one machine, and so is an engine, so
neither is kept. Nor is the basis, since predicting does not need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sklearn.utils import Tags

from .._base.arrays import Array, namespace
from .._base.checks import check_positive, check_probability, check_whole
from .._base.declared import Arrays, Header
from .._base.kinds import CheckedValue, Kind, Whole
from ..privacy import Guarantee
from ..privacy.ledger import check_ledger
from .span import SpanModel
from .stored import is_table

EPSILON = CheckedValue(check_positive, "a positive, finite number")
DELTA = CheckedValue(check_probability, "a number between 0 and 1")
SIZE = CheckedValue(check_positive, "a positive, finite number or None", none=True)
COUNT = CheckedValue(check_whole, "a whole number, at least 1, or None", none=True)
LEDGER = CheckedValue(lambda _, value: check_ledger(value), "a Ledger, the path of one, or None", in_files=False)
SEED = Whole(0)


class Promise:
    """The guarantee, the plan, and the other facts of a private fit: ``numbers`` and ``lists`` of tables."""

    def __init__(self, plan: Callable[[Any], Any], numbers: tuple[str, ...] = (), **lists: Kind) -> None:
        self.plan, self.numbers, self.lists = plan, numbers, lists

    def write(self, model: Any, header: Header, arrays: Arrays) -> None:
        header |= {
            "privacy": model.privacy_.to_dict(),
            "plan": model.schedule_.to_dict(),
            "numbers": {name: float(getattr(model, name)) for name in self.numbers},
            "lists": {name: getattr(model, name) for name in self.lists},
        }

    def read(self, model: Any, header: Header, arrays: Arrays) -> None:
        promise = Guarantee.from_dict(header["privacy"])
        if not (math.isclose(promise.epsilon, model.epsilon) and math.isclose(promise.delta, model.delta)):
            raise ValueError("its guarantee does not match its epsilon and delta")
        model.privacy_, model.schedule_ = promise, self.plan(header["plan"])
        if not is_table(header["numbers"], **dict.fromkeys(self.numbers, float)):
            raise ValueError(f"its numbers are not {' and '.join(self.numbers) or 'none'}")
        if not is_table(header["lists"], **dict.fromkeys(self.lists, list)):
            raise ValueError(f"its lists are not {' and '.join(self.lists) or 'none'}")
        for name in self.numbers:
            setattr(model, name, check_positive(f"its {name}", header["numbers"][name]))
        for name, kind in self.lists.items():
            kind.check(f"its {name}", header["lists"][name])
            setattr(model, name, header["lists"][name])


class PrivateModel(SpanModel):
    """A private model in the span of a basis; ``label_bound`` and ``ledger`` are among its arguments."""

    label_bound: Any
    ledger: Any

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        tags.regressor_tags.poor_score = True  # on the few hundred rows of scikit-learn's checks noise drowns all
        tags.non_deterministic = True
        return tags

    def predict(self, X: Any) -> Array:
        """Predict f(X), in the order of the rows, clipped to [−c, c] if there is a label bound c.

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
