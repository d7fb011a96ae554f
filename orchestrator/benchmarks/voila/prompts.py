"""The questions of VOILA's steps; `prompts.toml` holds their texts, exact to the last blank."""

from __future__ import annotations

import tomllib
from pathlib import Path

_TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
GENERATE = _TEXTS["generate"]
"""The request of step 4; `{output}` is the answer to step 3."""


def prompts(task: str) -> tuple[str, str, str]:
    """Returns the questions of steps 1 to 3."""
    return _TEXTS["describe"], _TEXTS["relate"], _TEXTS["apply_nd" if task == "voila_nd" else "apply_wd"]
