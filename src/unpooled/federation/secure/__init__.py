"""Secure sums: keys, numbers on a grid, masks that cancel, and small secrets that are used once."""
