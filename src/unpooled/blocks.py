"""The public name of ``data``: rows in files, in clusters or in memory."""

from .data import *
from .data import __all__ as __all__
