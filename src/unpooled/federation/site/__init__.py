"""The site's side of a study: its settings and rows, the studies that ask it to join, and its answers."""
