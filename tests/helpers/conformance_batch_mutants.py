"""Model servers whose Batch is broken on purpose, and some whose Batch is odd and whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from helpers.conformance_mutants import Mutant, Whole, leaking, mutant
from lyncean import rpc
from lyncean.model.v1 import model_pb2 as model
from model_server.demo.hash_model import HashModel
from model_server.kit.model import Request

Results = list[model.BatchResult]


def batching(change: Callable[[model.BatchRequest, Results], Results]) -> type[Whole]:
    """Returns a server that changes the results of a Batch."""

    class Batching(Whole):
        async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
            results = [each async for response in super().Batch(request, context) for each in response.results]
            yield model.BatchResponse(results=change(request, results))

    return Batching


def twice(request: model.BatchRequest, results: Results) -> Results:
    return results + results[-1:]


def from_one(request: model.BatchRequest, results: Results) -> Results:
    return [*results, model.BatchResult(index=len(results), generate=model.GenerateResponse())]


def equal_once(request: model.BatchRequest, results: Results) -> Results:
    """Two calls that are the same get one result."""
    seen = {call.SerializeToString(): place for place, call in reversed(list(enumerate(request.calls)))}
    return [result for result in results if result.index in seen.values()]


def shuffled(request: model.BatchRequest, results: Results) -> Results:
    """The answers of Generate go to one another's calls."""
    generated = [result for result in results if result.HasField("generate")]
    texts = [result.generate for result in generated]
    for result, text in zip(generated, texts[1:] + texts[:1], strict=True):
        result.generate.CopyFrom(model.GenerateResponse.FromString(text.SerializeToString()))
    return results


def shifted(request: model.BatchRequest, results: Results) -> Results:
    for result in results:
        for score in result.likelihood.scores:
            score.logprob -= 0.1
    return results


def scores_lost(request: model.BatchRequest, results: Results) -> Results:
    for result in results:
        if result.HasField("likelihood"):
            del result.likelihood.scores[1:]
    return results


def unknown_code(request: model.BatchRequest, results: Results) -> Results:
    for result in results:
        if result.failure.reason not in ("", "empty_call"):
            result.failure.code = grpc.StatusCode.UNKNOWN.value[0]
    return results


def no_reason(request: model.BatchRequest, results: Results) -> Results:
    for result in results:
        if result.HasField("failure"):
            result.failure.reason = "failed"
    return results


def empty_answer(request: model.BatchRequest, results: Results) -> Results:
    """A call of nothing gets an answer of nothing."""
    for result in results:
        if result.failure.reason == "empty_call":
            result.generate.SetInParent()
    return results


class Sinking(Whole):
    """One call that fails takes the Batch with it."""

    def sinks(self, failure: model.BatchFailure) -> bool:
        return failure.reason != "empty_call"

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        responses = [response async for response in super().Batch(request, context)]
        for result in (each for response in responses for each in response.results):
            if result.HasField("failure") and self.sinks(result.failure):
                raise rpc.InvalidRequest(result.failure.reason, result.failure.message)
        for response in responses:
            yield response


class SinkingEmpty(Sinking):
    """A call without a request takes the Batch with it."""

    def sinks(self, failure: model.BatchFailure) -> bool:
        return failure.reason == "empty_call"


class OneKind(Whole):
    """A Batch is of the kind of its first call."""

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        kinds = {call.WhichOneof("request") for call in request.calls} - {None}
        if len(kinds) > 1:
            raise rpc.InvalidRequest("mixed", "one kind at a time")
        async for response in super().Batch(request, context):
            yield response


class Nothing(Whole):
    """A Batch without calls ends well."""

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.calls:
            async for response in super().Batch(request, context):
                yield response


class Unbounded(Whole):
    """A Batch has as many calls as it likes."""

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        for start in range(0, max(1, len(request.calls)), 1024):
            part = model.BatchRequest(calls=request.calls[start : start + 1024])
            async for response in super().Batch(part, context):
                for result in response.results:
                    result.index += start
                yield response


class Absent(Whole):
    """Batch is claimed and was never written."""

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not implemented!")
        yield model.BatchResponse()


