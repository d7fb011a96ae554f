"""The metrics of a stream of verdicts, which do not depend on the order of arrival."""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from google.protobuf.json_format import MessageToDict

from lyncean.arrays import Ints, NDArray, np
from lyncean.rpc.heap import return_freed_memory
from lyncean.rpc.limits import MAX_DETAILS
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.facts import fact_class
from lyncean.vocabulary.keys import split_repeat
from lyncean.vocabulary.outcomes import Outcome
from lyncean.vocabulary.reasons import SCORELESS
from scorer.errors import RequestError, unknown_param
from scorer.judges.panel import decision
from scorer.metrics import bootstrap, cut_band, multiplicity
from scorer.metrics.base import COMMON_PARAMS, Metric, Params, Plan
from scorer.metrics.computing import FAILED, attempt, copied, result_of
from scorer.metrics.table import CODES, Table, numbered, together
from scorer.registry import Registry

_SCORED = CODES[Outcome.SCORED]
_MANY = 1 << 16
"""Number of items after which memory freed by growing columns is returned to the system."""
_LARGEST_SHORT = 0xFFFF

Value = str | tuple[str, ...]
Column = Callable[[pb.ScoreRequest, pb.Verdict], Value]

_COLUMNS: dict[str, Column] = {
    "key": lambda request, _: request.key,
    "params": lambda request, _: _params(request),
    "extracted": lambda _, verdict: verdict.extracted,
    "details": lambda _, verdict: verdict.details,
    "reason": lambda _, verdict: verdict.reason,
    "rule": lambda request, _: request.rule,
    "targets": lambda request, _: tuple(request.targets),
    "options": lambda request, _: tuple(request.options),
    "panel": lambda _, verdict: tuple(f"{voice.model}\t{decision(voice.words)}" for voice in verdict.panel),
}


class _SmallNumbers:
    """Numbers from 0 in 1, 2 or 4 bytes, by the largest of them: most streams need one byte."""

    def __init__(self) -> None:
        self._numbers = array("B")

    def append(self, number: int) -> None:
        """Adds a number."""
        try:
            self._numbers.append(number)
        except OverflowError:
            self._numbers = array("H" if number <= _LARGEST_SHORT else "I", self._numbers)
            self._numbers.append(number)

    def at(self, rows: Ints) -> NDArray[np.int32]:
        """Returns the numbers of some rows."""
        return np.frombuffer(self._numbers, self._numbers.typecode)[rows].astype(np.int32)


