"""Calls to the code of a metric: one that raises, or returns an invalid result, is undefined."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TypeVar

from google.protobuf.json_format import MessageToDict

from lyncean.errors import printable
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.metrics.mean import DETECTABLE
from scorer.metrics.standard_error import STANDARD_ERROR, to_percent

T = TypeVar("T")

FAILED = "metric_failed"
"""A key of MetricResult.details: the reason why a metric is undefined although there are items."""

MOST_BYTES = 1024 * 1024
"""Largest size of one result, since all results of a stream travel in one message."""

_LONGEST = 300

log = logging.getLogger(__name__)


class NotAResultError(Exception):
    """A metric returned an invalid result; the message names the defect."""


def attempt(name: str, work: Callable[[], T]) -> tuple[T | None, str]:
    """Returns the result of a metric's code and "", or None and a one-line reason if it raises."""
    try:
        return work(), ""
    except (Exception, SystemExit) as error:  # SystemExit too: foreign code may exit
        if not isinstance(error, RequestError | NotAResultError):
            log.exception("metric %r raised", name)
        return None, _reason(error)


def result_of(name: str, compute: Callable[[], pb.MetricResult], *, percent: bool) -> pb.MetricResult:
    """Returns a metric's result; if `compute` fails, an undefined one with `details.metric_failed`."""

    def work() -> pb.MetricResult:
        result = copied(compute())
        if percent:
            _to_percent(result)
        _check(result)
        return result

    result, reason = attempt(name, work)
    if result is None:
        result = pb.MetricResult()
        result.details[FAILED] = reason
    return result


def _reason(error: BaseException) -> str:
    message = " ".join(str(error).split())
    if not isinstance(error, RequestError | NotAResultError):
        message = f"{type(error).__name__}: {message}" if message else type(error).__name__
    message = printable(message.encode("utf-8", "replace").decode())
    return message if len(message) <= _LONGEST else message[:_LONGEST] + "…"


def copied(returned: object) -> pb.MetricResult:
    """Returns a copy without the fields that the summarizer sets: a metric may return one object twice."""
    if not isinstance(returned, pb.MetricResult):
        raise NotAResultError(f"it returned a {type(returned).__name__}, not a MetricResult")
    result = pb.MetricResult()
    result.CopyFrom(returned)
    result.ClearField("labels")
    return result


def _check(result: pb.MetricResult) -> None:
    numbers = {name: getattr(result, name) for name in ("value", "value_answered")}
    numbers |= {f"interval.{name}": getattr(result.interval, name) for name in ("low", "high", "level")}
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise NotAResultError(f"its {name} is {number}")
    if result.interval.low > result.interval.high:
        raise NotAResultError(f"its interval is [{result.interval.low}, {result.interval.high}]")
    size = result.ByteSize()
    if size > MOST_BYTES:
        raise NotAResultError(f"its result has {size:,} bytes, the limit is {MOST_BYTES:,}")
    if len(result.details.fields):
        _check_details(result)


def _check_details(result: pb.MetricResult) -> None:
    """Checks that the details can be sent, and written as JSON, which has neither NaN nor infinity."""
    try:
        response = pb.ScorerServiceScoreResponse(summary=pb.Summary(metrics=[result]))
        MessageToDict(pb.ScorerServiceScoreResponse.FromString(response.SerializeToString()))
    except Exception as error:
        raise NotAResultError(f"its details cannot be written as JSON: {' '.join(str(error).split())}") from None


def _to_percent(result: pb.MetricResult) -> None:
    for name in ("value", "value_answered"):
        if result.HasField(name):
            setattr(result, name, 100 * getattr(result, name))
    if result.HasField("interval"):
        result.interval.low *= 100
        result.interval.high *= 100
    for name in ("whole", "low", "high") if result.HasField("cut") else ():
        if name != "whole" or result.cut.HasField("whole"):
            setattr(result.cut, name, 100 * getattr(result.cut, name))
    for key in DETECTABLE.values():
        if key in result.details:
            result.details.fields[key].number_value *= 100
    if STANDARD_ERROR in result.details:
        to_percent(result.details.fields[STANDARD_ERROR].struct_value)
    result.unit = "percent"
