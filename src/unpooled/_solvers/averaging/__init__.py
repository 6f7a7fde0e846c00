"""Averaging, the first shape of the library: blocks fit functions, and the answer is their average."""
