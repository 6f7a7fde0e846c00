"""Private sums in a model: the noise in their means, the λ to choose from, and the guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.arrays import Floats
from .._solvers.span.moments import Means
from .._solvers.span.noisy_moments import Noise
from ..filters import Filter, IteratedTikhonov, Tikhonov
from ..privacy.composition import Guarantee
from ..privacy.noised import composed
from ..summaries.summary import Summary

STRONGER = 10.0 ** (np.arange(1, 13) / 3.0)  # λ beyond κ², for sums that are mostly noise: three a decade


def means_of(summary: Summary) -> Means:
    """The sums divided by the weight, with the noise that is in them.

    Means with noise are moved to where means without noise must be: y into [-c, c], y² below c², φ and yφ to norms of
    at most κ and cκ. Whatever the truth is in there, that moves them towards it.
    """
    W, gram = summary.weight, summary.gram
    M, T = summary.contents.n_features, summary.contents.n_outputs
    centred = "phi" in summary.sums  # a private summary may do without
    y = summary.label_sum / W if centred else np.zeros(T)
    phi = summary.feature_sum / W if centred else np.zeros(M)
    yy, phi_y = summary.label_square_sum / W, summary.feature_label_sum / W
    if summary.privacy is not None:
        kappa, c = summary.privacy.kappa, summary.privacy.label_bound
        y, yy = np.clip(y, -c, c), np.minimum(yy, c * c)
        phi, phi_y = _shrunk(phi, kappa), _shrunk(phi_y, c * kappa)
    return Means(
        max(W, float(summary.n_rows)),
        W,
        y,
        yy,
        phi,
        phi_y,
        None if gram is None else gram / W,
        noise_of(summary),
        centred,
    )


def _shrunk(vector: Floats, most: float) -> Floats:
    norm = float(np.linalg.norm(vector))
    return vector * (most / norm) if norm > most else vector


def noise_of(summary: Summary) -> Noise | None:
    """The noise of the means; None where there is none."""
    if summary.privacy is None:
        return None
    sigma, W = summary.privacy.sigma, summary.weight
    return Noise(**{name: sigma.get(name, 0.0) / W for name in ("phi_y", "phi", "y", "yy", "gram")})


def check_usable(summary: Summary, scores: Any) -> None:
    """That a model may be made of a summary, if it is private."""
    if summary.privacy is None:
        return
    summary.privacy.check_complete()
    if scores is not None:
        raise ValueError(
            "scores have no noise: to choose lam by them would undo the guarantee of a private summary, leave them out"
        )


def guarantee_of(summary: Summary, before: Guarantee | None = None) -> Guarantee | None:
    """What holds for every record of a model made of a summary, and of others before."""
    if summary.privacy is None:
        return None
    new = summary.privacy.guarantee
    return new if before is None else composed((before, new))


def check_round(residuals: Summary, private: bool) -> None:
    """Rounds are all private or none is."""
    if (residuals.privacy is not None) != private:
        which = "the model is private, and the residuals are" if private else "the residuals are private, the model is"
        raise ValueError(f"{which} not: nothing could be promised of both together")
    check_usable(residuals, None)


def widened(grid: Floats, kappa_sq: float, filter: Filter, summary: Summary) -> Floats:
    """A grid of λ with larger ones, where noise may ask for them and the filter has them."""
    if summary.privacy is None or not isinstance(filter, (Tikhonov, IteratedTikhonov)):
        return grid
    return np.concatenate([kappa_sq * STRONGER[::-1], grid])
