"""Every private mechanism that the library ships, as something to audit. A new one is a new line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from . import of_models, of_noise, of_summaries
from .batches import FEW_RUNS_EPSILON
from .mechanism import Mechanism


def every_run_a_call(mechanism: Mechanism, runs: int = 5_000, quick_runs: int = 200) -> Mechanism:
    """The same without anything taken together: what a user calls is called in every run.

    That is slow, and few runs can refute a small ε only: claim one.
    """
    name, note = f"{mechanism.name}, call by call", "the call that a user makes, in every run"
    return replace(mechanism, name=name, many=None, runs=runs, quick_runs=quick_runs, note=note)


SHIPPED: dict[str, Callable[[], Mechanism]] = {
    "noise": of_noise.grid_noise,
    "noise-small-epsilon": lambda: of_noise.grid_noise(1.0, 0.01, size=1),
    "shares": of_summaries.in_shares,
    "summary-1": of_summaries.first_order,
    "summary-1-calls": lambda: every_run_a_call(of_summaries.first_order(FEW_RUNS_EPSILON)),
    "summary-2": of_summaries.second_order,
    "residuals": of_summaries.residual_round,
    "ledger": of_summaries.through_a_ledger,
    "sgd-tight": of_models.tight_descent,
    "sgd-tight-calls": lambda: every_run_a_call(of_models.tight_descent(FEW_RUNS_EPSILON)),
    "sgd-paper": of_models.paper_descent,
    "regressor": of_models.rounds,
    "regressor-no-public": of_models.rounds_without_public_rows,
    "regressor-no-bound": of_models.rounds_without_bound,
    "regressor-sites": of_models.rounds_at_sites,
}
