"""The `openai` backend: any OpenAI-compatible endpoint behind the contract."""
