"""The experiments on the claims of each paper, a file for each; to add one, add it to the list of its file."""

from ..experiment import Experiment
from . import centring, correntropy, less, private, spectral

_FILES = (less, spectral, centring, correntropy, private)

EXPERIMENTS: dict[str, Experiment] = {one.name: one for file in _FILES for one in file.EXPERIMENTS}
