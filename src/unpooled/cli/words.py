"""What is in a model, in candidates and in scores, in words."""

from __future__ import annotations

from typing import Any

from ..filters import as_filter, to_spec
from ..summaries import Candidates, Scores


def of_model(model: Any) -> str:
    """What a model is and what it was learned from."""
    columns = ", ".join(str(name) for name in getattr(model, "feature_names_in_", []))
    lines = [f"A {type(model).__name__} of {columns or f'{model.n_features_in_} inputs without names'}."]
    targets = ", ".join(getattr(model, "targets_", ()))
    if targets:
        lines.append(f"It predicts {targets}.")
    if hasattr(model, "plan_") and hasattr(model, "basis_digest_"):
        lines += [f"In the basis {model.basis_digest_[:12]}.", *str(model.plan_).splitlines()]
    elif hasattr(model, "n_sites_"):
        lines.append(
            f"In the basis {model.basis_digest_[:12]}, with λ = {model.lam_:.3g}: the average of what {model.n_sites_} "
            "sites have fitted to their own rows."
        )
    elif hasattr(model, "basis_digest_"):
        rounds = "" if model.n_rounds_ == 1 else f" and {model.n_rounds_} rounds"
        lines.append(
            f"In the basis {model.basis_digest_[:12]}, with λ = {model.lam_:.3g}, the filter "
            f"{to_spec(as_filter(model.filter))['filter']}, the loss {model.loss_}{rounds}."
        )
    summary = getattr(model, "summary_", None)
    if summary is not None:
        lines.append(
            f"It also holds the sum it was learned from: order {summary.order}, {summary.n_rows} rows. Who has the "
            "model has that sum."
        )
    if getattr(model, "privacy_", None) is not None:
        lines.append(str(model.privacy_))
    floor = getattr(model, "floor_", None)
    if floor is not None:
        lines.append(of_floor(floor, getattr(summary, "order", 1), model.n_rounds_))
    return "\n".join(lines)


def of_floor(floor: Any, order: int, rounds: int = 1) -> str:
    """What the public sample costs."""
    public = f"{floor.n_public} public rows for {floor.n:.0f}"
    if order == 2:
        return f"{public}: at order 1 that would put predictions off by about {floor.error:.3g}, at order 2 by nothing."
    later = "" if rounds == 1 else ", which rounds of residuals take away"
    return f"{public}: for that reason alone predictions of one round are off by about {floor.error:.3g}{later}."


def of_candidates(candidates: Candidates) -> str:
    """What goes out to sites to be scored."""
    n_lam, n_features, n_targets = candidates.coef.shape
    label = ", ".join(candidates.targets) or ("the label" if n_targets == 1 else f"{n_targets} labels")
    order = "2" if candidates.own else "1"
    return "\n".join(
        [
            f"{n_lam} candidate models for {label}, one for each λ from {candidates.lam.max():.2g} to "
            f"{candidates.lam.min():.2g}.",
            f"In the basis {candidates.basis[:12]} with {n_features} features, from summaries of order {order}.",
            "A site answers with the sum of the squared errors of each, with its row left out of the model.",
        ]
    )


def of_scores(scores: Scores) -> str:
    """What a site answers to candidates."""
    n_lam, n_targets = scores.sums["square"].high.shape
    labels = "" if n_targets == 1 else f" and each of {n_targets} labels"
    return "\n".join(
        [
            f"Scores of the candidates {scores.candidates[:12]} on {scores.n_rows} rows, without any row.",
            "",
            f"{'rows':>12}  {1:>9}  the number of rows: {scores.n_rows}",
            f"{'weight':>12}  {1:>9}  the sum of the weights: {float(scores.sums['weight'].high[0]):g}",
            f"{'square':>12}  {n_lam * n_targets:>9}  for each λ{labels}: the sum over the rows of the squared error",
            "",
            f"{2 + n_lam * n_targets} numbers in all. No noise was added: it is not differentially private.",
        ]
    )
