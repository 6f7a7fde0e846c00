"""The study: what is asked of the sites, the folder of a run and its record, and a new folder to begin with."""
