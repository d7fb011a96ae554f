"""The run that asked the same without its images: what is to be had without looking."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.report.run import Run

_MAY_DIFFER = {"blind", "data", "limit"}


def is_blind(run: Run) -> bool:
    """Returns whether a run was asked without its images."""
    return bool(run.identity.get("blind"))


def twin(run: Run, others: Sequence[Run]) -> Run | None:
    """Returns the blind run among `others` that asked what the sighted `run` asked, None without one."""
    if is_blind(run):
        return None
    mine = {name: value for name, value in run.identity.items() if name not in _MAY_DIFFER}
    for other in others:
        theirs = {name: value for name, value in other.identity.items() if name not in _MAY_DIFFER}
        if is_blind(other) and theirs == mine:
            return other
    return None
