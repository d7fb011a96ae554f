"""Cells in which code of other harnesses scores: only answers go in, only verdicts and metrics come out.

Each task has its own cell, forked from one process that has imported the harness. The cell of a task whose
code runs text as Python starts a fresh process for each answer: the model chooses the code that runs there, and none of
its effects reaches the next answer.
"""

from __future__ import annotations

import atexit
import base64
import binascii
import contextlib
import json
import math
import tempfile
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from lyncean.cell import LAYERS, Cell, CellError, Fence, Zygote, closes
from lyncean.rpc import MAX_DETAILS
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary import Outcome
from lyncean_harnesses.library import HarnessError, harness, split
from lyncean_harnesses.scoring import surroundings
from lyncean_harnesses.scoring.downloads import Downloads
from lyncean_harnesses.scoring.judge import Known, Round
from lyncean_harnesses.scoring.programs import readable
from scorer import RequestError, check_code, foreign_allowed
from scorer.judges import JudgeError
from scorer.metrics import Table

LIMIT = "task_limit"
"""Reason of a verdict: the task's code hit a limit of its cell; the detail names it."""

NEEDS_NETWORK = "needs_network"
"""Reason of a verdict: the task's own code contacts a server, or the hub for files missing from the cache."""

MEMORY = 4 << 30
"""Memory of a task's code in bytes, beyond that of its harness."""
SECONDS = 120.0
"""Processor time for one answer, in seconds."""
METRIC_SECONDS = 3600.0
"""Processor time for one metric, in seconds."""
MOST_CELLS = 64
"""Maximum number of cells of this process; the least recently used one is closed."""
MOST_FETCHES = 8
"""Maximum number of hub fetches for one task, since its code may always ask for further files."""
_UNFETCHED = "unfetched"
"""Key that the scorer adds to a reply: the reason why a file that its task wants is missing."""
_IMPORTED, _SETUP = (f"lyncean_harnesses.scoring.inside:{name}" for name in ("imported", "setup"))
Params = Mapping[str, Any]
Task = tuple[str, str]
"""A harness's prefix, and the name of one of its tasks or groups."""


