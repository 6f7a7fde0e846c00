"""Cases: regression on one machine, exact (SpectralRegressor) and in the span of points (NystromRegressor)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process import kernels as gp

import unpooled as up
from golden.inputs import COLUMNS, GRID, WEIGHTS, X_LARGE, Y_LARGE, U, X, Y, frame, write_table, y
from golden.keep import Folder, case

k, f = up.kernels, up.filters
FILTERS = {
    "tikhonov": "tikhonov",
    "iterated-tikhonov": f.IteratedTikhonov(times=3),
    "cutoff": "cutoff",
    "landweber": "landweber",
    "nu": f.NuMethod(nu=2.0),
}
KERNELS = {
    "Gaussian": k.Gaussian(0.7),
    "Gaussian, median": k.Gaussian("median"),
    "Gaussian, auto": k.Gaussian("auto"),
    "Gaussian, vector": k.Gaussian([0.6, 0.9, 1.4]),
    "Laplacian": k.Laplacian(0.8),
    "Matern 1": k.Matern(0.8, nu=0.5),
    "Matern 3": k.Matern(0.8, nu=1.5),
    "Matern 5": k.Matern(0.8, nu=2.5),
    "Linear": k.Linear(),
    "Polynomial": k.Polynomial(2, gamma=0.5, coef0=1.0),
    "sum and product": k.Gaussian(0.7) + 0.5 * k.Linear() * k.Matern(0.9, nu=1.5),
    "Centered": k.Centered(k.Gaussian(0.7), U),
    "rbf": "rbf",
    "laplacian": k.Pairwise("laplacian"),
    "cosine": "cosine",
    "RBF": gp.RBF(0.7),
    "several of scikit-learn": gp.ConstantKernel(2.0) * gp.Matern(0.9, nu=1.2) + gp.WhiteKernel(0.2),
}


def spectral(**changes: Any) -> Any:
    """Make a SpectralRegressor with every argument named."""
    named: dict[str, Any] = {"kernel": k.Gaussian(0.7), "filter": "tikhonov", "lam": 0.01, "fit_intercept": False}
    named |= {"grid": GRID, "per_target": False, "cv": 4, "random_state": 0, "solver": "auto", "verbose": 0}
    return up.SpectralRegressor(**named | changes)


def nystrom(**changes: Any) -> Any:
    """Make a NystromRegressor with every argument named."""
    named: dict[str, Any] = {"kernel": k.Gaussian(0.7), "n_features": 40, "lam": "gcv", "fit_intercept": False}
    named |= {"solver": "auto", "device": None, "precision": "auto", "standardize": False, "tol": 3e-3}
    named |= {"max_iter": 100, "grid": GRID, "random_state": 0, "verbose": 0}
    return up.NystromRegressor(**named | changes)


@case()
def spectral_filters(kept: Folder) -> None:
    """Every filter, with every way to choose λ and every route that serves it."""
    for name, filter_ in FILTERS.items():
        for lam in (0.01, "loo", "gcv", "cv"):
            kept.model(f"spectral/{name}, {lam}", spectral(filter=filter_, lam=lam).fit(X, y))
        kept.model(f"spectral/{name}, eigh", spectral(filter=filter_, solver="eigh").fit(X, y))
        two = spectral(filter=filter_, lam="loo", fit_intercept=True, per_target=True).fit(X, Y, WEIGHTS)
        kept.model(f"spectral/{name}, centred, weights", two)
    for solver, choices in {
        "cholesky": {},
        "products": {"filter": "landweber"},
        "mixed": {"lam": "loo"},
        "banded": {"lam": "gcv"},
        "low-rank": {"lam": "loo", "kernel": k.Gaussian(3.0)},
    }.items():
        kept.model(f"spectral/solver {solver}", spectral(solver=solver, **choices).fit(X, y))
    for solver in ("auto", "low-rank"):
        large = spectral(kernel=k.Gaussian(2.0), lam="loo", solver=solver).fit(X_LARGE, Y_LARGE)
        kept.model(f"spectral/many rows, {solver}", large)
    kept.model("spectral/many rows, mixed", spectral(kernel=k.Gaussian(0.3), lam="loo").fit(X_LARGE, Y_LARGE[:, 0]))
    kept.model("spectral/own grid", spectral(lam="loo", grid=None, fit_intercept=True).fit(X, Y))
    kept.model("spectral/array", spectral(lam=[0.1, 0.01, 0.001], grid=None).fit(X, Y))


@case()
def spectral_kernels(kept: Folder) -> None:
    """Every kernel, and rows of every form."""
    for name, kernel in KERNELS.items():
        kept.model(f"kernels/{name}", spectral(kernel=kernel, lam="loo").fit(X, y))
    kept.model("kernels/Brownian", spectral(kernel=k.Brownian()).fit(np.abs(X[:, :1]), y), "one positive column")
    kept.model("kernels/ExpSineSquared", spectral(kernel=gp.ExpSineSquared(0.8, 2.0)).fit(X[:, :1], y), "one column")
    products = (X @ X.T + 1) ** 2 / 4
    kept.model("kernels/precomputed", spectral(kernel="precomputed", lam="gcv").fit(products, Y), "products")
    kept.model("kernels/a function", spectral(kernel=lambda A, B: np.exp(-np.abs(A - B).sum())).fit(X, y), saved=False)
    few, labels = X.astype(np.float32), Y.astype(np.float32)
    kept.model("spectral/single", spectral(lam="loo", fit_intercept=True).fit(few, labels), "single precision")
    table = pd.DataFrame(X, columns=COLUMNS)
    kept.model("spectral/frame", spectral(lam="cv").fit(table, pd.Series(y, name="stay")), "frame")
    chosen = up.choose_length_scales(k.Matern("auto", nu=1.5), X, y, WEIGHTS, random_state=3, verbose=0)
    kept.json("formulas/length scales", {"kernel": chosen.get_params(), "type": type(chosen).__name__})


@case("torch")
def spectral_tensors(kept: Folder) -> None:
    """Tensors in, tensors out."""
    import torch

    tensors = spectral(lam="loo", fit_intercept=True).fit(torch.from_numpy(X), torch.from_numpy(Y))
    kept.array("models/spectral/tensors/predictions", tensors.predict(torch.from_numpy(X[:20])))
    up.save(tensors, kept.place("models/spectral/tensors/a.model"))


@case()
def nystrom_routes(kept: Folder) -> None:
    """Both routes in every precision, choices of λ, and rows in pieces and in files."""
    for solver in ("gram", "rounds"):
        for precision in ("single", "double"):
            for lam in (0.01, "gcv"):
                model = nystrom(solver=solver, precision=precision, lam=lam).fit(X, y)
                kept.model(f"nystrom/{solver}, {precision}, {lam}", model)
        options = {"solver": solver, "fit_intercept": True, "standardize": True}
        kept.model(f"nystrom/{solver}, centred, weights", nystrom(**options).fit(X, Y, WEIGHTS))
        single = nystrom(solver=solver, kernel=k.Matern(0.8, nu=1.5), fit_intercept=True)
        kept.model(f"nystrom/{solver}, single rows", single.fit(X.astype(np.float32), y.astype(np.float32)))
    own = {"n_features": "auto", "grid": None, "kernel": k.Gaussian(0.5)}
    kept.model("nystrom/auto", nystrom(**own).fit(X_LARGE, Y_LARGE))
    kept.model("nystrom/array", nystrom(lam=[1e-2, 1e-4, 1e-6], kernel=k.Laplacian(1.0)).fit(X, Y))
    kept.model("nystrom/length scales", nystrom(kernel=k.Gaussian("auto")).fit(X, y))
    parts = nystrom(fit_intercept=True)
    for part in (slice(0, 60), slice(60, 100), slice(100, None)):
        parts.partial_fit(X[part], Y[part], WEIGHTS[part])
    kept.model("nystrom/partial fits", parts)
    place = kept.place("inputs/rows.parquet")
    for end in ("parquet", "csv"):
        path = place.with_suffix(f".{end}")
        write_table(frame(130, 8).drop(columns="site"), path)
        found = nystrom(fit_intercept=True).fit(str(path), ["stay", "cost"], "w")
        kept.model(f"nystrom/from {end}", found, "frame")
        kept.array(f"models/nystrom/from {end}/predictions_of_the_file", found.predict(str(path))[:20])


@case("torch")
def nystrom_fixed_point(kept: Folder) -> None:
    """Sums that have no rounding, and sums by torch."""
    kept.model("nystrom/fixed", nystrom(precision="fixed", solver="gram", lam=[1e-2, 1e-4]).fit(X, y))
    for solver in ("gram", "rounds"):
        kept.model(f"nystrom/torch, {solver}", nystrom(device="cpu", solver=solver, fit_intercept=True).fit(X, Y))
