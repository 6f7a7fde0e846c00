"""Solvers: the algorithms behind the estimators, which take matrices, rows and numbers and know of no user."""
