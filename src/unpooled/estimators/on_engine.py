"""Estimators that work on an engine: it is neither cloned nor pickled."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, clone

from ..bases import Basis
from ..engines import Processes, Threads


class OnEngine(BaseEstimator):
    """An estimator with the parameter ``engine``."""

    def __sklearn_clone__(self) -> Any:
        """A clone works on the same engine, since a client of a cluster cannot be copied, and on the same basis."""
        kept = {k: v for k, v in self.get_params(deep=False).items() if k == "engine" or isinstance(v, Basis)}
        others = {k: clone(v, safe=False) for k, v in self.get_params(deep=False).items() if k not in kept}
        return type(self)(**others, **kept)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: a connection to a cluster stays behind."""
        state: dict[str, Any] = dict(super().__getstate__())
        if not (state["engine"] is None or isinstance(state["engine"], (str, Threads, Processes))):
            state["engine"] = None
        return state
