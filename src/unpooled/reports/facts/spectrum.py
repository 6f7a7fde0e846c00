"""The spectrum that a model has learned in, and its effective dimension 𝒩(λ) = Σ σ/(σ+λ)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import theory
from ...arrays import to_numpy
from ...filters import Floats

MAX_ROWS = 800  # points of a model that are decomposed: a second or so


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues from the largest down, and where they come from.

    ``exponent`` is the s of 𝒩(λ) ≈ C λ^{-s} where the points of a kernel show it, else None.
    """

    sigma: Floats
    source: str
    exponent: theory.DimensionExponent | None = None

    def dimension(self, lam: Any) -> Floats:
        """𝒩(λ)."""
        return np.sum(self.sigma / (self.sigma + np.asarray(lam, dtype=float)[..., None]), axis=-1)

    @property
    def grid(self) -> Floats:
        """λ from where 𝒩 is below one to where every eigenvalue that is more than rounding counts."""
        top = float(self.sigma[0])
        least = max(float(np.min(self.sigma[self.sigma > 0])), 1e-9 * top)
        return np.geomspace(0.3 * least, 3.0 * top, 49)


def spectrum_of(model: Any, basis: Any = None) -> Spectrum | str:
    """The spectrum, or a sentence that says why there is none."""
    summary = getattr(model, "summary_", None)
    if summary is not None and summary.order == 2:
        noisy = " (with its noise)" if summary.privacy is not None else ""
        return _kept(_second_order(model, summary), f"the covariance of the features over all rows{noisy}")
    basis = getattr(model, "basis_", basis) if basis is None else basis
    if basis is not None:
        return _kept(basis.eigenvalues_, f"the public sample of {basis.n_public_:,} rows")
    return _of_points(model)


def spectrum_of_basis(basis: Any) -> Spectrum | str:
    """That of the public sample a basis was made of."""
    return _kept(basis.eigenvalues_, f"the public sample of {basis.n_public_:,} rows")


def _second_order(model: Any, summary: Any) -> Floats:
    C = summary.gram / summary.weight
    if getattr(model, "center", False) is not False and "phi" in summary.sums:
        mean = summary.feature_sum / summary.weight
        C = C - np.outer(mean, mean)
    return np.linalg.eigvalsh(C)[::-1]


def _kept(sigma: Floats, source: str) -> Spectrum | str:
    sigma = np.asarray(sigma, dtype=float)
    sigma = sigma[sigma > 8 * np.finfo(float).eps * max(float(sigma[0]), 0.0)]
    return Spectrum(sigma, source) if len(sigma) else "The features are zero on all rows: there is no spectrum."


def _of_points(model: Any) -> Spectrum | str:
    found = points_of(model)
    if found is None:
        return "The model holds neither its basis nor points of a kernel, so its spectrum is unknown here."
    kernel, points = found
    center = bool(getattr(model, "center", getattr(getattr(model, "local", None), "center", False)))
    try:
        sigma = theory.eigenvalues(kernel, points, center, max_rows=MAX_ROWS)
    except ValueError as error:
        return f"The spectrum cannot be told from the points of the model: {error}."
    try:
        exponent = theory.dimension_exponent(kernel, points, center, max_rows=MAX_ROWS)
    except ValueError:  # too few different points to tell
        exponent = None
    n = min(len(points), MAX_ROWS)
    some = f"{n:,} points" if n == len(points) else f"{n:,} of the {len(points):,} points"
    spectrum = _kept(sigma, f"{some} that the model holds")
    return spectrum if isinstance(spectrum, str) else Spectrum(spectrum.sigma, spectrum.source, exponent)


def points_of(model: Any) -> tuple[Any, np.ndarray] | None:
    """The kernel and the points it is expanded in, as the kernel sees them; None where there are none."""
    holder = getattr(model.predictor_, "map", model.predictor_)
    points = getattr(holder, "points", None)
    if points is None or points.shape[1] == 0 or len(points) < 2:
        return None
    return holder.kernel, to_numpy(points).astype(float)
