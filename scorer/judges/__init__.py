"""Judges: models that are asked what an answer amounts to, each reply checked, cached and auditable."""

from scorer.judges.base import Judge, JudgeError, JudgePrompt, Reply, graded

__all__ = ["Judge", "JudgeError", "JudgePrompt", "Reply", "graded"]
