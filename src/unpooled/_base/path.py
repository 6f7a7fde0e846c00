"""The path of λ that every model has: the grid, the scores and the choice, as text, as a table and as a plot."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Floats
from .notebooks import Tried

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LamPath(Tried):
    """A grid of λ, what each scored, and which was taken; predictions are left to those who know the model."""

    lam: np.ndarray
    index: np.ndarray
    criterion_name: str
    if TYPE_CHECKING:  # fields of one path, properties of the other

        @property
        def criterion(self) -> Floats: ...
        @property
        def df(self) -> Floats: ...

    @abstractmethod
    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        """Degrees of freedom (L,), and scores (L,) or (L, T), as far as they are known without more work."""

    def _line(self) -> str:
        taken = ", ".join(f"{value:.3g}" for value in np.unique(self.lam[self.index]))
        ends = f"{self.lam.min():.3g} to {self.lam.max():.3g}"
        return f"{len(self.lam)} λ from {ends}, {self.criterion_name} takes {taken}"

    def _columns(self) -> Mapping[str, np.ndarray]:
        freedom, scores = self._known()
        columns = {"λ": self.lam, "degrees of freedom": freedom}
        several = scores.reshape(len(self.lam), -1).T
        names = (
            [self.criterion_name] if scores.ndim == 1 else [f"{self.criterion_name} {t}" for t in range(len(several))]
        )
        return columns | dict(zip(names, several))

    def _taken(self) -> Collection[int]:
        return set(self.index.tolist())

    def _beside(self) -> dict[str, Any]:
        """Columns that stand between the degrees of freedom and the scores."""
        return {}

    def __len__(self) -> int:
        return len(self.lam)

    @property
    def at_edge(self) -> bool:
        """True if a chosen λ is the smallest or largest of the grid: a wider grid may do better."""
        chosen = self.lam[self.index]
        return bool(np.any((chosen == self.lam.min()) | (chosen == self.lam.max())) and len(self.lam) > 1)

    def as_dict(self) -> dict[str, Any]:
        """Plain columns, for a data frame of your choice: ``pandas.DataFrame(model.path_.as_dict())``.

        Returns
        -------
        dict of arrays
        """
        columns = {"lam": self.lam, "df": self.df, **self._beside()}
        if self.criterion.ndim == 1:
            return columns | {self.criterion_name: self.criterion}
        return columns | {f"{self.criterion_name}_{t}": scores for t, scores in enumerate(self.criterion.T)}

    def plot(self, ax: Axes | None = None, **line: Any) -> Axes:
        """The criterion against λ, the choice marked. Needs matplotlib (``pip install unpooled[plot]``).

        Parameters
        ----------
        ax : axes to draw in; None makes them
        **line : of the line, as matplotlib takes them

        Returns
        -------
        matplotlib axes
        """
        from .drawing import plot_path

        return plot_path(self, ax, **line)
