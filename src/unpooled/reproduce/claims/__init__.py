"""Claims of the papers: a file for each, or for a few that need the same runs; each file has its EXPERIMENT."""
