"""An OpenAI-compatible HTTP front before a ModelService."""
