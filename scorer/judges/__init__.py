"""Judges: models that are asked what an answer amounts to, each reply checked, cached and auditable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face
from scorer.judges.base import Judge, JudgeError, JudgePrompt, Reply, graded

if TYPE_CHECKING:
    from scorer.judges.foreign import address as judge_address, answered, answered_here, unanswered

__all__ = [
    "Judge",
    "JudgeError",
    "JudgePrompt",
    "Reply",
    "answered",
    "answered_here",
    "graded",
    "judge_address",
    "unanswered",
]

__getattr__ = face(__name__, {"foreign": "address:judge_address answered answered_here unanswered"})
