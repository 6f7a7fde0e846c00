"""The server of a study: it asks the sites for sums and makes a model of them, or serves as an estimator's engine."""
