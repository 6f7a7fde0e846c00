"""Plots and pages. Plots need matplotlib: ``pip install unpooled[plot]``."""
