"""Reports and plots of fitted models: pages to read in a browser, and pictures as matplotlib axes.

Each file first computes the numbers of one section of a report, without HTML or drawing, and then writes the section:
sentences, charts and tables of these numbers. Plots need matplotlib:
``pip install unpooled[plot]``.
"""
