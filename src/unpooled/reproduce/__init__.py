"""Each paper's claims as experiments: a fixed protocol, a table, a plot, and a verdict against the theory."""

from .claims import (
    centring_constant,
    centring_rate,
    correntropy_distributed,
    correntropy_robust,
    correntropy_scale,
    distributed_rates,
    distributed_unlabeled,
    less_floor,
    less_ridge,
    less_split,
    less_unlabeled,
    private_excess,
    private_frontier,
    private_noise,
    spectral_blocks,
    spectral_rates,
    spectral_rules,
    spectral_saturation,
    spectral_whose_lambda,
)
from .experiment import PAPERS, Experiment, Result, chosen, run
from .outcome import Outcome, Table, Verdict

_CLAIMS = (
    less_ridge,
    less_split,
    less_unlabeled,
    less_floor,
    spectral_rates,
    spectral_saturation,
    spectral_blocks,
    spectral_whose_lambda,
    spectral_rules,
    centring_constant,
    centring_rate,
    distributed_rates,
    distributed_unlabeled,
    correntropy_robust,
    correntropy_scale,
    correntropy_distributed,
    private_noise,
    private_excess,
    private_frontier,
)

EXPERIMENTS: dict[str, Experiment] = {claim.EXPERIMENT.name: claim.EXPERIMENT for claim in _CLAIMS}

__all__ = ["EXPERIMENTS", "PAPERS", "Experiment", "Outcome", "Result", "Table", "Verdict", "chosen", "run"]
