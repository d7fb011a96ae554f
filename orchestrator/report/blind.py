"""The run that asked the same without its images: what is to be had without looking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.run_folder.reader import Run

_MAY_DIFFER = {"blind", "limit"}


def is_blind(run: Run) -> bool:
    """Returns whether a run was asked without its images."""
    return bool(run.identity.get("blind"))


def twin(run: Run, others: Sequence[Run]) -> Run | None:
    """Returns the blind run among `others` with the requests of `run`, None without one."""
    if is_blind(run):
        return None
    identity = _request_identity(run)
    return next((other for other in others if is_blind(other) and _request_identity(other) == identity), None)


def _request_identity(run: Run) -> dict[str, Any]:
    """Returns what was asked and of whom: the rows by what they are, wherever they lay."""
    asked = {name: value for name, value in run.identity.items() if name not in _MAY_DIFFER}
    data = asked.get("data")
    if isinstance(data, Mapping):
        asked["data"] = {task: _rows(source) for task, source in data.items()}
    return asked


def _rows(source: Any) -> Any:
    if not isinstance(source, Mapping):
        return source
    return {name: value for name, value in source.items() if name != "origin"}
