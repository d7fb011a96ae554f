"""The functions of the cells in which code of other harnesses scores; see `cell`."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lyncean.arrays import np
from lyncean.errors import UserError
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary import Outcome
from lyncean_harnesses.library import harness, use_judge
from lyncean_harnesses.library.foreign import limit_met
from lyncean_harnesses.library.library import Library
from lyncean_harnesses.scoring.downloads import note_downloads, noted
from lyncean_harnesses.scoring.judge import Known, Round, address, run
from lyncean_harnesses.scoring.programs import allow_programs
from scorer import ForeignTasks, RequestError, allow_foreign
from scorer.metrics import Params, Table

T = TypeVar("T")


def imported(prefix: str, include: Sequence[str], environment: Mapping[str, str]) -> None:
    """Imports the harness in the process from which cells are forked; runs no code of a task.

    Args:
        prefix: The harness.
        include: Folders with further tasks.
        environment: Environment variables for the harness's code.
    """
    from lyncean_harnesses.scoring import group_metric, rule, task_metric  # noqa: F401

    os.environ.update(environment)
    os.chdir(environment["HOME"])
    folders = tuple(include)
    allow_foreign(ForeignTasks(on=True, include=folders, trusted=True))
    use_judge(address())
    lock_readable_files()
    library: Library = harness(prefix)
    with contextlib.suppress(UserError):  # the caller of a function gets the error
        _ = library.modules
        library.index(folders)
    note_downloads()


def setup(prefix: str, include: Sequence[str], folder: str, programs: bool = False) -> dict[str, Callable[..., Any]]:
    """Returns the functions of a cell; no code of a task runs before the cell is closed.

    Args:
        prefix: The harness, which is imported.
        include: Folders with further tasks.
        folder: Folder that the cell may write to.
        programs: Whether it may start programs.
    """
    from lyncean_harnesses.scoring import group_metric, rule, task_metric

    os.environ["HOME"] = folder
    os.chdir(folder)  # some aggregations write tables into the working directory
    if programs:
        allow_programs(Path(folder))
    folders, library = tuple(include), harness(prefix)
    metrics: Mapping[str, Any] = {module.NAME: module for module in (task_metric, group_metric)}

    def score(data: str, known: Known) -> dict[str, Any]:
        request = pb.ScoreRequest.FromString(base64.b64decode(data))
        return _reply(run(lambda: rule.read_here(request), known), _encoded)

    def measure(metric: str, file: str, params: Mapping[str, Any], known: Known) -> dict[str, Any]:
        table = _table(json.loads(Path(file).read_text()))
        work = partial(metrics[metric].measured_here, Params(params), table)
        return _reply(run(work, known, len(table)), _encoded)

    def check(metric: str, params: Mapping[str, Any], known: Known) -> dict[str, Any]:
        return _reply(run(partial(metrics[metric].check_here, Params(params)), known))

    def look(name: str) -> dict[str, Any]:
        return _reply(run(lambda: looked_at(library, name, folders), {}))

    def load(name: str, learned: str) -> None:
        with contextlib.suppress(UserError):  # the caller of a function gets the error
            library.scored(name, folders, learned)

    return {"score": score, "measure": measure, "check": check, "look": look, "load": load}


def lock_readable_files() -> None:
    """Lets libraries read caches without write access, by skipping their locks."""
    with contextlib.suppress(ImportError):
        from filelock import UnixFileLock

        acquire = UnixFileLock._acquire

        def acquired(lock: Any) -> None:
            try:
                acquire(lock)
            except PermissionError:
                lock._context.lock_file_fd = os.open(os.devnull, os.O_RDONLY)

        UnixFileLock._acquire = acquired  # type: ignore[assignment, method-assign]


def looked_at(library: Library, name: str, include: tuple[str, ...]) -> tuple[str, bool, list[str]]:
    """Inspects the code of a task, or of a group and its tasks, without running it.

    Returns:
        The location at which it runs text ("" for none), whether it starts programs, and the hub repositories that
        its files name.
    """
    try:
        outer = name.partition("::")[0]
        every = dict.fromkeys((outer, *library.members(outer, include)))
        runs_text = next(filter(None, (library.runs_text(task, include) for task in every)), "")
        repositories = dict.fromkeys(repository for task in every for repository in library.repositories(task, include))
        return runs_text, any(library.starts_programs(task, include) for task in every), list(repositories)
    except UserError as error:
        raise RequestError(str(error), "harness") from error


def _encoded(message: pb.Verdict | pb.MetricResult) -> str:
    return base64.b64encode(message.SerializeToString()).decode()


def _reply(done: Round[T], encoded: Callable[[T], Any] = lambda value: value) -> dict[str, Any]:
    """Returns a round as JSON."""
    return {
        "value": None if done.value is None else encoded(done.value),
        "error": _error(done.error) if done.error else None,
        "missing": list(done.missing),
        "used": list(done.used),
        "problem": [done.problem.reason, str(done.problem)] if done.problem else None,
        "wanted": noted(),
    }


def _error(error: Exception) -> dict[str, str]:
    reason = error.reason if isinstance(error, RequestError) else ""
    limit = "" if reason else limit_met(error)
    return {"name": type(error).__name__, "message": str(error), "reason": reason, "limit": limit}


def _table(columns: Mapping[str, Any]) -> Table:
    """Returns the columns that metrics of tasks read, as in the scorer's table."""
    codes = {outcome: code for code, outcome in enumerate(Outcome)}
    numbers = np.arange(len(columns["repeat"]))
    return Table(
        outcome=np.where(columns["scored"], codes[Outcome.SCORED], codes[Outcome.UNJUDGED]).astype(np.uint8),
        score=np.zeros(len(numbers)),
        group=numbers.copy(),
        sample=numbers.copy(),
        repeat=np.array(columns["repeat"], np.int32),
        combination=numbers.copy(),
        labels=columns["labels"],
        codes={"details": numbers.copy()},
        vocabulary={"details": columns["details"]},
    )
