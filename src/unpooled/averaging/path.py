"""What rules (13) and (14) have seen: the score of every number of blocks and every candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..filters import Floats
from ..notebooks import Tried

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(repr=False)
class BlockPath(Tried):
    """Scores on the validation halves.

    Attributes
    ----------
    n_blocks : (M,) the numbers of blocks tried
    candidates : the values tried within each, by name: ``{"lam": (C,)}``
    criterion : (M, C), or (M, C, T) for several targets: mean squared error, or the robust loss of a robust learner
    chosen : position of the choice in ``n_blocks``
    index : for every target the position of its candidate
    """

    n_blocks: np.ndarray
    candidates: dict[str, np.ndarray]
    criterion: Floats
    chosen: int
    index: np.ndarray

    def _line(self) -> str:
        tried = ", ".join(map(str, self.n_blocks.tolist()))
        each = f" with {self.criterion.shape[1]} candidates each" if self.candidates else ""
        taken = [
            f"{name} {', '.join(f'{v:.3g}' for v in np.unique(values[self.index]))}"
            for name, values in self.candidates.items()
        ]
        return f"{tried} blocks tried{each}, taken {', '.join([str(self.n_blocks[self.chosen]), *taken])}"

    def _columns(self) -> dict[str, np.ndarray]:
        """The best candidate of each number of blocks, by the mean over targets."""
        scores = self.criterion if self.criterion.ndim == 2 else self.criterion.mean(axis=2)
        best = np.argmin(scores, axis=1)
        columns = {"blocks": self.n_blocks} | {name: values[best] for name, values in self.candidates.items()}
        return columns | {"score": scores[np.arange(len(best)), best]}

    def _taken(self) -> tuple[int]:
        return (int(self.chosen),)

    @property
    def lam(self) -> Floats:
        """The grid of λ."""
        if "lam" not in self.candidates:
            raise AttributeError(
                f"there is no lam on this path: its candidates are {', '.join(self.candidates) or 'none'}"
            )
        return self.candidates["lam"]

    def as_dict(self) -> dict[str, Any]:
        """Plain columns, a row for each number of blocks and candidate."""
        m, c = self.criterion.shape[:2]
        columns: dict[str, Any] = {"n_blocks": np.repeat(self.n_blocks, c)}
        columns |= {name: np.tile(values, m) for name, values in self.candidates.items()}
        flat = self.criterion.reshape((m * c, -1))
        if self.criterion.ndim == 2:
            return columns | {"score": flat[:, 0]}
        return columns | {f"score_{t}": flat[:, t] for t in range(flat.shape[1])}

    def plot(self, ax: Axes | None = None, **line: Any) -> Axes:
        """The score against λ, a curve for each number of blocks, the choice marked. Needs matplotlib."""
        from ..reports.plots import plot_block_path

        if not self.candidates:
            raise ValueError("there is nothing to draw: the local learner has no candidates")
        return plot_block_path(self, ax, **line)
