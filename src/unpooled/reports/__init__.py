"""Reports and plots of fitted models: pages to read in a browser, and pictures as matplotlib axes.

A file of this room first works out as numbers what a section of a report says, with nothing in it of HTML or of
drawing. The section itself comes after that: the same facts as sentences, charts and tables. Plots need matplotlib:
``pip install unpooled[plot]``.
"""
