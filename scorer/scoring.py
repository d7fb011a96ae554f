"""Scoring of one request: the steps before and after every rule."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from lyncean.rpc import InternalFailure, StatusError
from lyncean.rpc.limits import MAX_DETAILS
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError, unknown_param
from scorer.judges.base import Judge
from scorer.judges.reread import NOTHING, reread, rereadable
from scorer.reading import reasoning
from scorer.reading.reasoning import Reasoned
from scorer.registry import Registry
from scorer.rule import AnyRule, JudgedRule, unparsed

log = logging.getLogger(__name__)

Asking = Callable[[], Awaitable[pb.Verdict]]
"""The rest of a verdict that waits for a judge: call it and await the result."""

JUDGED_AT_ONCE = 256
"""Default number of items of one stream that may wait for the judge."""


class Scorer:
    """Applies rules to requests; a verdict depends on its request alone.

    Attributes:
        registry: The rules.
        judge: The judge of judged rules; None where the scorer was started without one.
        in_flight: Items of one stream that may wait for the judge at once: bounds memory.
    """

    def __init__(
        self,
        registry: Registry[AnyRule],
        judge: Judge | None = None,
        reads: str = NOTHING,
        in_flight: int = JUDGED_AT_ONCE,
    ) -> None:
        """Keeps rules, judge and limits; `reads` selects the answers that the judge reads again (`--judge-reads`)."""
        self.registry = registry
        self.in_flight = in_flight
        self.judge = judge
        self._reads = reads

    async def verdict(self, request: pb.ScoreRequest) -> pb.Verdict:
        """Returns the verdict of one request; raises as `begin` does."""
        begun = self.begin(request)
        return begun if isinstance(begun, pb.Verdict) else await begun()

    def begin(self, request: pb.ScoreRequest) -> pb.Verdict | Asking:
        """Returns the verdict (the request's, if it holds one), or the call to await where a judge is needed.

        Raises:
            RequestError: If the request cannot be scored: a defect of the benchmark. The
                message names key and cause.
            InternalFailure: If the rule itself failed.
        """
        key = request.key
        if not key:
            raise RequestError("an item has no key", "missing_key")
        if request.WhichOneof("answer") == "verdict":
            return request.verdict
        try:
            rule = self.registry.get(request.rule)
            _check(rule, request)
            split = None
            if not rule.parity and request.WhichOneof("answer") == "text":
                split = reasoning.split(request.text)
                if not split.answer.strip() and not rule.reads_empty:
                    return _finished(unparsed(Reason.EMPTY_ANSWER), key, split)
                if split.removed:
                    original, request = request, pb.ScoreRequest()
                    request.CopyFrom(original)
                    request.text = split.answer
            if isinstance(rule, JudgedRule):
                if self.judge is None and rule.required:
                    raise RequestError("it asks a judge, and the scorer was started without one", "no_judge")
                return partial(_awaited, partial(rule.read, request, self.judge), request, split)
            if rule.cell:
                from scorer import cells  # imported on use: few rules need a cell

                return partial(_awaited, partial(asyncio.to_thread, cells.read, rule, request), request, split)
            verdict = rule.read(request)
            if self.judge is not None and rereadable(rule, verdict, self._reads):
                return partial(_awaited, partial(reread, rule, request, verdict, self.judge), request, split)
        except Exception as error:
            raise _explained(error, request) from error
        return _finished(verdict, key, split)


async def _awaited(read: Asking, request: pb.ScoreRequest, split: Reasoned | None) -> pb.Verdict:
    """Returns the finished verdict of a call that waits for a judge or a cell."""
    try:
        verdict = await read()
    except Exception as error:
        raise _explained(error, request) from error
    return _finished(verdict, request.key, split)


def _check(rule: AnyRule, request: pb.ScoreRequest) -> None:
    kind = "scores" if request.scores else request.WhichOneof("answer")
    if kind not in rule.reads:
        raise RequestError(f"it reads {' or '.join(rule.reads)}, the request has {kind or 'no answer'}", "wrong_answer")
    if request.HasField("params"):
        for name in request.params.fields:
            if name not in rule.params:
                raise unknown_param("it", name, rule.params)


def _finished(verdict: pb.Verdict, key: str, split: Reasoned | None) -> pb.Verdict:
    """Returns the rule's verdict with its key; its span counts from the start of the unstripped answer."""
    if len(verdict.details) > MAX_DETAILS:
        number = f"{len(verdict.details):,}"
        raise RequestError(f"item {key!r}: the rule's details have {number} characters, the limit is {MAX_DETAILS:,}")
    verdict.key = key
    if split is not None and split.removed:
        if verdict.HasField("span"):
            verdict.span.start += split.offset
            verdict.span.end += split.offset
        note = "read without the reasoning in the answer"
        verdict.detail = f"{verdict.detail}; {note}" if verdict.detail else note
    return verdict


def _explained(error: Exception, request: pb.ScoreRequest) -> Exception:
    """Returns the error with the item and the rule named."""
    where = f"item {request.key!r}, rule {request.rule!r}"
    if isinstance(error, RequestError):
        return RequestError(f"{where}: {error}", error.reason)
    if isinstance(error, StatusError):
        return error
    log.error("%s: the rule failed", where, exc_info=error)
    return InternalFailure("rule_failed", f"{where}: the rule failed with {type(error).__name__}; see the log")
