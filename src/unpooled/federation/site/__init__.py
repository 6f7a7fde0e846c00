"""The site's own side: its settings and rows, the studies it was asked to join, and its answers to questions."""
