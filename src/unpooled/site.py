"""The public name of the room ``gate``: a site's policy, its gate and its log."""

from .gate import *
from .gate import __all__ as __all__