Source = tuple[str, tuple[str, ...]]
"""A harness's prefix, and folders with further tasks."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """The key of a cell.

    Attributes:
        source: Source of its task.
        task: Its task or group; "" for a cell that only inspects code.
        learned: State that the harness derived from the task's data.
        forks: Whether the code of the task runs text.
        programs: Whether the task starts programs.
        fetched: Number of fetches for the task: a cell from before a fetch may have cached the failure.
    """

    source: Source
    task: str = ""
    learned: str = ""
    forks: bool = False
    programs: bool = False
    fetched: int = 0


class _Looked(NamedTuple):
    """Properties of a task's code, determined without running it.

    Attributes:
        runs_text: Location at which it runs text, "" for none.
        programs: Whether it starts programs.
        repositories: Repositories of a hub that it names.
    """

    runs_text: str
    programs: bool
    repositories: frozenset[str]


class _Imported:
    """A process that has imported a harness, and the parent of the folders of its cells."""

    def __init__(self, source: Source) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lyncean-")
        self.folder = self._folder.name
        prefix, include = source
        site = harness(prefix).folder().parent.parent
        self.reads = [str(site), *include, *surroundings.folders()]
        about = {"prefix": prefix, "include": include, "environment": surroundings.environment(self.folder)}
        fence = Fence([*self.reads, *readable()], (self.folder,), programs=True)
        self.zygote = Zygote(_IMPORTED, about, fence)

    def close(self) -> None:
        """Ends the process and deletes its folder."""
        self.zygote.close()
        self._folder.cleanup()


class _Workspace:
    """A cell with its two folders: one that it may write to, and one from which it reads tables."""

    def __init__(self, kind: _Kind, imported: _Imported) -> None:
        self.users = 0
        self._folders = [tempfile.TemporaryDirectory(dir=imported.folder) for _ in range(2)]
        folder, self.inbox = (created.name for created in self._folders)
        prefix, include = kind.source
        reads = [*imported.reads, self.inbox, *(readable() if kind.programs else ())]
        self.cell = Cell(
            _SETUP,
            {"prefix": prefix, "include": include, "folder": folder, "programs": kind.programs},
            Fence(reads, (folder,), memory=MEMORY, programs=kind.programs),
            fork=kind.forks,
            layers=LAYERS if closes() else (),
            zygote=imported.zygote,
            # The process of each answer is forked from one that has loaded the task.
            first=("load", kind.task, kind.learned) if kind.forks else (),
            first_seconds=SECONDS,
        )

    def close(self) -> None:
        """Ends the cell and deletes its folders."""
        self.cell.close()
        for folder in self._folders:
            folder.cleanup()


_imported: dict[Source, _Imported] = {}
_workspaces: OrderedDict[_Kind, _Workspace] = OrderedDict()
"""Cells by key, the most recently used one last."""
_looked_at: dict[tuple[Source, str], _Looked] = {}
_downloads = Downloads()
_fetched: Counter[tuple[Source, str]] = Counter()
_lock = threading.RLock()


@atexit.register
def _close() -> None:
    for workspace in _workspaces.values():
        workspace.close()
    for imported in _imported.values():
        imported.close()
    _workspaces.clear()
    _imported.clear()
    _looked_at.clear()
    _fetched.clear()


def scored(request: pb.ScoreRequest, known: Known) -> Round[pb.Verdict]:
    """Scores one answer by the code of its task.

    Raises:
        RequestError: It names no task, or the task cannot be scored here.
    """
    fields = request.params.fields
    task = _task(fields["task"].string_value) if "task" in fields else ("", "")
    learned = fields["learned"].string_value if "learned" in fields else "{}"
    data = base64.b64encode(request.SerializeToString()).decode()
    unfetched = ""
    try:
        reply = _called(task, learned, "score", data, dict(known), seconds=SECONDS)
        done, unfetched = _round(reply), reply.get(_UNFETCHED, "")
        if isinstance(done.error, CellError):
            raise done.error
        if done.error is not None and (_runs_answers(task) or not isinstance(done.error, RequestError)):
            raise CellError(f"the task's code fails on this answer: {type(done.error).__name__}: {done.error}")
        if done.value is not None:
            done.value = _verdict(done.value)
            if done.value.reason == LIMIT:
                done.value.reason = _reason(task, done.value.detail)
                done.value.detail += f" ({unfetched})" if unfetched else ""
    except CellError as error:
        message = str(error).removeprefix(f"{error.limit}: ")
        detail = f"{error.limit}: {message}" if error.limit else message
        reason = _reason(task, detail) if error.limit else "task_failed"
        return Round(pb.Verdict(outcome="unjudged", reason=reason, detail=detail[:500]))
    return done


def _reason(task: Task, detail: str) -> str:
    """Returns the reason of a verdict whose task hit a limit; the detail begins with the limit."""
    return NEEDS_NETWORK if detail.startswith("network: ") and not _runs_answers(task) else LIMIT


def measured(metric: str, task: Task, params: Params, table: Table, known: Known) -> Round[pb.MetricResult]:
    """Computes a metric of a task or group by its code.

    Raises:
        RequestError: The task cannot be scored here.
        CellError: Its code hit a limit.
    """
    done = _round(_called(task, _learned(params), metric, params, dict(known), table=table, seconds=METRIC_SECONDS))
    if done.value is not None:
        done.value = _read(pb.MetricResult(), done.value)
    return done


def checked(metric: str, task: Task, params: Params, known: Known) -> Round[None]:
    """Loads a task or group; errors as in `measured`."""
    return _round(_called(task, _learned(params), "check", metric, params, dict(known), seconds=METRIC_SECONDS))


def _learned(params: Params) -> str:
    learned = params.get("learned", "{}")
    return learned if isinstance(learned, str) else "{}"


def _task(word: str) -> Task:
    parts = split(word)
    if parts is None:
        raise RequestError(f"parameter 'task' is {word!r}: give a task such as lmms:mme", "invalid_param")
    return parts


def _called(task: Task, learned: str, name: str, *arguments: Any, table: Table | None = None, seconds: float) -> Any:
    """Calls a function of the task's cell; fetches files that it lacks and calls it again."""
    source = task[0], foreign_allowed().include
    try:
        looked, problem, new = _look(source, task), "", True
        while new:
            fetched = _fetched[source, task[1]]
            kind = _Kind(source, task[1], learned, bool(looked.runs_text), looked.programs, fetched)
            with _opened(kind) as workspace:
                reply = _ask(workspace, name, *arguments, table=table, seconds=seconds)
            wanted = reply.get("wanted") if isinstance(reply, dict) else None
            new = False
            if isinstance(wanted, list) and wanted and fetched < MOST_FETCHES:
                some, problem = _downloads.fetch(wanted, looked.repositories)
                _fetched[source, task[1]] += some
                new = fetched < _fetched[source, task[1]]
        return {**reply, _UNFETCHED: problem} if isinstance(reply, dict) else reply
    except HarnessError as error:
        raise RequestError(str(error), "harness") from error


