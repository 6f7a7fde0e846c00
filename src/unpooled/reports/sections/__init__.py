"""The sections of a report: what is known, as sentences, charts and tables."""
