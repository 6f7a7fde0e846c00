"""Made-up data for all tests: rows of inputs, labels that are a function of them and noise, and tables of both.

The first argument of everything here is a seed, and the same seed gives the same numbers. In place of a seed there may
be a generator, which goes on from where it stands: so a test can draw more after its rows. A file of tests says once,
near its top, what is special about its data::

    data = partial(regression, n=20, noise=0.3, then=(7,))

and its tests write ``X, y, Z = data(seed)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

Seed = int | np.random.Generator
Function = Callable[[np.ndarray], np.ndarray]

CUBE = (-1.0, 1.0)
COLUMNS = ["age", "dose", "pressure"]


def sine(frequency: float, slope: float = 0.0) -> Function:
    """The function of rows that is a sine of the first input, and where there is a slope a line in the second."""
    if slope:
        return lambda X: np.sin(frequency * X[:, 0]) + slope * X[:, 1]
    return lambda X: np.sin(frequency * X[:, 0])


WAVE = sine(3)


# --- Arrays ----------------------------------------------------------------------------------------------------------


def points(
    seed: Seed = 0, n: int = 20, d: int = 2, dtype: Any = np.float64, *, between: tuple[float, float] | None = None
) -> np.ndarray:
    """n rows of d inputs: standard normal, or uniform ``between`` two numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) if between is None else rng.uniform(*between, size=(n, d))
    return X.astype(dtype)


def regression(
    seed: Seed = 0,
    n: int = 100,
    d: int = 2,
    *,
    between: tuple[float, float] | None = None,
    scales: float | Sequence[float] = 1.0,
    dtype: Any = np.float64,
    function: Function = WAVE,
    targets: int = 1,
    noise: float = 0.1,
    tails: float | None = None,
    offset: float = 0.0,
    grid: float = 0.0,
    outliers: float = 0.0,
    far: float = 8.0,
    others: Sequence[int] = (),
    then: Sequence[int] = (),
    weights: Sequence[float] = (),
) -> list[np.ndarray]:
    """Rows, their labels, and further rows that have none: ``[X, y, *others, *then]``, and weights at the end.

    Inputs are drawn as ``points`` draws them, times ``scales``. Labels are ``function(X)`` plus noise plus ``offset``,
    a vector if there is one target and else a matrix. The noise is normal, or Student's with ``tails`` degrees of
    freedom. With a ``grid`` the labels are multiples of it. A share ``outliers`` of the labels is too large by ``far``.

    ``others`` and ``then`` are numbers of further rows: ``others`` are drawn before the noise, ``then`` after it.
    ``weights`` are the values from which the weight of each row is drawn.
    """
    rng = np.random.default_rng(seed)

    def rows(count: int) -> np.ndarray:
        return (points(rng, count, d, between=between) * scales).astype(dtype)

    X, *first = (rows(count) for count in (n, *others))
    shape = (n, targets)
    error = rng.normal(size=shape) if tails is None else rng.standard_t(tails, size=shape)
    Y = function(X).reshape(n, -1) + noise * error + offset
    if grid:
        Y = np.round(Y / grid) * grid
    if outliers:
        Y[rng.random(n) < outliers] += far
    later = [rows(count) for count in then]
    drawn = [rng.choice(weights, size=n)] if len(weights) else []
    return [X, Y[:, 0] if targets == 1 else Y, *first, *later, *drawn]


def two_scales(
    seed: Seed = 0, n: int = 120, d: int = 4, *, noise: float = 0.1, second: float = 0.5
) -> list[np.ndarray]:
    """Labels that are a function of the first two inputs alone, the second of which is fifty times as wide."""
    return regression(
        seed,
        n,
        d,
        scales=[1.0, 50.0, *[1.0] * (d - 2)],
        function=lambda X: np.sin(2 * X[:, 0]) + second * np.cos(X[:, 1] / 25.0),
        noise=noise,
    )


def waves_and_slopes(seed: Seed = 0, n: int = 600, d: int = 3, *, targets: int = 1) -> list[np.ndarray]:
    """Targets that share a wave in the first input, each with a slope of its own in the second."""
    slopes = np.arange(1, targets + 1)

    def function(X: np.ndarray) -> np.ndarray:
        return np.sin(2 * X[:, :1]) + X[:, 1:2] * slopes

    return regression(seed, n, d, function=function, targets=targets, noise=0.1, offset=3.0)


def pure_noise(
    seed: Seed, n: int, d: int, targets: int, weighted: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows of which two are the same, labels that are noise around zero, and weights or none."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, d)), rng.normal(size=(n, targets))
    X[n // 2] = X[0]
    return X, Y - Y.mean(axis=0), rng.uniform(0.1, 3.0, n) if weighted else None


def with_copies(seed: Seed, n: int, far: float) -> tuple[np.ndarray, np.ndarray]:
    """A third of all rows are the same one, as where missing values were filled in: their sums round all one way."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * 0.05
    X[rng.random(n) < 0.33] = far
    return X, np.sin(X[:, 0] / 0.05) + 0.1 * rng.normal(size=n)


def uneven_sites(seed: Seed, n: int, m: int) -> np.ndarray:
    """For each of n rows the name of its site: m sites of very different sizes, none empty."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(m), rng.integers(0, m, n - m) ** 2 // m])
    return np.asarray([f"site {label}" for label in rng.permutation(labels)])


# --- Tables ----------------------------------------------------------------------------------------------------------


def columns(X: np.ndarray, y: np.ndarray, **more: Any) -> dict[str, Any]:
    """The columns of a table: inputs "a", "b", ..., the labels "y", and more by their names."""
    return {**{chr(ord("a") + j): X[:, j] for j in range(X.shape[1])}, "y": y, **more}


def rows_of_sites(seed: Seed = 0, n: int = 150) -> pd.DataFrame:
    """Three inputs, labels, the place that each row is from, and weights."""
    rng = np.random.default_rng(seed)
    X, y = regression(rng, n, 3, between=(0.0, 1.0), function=sine(5, slope=1.0))
    place = np.asarray(["north", "south", "east"])[rng.integers(0, 3, n)]
    return pd.DataFrame(columns(X, y, place=place, w=rng.integers(1, 4, n)))


def named_rows(seed: Seed, n: int, names: Sequence[str] = COLUMNS) -> tuple[pd.DataFrame, pd.Series]:
    """Inputs with names, and labels with a name."""
    X, y = regression(seed, n, 3, between=CUBE, function=sine(3, slope=1.0), noise=0.2)
    return pd.DataFrame(X, columns=names), pd.Series(y, name="stay")


def patients(seed: int, n: int, start: int = 0) -> pa.Table:
    """Rows with a number each, three inputs, a label, a weight and the name of a site."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [10.0, 1.0, 15.0] + [50.0, 2.0, 120.0]
    y = 5 + np.sin(X[:, 0] / 10) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    inputs = {name: X[:, j] for j, name in enumerate(COLUMNS)}
    labels = {"stay": y, "w": rng.uniform(0.5, 2.0, n), "site": [f"site {seed}"] * n}
    return pa.table({"id": [f"{start + i:04d}" for i in range(n)], **inputs, **labels})


def awkward_cells(seed: Seed = 0, n: int = 400) -> pd.DataFrame:
    """Numbers of every size, whole numbers, and names that only quotation marks keep together."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-200, 200, size=(n, 3)), columns=["a", "b", "c"])
    data["y"], data["z"], data["w"] = rng.normal(size=n), rng.integers(0, 9, n), rng.uniform(0, 2, n)
    data["site"] = rng.choice(["NA", "north", 's,o"u\nth'], n)
    return data
