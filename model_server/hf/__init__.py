"""The `transformers` backend."""
