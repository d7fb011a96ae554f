"""HR-Bench."""
