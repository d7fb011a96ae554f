"""Models that come along: a small one that sees drawn pictures, how it is trained, and one without weights."""

from pathlib import Path

CHECKPOINT = Path(__file__).parent / "checkpoint"
"""The small model's weights, tokenizer and template, for the `transformers` backend."""
NAME = "lyncean-demo"
"""What its results are filed under."""
