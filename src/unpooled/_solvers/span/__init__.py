"""Regression in the span of a basis, from means alone: exact, with noise for privacy, and by rounds of messages."""
