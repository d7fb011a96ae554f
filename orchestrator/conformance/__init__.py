"""Judges a model server against `lyncean.model.v1`, from outside and in any language."""

from orchestrator.conformance.check import CHECKS, Broken, Check, NotApplicable, Result, Status
from orchestrator.conformance.runner import judge

__all__ = ["CHECKS", "Broken", "Check", "NotApplicable", "Result", "Status", "judge"]
