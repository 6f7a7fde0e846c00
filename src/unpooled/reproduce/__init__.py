"""Each paper's claims as experiments: a fixed protocol, a table, a plot, and a verdict against the theory."""

from .claims import EXPERIMENTS
from .experiment import PAPERS, Experiment, Result, choose_experiments, run
from .outcome import Outcome, Table, Verdict

__all__ = ["EXPERIMENTS", "PAPERS", "Experiment", "Outcome", "Result", "Table", "Verdict", "choose_experiments", "run"]
