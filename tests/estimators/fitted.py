"""A small fitted model of every estimator, and how each is fitted again; for tests of what a fit leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import unpooled as up

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(40, 2))
y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(40)
U = rng.uniform(-1, 1, size=(24, 2))
KERNEL = up.kernels.Gaussian(0.7)


@cache
def basis() -> Any:
    return up.bases.EmpiricalFeatures(KERNEL, 8).fit(U)


@cache
def summary(part: int = 0, order: int = 1) -> Any:
    return up.Summary.of(basis(), X[part::2], y[part::2], order=order)


@dataclass(frozen=True)
class Case:
    """A model that is not fitted, and the calls that fit it, by their names."""

    name: str
    make: Callable[[], Any]
    fit: Callable[[Any], Any]
    again: Callable[[Any], Any]  #: a second fit of any kind, from where the first has come
    bad: tuple[Callable[[Any], Any], ...] = ()  #: fits that are refused


def _bad_rows(method: str = "fit", **others: Any) -> tuple[Callable[[Any], Any], ...]:
    holed = X.copy()
    holed[-1, 0] = np.nan

    def call(*given: Any) -> Callable[[Any], Any]:
        return lambda model: getattr(model, method)(*given, **others)

    return call(holed, y), call(X, y[:-1]), call("nothing.parquet", "y"), call(X, ["a"] * 40), call(X[:, 0], y)


def _rounds(model: Any) -> Any:
    return up.Summary.of(basis(), X, y, residuals_of=model)


CASES = [
    Case(
        "spectral",
        lambda: up.SpectralRegressor(KERNEL, fit_intercept=False),
        lambda m: m.fit(X, y),
        lambda m: m.fit(X, 2 * y),
        _bad_rows(),
    ),
    Case(
        "spectral, one λ",
        lambda: up.SpectralRegressor(KERNEL, "landweber", 0.1, fit_intercept=False),
        lambda m: m.fit(X, y),
        lambda m: m.fit(X[:30], y[:30]),
        _bad_rows(),
    ),
    Case(
        "correntropy",
        lambda: up.CorrentropyRegressor(KERNEL, n_iter=9, fit_intercept=False),
        lambda m: m.fit(X, y),
        lambda m: m.fit(X, 2 * y, unlabeled=U),
        _bad_rows(),
    ),
    Case(
        "averaged",
        lambda: up.AveragedRegressor(up.SpectralRegressor(KERNEL, fit_intercept=False), [1, 2]),
        lambda m: m.fit(X, y),
        lambda m: m.fit(X, 2 * y, sites=np.arange(40) % 2),
        _bad_rows(sites=np.arange(40) % 2),
    ),
    Case(
        "nystrom",
        lambda: up.NystromRegressor(KERNEL, 10, fit_intercept=False),
        lambda m: m.fit(X, y),
        lambda m: m.fit(X, 2 * y),
        _bad_rows(),
    ),
    Case(
        "nystrom, more rows",
        lambda: up.NystromRegressor(KERNEL, 10, fit_intercept=True),
        lambda m: m.partial_fit(X, y),
        lambda m: m.partial_fit(X, 2 * y),
        (*_bad_rows("partial_fit"), lambda m: m.partial_fit(X, np.column_stack([y, y]))),
    ),
    Case(
        "nystrom, more rows without an intercept",
        lambda: up.NystromRegressor(KERNEL, 10, fit_intercept=True),
        lambda m: m.partial_fit(X, y),
        lambda m: m.set_params(fit_intercept=False).partial_fit(X, 2 * y),
    ),
    Case(
        "less",
        lambda: up.LESSRegressor(KERNEL, 8, fit_intercept=False),
        lambda m: m.fit(X, y, public=U),
        lambda m: m.fit(X, 2 * y),
        (*_bad_rows(public=U), lambda m: m.fit(X, y, public=U, sites=["a"])),
    ),
    Case(
        "less, more rows",
        lambda: up.LESSRegressor(KERNEL, 8, fit_intercept=False),
        lambda m: m.partial_fit(X, y, public=U),
        lambda m: m.partial_fit(X, 2 * y),
        _bad_rows("partial_fit"),
    ),
    Case(
        "less in rounds",
        lambda: up.LESSRegressor(KERNEL, 8, rounds=3, loss="huber", fit_intercept=True),
        lambda m: m.fit(X, y, public=U),
        lambda m: m.fit(X, 2 * y, public=U),
        _bad_rows(public=U),
    ),
    Case(
        "summary",
        lambda: up.SummaryRegressor(fit_intercept=True),
        lambda m: m.fit_summary(summary(), basis=basis()),
        lambda m: m.fit_summary(summary(1, 2), basis=basis()),
        (lambda m: m.fit_summary("a"), lambda m: m.fit_summary(_rounds(m), basis=basis())),
    ),
    Case(
        "summary, more sums",
        lambda: up.SummaryRegressor(fit_intercept=False),
        lambda m: m.partial_fit(summary(), basis=basis()),
        lambda m: m.partial_fit(summary(1), basis=basis()),
        (lambda m: m.partial_fit("a"), lambda m: m.partial_fit(summary(1, 2), basis=basis())),
    ),
    Case(
        "summary, one round more",
        lambda: up.SummaryRegressor(fit_intercept=False),
        lambda m: m.fit_summary(summary(), basis=basis()),
        lambda m: m.update(_rounds(m), basis=basis()),
        (lambda m: m.update(summary(), basis=basis()), lambda m: m.update(None)),
    ),
    Case(
        "private",
        lambda: up.PrivateRegressor(50.0, 1e-6, 2.0, KERNEL, n_features=8, rounds=2),
        lambda m: m.fit(X, y, public=U),
        lambda m: m.fit(X, y, sites=np.arange(40) % 2, public=U),
        _bad_rows(public=U),
    ),
    Case(
        "private descent",
        lambda: up.PrivateSGDRegressor(50.0, 1e-6, 2.0, KERNEL, 8, passes=2),
        lambda m: m.fit(X, y, public=U),
        lambda m: m.fit(X, y, public=U[:20]),
        _bad_rows(public=U),
    ),
]
