"""Secure sums: keys, numbers on a grid, masks that cancel, and secrets that are used only once."""
