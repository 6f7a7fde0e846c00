"""Plots and reports. Needs matplotlib: ``pip install unpooled[plot]``."""