class Summarizer:
    """Collects items in columns and computes their metrics.

    An item takes about 30 bytes: a hash of its key, numbers, and codes of interned texts. A run of millions of items
    thus stays in memory.

    Args:
        specs: The wanted metrics, in the order of the report.
        registry: The known metrics.

    Raises:
        RequestError: If a spec names an unknown metric or parameter, or is invalid.
    """

    def __init__(self, specs: Sequence[pb.MetricSpec], registry: Registry[Metric]) -> None:
        self._wanted = [_read(spec, registry) for spec in specs]
        names = [spec.name for spec in specs]
        for name in names:
            if not name or names.count(name) > 1:
                raise RequestError(f"metric name {name!r} is empty or stands twice", "invalid_metric")
        self._labels = sorted({label for wanted in self._wanted for label in _labels_of(wanted)})
        self._keys = bytearray()
        # None for most streams, which have neither repeats nor groups: every item is then one sample and one group.
        self._samples: bytearray | None = None
        self._groups: bytearray | None = None
        self._repeats = _SmallNumbers()
        self._outcomes = bytearray()
        self._scoreless = 0
        self._scores = array("d")
        # None for most streams, in which no answer is cut.
        self._cut: bytearray | None = None
        self._parts = {part: array("d") for wanted in self._wanted for part in wanted.plan.parts}
        self._facts = {fact: array("d") for wanted in self._wanted for fact in wanted.plan.facts}
        self._combinations: dict[Value, int] = {}
        self._combination = _SmallNumbers()
        columns = {column for wanted in self._wanted for column in wanted.plan.columns}
        self._interned: dict[str, dict[Value, int]] = {column: {} for column in sorted(columns)}
        self._codes = {column: _SmallNumbers() for column in self._interned}

    def add(self, request: pb.ScoreRequest, verdict: pb.Verdict) -> None:
        """Adds one item; of several with one key the first counts.

        Raises:
            RequestError: If the verdict is invalid: an unknown outcome, or scored without a score.
        """
        outcome = CODES.get(verdict.outcome)
        if outcome is None:
            raise RequestError(f"the outcome {verdict.outcome!r} is none of {', '.join(CODES)}", "invalid_verdict")
        score = verdict.score if verdict.HasField("score") else math.nan
        if outcome == _SCORED and not math.isfinite(score):
            raise RequestError("a scored verdict needs a finite score", "invalid_verdict")
        if len(verdict.details) > MAX_DETAILS:
            raise RequestError(f"the verdict's details have more than {MAX_DETAILS:,} characters", "invalid_verdict")
        # Read before the first column grows, so that a failure does not leave half an item.
        parts = verdict.scores
        labels: Value = ()
        if self._labels:
            # "=" marks a label that is present, so that an empty one differs from a missing one.
            present = request.labels
            labels = tuple([f"={present[name]}" if name in present else "" for name in self._labels])
            if request.facts:
                labels = tuple(map(partial(_or_fact, request.facts), self._labels, labels))
        texts = [(name, _COLUMNS[name](request, verdict)) for name in self._interned]

        key = request.key
        digest = _hash(key, 16)
        bare, repeat = split_repeat(key)
        # The first half of the key's hash, so that without repeats samples take no memory of their own.
        sample = digest[:8] if bare == key else _hash(bare, 16)[:8]
        if self._samples is None and bare != key:
            self._samples = bytearray(self._sample_hashes().tobytes())
        if self._groups is None and request.group:
            self._groups = bytearray(self._sample_hashes().tobytes())
        self._keys += digest
        if self._samples is not None:
            self._samples += sample
        if self._groups is not None:
            self._groups += _hash(request.group, 8) if request.group else sample
        self._repeats.append(repeat)
        self._outcomes.append(outcome)
        self._scoreless += verdict.reason in SCORELESS
        self._scores.append(score)
        if self._cut is None and request.cut:
            self._cut = bytearray(len(self._scores) - 1)
        if self._cut is not None:
            self._cut.append(request.cut)
        for part, column in self._parts.items():
            column.append(parts.get(part, math.nan))
        for fact, column in self._facts.items():
            column.append(request.facts.get(fact, math.nan))
        self._combination.append(self._combinations.setdefault(labels, len(self._combinations)))
        for name, text in texts:
            codes = self._interned[name]
            self._codes[name].append(codes.setdefault(text, len(codes)))
        if len(self._outcomes) == _MANY:
            return_freed_memory()

    def _sample_hashes(self) -> NDArray[np.uint64]:
        """Returns the samples of all items so far; without repeats these are the first halves of the key hashes."""
        return np.frombuffer(self._keys, "<u8")[::2] if self._samples is None else np.frombuffer(self._samples, "<u8")

    def finish(self) -> pb.Summary:
        """Returns the counts and metrics of all items; frees the columns on the way.

        Raises:
            RequestError: There are no items, and a metric could not be computed of any items.
        """
        if not self._outcomes:  # a run tries its metrics on no items before it begins
            for wanted in self._wanted:
                _check(wanted)
            return pb.Summary(counts=pb.Counts(), metrics=[_metric(wanted, None, {}) for wanted in self._wanted])
        if self._scoreless:
            self._wanted = [_refused(wanted, self._scoreless) for wanted in self._wanted]
        table = self._table()
        summary = pb.Summary(counts=table.counts())
        for wanted in self._wanted:
            allowed = [_allowed(wanted.spec, labels) for labels in table.labels]
            part = table if all(allowed) else table.take(np.array(allowed, bool)[table.combination])
            summary.metrics.append(_metric(wanted, part, {}))
            for slicing in wanted.spec.by:
                summary.metrics.extend(_slices(wanted, part, list(slicing.labels)))
        return summary

    def _table(self) -> Table:
        # A column is freed as soon as its rows are copied: keeping both would double the peak of memory.
        rows = _rows(self._keys)
        samples = self._sample_hashes()[rows]
        self._keys, self._samples = bytearray(), None
        sample = numbered(samples)
        del samples
        group = sample if self._groups is None else numbered(np.frombuffer(self._groups, "<u8")[rows])
        self._groups = None
        combinations, combination = _canonical(self._combinations, self._combination, rows)
        vocabulary, codes = {}, {}
        for name in list(self._codes):
            vocabulary[name], codes[name] = _canonical(self._interned[name], self._codes.pop(name), rows)
        parts = {part: np.frombuffer(self._parts.pop(part), np.float64)[rows] for part in list(self._parts)}
        facts = {fact: np.frombuffer(self._facts.pop(fact), np.float64)[rows] for fact in list(self._facts)}
        return Table(
            outcome=np.frombuffer(self._outcomes, np.uint8)[rows],
            score=np.frombuffer(self._scores, np.float64)[rows],
            group=group,
            sample=sample,
            repeat=self._repeats.at(rows),
            combination=combination,
            labels=[
                {name: value[1:] for name, value in zip(self._labels, values, strict=True) if value}
                for values in combinations
            ],
            parts=parts,
            facts=facts,
            codes=codes,
            vocabulary=vocabulary,
            cut=None if self._cut is None else np.frombuffer(self._cut, np.bool_)[rows],
        )


