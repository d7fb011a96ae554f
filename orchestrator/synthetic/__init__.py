"""Rows drawn from a seed, in the schema of the data they stand for."""
