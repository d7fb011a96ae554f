"""A metric of a foreign task: its own aggregation over the records of the rule `harness_task`, in the data's order."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean_harnesses.library import harness
from lyncean_harnesses.library.scored import Scored
from lyncean_harnesses.library.values import decode
from lyncean_harnesses.scoring import cell, spread
from lyncean_harnesses.scoring.judge import answered_here, asked
from lyncean_harnesses.scoring.order import DRAWN, Document, InOrder, NoOrderError, scored_together
from lyncean_harnesses.scoring.rule import TASK_PARAMS, grouped, named, number_of, task_of
from scorer import foreign_allowed
from scorer.metrics import Metric, Params, Plan, Table

NAME = "harness_task"

RECORD = "details"
"""The column with the rule's record."""

UNDEFINED = "not_computed"
"""Key of MetricResult.details: the reason of a missing value."""

ORDER, NO_ORDER = "in_harness_order", "no_harness_order"
"""Keys of MetricResult.details: the value in the order of the harness's evaluator, or the reason of its absence."""

DREW = "drew"
"""Parameter: the step before scoring that draws random numbers, so that the evaluator's order cannot be replayed."""

Documents = Mapping[int, Document]


def plan(params: Params) -> Plan:
    """Reads the parameters; the task itself is loaded to compute or check the metric."""
    foreign_allowed()
    about = (NAME, named(params.values), params.values)
    params.word("metric", "")
    params.word("filter", "none")

    def compute(table: Table) -> pb.MetricResult:
        return answered_here(partial(cell.measured, *about, table))

    return Plan(compute, columns=frozenset({RECORD}), check=lambda: answered_here(partial(cell.checked, *about)))


def measured_here(params: Params, table: Table) -> pb.MetricResult:
    """Computes the metric; called in the process of foreign code."""
    name, key = params.word("metric", ""), params.word("filter", "none")
    about = {param: params.values[param] for param in TASK_PARAMS if param in params.values}
    result = pb.MetricResult(denominator=len(table))
    task = task_of(about)
    rows = np.flatnonzero(table.scored)
    repeats = _documents(task, about, table.take(rows))
    parts: list[spread.Part] = []
    for repeat, scored_documents in repeats.documents.items():
        values = {
            index: document.results[key][name]
            for index, document in scored_documents.items()
            if name in document.results.get(key, {})
        }
        if not values:
            result.details[UNDEFINED] = f"no item has {name}"
            return result
        parts.append(spread.part(task, (str(about["task"]), name, repeat), copy.deepcopy(values)))
    known = [number for part in parts if (number := _number(part.aggregate, result)) is not None]
    if not known or len(known) < len(parts):
        return result
    value = known[0] if len(known) == 1 else math.fsum(known) / len(known)
    result.value_answered, result.denominator_answered = value, len(rows)
    if len(rows) < len(table):
        missing = len(table) - len(rows)
        result.details[UNDEFINED] = f"{missing} of {len(table)} items have no result; the value is over the others"
        return result
    result.value = value
    put(result, spread.of_repeats(parts, params.level))
    if any(part.drew for part in parts) or repeats.drawn:
        _put_in_order(result, params, task, repeats)
    return result


@dataclass
class _Repeats:
    """The results of a task's code for all documents, by repeat.

    Attributes:
        key: Hash of the task and the records.
        documents: Repeat -> the documents.
        ordered: The metrics in the evaluator's order by repeat, once requested.
    """

    key: str
    documents: Mapping[int, Documents]
    ordered: list[InOrder] = field(default_factory=list)

    @property
    def drawn(self) -> int:
        """The number of documents whose scoring drew random numbers."""
        return sum(document.drew for documents in self.documents.values() for document in documents.values())


_last: list[_Repeats] = []
"""Results of the current task, since all its metrics read the same documents."""


def _documents(task: Scored, about: Mapping[str, Any], table: Table) -> _Repeats:
    """Returns a task's results for the documents of a table, computed once for all its metrics."""
    numbers, texts = table.repeat.tolist(), table.word(RECORD)
    digest = hashlib.sha256(repr((sorted(about.items()), numbers)).encode())
    for word in texts:
        digest.update(hashlib.sha256(str(word).encode()).digest())
    if _last and _last[0].key == digest.hexdigest():
        return _last[0]
    records: dict[int, list[Mapping[str, Any]]] = {number: [] for number in sorted(set(numbers))}
    for number, word in zip(numbers, texts, strict=True):
        records[number].append(decode(word))  # type: ignore[arg-type]
    word = str(about["task"])
    repeats = _Repeats(digest.hexdigest(), {repeat: documents(task, word, group) for repeat, group in records.items()})
    _keep(repeats)
    return repeats


