"""The pages are tested; what builds the site, and what the build leaves behind, is not: `make docs` runs it."""

collect_ignore_glob = ["conf.py", "_extensions/*", "_static/*", "gallery/*", "generated/*"]
