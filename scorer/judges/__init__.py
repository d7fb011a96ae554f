"""Judges: models that grade answers; their replies are validated, cached and auditable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face
from scorer.judges.base import Judge, JudgeError, JudgePrompt, Reply, graded

if TYPE_CHECKING:
    from scorer.judges.chat import ChatPrompt, prompt_of
    from scorer.judges.current import CURRENT

__all__ = ["CURRENT", "ChatPrompt", "Judge", "JudgeError", "JudgePrompt", "Reply", "graded", "prompt_of"]

__getattr__ = face(__name__, {"chat": "ChatPrompt prompt_of", "current": "CURRENT"})
