"""Gradient descent: on a loss of kernel residuals, with robust choices, and stochastic for private models."""
