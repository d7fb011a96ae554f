"""Batch: each of its calls as by itself, judged where the server claims it; `checks_load` holds its load and sizes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

from lyncean.rpc import CallError
from orchestrator.conformance.check import CHECKS, NotApplicable, applies, check, wants
from orchestrator.conformance.checks_likelihood import CANDIDATES
from orchestrator.conformance.checks_load import story
from orchestrator.conformance.server import (
    MOST,
    Request,
    Server,
    generation,
    in_batch,
    method_of,
    one_by_one,
    refusal,
    response_of,
    same_answers,
    scoring,
    together,
    user,
)

MOST_CALLS = 1024
"""The contract's bound."""
_PROBES = 50


@check
async def batch_answers_each_call_once(server: Server) -> str:
    """One call, then as many as the server takes, each of them twice."""
    numbers = sorted({1, max(1, min(server.info.max_concurrency, MOST))})
    for number in numbers:
        requests = [_request(server, index // 2) for index in range(number)]
        indices = await server.patiently(partial(_places, server, requests))
        foreign = [index for index in indices if index >= number]
        wants(not foreign, f"a Batch of {number} calls was answered with index {foreign[:1]}: they count from 0")
        for index in range(number):
            times = indices.count(index)
            wants(times == 1, f"call {index} of {number} has {times} results")
    return f"{numbers[-1]} together"


@check
async def batch_answers_as_by_itself(server: Server) -> str:
    """Different calls one by one, and in one Batch."""
    number = together(server)
    for method in ("GENERATE", "LIKELIHOOD"):
        if server.claims(method):
            requests = [_request(server, index, method) for index in range(number)]
            await same_answers(server, requests, in_batch)
    return f"{number} together"


@check
async def batch_mixes_generate_and_likelihood(server: Server) -> None:
    """Calls of both kinds in turn, one by one and in one Batch."""
    kinds = ("GENERATE", "LIKELIHOOD") * together(server)
    await same_answers(server, [_request(server, *kind) for kind in enumerate(kinds[: together(server)])], in_batch)


@check
async def batch_failures_stay_alone(server: Server) -> str:
    """Requests that every server refuses, each by itself and beside a good one."""
    together(server)
    failures = 0
    for other in CHECKS.values():
        if not all(map(server.claims, other.needs)):
            continue
        for case, fields in other.refused.items():
            bad = server.parsed(fields)
            good = _request(server, failures, method_of(bad).upper())
            (alone,) = await server.settled(one_by_one, [bad])
            if not isinstance(alone, CallError):
                continue  # whether it had to be refused is another check's
            failure, response = await server.settled(in_batch, [bad, good])
            response_of(response, f"beside {case} a good call")
            error = refusal(failure, f"{case} in a Batch", alone.code)
            # A failure without ErrorInfo reads as its code; that is another check's, too.
            same = alone.reason == alone.code.name.lower() or error.reason == alone.reason
            wants(same, f"{case}: reason {alone.reason!r} by itself and {error.reason!r} in a Batch")
            failures += 1
    applies(failures > 0, "the server answers what no server can answer")
    return f"{failures} kinds of failure"


@check
async def batch_refuses_calls_without_request(server: Server) -> None:
    """A call of nothing beside a good one."""
    together(server)
    failure, response = await server.settled(in_batch, [None, _request(server, 0)])
    response_of(response, "beside a call without a request a good one")
    refusal(failure, "a call without a request")


@check
async def batch_refuses_no_calls(server: Server) -> None:
    """A Batch of nothing."""
    await _refused(server, [])


@check
async def batch_refuses_too_many_calls(server: Server) -> None:
    """A Batch of 1,025 small calls, given up where it is answered."""
    await _refused(server, [server.request(user("Hello"))] * (MOST_CALLS + 1))


@check
async def batch_answers_do_not_wait(server: Server) -> str:
    """A call that fails at once beside a long one, against the same call made again and again by itself.

    No clock is asked, since models differ, and no two answers of the model are compared, since it may well
    make both at once. But what no model has to see is known at once where it is known at once by itself.
    """
    bad = server.parsed({"config": {}})
    (alone,) = await server.settled(one_by_one, [bad])
    if not isinstance(alone, CallError):
        raise NotApplicable("the server answers what no server can answer")
    # The first or the last: a server may go through them in either order.
    requests = [bad, story(server, 0), bad][: together(server)]
    first = asyncio.ensure_future(_places(server, requests, first=True))
    try:
        for _ in range(_PROBES):
            probe = await server.ending(bad)
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
    wants(bool(places), "the Batch ended without a result")
    applies(1 not in places, "the answers come too fast to see one wait for another")
    return "a failure came before a long answer"


def _request(server: Server, number: int, method: str = "") -> Request:
    # The answers are to differ from each other, and too long to be the same by chance.
    prompt = f"Verse {number}: write about how many things come in groups of {number}."
    if method == "GENERATE" or (not method and server.claims("GENERATE")):
        return generation(prompt)
    return scoring([prompt], CANDIDATES[: 1 + number % 3])


async def _refused(server: Server, requests: Sequence[Request]) -> None:
    batch = f"a Batch of {len(requests):,} calls"
    try:
        await _places(server, requests, first=True)
    except CallError as error:
        refusal(error, batch)
    else:
        wants(False, f"{batch} was answered")


async def _places(server: Server, requests: Sequence[Request], *, first: bool = False) -> list[int]:
    """The indices of all results of a Batch, or of those that come first."""
    places: list[int] = []
    async with aclosing(server.batch(requests)) as stream:
        async for response in stream:
            places += [result.index for result in response.results]
            if first and places:
                break
    return places
