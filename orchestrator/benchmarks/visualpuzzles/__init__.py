"""VisualPuzzles."""