class Slow(Whole):
    """Stories are told for as long as somebody listens."""

    async def call(self, request: Any, context: Any, method: Any) -> Any:
        if any(part.text.startswith("Story") for message in request.messages for part in message.parts):
            await asyncio.Event().wait()
        return await super().call(request, context, method)


class Collecting(Slow):
    """Nothing is said before all is there."""

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        for response in [response async for response in super().Batch(request, context)]:
            yield response


def leaking_batches(when: Callable[[float], bool]) -> type[Whole]:
    """Returns a server that loses a place with each call of a Batch that is given up, and with no other."""

    class LeakingBatches(leaking(lambda _: False)):  # type: ignore[misc]
        places: int

        async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
            left = context.time_remaining()
            ended = False
            try:
                async for response in super().Batch(request, context):
                    yield response
                ended = True
            finally:
                if not ended and when(left):
                    self.places -= len(request.calls)

    return LeakingBatches


class InTurn(Whole):
    """An honest server in a language without tasks: one call after another, each answer sent when it is there."""

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        if not 0 < len(request.calls) <= 1024:
            raise rpc.InvalidRequest("bad_batch", f"{len(request.calls)} calls")
        for index, call in enumerate(request.calls):
            alone = model.BatchRequest(calls=[call])
            async for response in super().Batch(alone, context):
                response.results[0].index = index
                yield response


class Crowded(Whole):
    """An honest server that has room for two calls and no queue, whatever it asks for."""

    async def call(self, request: Any, context: Any, method: Any) -> Any:
        if self.running >= 2:
            raise rpc.Overloaded("queue_full", "full")
        return await super().call(request, context, method)


class _InBatches(HashModel):
    """A model that makes all answers of a batch in one go, as a GPU does."""

    def generate_batch(self, requests: Sequence[Request]) -> list[str]:
        """Takes its time, and then answers all."""
        time.sleep(0.02)
        return [self.generate(request) for request in requests]


class InBatches(Whole):
    """An honest server of such a model."""

    kit = _InBatches


NAMES = (
    "batch_answers_each_call_once",
    "batch_answers_as_by_itself",
    "batch_mixes_generate_and_likelihood",
    "batch_failures_stay_alone",
    "batch_refuses_calls_without_request",
    "batch_refuses_no_calls",
    "batch_refuses_too_many_calls",
    "batch_gives_places_back",
)
ONCE, ALIKE, MIXED, ALONE, NO_REQUEST, NO_CALLS, TOO_MANY, PLACES = NAMES
WAIT = "batch_answers_do_not_wait"
MUTANTS: dict[str, Mutant] = {
    "answers_twice": mutant(batching(twice), ONCE),
    "counts_from_one": mutant(batching(from_one), ONCE),
    "equal_once": mutant(batching(equal_once), ONCE),
    "shuffled": mutant(batching(shuffled), ALIKE, MIXED),
    "shifted": mutant(batching(shifted), ALIKE, MIXED),
    "scores_lost": mutant(batching(scores_lost), ALIKE, MIXED),
    "unknown_code": mutant(batching(unknown_code), ALONE),
    "batch_no_reason": mutant(batching(no_reason), ALONE),
    "sinking": mutant(Sinking, ALONE),
    "sinking_empty": mutant(SinkingEmpty, NO_REQUEST),
    "empty_answer": mutant(batching(empty_answer), NO_REQUEST),
    "one_kind": mutant(OneKind, MIXED),
    "nothing": mutant(Nothing, NO_CALLS),
    "unbounded": mutant(Unbounded, TOO_MANY),
    "collecting": mutant(Collecting, WAIT, only=[WAIT]),
    "batch_leaks_cancelled": mutant(leaking_batches(lambda left: left > 0.5), PLACES, only=[PLACES]),
    "batch_leaks_late": mutant(leaking_batches(lambda left: left < 0.5), PLACES, only=[PLACES]),
    "absent": mutant(Absent, *NAMES),
}
"""Broken servers by name."""

HONEST: dict[str, type[Whole]] = {"in_turn": InTurn, "crowded": Crowded, "in_batches": InBatches, "slow": Slow}
"""Servers whose Batch is whole, whatever it looks like."""
