"""V*-Bench."""
