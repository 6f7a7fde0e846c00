"""The study: its definition, the folder of a run with its record, and a new folder to start from."""
