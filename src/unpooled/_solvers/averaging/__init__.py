"""Averaging: blocks of rows each fit a function, and the model is the average of these functions."""
