"""Rules and metrics that score by other harnesses' own code; imports the scorer, never the orchestrator."""
