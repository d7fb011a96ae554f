"""Cells for rules and metrics of plugins that ask for one: every answer and every table gets a fresh closed process."""

from __future__ import annotations

import atexit
import base64
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from google.protobuf.message import DecodeError, Message

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import Outcome
from scorer.errors import RequestError
from scorer.foreign_tasks import trusted
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.table import Table
from scorer.rule import Rule

MEMORY = 4 << 30
"""Bytes that a cell may allocate beyond those of its imported package."""
SECONDS = 120.0
"""Processor time for one answer, or one table."""
LIMIT, FAILED = "task_limit", "task_failed"
"""Reasons of items whose rule met a limit of its cell, or raised."""

_ARRAYS = ("outcome", "score", "group", "sample", "repeat", "combination")
Kind = Literal["rule", "metric"]
M = TypeVar("M", bound=Message)


def read(rule: Rule, request: pb.ScoreRequest) -> pb.Verdict:
    """Scores one request by a rule in its cell.

    Raises:
        RequestError: Raised by the rule, or because this system cannot close a cell.
    """
    from lyncean.cell import CellError, StartError

    try:
        verdict = _read(pb.Verdict(), _called("rule", rule.name, rule.read, _word(request)))
    except StartError as error:
        raise RequestError(str(error), "no_cell") from error
    except CellError as error:
        reason, limit = (LIMIT, f"{error.limit}: ") if error.limit else (FAILED, "")
        return pb.Verdict(outcome=Outcome.UNJUDGED, reason=reason, detail=f"{limit}{error}"[:500])
    for name in ("key", "judge", "panel"):
        verdict.ClearField(name)
    if verdict.outcome not in (Outcome.SCORED, Outcome.UNPARSED, Outcome.REFUSED):
        return pb.Verdict(outcome=Outcome.UNJUDGED, reason=FAILED, detail="its cell's reply is not a verdict")
    return verdict


def planned(metric: Metric, params: Params) -> Plan:
    """Returns the plan of a metric that computes in its cell."""

    def compute(table: Table) -> pb.MetricResult:
        columns = {name: getattr(table, name).tolist() for name in _ARRAYS}
        columns |= {"labels": [dict(labels) for labels in table.labels], "vocabulary": dict(table.vocabulary)}
        columns |= {name: {key: column.tolist() for key, column in getattr(table, name).items()} for name in _NESTED}
        reply = _called("metric", metric.name, metric.plan, dict(params.values), json.dumps(columns))
        return _read(pb.MetricResult(), reply)

    return replace(metric.plan(params), compute=compute, items=None, check=lambda: None)


_NESTED = ("parts", "codes")
_cells: dict[tuple[Kind, str], Any] = {}
_lock = threading.Lock()


@atexit.register
def _close() -> None:
    for cell in _cells.values():
        cell.close()


def _called(kind: Kind, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    reply = _cell(kind, name, function).call(kind, *arguments, seconds=SECONDS)
    if isinstance(reply, Mapping) and "request" in reply:
        raise RequestError(str(reply["request"]), str(reply.get("reason", "")))
    return reply


def _cell(kind: Kind, name: str, function: Callable[..., Any]) -> Any:
    from lyncean.cell import LAYERS, Cell, Fence, closes

    with _lock:
        if (kind, name) not in _cells:
            if not closes() and not trusted():
                raise RequestError(
                    f"{kind} {name!r} asks for a closed process, which this system has not: start the scorer with "
                    "--foreign-tasks --trust-task-code to run it without",
                    "task_code",
                )
            folder = tempfile.TemporaryDirectory(prefix="lyncean-")
            atexit.register(folder.cleanup)
            fence = Fence(_sources(function), (folder.name,), memory=MEMORY)
            layers = LAYERS if closes() else ()
            _cells[kind, name] = Cell(
                f"{__name__}:setup", {"kind": kind, "name": name}, fence, fork=True, layers=layers
            )
        return _cells[kind, name]


def _sources(function: Callable[..., Any]) -> list[str]:
    """Returns the files of the package that defines a function, which its cell may read."""
    module = sys.modules.get(getattr(function, "__module__", "").partition(".")[0])
    paths = [*getattr(module, "__path__", ()), *filter(None, [getattr(module, "__file__", None)])]
    return [str(Path(path).resolve()) for path in paths]


def _word(message: Message) -> str:
    return base64.b64encode(message.SerializeToString()).decode()


def _read(message: M, word: Any) -> M:
    from lyncean.cell import CellError

    try:
        message.ParseFromString(base64.b64decode(word))
    except (DecodeError, TypeError, ValueError):
        raise CellError("its cell's reply cannot be read") from None
    return message


def setup(kind: Kind, name: str) -> dict[str, Callable[..., Any]]:
    """Returns the only function of a cell, which runs in the process of the cell."""
    from lyncean.arrays import np
    from scorer.metrics import metrics
    from scorer.rules import rules

    def reported(function: Callable[[], Message]) -> Any:
        try:
            return _word(function())
        except RequestError as error:
            return {"request": str(error), "reason": error.reason}

    if kind == "rule":
        rule = rules().get(name)
        assert isinstance(rule, Rule)
        return {kind: lambda word: reported(lambda: rule.read(_read(pb.ScoreRequest(), word)))}
    metric = metrics().get(name)
    np.zeros(0)  # imported before the cell is closed

    def measure(values: dict[str, Any], columns: str) -> Any:
        fields = json.loads(columns)
        kinds = {"outcome": np.uint8, "score": np.float64}
        arrays: dict[str, Any] = {key: np.array(fields[key], kinds.get(key, np.int32)) for key in _ARRAYS}
        nested: dict[str, Any] = {
            key: {name: np.array(column) for name, column in fields[key].items()} for key in _NESTED
        }
        vocabulary = {
            key: [tuple(value) if isinstance(value, list) else value for value in listed]
            for key, listed in fields["vocabulary"].items()
        }
        table = Table(**arrays, **nested, labels=fields["labels"], vocabulary=vocabulary)
        return reported(lambda: metric.plan(Params(values)).compute(table))

    return {kind: measure}