def _or_fact(facts: Mapping[str, float], name: str, label: str) -> str:
    """Returns a label, else the class of the item's fact of that name, else ""."""
    return label or (f"={fact_class(facts[name])}" if name in facts else "")


def _params(request: pb.ScoreRequest) -> str:
    """Returns the parameters of an item that arrived with its verdict, as JSON; "" for any other item."""
    if request.WhichOneof("answer") != "verdict" or not request.HasField("params"):
        return ""
    try:
        return json.dumps(MessageToDict(request.params), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"its parameters cannot be read: {error}", "invalid_param") from None


def _hash(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def _rows(keys: bytearray) -> NDArray[np.int32]:
    """Returns the rows in the order of their keys' hashes; of several with one key only the first."""
    halves = np.frombuffer(keys, "<u8").reshape(-1, 2)
    # NumPy has no 16-byte integer, so that the halves of a hash are compared one after the other.
    rows = np.lexsort((halves[:, 1], halves[:, 0])).astype(np.int32)  # stable: the first item of a key stays first
    fresh = np.ones(len(rows), bool)
    for half in (0, 1):
        ordered = halves[rows, half]
        differs = ordered[1:] != ordered[:-1]
        fresh[1:] = differs if half == 0 else fresh[1:] | differs
    return rows[fresh]


def _canonical(known: dict[Value, int], codes: _SmallNumbers, rows: Ints) -> tuple[list[Value], Ints]:
    """Returns the sorted values, and the rows' codes into them, which no longer depend on the order of arrival."""
    values = sorted(known)
    ranks = np.empty(len(values), np.int32)
    ranks[[known[value] for value in values]] = np.arange(len(values))
    column = codes.at(rows)
    return values, ranks[column] if len(values) else column


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A validated spec."""

    spec: pb.MetricSpec
    plan: Plan
    unit: str
    percent: bool
    bootstrap: str
    draws: int
    level: float


def _read(spec: pb.MetricSpec, registry: Registry[Metric]) -> _Wanted:
    try:
        metric = registry.get(spec.metric)
        params = Params.of(spec.params)
        for name in sorted(params.values):
            if name not in metric.params and name not in COMMON_PARAMS:
                raise unknown_param(f"metric {metric.name!r}", name, [*metric.params, *COMMON_PARAMS])
        percent = params.word("unit", "fraction", ("fraction", "percent")) == "percent"
        if percent and metric.unit not in ("fraction", ""):
            raise RequestError(f"metric {metric.name!r} is in {metric.unit}, not in percent", "invalid_param")
        unit = params.word("bootstrap", "", ("", *bootstrap.UNITS))
        draws = params.integer("draws", bootstrap.DRAWS, 100, 100_000)
        level = params.level
        if any(not slicing.labels for slicing in spec.by):
            raise RequestError("a slice names no label", "invalid_metric")
        plan = _planned(metric, params)
        if plan.bootstrap not in ("", *bootstrap.UNITS):
            raise RequestError(f"its plan resamples {plan.bootstrap!r}, neither samples nor groups", "invalid_metric")
        return _Wanted(spec, plan, metric.unit, percent, unit, draws, level)
    except RequestError as error:
        raise RequestError(f"metric {spec.name!r}: {error}", error.reason) from None
    except Exception as error:  # a plugin's `plan` may raise anything
        cause = f"{type(error).__name__}: {error}"
        raise RequestError(f"metric {spec.name!r} cannot read its parameters: {cause}", "invalid_param") from error


def _planned(metric: Metric, params: Params) -> Plan:
    if not metric.cell:
        return metric.plan(params)
    from scorer import cells  # imported on use: few metrics need a cell

    return cells.planned(metric, params)


def _refused(wanted: _Wanted, scoreless: int) -> _Wanted:
    """Returns a metric as it is, or, if it needs the score that items lack, one that is undefined."""

    def refuse(_: Table) -> pb.MetricResult:
        raise RequestError(
            f"{scoreless:,} items have no score of their own: the task's metrics are of several items, or no numbers",
            "no_scores",
        )

    return replace(wanted, plan=replace(wanted.plan, compute=refuse, items=None)) if wanted.plan.of_scores else wanted


def _check(wanted: _Wanted) -> None:
    try:
        wanted.plan.check()
    except RequestError as error:
        raise RequestError(f"metric {wanted.spec.name!r}: {error}", error.reason) from None


def _labels_of(wanted: _Wanted) -> set[str]:
    spec = wanted.spec
    return {*spec.where, *wanted.plan.labels, *(label for slicing in spec.by for label in slicing.labels)}


def _allowed(spec: pb.MetricSpec, labels: Mapping[str, str]) -> bool:
    return all(not allowed.values or labels.get(name) in allowed.values for name, allowed in spec.where.items())


def _slices(wanted: _Wanted, table: Table, names: list[str]) -> list[pb.MetricResult]:
    """Returns one result per occurring combination of label values; items without a label are in none."""
    keys = [
        tuple(labels[name] for name in names) if all(name in labels for name in names) else None
        for labels in table.labels
    ]
    values = sorted({key for key in keys if key is not None})
    number_of = {key: number for number, key in enumerate(values)}
    slices = np.array([-1 if key is None else number_of[key] for key in keys], np.int32)[table.combination]
    metrics, members = [], []
    for rows in together(slices):
        if (number := int(slices[rows[0]])) >= 0:
            metrics.append(_metric(wanted, table.take(rows), dict(zip(names, values[number], strict=True))))
            members.append(rows)
    if (items := wanted.plan.items) is not None and len(metrics) > 1:
        _, reason = attempt(wanted.spec.name, lambda: multiplicity.note(metrics, members, *items(table)))
        for metric in metrics if reason else ():
            metric.details.update({"against_rest": {FAILED: reason}})
    return metrics


def _computed(wanted: _Wanted, table: Table) -> pb.MetricResult:
    """Returns a metric's result, with a bootstrap interval if the spec or the plan asks for one."""
    result = copied(wanted.plan.compute(table))
    unit = wanted.bootstrap or ("" if result.HasField("interval") else wanted.plan.bootstrap)
    if unit and result.HasField("value"):
        interval, reason = bootstrap.interval(table, wanted.plan.compute, unit, wanted.draws, wanted.level)
        result.ClearField("interval")
        result.details.fields.pop("no_interval", None)
        if interval is not None:
            result.interval.CopyFrom(interval)
        else:
            result.details["no_interval"] = reason
    if result.HasField("value") and not result.HasField("interval") and "no_interval" not in result.details:
        result.details["no_interval"] = wanted.plan.no_interval
    result.ClearField("cut")
    if wanted.plan.graded and wanted.plan.items is not None and result.HasField("value"):
        cut_band.put(result, table, wanted.plan.items(table)[0])
    return result


def _metric(wanted: _Wanted, table: Table | None, labels: Mapping[str, str]) -> pb.MetricResult:
    """Returns a metric's complete result; None for `table` means no items, and an undefined result."""
    result = pb.MetricResult()
    if table is not None and len(table):
        result = result_of(wanted.spec.name, partial(_computed, wanted, table), percent=wanted.percent)
    result.name, result.metric = wanted.spec.name, wanted.spec.metric
    result.unit = "percent" if wanted.percent else result.unit or wanted.unit
    result.labels.update(labels)
    result.counts.CopyFrom(pb.Counts() if table is None else table.counts())
    return result