def _keep(repeats: _Repeats) -> None:
    """Keeps the results for a task's other metrics, unless a judge was asked, whose replies may be missing yet."""
    _last[:] = [] if asked() else [repeats]


def _put_in_order(result: pb.MetricResult, params: Params, task: Scored, repeats: _Repeats) -> None:
    """Adds the value in the evaluator's order to a result of random draws, or the reason of its absence."""
    prefix, name = named(params.values)
    library, of = harness(prefix), (params.word("metric", ""), params.word("filter", "none"))
    try:
        if drawn := params.word(DREW, ""):
            raise NoOrderError(f"its {drawn} draw random numbers as well")
        if not repeats.ordered:
            repeats.ordered = [InOrder(library, task, name, order) for order in repeats.documents.values()]
            _keep(repeats)
        numbers = [number_of(order.value(*of)) for order in repeats.ordered]
    except NoOrderError as error:
        result.details[NO_ORDER] = str(error)
        return
    except Exception as error:
        result.details[NO_ORDER] = f"its code fails there: {type(error).__name__}: {error}"[:500]
        return
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        result.details[NO_ORDER] = "it is not a number there"
        return
    value = math.fsum(known) / len(known)
    result.details[ORDER] = value
    if value != result.value:
        result.details["note"] = (
            f"{value:.6g} in the order of {library.title}'s own evaluator, after its seed; its code draws random "
            f"numbers to score {repeats.drawn:,} of {result.denominator:,} answers"
        )


def put(result: pb.MetricResult, outcome: spread.IntervalOrReason) -> None:
    """Sets a result's interval, or the reason why it has none."""
    interval, reason = outcome
    if interval is None:
        result.details["no_interval"] = reason
    else:
        result.interval.CopyFrom(interval)


def check_here(params: Params) -> None:
    """Loads the task, or raises RequestError; called in the process of foreign code."""
    task_of(params.values)


def _number(aggregate: Any, result: pb.MetricResult) -> float | None:
    """Returns an aggregation as a number; None, with the reason in the result's details, if it is not one."""
    number = number_of(aggregate)
    if number is None:
        result.details[UNDEFINED] = f"its aggregation returns {words_of(aggregate)}"
        for part, value in aggregate.items() if isinstance(aggregate, Mapping) else ():
            if (inner := number_of(value)) is not None:
                result.details[str(part)] = inner
    return number


def documents(task: Scored, word: str, records: Iterable[Mapping[str, Any]]) -> dict[int, Document]:
    """Returns the scored documents of a task by number, in order; `word` is the task's name."""
    by_index: dict[int, list[Mapping[str, Any]]] = {}
    for record in records:
        by_index.setdefault(record["index"], []).append(record)
    return {
        index: Document(group[0]["results"], DRAWN in group[0], group[0].get(DRAWN))
        if "results" in group[0]
        else _together(task, group, f"{word} {index}")
        for index, group in sorted(by_index.items())
    }


def _together(task: Scored, records: list[Mapping[str, Any]], key: str) -> Document:
    """Scores a document with several requests."""
    requests: dict[int, dict[int, Any]] = {}
    rounds: dict[tuple[int, int], dict[int, str]] = {}
    for record in records:
        request, repeat = record["place"]
        requests.setdefault(request, {})[repeat] = record["response"]
        if "round" in record:  # the stripped answers of all rounds are one response
            answers_of = rounds.setdefault((request, repeat), {})
            answers_of[record["round"]] = record["response"].strip()
            requests[request][repeat] = [answers_of[number] for number in sorted(answers_of)]
    doc = next(record["doc"] for record in records if record["doc"] is not None)
    answers = [[repeats[number] for number in sorted(repeats)] for _, repeats in sorted(requests.items())]
    if not rounds and (len(answers) > 1 or isinstance(answers[0][0], list)):
        answers = grouped([repeats[0] for repeats in answers])
    return scored_together(task, doc, answers, key)


def words_of(value: Any) -> str:
    """Describes a value that is not a number."""
    return "nothing" if value is None else f"no number but a {type(value).__name__}"


METRIC = Metric(
    name=NAME,
    description="Aggregation of a task of another harness, by its own code, over the rule harness_task's records in "
    "the order of the data. value is set where every item has a result; value_answered is over those that have one. "
    "Its interval is that of a mean where it is one, or else by random halves of the samples.",
    plan=plan,
    params={
        **TASK_PARAMS,
        "metric": "the metric, as the task names it",
        "filter": 'the filter whose answers count, default "none"',
        DREW: "what draws random numbers before the scoring does, in words; default nothing",
    },
    unit="",
)
