"""Each paper's claims as experiments: a fixed protocol, a table, a plot, and a verdict against the theory."""

from .claims import EXPERIMENTS
from .experiment import PAPERS, Experiment, Result, chosen, run
from .outcome import Outcome, Table, Verdict

__all__ = ["EXPERIMENTS", "PAPERS", "Experiment", "Outcome", "Result", "Table", "Verdict", "chosen", "run"]
