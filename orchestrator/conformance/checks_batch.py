"""Batch: each of its calls as by itself, judged where the server claims it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import grpc

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from orchestrator.conformance.batch import by_itself, call_of, indices, once, send_batch, settled
from orchestrator.conformance.check import check
from orchestrator.conformance.checks_likelihood import CANDIDATES, same_score
from orchestrator.conformance.checks_load import (
    LARGE,
    LARGEST,
    LATE,
    TOO_LARGE,
    abandon,
    long,
    padded,
    same_texts,
    unbounded,
)
from orchestrator.conformance.server import Server, generation, text_of, user
from orchestrator.conformance.verdicts import Broken, NotApplicable, applies, wants
from orchestrator.engine.batch import Ending
from orchestrator.engine.wire import Response

MOST_CALLS = 1024
"""The contract's bound."""
_MOST = 16
_PROBES = 50
_INVALID = grpc.StatusCode.INVALID_ARGUMENT


@check
async def batch_answers_each_call_once(server: Server) -> str:
    """One call, then as many as the server takes, each of them twice."""
    numbers = sorted({1, max(1, min(server.info.max_concurrency, _MOST))})
    for number in numbers:
        calls = [_call(server, place // 2) for place in range(number)]
        places = await indices(server, calls)
        foreign = [place for place in places if place >= number]
        wants(not foreign, f"a Batch of {number} calls was answered with index {foreign[:1]}: they count from 0")
        for place in range(number):
            times = places.count(place)
            wants(times == 1, f"call {place} of {number} has {times} results")
    return f"{numbers[-1]} together"


@check
async def batch_answers_as_by_itself(server: Server) -> str:
    """Different calls one by one, and in one Batch."""
    number = _together(server)
    for method in ("GENERATE", "LIKELIHOOD"):
        if server.claims(method):
            await _compare(server, [_call(server, place, method) for place in range(number)])
    return f"{number} together"


@check
async def batch_mixes_generate_and_likelihood(server: Server) -> None:
    """Calls of both kinds in turn, one by one and in one Batch."""
    kinds = ("GENERATE", "LIKELIHOOD")
    await _compare(server, [_call(server, place, kinds[place % 2]) for place in range(_together(server))])


@check
async def batch_failures_stay_alone(server: Server) -> str:
    """Calls that no server can answer, each by itself and beside a good one."""
    _together(server)
    judged = 0
    for what, bad in _unanswerable(server).items():
        alone = await by_itself(server, bad)
        if not isinstance(alone, CallError):
            continue  # whether it had to be refused is another check's
        kind = "LIKELIHOOD" if bad.HasField("likelihood") else "GENERATE"
        found, good = await settled(server, [bad, _call(server, judged, kind)])
        if isinstance(good, CallError):
            raise Broken(f"beside {what} a good call ended with {good.code.name}: {good}")
        if not isinstance(found, CallError):
            raise Broken(f"{what}: {alone.code.name} by itself and answered in a Batch")
        wants(found.code is alone.code, f"{what}: {alone.code.name} by itself and {found.code.name} in a Batch")
        # A failure without ErrorInfo reads as its code; that is another check's, too.
        reasons = alone.reason == alone.code.name.lower() or found.reason == alone.reason
        wants(reasons, f"{what}: reason {alone.reason!r} by itself and {found.reason!r} in a Batch")
        judged += 1
    applies(judged > 0, "the server answers what no server can answer")
    return f"{judged} kinds of failure"


@check
async def batch_refuses_calls_without_request(server: Server) -> None:
    """A call of nothing beside a good one."""
    _together(server)
    found, good = await settled(server, [model.BatchCall(), _call(server, 0)])
    if isinstance(good, CallError):
        raise Broken(f"beside a call without a request a good one ended with {good.code.name}: {good}")
    if not isinstance(found, CallError):
        raise Broken("a call without a request was answered")
    wants(found.code is _INVALID, f"a call without a request ended with {found.code.name} ({found})")


@check
async def batch_refuses_no_calls(server: Server) -> None:
    """A Batch of nothing."""
    await _refused(server, [])


@check
async def batch_refuses_too_many_calls(server: Server) -> None:
    """A Batch of 1,025 small calls, given up where it is answered."""
    await _refused(server, [call_of(server.request(user("Hello")))] * (MOST_CALLS + 1))


@check
async def batch_answers_do_not_wait(server: Server) -> str:
    """A call that fails at once beside a long one, against the same call made again and again by itself.

    No clock is asked, since models differ, and no two answers of the model are compared, since it may well
    make both at once. But what no model has to see is known at once where it is known at once by itself.
    """
    bad = model.BatchCall(generate=model.GenerateRequest())
    alone = await by_itself(server, bad)
    if not isinstance(alone, CallError):
        raise NotApplicable("the server answers what no server can answer")
    # The first or the last: a server may go through them in either order.
    calls = [bad, model.BatchCall(generate=long(server, 0)), bad][: _together(server)]
    first = asyncio.ensure_future(_first(server, calls))
    try:
        for _ in range(_PROBES):
            probe = await once(server, bad)
            if first.done():
                break
            known = isinstance(probe, CallError) and (probe.code, probe.reason) == (alone.code, alone.reason)
            applies(known, "while a long call is answered the server refuses others late, or for another reason")
        wants(
            first.done(),
            f"a Batch said nothing of a call that fails at once, while the same call by itself failed {_PROBES} times",
        )
        places = await first
    except CallError as error:
        raise NotApplicable(f"the Batch ended with {error.code.name}: that is judged by other checks") from error
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    applies(1 not in places, "the answers come too fast to see one wait for another")
    return "a failure came before a long answer"


@check
async def batch_gives_places_back(server: Server) -> None:
    """Batches of long calls are abandoned or have too little time; a small request is answered still."""
    number = max(1, min(server.info.max_concurrency, _MOST))
    calls = [model.BatchCall(generate=long(server, place)) for place in range(number)]
    await abandon(lambda: [send_batch(server, calls) for _ in range(2)])
    await server.alive("cancelled Batches")
    for endings in await asyncio.gather(*(send_batch(server, calls, timeout=0.03) for _ in range(2))):
        for ending in endings:
            if isinstance(ending, CallError) and ending.code not in LATE:
                raise Broken(f"a call of a Batch whose time was over ended with {ending.code.name}: {ending}")
    await server.alive("Batches whose deadline had passed")


@check
async def batch_sizes_count_together(server: Server) -> str:
    """Two calls, together within the limit and beyond gRPC's own 4 MiB; then beyond the limit."""
    limit = server.info.max_request_bytes
    applies(limit > 0, "the server states no max_request_bytes")
    _together(server)
    within, beyond = min(limit, LARGE) * 9 // 10, limit + 1_000_000
    async with unbounded(server) as wide:
        for ending in await send_batch(wide, [call_of(padded(server, within // 2))] * 2):
            if isinstance(ending, CallError):
                raise Broken(f"a call of a Batch of {within:,} bytes ended with {ending.code.name}: {ending}")
        if beyond > LARGEST:
            return f"{within:,} bytes taken"
        for ending in await send_batch(wide, [call_of(padded(server, beyond // 2))] * 2):
            if not isinstance(ending, CallError):
                raise Broken(f"a call of a Batch of {beyond:,} bytes was answered; the limit is {limit:,}")
            code = ending.code
            wants(code in TOO_LARGE, f"a call of a Batch of {beyond:,} bytes ended with {code.name}: {ending}")
    await server.alive("an oversize Batch")
    return f"{within:,} bytes taken, {beyond:,} refused"


def _together(server: Server) -> int:
    """How many calls may be sent together, two at least.

    Raises:
        NotApplicable: The server asks for one at a time.
    """
    most = server.info.max_concurrency
    asks = f"max_concurrency is {most}, so no two calls are ever sent together"
    applies(most > 1, f"{asks}: raise it, or leave CAPABILITY_BATCH out")
    return min(most, _MOST)


def _call(server: Server, number: int, method: str = "") -> model.BatchCall:
    # The answers are to differ from each other, and too long to be the same by chance.
    prompt = f"Verse {number}: write about how many things come in groups of {number}."
    if method == "GENERATE" or (not method and server.claims("GENERATE")):
        return model.BatchCall(generate=generation(prompt))
    return model.BatchCall(
        likelihood=model.LikelihoodRequest(messages=[user(prompt)], continuations=CANDIDATES[: 1 + number % 3])
    )


def _unanswerable(server: Server) -> dict[str, model.BatchCall]:
    nobody = model.Message(parts=[model.Part(text="Hello")])
    hello = user("Hello")
    calls: dict[str, model.BatchCall] = {}
    if server.claims("GENERATE"):
        calls |= {
            "a call without messages": model.BatchCall(generate=model.GenerateRequest()),
            "a message without a role": model.BatchCall(generate=model.GenerateRequest(messages=[nobody, hello])),
            "max_output_tokens = 0": model.BatchCall(generate=generation("Hello", max_output_tokens=0)),
        }
    if server.claims("LIKELIHOOD"):
        nothing = model.LikelihoodRequest(messages=[hello])
        calls["a call without continuations"] = model.BatchCall(likelihood=nothing)
    return calls


async def _refused(server: Server, calls: Sequence[model.BatchCall]) -> None:
    try:
        async with aclosing(server.batch(calls)) as stream:
            async for _ in stream:
                break
    except CallError as error:
        wants(error.code is _INVALID, f"a Batch of {len(calls):,} calls ended with {error.code.name}: {error}")
        return
    raise Broken(f"a Batch of {len(calls):,} calls was answered")


async def _first(server: Server, calls: Sequence[model.BatchCall]) -> set[int]:
    """The indices of the results that come first."""
    async with aclosing(server.batch(calls)) as stream:
        async for response in stream:
            if response.results:
                return {result.index for result in response.results}
    raise Broken("the Batch ended without a result")


async def _compare(server: Server, calls: Sequence[model.BatchCall]) -> None:
    """Raises `Broken` unless good calls are answered in a Batch as they are one by one."""
    alone = [_answered(await by_itself(server, call), "by itself") for call in calls]
    among = [_answered(ending, f"in a Batch of {len(calls)}") for ending in await settled(server, calls)]
    prompts: list[str] = []
    texts: tuple[list[str], list[str]] = [], []
    for call, one, other in zip(calls, alone, among, strict=True):
        if isinstance(one, model.GenerateResponse) and isinstance(other, model.GenerateResponse):
            prompts.append(call.generate.messages[0].parts[0].text)
            texts[0].append(text_of(one))
            texts[1].append(text_of(other))
        elif isinstance(one, model.LikelihoodResponse) and isinstance(other, model.LikelihoodResponse):
            continuations = call.likelihood.continuations
            counts = (len(one.scores), len(other.scores))
            wants(counts[0] == counts[1], f"{counts[0]} scores by itself and {counts[1]} in a Batch")
            for text, score, again in zip(continuations, one.scores, other.scores, strict=True):
                same_score(server, f"{text!r} by itself and in a Batch of {len(calls)}", score, again)
    same_texts(server, prompts, *texts)


def _answered(ending: Ending, where: str) -> Response:
    if isinstance(ending, CallError):
        raise Broken(f"a call that should be answered ended {where} with {ending.code.name}: {ending}")
    return ending
