"""Linear algebra on kernel matrices: weights and centring, Cholesky factors, a banded form, refinement."""
