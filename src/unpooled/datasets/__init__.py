"""Small real data sets that come with the package, for the demo, the guides and the tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np

__all__ = ["BUNDLED", "Dataset", "SiteDataset", "load_airfoil", "load_heart"]


@dataclass
class Dataset:
    """Rows, labels and their names; ``fold`` deals the rows into ten folds.

    Attributes
    ----------
    X : (N, d)
    y : (N,)
    fold : (N,) whole numbers from 0 to 9
    feature_names : a name for each column of X
    target : a description of y, with its unit
    source : the origin of the data and, after the last comma, their licence
    label : the name of y as a column
    """

    X: np.ndarray
    y: np.ndarray
    fold: np.ndarray
    feature_names: list[str]
    target: str
    source: str
    label: str

    @property
    def licence(self) -> str:
        """The short name of the licence."""
        return self.source.rpartition(", ")[2]

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of a table by their names: features, then the label.

        Returns
        -------
        dict of (N,) arrays
        """
        return dict(zip(self.feature_names, self.X.T)) | {self.label: self.y}

    def __repr__(self) -> str:
        return f"Dataset({self.X.shape[0]} rows × {self.X.shape[1]} features, target: {self.target})"


@dataclass(repr=False)
class SiteDataset(Dataset):
    """A data set that was gathered at several sites; ``sites`` names that of each row.

    Attributes
    ----------
    X, y, fold, feature_names, target, source, label : as in :class:`Dataset`
    sites : (N,) names
    """

    sites: np.ndarray

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of a table by their names: features, the label, and the ``site`` of every row.

        Returns
        -------
        dict of (N,) arrays
        """
        return super().columns() | {"site": self.sites}

    def __repr__(self) -> str:
        counts = dict(zip(*np.unique(self.sites, return_counts=True)))
        return super().__repr__()[:-1] + ", sites: " + ", ".join(f"{site} {n}" for site, n in counts.items()) + ")"


def load_airfoil() -> Dataset:
    """Load NASA airfoil self-noise: 1503 wind-tunnel runs, 5 features, the sound level in dB; means removed."""
    import pyarrow.parquet as pq  # here and not above: importing the library stays quick

    with as_file(files("unpooled.datasets") / "airfoil.parquet") as path:
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
        "sound",
    )


def load_heart() -> SiteDataset:
    """Load patients of four hospitals: 740 rows, 15 features, the highest heart rate in an exercise test.

    Source: A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano: Heart Disease, UCI Machine Learning Repository. Licence:
    CC BY 4.0. The heart rate is in beats per minute. The hospitals differ considerably: Switzerland has 46 rows and did
    not record cholesterol, which is 0 there.
    """
    import pyarrow.parquet as pq

    with as_file(files("unpooled.datasets") / "heart.parquet") as path:
        table = pq.read_table(path)
    columns = {
        "age": "age",
        "sex": "male",
        "trestbps": "resting_blood_pressure",
        "chol": "cholesterol",
        "fbs": "high_blood_sugar",
        "exang": "angina_from_exercise",
        "oldpeak": "st_depression",
        "num": "disease_severity",
        "cp_1.0": "chest_pain_typical_angina",
        "cp_2.0": "chest_pain_atypical_angina",
        "cp_3.0": "chest_pain_other",
        "cp_4.0": "chest_pain_none",
        "restecg_0.0": "ecg_normal",
        "restecg_1.0": "ecg_st_t_abnormal",
        "restecg_2.0": "ecg_ventricular_hypertrophy",
    }
    sites = np.asarray(table["site"].to_pylist())
    fold = np.empty(len(sites), dtype=np.int8)
    rng = np.random.default_rng(0)  # the same folds at every call, and every hospital in each of them
    for site in np.unique(sites):
        rows = np.flatnonzero(sites == site)
        fold[rng.permutation(rows)] = np.arange(len(rows)) % 10
    return SiteDataset(
        np.column_stack([table[name].to_numpy() for name in columns]).astype(float),
        table["y"].to_numpy().astype(float),
        fold,
        list(columns.values()),
        "highest heart rate in an exercise test (beats a minute)",
        "A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano: Heart Disease, UCI Machine Learning Repository, CC BY 4.0",
        "heart_rate",
        sites,
    )


BUNDLED: dict[str, Callable[[], Dataset]] = {"airfoil": load_airfoil, "heart": load_heart}  #: all of them, by name
