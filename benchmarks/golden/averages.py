"""Cases: averages over blocks and sites, and descent on the correntropy loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

import unpooled as up
from golden.exact_models import spectral
from golden.inputs import COLUMNS, GRID, SITE_OF_ROW, WEIGHTS, WRONG, X_NEW, U, X, Y, frame, write_table, y
from golden.keep import Folder, case

k = up.kernels


def averaged(local: Any, **changes: Any) -> Any:
    """Make an AveragedRegressor with every argument named; limits are far away, so that no timing decides."""
    named: dict[str, Any] = {"n_blocks": [1, 2, 4], "lam": "rule13", "engine": "threads", "grid": None}
    named |= {"score_by": "rows", "refit": True, "max_validation": 20_000, "memory_limit": 1e9, "time_limit": None}
    named |= {"tolerance": 0.0, "random_state": 0, "verbose": 0}
    return up.AveragedRegressor(estimator=local, **named | changes)


def correntropy(**changes: Any) -> Any:
    """Make a CorrentropyRegressor with every argument named."""
    named: dict[str, Any] = {"kernel": k.Gaussian(0.7), "scale": 1.0, "n_iter": 60, "step": 0.9, "decay": 0.1}
    named |= {"loss": "correntropy", "fit_intercept": False, "cv": 4, "random_state": 0, "jump": 0.02, "verbose": 0}
    return up.CorrentropyRegressor(**named | changes)


@case()
def averages(kept: Folder) -> None:
    """Every rule, sites, rows without labels, robust learners, learners of others, and smaller models."""
    cases: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
        "rule 13": (spectral(kernel=k.Gaussian("median"), fit_intercept=True), {}, {}),
        "auto": (spectral(), {"n_blocks": "auto", "grid": GRID}, {"sample_weight": WEIGHTS}),
        "one number": (spectral(filter="landweber"), {"n_blocks": 3, "lam": 0.02}, {}),
        "local": (spectral(lam="loo"), {"n_blocks": 2, "lam": "local"}, {}),
        "array": (spectral(), {"lam": [0.1, 0.01], "refit": False, "max_validation": 30}, {}),
        "sites": (spectral(fit_intercept=True), {"score_by": "sites", "grid": GRID}, {"sites": SITE_OF_ROW}),
        "unlabeled": (spectral(fit_intercept=True), {"n_blocks": 4}, {"unlabeled": U}),
        "length scales": (spectral(kernel=k.Gaussian("auto")), {"n_blocks": 2}, {}),
        "robust": (correntropy(scale="auto", n_iter="auto", fit_intercept=True), {"n_blocks": [1, 2]}, {}),
        "robust, unlabeled": (correntropy(loss="huber", n_iter=30), {"n_blocks": 3}, {"unlabeled": U}),
        "filter nu": (spectral(filter=up.filters.NuMethod(nu=1.5)), {"n_blocks": 2, "grid": GRID}, {}),
    }
    for name, (local, options, rows) in cases.items():
        labels = WRONG if "robust" in name else Y if name in ("rule 13", "sites") else y
        model = averaged(local, **options).fit(X, labels, **rows)
        kept.model(f"averaged/{name}", model)
        kept.json(f"models/averaged/{name}/blocks", model.blocks_)
        if name in ("rule 13", "robust"):
            kept.model(f"averaged/{name}, compressed", model.compress(20, random_state=1))
    kept.model("averaged/of others", averaged(Ridge(alpha=0.1), n_blocks=3).fit(X, y), saved=False)
    place = kept.place("inputs/table.parquet")
    write_table(frame(160, 9), place)
    features = up.blocks.Parquet(str(place), COLUMNS)
    from_file = averaged(spectral(fit_intercept=True), n_blocks=[2, 4]).fit(
        features, "stay", sites="site", sample_weight="w"
    )
    kept.model("averaged/from a file", from_file, "frame")


@case()
def engines(kept: Folder) -> None:
    """Threads, processes, engine objects, and an error that names its block."""
    for engine in ("threads", "processes"):
        model = averaged(spectral(fit_intercept=True), engine=engine, n_blocks=2, grid=GRID).fit(X, y)
        kept.model(f"averaged/engine {engine}", model)
    few = up.engines.Threads()
    less = up.LESSRegressor(k.Gaussian(0.7), n_features=20, lam=0.01, fit_intercept=False, engine=few).fit(
        X, y, public=U
    )
    kept.array("models/averaged/engine object/predictions", less.predict(X_NEW))
    broken = averaged(_Fails(), n_blocks=3)
    kept.refusal("a block that fails", lambda: broken.fit(X, y))


@case("dask", "distributed")
def engine_dask(kept: Folder) -> None:
    """Averages on a Dask cluster in this process, and rows in Dask collections."""
    import dask.array as da
    import dask.dataframe as dd
    import distributed

    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        model = averaged(spectral(fit_intercept=True), engine=client, n_blocks=2, grid=GRID).fit(X, y)
        kept.array("models/averaged/engine dask/predictions", model.predict(X_NEW))
        table = dd.from_pandas(frame(120, 10), npartitions=3)
        columns = table[COLUMNS]
        of_table = averaged(spectral(), engine=client, n_blocks=3, lam=0.02).fit(columns, table["stay"])
        kept.array("models/averaged/dask frame/predictions", of_table.predict(frame(20, 11)[COLUMNS]))
        cut = da.from_array(X, chunks=(50, 3))
        kept.array("models/averaged/dask array/predictions", model.predict(cut))


class _Fails(Ridge):
    """A learner that has a reason to fail."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        raise ValueError("this learner never learns")


@case()
def robust(kept: Folder) -> None:
    """Every loss, given and chosen scales and steps, weights, rows without labels, a precomputed matrix."""
    cases: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "given": ({}, {}),
        "every step": ({"jump": 0.0, "n_iter": 600}, {}),
        "jumps": ({"n_iter": 5000, "decay": 0.0}, {}),
        "auto": ({"scale": "auto", "n_iter": "auto", "step": 1.0, "decay": 0.0, "fit_intercept": True}, {}),
        "huber": ({"loss": "huber", "scale": "auto", "fit_intercept": True}, {}),
        "squared": ({"loss": "squared", "n_iter": "auto"}, {}),
        "a loss": ({"loss": up.losses.Huber(0.8)}, {}),
        "weights": ({"n_iter": "auto", "fit_intercept": True}, {"sample_weight": WEIGHTS}),
        "unlabeled": ({"kernel": k.Gaussian("median")}, {"unlabeled": U}),
        "many steps": ({"kernel": k.Laplacian(0.8), "n_iter": 200, "scale": np.inf}, {}),
        "length scales": ({"kernel": k.Gaussian("auto")}, {}),
    }
    for name, (options, rows) in cases.items():
        kept.model(f"correntropy/{name}", correntropy(**options).fit(X, WRONG, **rows))
    both = np.column_stack([WRONG, Y[:, 1]])
    kept.model("correntropy/two labels", correntropy(fit_intercept=True, scale="auto", n_iter="auto").fit(X, both))
    kept.model("correntropy/scales", correntropy(scale=[0.8, 2.0], n_iter=[20, 40]).fit(X, both))
    products = (X @ X.T + 1) ** 2 / 4
    kept.model("correntropy/precomputed", correntropy(kernel="precomputed").fit(products, WRONG), "products")
    few = correntropy(n_iter="auto").fit(X.astype(np.float32), WRONG.astype(np.float32))
    kept.model("correntropy/single", few, "single precision")
