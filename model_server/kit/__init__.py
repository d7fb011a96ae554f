"""The kit for a model server in Python."""
