"""Judges a model server or a server of tools against its contract, from outside and in any language."""

from orchestrator.conformance.check import CHECKS, Broken, Check, NotApplicable, Result, Status
from orchestrator.conformance.runner import judge
from orchestrator.conformance.tools import judge_tools

__all__ = ["CHECKS", "Broken", "Check", "NotApplicable", "Result", "Status", "judge", "judge_tools"]
