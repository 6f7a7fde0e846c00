"""Plots and pages. Plots need matplotlib: ``pip install unpooled[plot]``.

What a report says, as numbers: nothing here knows of HTML or of drawing.

The sections of a report: what is known, as sentences, charts and tables.
"""
