"""State of a run by the files of its folder: no file's time counts, so a copy has the state of its run."""

from __future__ import annotations

from enum import StrEnum

from orchestrator.run_folder.lock import is_written
from orchestrator.run_folder.reader import Run


class RunState(StrEnum):
    """The state of a run.

    Attributes:
        COMPLETE: It has results; they are written last, and a run that is resumed removes them first.
        RUNNING: A process of this machine writes to its folder.
        STOPPED: Neither; the same command resumes it.
    """

    COMPLETE = "complete"
    RUNNING = "running"
    STOPPED = "stopped"


def state(run: Run) -> RunState:
    """Returns the state of a run."""
    if run.tasks:
        return RunState.COMPLETE
    return RunState.RUNNING if is_written(run.path) else RunState.STOPPED
