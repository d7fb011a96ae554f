"""Permission to run tasks of other harnesses in this process, and the folders that they come from.

A request only names a task: the operator who starts the scorer decides which code may run.
"""

from __future__ import annotations

from dataclasses import dataclass

from scorer.errors import RequestError

OFF = "tasks of other harnesses are off in this scorer: start it with --foreign-tasks"


@dataclass(frozen=True, slots=True)
class ForeignTasks:
    """The options on foreign tasks that a scorer was started with.

    Attributes:
        on: Whether tasks of other harnesses may be scored.
        include: Folders with further tasks.
        trusted: Whether code that runs text as Python, and so a model's answers, may run.
    """

    on: bool = False
    include: tuple[str, ...] = ()
    trusted: bool = False


_started_with = [ForeignTasks()]


def allow(tasks: ForeignTasks) -> None:
    """Permits tasks to run in this process; without a call none may."""
    _started_with[0] = tasks


def trusted() -> bool:
    """Returns true if code that runs answers may do so with all rights of this process."""
    return _started_with[0].trusted


def allowed() -> ForeignTasks:
    """Returns the options that permit tasks in this process.

    Raises:
        RequestError: No task may run.
    """
    if not _started_with[0].on:
        raise RequestError(OFF, "foreign_tasks")
    return _started_with[0]


def layers() -> tuple[str, ...]:
    """Returns the layers that close the cells of foreign code; none if it may not run."""
    if not _started_with[0].on:
        return ()
    from lyncean.cell import holding  # starts processes, to try each layer

    return holding()


def check_code(task: str, site: str) -> None:
    """Checks that a task's code may run.

    Args:
        task: The task, for the message.
        site: The line of its code that runs text as Python; "" if there is none.

    Raises:
        RequestError: It would run answers as code, and this scorer does not trust it.
    """
    if site and not allowed().trusted:
        raise RequestError(
            f"the code of {task} runs text as Python ({site}): a model's answers would run as code in this scorer; "
            "start it with --trust-task-code to allow that",
            "task_code",
        )
