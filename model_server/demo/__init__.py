"""Bundled models: a small one for synthetic images, and one without weights."""

from pathlib import Path

CHECKPOINT = Path(__file__).parent / "checkpoint"
"""The small model's weights, tokenizer and template, for the `transformers` backend."""
NAME = "lyncean-demo"
"""Its name in results."""
