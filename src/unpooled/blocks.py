"""The public name of the room ``data``: rows wherever they lie."""

from .data import *
from .data import __all__ as __all__
