"""The words by which answers are read."""
