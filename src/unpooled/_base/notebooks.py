"""Display in notebooks: scikit-learn's picture of an estimator, and below it what a fit has chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from . import html


class InNotebooks:
    """Put before scikit-learn's classes: what was chosen, or learned, stands below the picture of the estimator."""

    def _below_picture(self) -> str:
        """HTML that stands below the picture; nothing before a fit."""
        return ""

    def _repr_html_inner(self) -> str:
        shown: str = super()._repr_html_inner()  # type: ignore[misc]
        return shown + self._below_picture()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._below_picture()
        return bundle


class Tried(ABC):
    """What was tried and taken: a line as text, in notebooks a table, the choice marked.

    Put before the fields of a dataclass that makes no ``repr`` of its own.
    """

    @abstractmethod
    def _line(self) -> str:
        """How much was tried, and what was taken."""

    @abstractmethod
    def _columns(self) -> Mapping[str, np.ndarray]:
        """The columns of the table, of one length; NaN leaves a cell empty."""

    def _taken(self) -> Collection[int]:
        """The rows of the table that were taken."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._line()})"

    def _repr_html_(self) -> str:
        columns, taken = self._columns(), self._taken()
        cells = zip(*columns.values())
        rows = [[*map(_cell, row), "taken" if i in taken else ""] for i, row in enumerate(cells)]
        return html.paragraph(repr(self)) + html.table([*columns, ""], rows)


def _cell(value: Any) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"