def _ask(workspace: _Workspace, name: str, *arguments: Any, table: Table | None, seconds: float) -> Any:
    if table is None:
        return workspace.cell.call(name, *arguments, seconds=seconds)
    with tempfile.NamedTemporaryFile("w", dir=workspace.inbox) as file:
        json.dump(_columns(table), file)
        file.flush()
        return workspace.cell.call("measure", name, file.name, *arguments, seconds=seconds)


def _columns(table: Table) -> dict[str, list[Any]]:
    return {
        "scored": table.scored.tolist(),
        "repeat": table.repeat.tolist(),
        "labels": [dict(table.labels[code]) for code in table.combination.tolist()],
        "details": table.word("details"),
    }


def _look(source: Source, task: Task) -> _Looked:
    """Returns properties of a task's code after checking that it may run."""
    key = (source, task[1])
    with _lock:
        if key not in _looked_at:
            with _opened(_Kind(source)) as workspace:
                done = _round(workspace.cell.call("look", task[1], seconds=METRIC_SECONDS))
            if done.error is not None:
                raise done.error
            runs_text, programs, repositories = done.value or ("", False, [])
            _looked_at[key] = _Looked(str(runs_text), bool(programs), frozenset(repositories))
    looked = _looked_at[key]
    if looked.runs_text and not closes():
        check_code(":".join(task), looked.runs_text)
    return looked


def _runs_answers(task: Task) -> bool:
    """Returns True if code in an answer may have written the cell's reply."""
    looked = _looked_at.get(((task[0], foreign_allowed().include), task[1]))
    return looked is not None and bool(looked.runs_text)


@contextlib.contextmanager
def _opened(kind: _Kind) -> Iterator[_Workspace]:
    with _lock:
        if kind.source not in _imported:
            _imported[kind.source] = _Imported(kind.source)
        if kind not in _workspaces:
            _workspaces[kind] = _Workspace(kind, _imported[kind.source])
        _workspaces.move_to_end(kind)
        workspace = _workspaces[kind]
        workspace.users += 1
        unused = [key for key, entry in _workspaces.items() if not entry.users]
        surplus = [_workspaces.pop(key) for key in unused[: max(0, len(_workspaces) - MOST_CELLS)]]
    for old in surplus:
        old.close()
    try:
        yield workspace
    finally:
        with _lock:
            workspace.users -= 1


def _round(reply: Any) -> Round[Any]:
    """Parses a cell's reply, which code in a model's answer may have written.

    Raises:
        CellError: The code hit a limit, or the reply cannot be read.
        RequestError: The task cannot be scored here.
    """
    try:
        error, problem = reply["error"], reply["problem"]
        done: Round[Any] = Round(reply["value"], None, list(reply["missing"]), [str(name) for name in reply["used"]])
        done.problem = JudgeError(str(problem[0]), str(problem[1])) if problem else None
        if error and not done.missing and not done.problem:
            done.error = _error(*(str(error[name]) for name in ("name", "message", "reason", "limit")))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise CellError("its reply cannot be read") from None
    return done


def _error(name: str, message: str, reason: str, limit: str) -> Exception:
    if reason:
        return RequestError(message, reason)
    if limit:
        return CellError(f"{limit}: {message}", limit)
    kind: type[Exception] = type(name, (Exception,), {})
    return kind(message)


def _read(message: Any, word: Any) -> Any:
    try:
        message.ParseFromString(base64.b64decode(word))
    except (DecodeError, TypeError, ValueError, binascii.Error):
        raise CellError("its reply cannot be read") from None
    return message


def _verdict(word: Any) -> pb.Verdict:
    """Returns a task's verdict, restricted to a score or none, without a judge's fields."""
    verdict: pb.Verdict = _read(pb.Verdict(), word)
    for name in ("key", "judge", "panel", "span"):
        verdict.ClearField(name)
    numbers = [verdict.score, *verdict.scores.values()]
    if verdict.outcome not in (Outcome.SCORED, Outcome.UNJUDGED) or not all(map(math.isfinite, numbers)):
        raise CellError("its reply is not a verdict")
    if len(verdict.details) > MAX_DETAILS or (verdict.outcome == Outcome.SCORED and not verdict.HasField("score")):
        raise CellError("its reply is not a verdict")
    return verdict
