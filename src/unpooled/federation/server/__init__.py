"""The server of a study: the sites in it, the sums it asks for, the model it makes, and an engine for estimators."""
