"""Small real data sets that come with the package, for the demo, the guides and the tests."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np


@dataclass
class Dataset:
    """Rows, labels and their names; ``fold`` is the data set's own ten-fold split."""

    X: np.ndarray
    y: np.ndarray
    fold: np.ndarray
    feature_names: list[str]
    target: str
    source: str

    def __repr__(self) -> str:
        return f"Dataset({self.X.shape[0]} rows × {self.X.shape[1]} features, target: {self.target})"


def load_airfoil() -> Dataset:
    """NASA airfoil self-noise: 1503 wind-tunnel runs, 5 features, the sound level in dB; means removed."""
    import pyarrow.parquet as pq  # here and not above: importing the library stays quick

    with as_file(files("unpooled") / "data" / "airfoil.parquet") as path:
        table = pq.read_table(path)
    X = np.column_stack([table[f"x{i}"].to_numpy() for i in range(5)]).astype(float)
    features = ["frequency", "angle_of_attack", "chord_length", "velocity", "displacement_thickness"]
    return Dataset(
        X,
        table["y"].to_numpy().astype(float),
        table["fold"].to_numpy(),
        features,
        "scaled sound pressure level (dB, mean removed)",
        "T. Brooks, D. Pope, M. Marcolini: Airfoil Self-Noise, UCI Machine Learning Repository, CC BY 4.0",
    )
