"""The `openai` backend: serves the contract from any OpenAI-compatible endpoint."""
