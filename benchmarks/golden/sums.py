"""Cases: bases, summaries, candidates and scores, and the models that are learned from sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import unpooled as up
from golden.inputs import COLUMNS, GRID, NEW_ROWS, SITE_OF_ROW, WEIGHTS, X_NEW, U, X, Y, y
from golden.keep import Folder, case

k, b = up.kernels, up.bases
PUBLIC = pd.DataFrame(U, columns=COLUMNS)
TABLE = pd.DataFrame(X, columns=COLUMNS)
LABELS = pd.DataFrame(Y, columns=["stay", "cost"])


def empirical(kernel: Any = None, n_features: Any = 25, standardize: bool = False, **others: Any) -> Any:
    """Make EmpiricalFeatures with every argument named."""
    named: dict[str, Any] = {"max_points": 2000, "random_state": 0}
    return b.EmpiricalFeatures(kernel or k.Gaussian(0.7), n_features, standardize, **named | others)


def summary_regressor(**changes: Any) -> Any:
    """Make a SummaryRegressor with every argument named."""
    named: dict[str, Any] = {"filter": "tikhonov", "lam": "auto", "fit_intercept": False, "n_features": "all"}
    return up.SummaryRegressor(**named | {"ridge": False, "steps": "plain", "grid": GRID, "verbose": 0} | changes)


def less(**changes: Any) -> Any:
    """Make a LESSRegressor with every argument named."""
    named: dict[str, Any] = {"kernel": k.Gaussian(0.7), "basis": None, "n_features": 25, "lam": "auto", "rounds": 1}
    named |= {
        "loss": "squared",
        "order": 1,
        "filter": "tikhonov",
        "fit_intercept": False,
        "ridge": False,
        "steps": "plain",
    }
    named |= {"tol": 1e-8, "grid": GRID, "standardize": False, "engine": "threads", "random_state": 0, "verbose": 0}
    return up.LESSRegressor(**named | changes)


def basis() -> Any:
    """Make the basis of most cases, from public rows with names."""
    return empirical().fit(PUBLIC)


@case()
def bases(kept: Folder) -> None:
    """Every class, scaled and not, of every kernel that it takes, weighted, of more rows than are kept."""
    waves = {"n_features": 31, "seed": 3}
    made = {
        "empirical": empirical(),
        "empirical, auto": empirical(n_features="auto", kernel=k.Gaussian("median")),
        "empirical, standardized": empirical(standardize=True, kernel=k.Gaussian("median")),
        "empirical, few points": empirical(max_points=30, random_state=5),
        "empirical, Laplacian": empirical(k.Laplacian(1.0)),
        "empirical, Matern": empirical(k.Matern(1.0, nu=2.5)),
        "empirical, linear": empirical(k.Linear() + k.Polynomial(2, gamma=0.5, coef0=1.0), "auto"),
        "random": b.RandomFeatures(k.Gaussian(0.7), standardize=False, **waves),
        "random, standardized": b.RandomFeatures(k.Laplacian("median"), standardize=True, **waves),
        "random, Matern": b.RandomFeatures(k.Matern(0.9, nu=1.5) * k.Gaussian(1.2), standardize=False, **waves),
        "cosine": b.CosineFeatures(k.Gaussian(0.7), standardize=False, **waves),
        "cosine, standardized": b.CosineFeatures(k.Gaussian("median"), standardize=True, **waves),
    }
    for name, one in made.items():
        names = "frame" if "standardized" in name else "rows"
        one.fit(PUBLIC if names == "frame" else U, sample_weight=WEIGHTS[: len(U)] if "few" in name else None)
        at = NEW_ROWS[names]
        place = kept.place(f"bases/{name}/a.basis")
        one.save(place)
        found = b.load(place)
        kept.text(f"bases/{name}/rows", names)
        kept.text(f"bases/{name}/described", one.describe())
        kept.json(
            f"bases/{name}/facts", [one.digest, found.digest, one.n_features_, one.kappa_sq_, one.single_is_safe_]
        )
        features = {"features": one.transform(at), "features_from_file": found.transform(at)}
        kept.arrays(f"bases/{name}", **features, eigenvalues=one.eigenvalues_, mean=one.mean_, spread=one.spread_)
        kept.array(f"bases/{name}/features_single", one.transform(X_NEW.astype(np.float32)))


def keep_summary(kept: Folder, name: str, one: Any) -> None:
    """Keep a summary, in its file, in words and in arrays."""
    one.save(kept.place(f"summaries/{name}.summary"))
    kept.text(f"summaries/{name}", f"{one!r}\n{one.describe()}")


@case()
def summaries(kept: Folder) -> None:
    """Both orders, labels with and without names, weights, losses, residuals, and what they add up to."""
    shared = basis()
    shared.save(kept.place("summaries/study.basis"))
    for order in (1, 2):
        keep_summary(kept, f"order {order}", up.Summary.of(shared, TABLE, LABELS["stay"], order=order))
        weighted = up.Summary.of(shared, TABLE, LABELS, order=order, sample_weight=WEIGHTS)
        keep_summary(kept, f"order {order}, weights", weighted)
        parts = [TABLE[np.equal(SITE_OF_ROW, site)] for site in np.unique(SITE_OF_ROW)]
        each = [up.Summary.of(shared, part, LABELS.loc[part.index, "stay"], order=order) for part in parts]
        keep_summary(kept, f"order {order}, added", sum(each))
    keep_summary(kept, "first of the second", up.Summary.of(shared, TABLE, y, order=2).to_first_order())
    for name, loss in {"huber": up.losses.Huber(0.6), "correntropy": up.losses.Correntropy(1.5)}.items():
        keep_summary(kept, f"loss {name}", up.Summary.of(shared, TABLE, y, loss=loss))
    model = summary_regressor(lam=0.01).fit_summary(up.Summary.of(shared, TABLE, LABELS["stay"]), basis=shared)
    up.save(model, kept.place("summaries/first.model"))
    keep_summary(kept, "residuals", up.Summary.of(shared, TABLE, LABELS["stay"], residuals_of=model))
    another = up.SpectralRegressor(k.Gaussian(1.0), lam=0.1, fit_intercept=False).fit(TABLE, y)
    keep_summary(kept, "residuals of another", up.Summary.of(shared, TABLE, y, residuals_of=another))
    waves = b.RandomFeatures(k.Gaussian(0.7), n_features=20, seed=1, standardize=True).fit(PUBLIC)
    keep_summary(kept, "waves", up.Summary.of(waves, TABLE.astype(np.float32), LABELS, order=2))


@case()
def second_exchange(kept: Folder) -> None:
    """Candidates and scores of both orders and every centring, and the model that is chosen by them."""
    shared = basis()
    for order in (1, 2):
        for center in (False, True, "public"):
            name = f"order {order}, center {center}"
            whole = up.Summary.of(shared, TABLE, LABELS, order=order, sample_weight=WEIGHTS)
            model = summary_regressor(fit_intercept=center).fit_summary(whole, basis=shared)
            asked = model.candidates(basis=shared)
            asked.save(kept.place(f"second exchange/{name}.candidates"))
            halves = [slice(0, 70), slice(70, None)]
            each = [
                up.Scores.of(asked, shared, TABLE[h], LABELS[h], sample_weight=WEIGHTS[h], engine="threads")
                for h in halves
            ]
            for i, one in enumerate([*each, sum(each)]):
                one.save(kept.place(f"second exchange/{name}, {i}.scores"))
            kept.array(f"second exchange/{name}/mean", sum(each).mean)
            kept.json(f"second exchange/{name}/facts", [asked.digest, asked.question, repr(asked)])
            chosen = summary_regressor(fit_intercept=center).fit_summary(whole, scores=sum(each), basis=shared)
            kept.model(f"summary/by scores, {name}", chosen, "frame")


@case()
def of_summaries(kept: Folder) -> None:
    """Every filter, order, centring and number of features; rounds of every kind; summaries one after another."""
    shared = basis()
    sums = {order: up.Summary.of(shared, TABLE, LABELS["stay"], order=order) for order in (1, 2)}
    both = {order: up.Summary.of(shared, TABLE, LABELS, order=order, sample_weight=WEIGHTS) for order in (1, 2)}
    for order in (1, 2):
        for filter_ in ("tikhonov", up.filters.IteratedTikhonov(times=3), "cutoff", "landweber", "nu"):
            name = filter_ if isinstance(filter_, str) else "iterated"
            model = summary_regressor(filter=filter_, fit_intercept=True).fit_summary(sums[order], basis=shared)
            kept.model(f"summary/order {order}, {name}", model, "frame")
        for center in (False, "public"):
            model = summary_regressor(fit_intercept=center).fit_summary(both[order], basis=shared)
            kept.model(f"summary/order {order}, center {center}", model, "frame")
        few = summary_regressor(n_features=9, lam=[0.1, 0.01]).fit_summary(sums[order], basis=shared)
        kept.model(f"summary/order {order}, 9 features", few, "frame")
        fixed = summary_regressor(lam=0.003, grid=None).fit_summary(sums[order], basis=shared)
        kept.model(f"summary/order {order}, one number", fixed, "frame")
        kept.json(f"models/summary/order {order}, one number/floor", vars(fixed.floor_))
    ruled = summary_regressor(n_features="rule", grid=None).fit_summary(sums[1], basis=shared)
    kept.model("summary/by the rule", ruled, "frame")
    parts = summary_regressor(fit_intercept=True)
    for part in (slice(0, 50), slice(50, None)):
        parts.partial_fit(up.Summary.of(shared, TABLE[part], LABELS["stay"][part], order=2), basis=shared)
    kept.model("summary/partial fits", parts, "frame")
    for loss in ("squared", "huber", "correntropy"):
        of = up.losses.as_loss(loss, None if loss == "squared" else 0.9)
        for steps in ("plain", "conjugate"):
            for ridge in (False, True):
                model = summary_regressor(fit_intercept=True, steps=steps, ridge=ridge, lam=0.003)
                model.fit_summary(up.Summary.of(shared, TABLE, LABELS["stay"], loss=of), basis=shared)
                for _ in range(3):
                    residuals = up.Summary.of(shared, TABLE, LABELS["stay"], residuals_of=model, loss=of)
                    model.update(residuals, basis=shared)
                kept.model(f"summary/rounds, {loss}, {steps}, ridge {ridge}", model, "frame")


@case()
def less_models(kept: Folder) -> None:
    """One round and several, robust and not, with public rows and without, in parts, in every filter."""
    cases: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "one round": ({}, {"public": U}),
        "centred": ({"fit_intercept": True, "standardize": True, "kernel": k.Gaussian("median")}, {"public": U}),
        "public centring": ({"fit_intercept": "public"}, {"public": U, "sites": SITE_OF_ROW}),
        "no public rows": ({"n_features": "auto"}, {"sample_weight": WEIGHTS}),
        "second order": ({"order": 2, "fit_intercept": True}, {"public": U}),
        "three rounds": ({"rounds": 3, "lam": 0.003}, {"public": U}),
        "rounds to the end": ({"rounds": 40, "steps": "conjugate", "fit_intercept": True}, {"public": U}),
        "rounds of ridge": ({"rounds": 12, "ridge": True}, {"public": U, "sample_weight": WEIGHTS}),
        "huber": ({"rounds": 6, "loss": "huber", "fit_intercept": True}, {"public": U, "sites": SITE_OF_ROW}),
        "correntropy": ({"rounds": 5, "loss": up.losses.Correntropy(1.2), "lam": [0.1, 0.01]}, {"public": U}),
        "landweber": ({"filter": "landweber"}, {"public": U}),
        "own grid": ({"grid": None, "n_features": "auto"}, {"public": U}),
    }
    for name, (options, rows) in cases.items():
        labels = Y if name in ("centred", "rounds to the end") else y
        model = less(**options).fit(X, labels, **rows)
        kept.model(f"less/{name}", model)
        kept.json(f"models/less/{name}/history", [model.history_, model.sites_, model.n_rounds_, model.loss_])
    given = less(kernel=None, basis=basis(), lam=0.01).fit(TABLE, LABELS)
    kept.model("less/of a basis", given, "frame")
    parts = less(fit_intercept=True, order=2)
    for part in (slice(0, 50), slice(50, None)):
        parts.partial_fit(X[part], y[part], public=U, sample_weight=WEIGHTS[part])
    kept.model("less/partial fits", parts)
