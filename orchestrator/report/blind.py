"""Blind twins: the same run without images, which shows what can be answered without looking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.run_folder.reader import Run

_MAY_DIFFER = {"blind", "limit"}


def is_blind(run: Run) -> bool:
    """Returns whether a run was made without its images."""
    return bool(run.identity.get("blind"))


def twin(run: Run, others: Sequence[Run]) -> Run | None:
    """Returns the blind run among `others` with the requests of `run`, None without one."""
    if is_blind(run):
        return None
    identity = _request_identity(run)
    return next((other for other in others if is_blind(other) and _request_identity(other) == identity), None)


def _request_identity(run: Run) -> dict[str, Any]:
    """Returns what decides a run's requests: its data by their hash, wherever they lay."""
    identity = {name: value for name, value in run.identity.items() if name not in _MAY_DIFFER}
    data: Mapping[str, Mapping[str, Any]] = identity.get("data") or {}
    hashes = {task: {name: value for name, value in files.items() if name != "origin"} for task, files in data.items()}
    return identity | {"data": hashes}
