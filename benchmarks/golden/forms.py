"""Cases: rows of every form that ``fit`` takes, scores, and rows and files that are refused."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import unpooled as up
from golden.averages import averaged, correntropy
from golden.exact_models import nystrom, spectral
from golden.inputs import COLUMNS, GRID, SITE_OF_ROW, WEIGHTS, X_LARGE, X_NEW, Y_LARGE, U, X, Y, frame, write_table, y
from golden.keep import Folder, case
from golden.stand_ins import fixed_noise
from golden.sums import LABELS, TABLE, basis, empirical, less, summary_regressor

k = up.kernels
WHOLE = frame(120, 90)


@case()
def tables_in_memory(kept: Folder) -> None:
    """Data frames with names for labels and weights, lists, whole numbers, Arrow, rows in another order of memory."""
    named = WHOLE[[*COLUMNS, "stay", "w"]]
    given: dict[str, tuple[Any, Any, Any]] = {
        "lists": (X[:40].tolist(), y[:40].tolist(), WEIGHTS[:40].tolist()),
        "whole numbers": (np.rint(10 * X).astype(int), np.rint(10 * y).astype(int), None),
        "columns first": (np.asfortranarray(X), np.asfortranarray(Y), None),
        "frame": (named[COLUMNS], named["stay"], named["w"]),
    }
    for name, (rows, labels, weights) in given.items():
        model = spectral(lam="loo", fit_intercept=True).fit(rows, labels, weights)
        kept.array(f"models/forms/{name}/spectral", model.predict(rows))
        robust = correntropy(fit_intercept=True).fit(rows, labels, weights)
        kept.array(f"models/forms/{name}/correntropy", robust.predict(rows))
    kept.array("models/forms/names/nystrom", nystrom().fit(named, "stay", "w").predict(named[COLUMNS]))
    shared = empirical().fit(named[COLUMNS])
    up.Summary.of(shared, named, "stay", sample_weight="w", order=2).save(kept.place("summaries/of a frame.summary"))
    arrow = pa.Table.from_pandas(named[COLUMNS])
    up.Summary.of(shared, arrow, named["stay"], order=2).save(kept.place("summaries/of Arrow.summary"))
    public = less(fit_intercept=True).fit(named, "stay", public=WHOLE[[*COLUMNS, "stay"]][:50], sample_weight="w")
    kept.array("models/forms/names/less", public.predict(named[COLUMNS]))
    large = averaged(spectral(fit_intercept=True), n_blocks=[1, 2], grid=GRID).fit(X_LARGE, Y_LARGE)
    kept.array("models/forms/many rows/averaged", large.predict(X_NEW))
    twice = spectral(filter=up.filters.IteratedTikhonov(times=2))
    again = averaged(twice, n_blocks=[1], grid=GRID).fit(X_LARGE, Y_LARGE[:, 0])
    kept.array("models/forms/many rows/iterated", again.predict(X_NEW))


@case("polars")
def tables_of_polars(kept: Folder) -> None:
    """Data frames of polars, and labels by name in them."""
    import polars as pl

    table = pl.from_pandas(WHOLE[[*COLUMNS, "stay", "w"]])
    model = spectral(lam="loo").fit(table.select(COLUMNS), table["stay"], table["w"])
    kept.array("models/forms/polars/spectral", model.predict(table.select(COLUMNS)))
    kept.array("models/forms/polars/nystrom", nystrom().fit(table, "stay", "w").predict(table.select(COLUMNS)))


@case()
def tables_in_files(kept: Folder) -> None:
    """Parquet folders, CSV of every dialect, compressed or with quotes, and labels by name."""
    folder = kept.place("inputs/parts/x").parent
    for i in range(3):
        write_table(WHOLE.iloc[40 * i : 40 * i + 40].drop(columns=["site", "cost"]), folder / f"part-{i}.parquet")
    plain = WHOLE[[*COLUMNS, "stay", "w"]]
    places: dict[str, Any] = {"folder": str(folder)}
    text = plain.to_csv(index=False)
    compressed = kept.place("inputs/rows.csv.gz")
    compressed.write_bytes(gzip.compress(text.encode(), mtime=0))
    places["compressed"] = str(compressed)
    for name, delimiter, lines in (
        ("semicolons", ";", plain.to_csv(index=False, sep=";")),
        ("quotes", ",", plain.assign(note='a "word", and\nanother line').to_csv(index=False, quoting=1)),
        ("truths", ",", plain.assign(dose=plain["dose"] > 0).to_csv(index=False)),
    ):
        place = kept.place(f"inputs/{name}.csv")
        place.write_text(lines, encoding="utf-8")
        places[name] = up.blocks.Csv(str(place), COLUMNS, delimiter=delimiter)
    for name, rows in places.items():
        model = nystrom(fit_intercept=True).fit(rows, "stay", "w")
        kept.array(f"models/forms/{name}/nystrom", model.predict(rows))
        kept.json(f"models/forms/{name}/score", model.score(rows, "stay", "w"))
        blocks = averaged(spectral(), n_blocks=2, lam=0.01).fit(rows, "stay", sample_weight="w")
        kept.array(f"models/forms/{name}/averaged", blocks.predict(plain[COLUMNS]))
        sums = up.Summary.of(empirical().fit(plain[COLUMNS]), rows, "stay", sample_weight="w")
        sums.save(kept.place(f"summaries/of {name}.summary"))


@case()
def scores(kept: Folder) -> None:
    """Shares of variance that models of several classes explain, with weights and without."""
    shared = basis()
    models = {
        "spectral": spectral().fit(TABLE, y),
        "nystrom": nystrom().fit(TABLE, y),
        "averaged": averaged(spectral(), n_blocks=2, lam=0.01).fit(TABLE, y),
        "correntropy": correntropy().fit(TABLE, y),
        "less": less(lam=0.01).fit(TABLE, y, public=pd.DataFrame(U, columns=COLUMNS)),
        "summary": summary_regressor().fit_summary(up.Summary.of(shared, TABLE, y), basis=shared),
    }
    for name, model in models.items():
        kept.json(f"models/scores/{name}", [model.score(TABLE, y), model.score(TABLE, y, WEIGHTS)])


@case("opendp")
def noise(kept: Folder) -> None:
    """Planned noise, drawn and added to vectors and to symmetric matrices, and what an order of visits reaches."""
    p = up.privacy
    one = p.calibrate_noise(6, 1.5, 0.4, 20.0, inexact=1e-9, parties=3, missing=1)
    matrix = np.cov(X.T)
    kept.json("formulas/noise", {**vars(one), "mu": one.mu, "sigma": one.sigma, "own": one.own_sigma})
    with fixed_noise():
        kept.arrays("formulas/noise", drawn=p.draw(5, 2000.0), added=one.add(np.arange(6.0)))
        kept.array("formulas/noise/symmetric", one.add_symmetric(matrix))
    batches = [np.arange(i, i + 4) % 10 for i in range(7)]
    options: dict[str, Any] = {"kappa": 1.0, "lam": 0.1, "batch_size": 4}
    reached = [p.sgd.fixed_order(batches, 10, 0.1, 1.0, averaged=flag, **options) for flag in (False, True)]
    kept.json("formulas/visits", reached)


@case()
def refused_rows(kept: Folder) -> None:
    """Sentences with which rows, labels, weights, sites and tables are refused."""
    fit, few = spectral().fit, X[:10]
    text = np.asarray([["a"] * 3] * 10, dtype=object)
    csvs = {
        "a word in a column": "age,stay\n1,2\nold,3\n",
        "a missing cell": "age,stay\n1,2\n,3\n",
        "a long line": "age,stay\n1,2\n1,2,3\n",
        "a name twice": "age,age\n1,2\n",
        "one column": "age;stay\n1;2\n",
        "nothing": "",
        "an open quote": 'age,stay\n1,"2\n',
    }
    calls: dict[str, Callable[[], Any]] = {
        "one dimension": lambda: fit(y, y),
        "no rows": lambda: fit(X[:0], y[:0]),
        "words": lambda: fit(text, y[:10]),
        "complex numbers": lambda: fit(few + 1j, y[:10]),
        "too few labels": lambda: fit(X, y[:10]),
        "labels of words": lambda: fit(few, np.asarray(["a"] * 10)),
        "an infinite label": lambda: fit(few, np.where(np.arange(10) == 3, np.inf, 1.0)),
        "no labels": lambda: fit(few, None),
        "a huge label": lambda: fit(few, np.full(10, 1e300)),
        "negative weights": lambda: fit(few, y[:10], -np.ones(10)),
        "too few weights": lambda: fit(few, y[:10], np.ones(3)),
        "no weight at all": lambda: fit(few, y[:10], np.zeros(10)),
        "other names": lambda: fit(TABLE, y).predict(TABLE.rename(columns={"age": "years"})),
        "no such column": lambda: nystrom().fit(WHOLE, "nothing"),
        "too few sites": lambda: averaged(spectral()).fit(X, y, sites=SITE_OF_ROW[:9]),
        "unlabeled of another width": lambda: averaged(spectral(), n_blocks=2).fit(X, y, unlabeled=U[:, :2]),
        "folds": lambda: spectral(lam="cv", cv=1).fit(X, y),
        "a kernel matrix": lambda: spectral(kernel="precomputed").fit(X, y),
        "other labels": lambda: up.Summary.of(basis(), TABLE, LABELS) + up.Summary.of(basis(), TABLE, LABELS["stay"]),
        "a table that is none": lambda: nystrom().fit("nowhere.parquet", "stay"),
    }
    for name, content in csvs.items():
        place = kept.place(f"inputs/refused/{name}.csv")
        place.write_text(content, encoding="utf-8")
        calls[name] = _reader(place)
    for name, call in calls.items():
        kept.refusal(f"rows, {name}", call)


def _reader(place: Path) -> Callable[[], Any]:
    return lambda: nystrom(n_features=2, lam=0.1).fit(str(place), "stay")


@case(slow=True)
def many_rows(kept: Folder) -> None:
    """Routes that are only taken on thousands of rows."""
    rng = np.random.default_rng(91)
    rows = rng.uniform(-1, 1, size=(5300, 3))
    labels = np.sin(3 * rows[:, 0]) + 0.1 * rng.normal(size=len(rows))
    found = up.choose_length_scales(k.Gaussian("auto"), rows, labels, random_state=0, verbose=0)
    kept.json("formulas/length scales of many rows", found.get_params())
    banded = spectral(kernel=k.Laplacian(0.5), lam="loo").fit(rows[:3100], labels[:3100])
    kept.model("spectral/banded, many rows", banded)
