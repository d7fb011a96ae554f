"""The rules of VOILA."""
