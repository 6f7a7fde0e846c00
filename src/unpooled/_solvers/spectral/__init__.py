"""Regression with a spectral filter on one machine: one λ, a path of λ with its criteria, and paths without scores."""
