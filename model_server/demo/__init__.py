"""Models that come along: one small enough to ship that sees drawn pictures, and one without weights."""

from __future__ import annotations

from pathlib import Path

NAME = "demo"
"""What the small model is called on a command line."""
FILED_UNDER = "lynceus-demo"
"""What its results are filed under."""
CHECKPOINT = Path(__file__).parent / "checkpoint"
"""Its folder, as `save_pretrained` wrote it. `train` makes it from nothing."""
