"""The public name of ``reports/plots.py``: pictures of paths, spectra, numbers of blocks, privacy and sites.

Every function takes ``ax`` to draw into and returns the axes. Without it a new figure is made. matplotlib is an extra:
``pip install 'unpooled[plot]'``.
"""

from .reports.plots import *
from .reports.plots import __all__ as __all__
