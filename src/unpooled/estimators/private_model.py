"""What private models share: one label, noise in every fit, predictions within the label bound, files, a ledger."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags

from ..arrays import Array, namespace
from ..privacy import Event
from ..privacy.ledger import opened
from . import private_storage
from .span import SpanModel, check_fitted


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

    def _pay(self, paying: ExitStack, event: Event, purpose: str) -> None:
        """Charge the ledger, if there is one, and note the release where the stack ends well."""
        ledger = opened(self.ledger)
        if ledger is not None:
            paying.enter_context(ledger.charge(event, purpose))

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        check_fitted(self)
        return private_storage.to_parts(self)

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        model: Self = private_storage.from_parts(cls, header, arrays)
        return model
