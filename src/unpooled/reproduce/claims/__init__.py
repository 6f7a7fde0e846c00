"""A file for each claim, or for a few that need the same runs; each has its EXPERIMENT."""
