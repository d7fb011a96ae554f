"""Tasks of other harnesses in this process: whether their code may run here, and from which folders.

A request names a task and nothing more: who starts the scorer decides what code there is.
"""

from __future__ import annotations

from dataclasses import dataclass

from scorer.errors import RequestError

OFF = "tasks of other harnesses are off in this scorer: start it with --foreign-tasks"


@dataclass(frozen=True, slots=True)
class ForeignTasks:
    """What a scorer was started with.

    Attributes:
        on: Whether tasks of other harnesses may be scored.
        include: Folders with further tasks.
        trusted: Whether task code may run that runs text as Python, and so a model's answers.
    """

    on: bool = False
    include: tuple[str, ...] = ()
    trusted: bool = False


_started_with = [ForeignTasks()]


def allow(tasks: ForeignTasks) -> None:
    """Sets what may run in this process; without it nothing may."""
    _started_with[0] = tasks


def trusted() -> bool:
    """Whether code that runs answers may run with all rights of this process."""
    return _started_with[0].trusted


def allowed() -> ForeignTasks:
    """Returns what may run in this process.

    Raises:
        RequestError: Nothing may.
    """
    if not _started_with[0].on:
        raise RequestError(OFF, "foreign_tasks")
    return _started_with[0]


def layers() -> tuple[str, ...]:
    """Returns the layers that close the cells in which code of others runs here, none where it does not run."""
    if not _started_with[0].on:
        return ()
    from lyncean.cell import holding  # tries them

    return holding()


def check_code(task: str, place: str) -> None:
    """Makes sure that a task's code may run.

    Args:
        task: The task, for the message.
        place: Where its code runs text as Python, "" where it does not.

    Raises:
        RequestError: It would run answers as code, and this scorer was not told to trust it.
    """
    if place and not allowed().trusted:
        raise RequestError(
            f"the code of {task} runs text as Python ({place}): a model's answers would run as code in this scorer; "
            "start it with --trust-task-code to allow that",
            "task_code",
        )
