"""Runs the checks against one server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import PLAIN, CallError, Credentials, dial

# Importing the modules fills RUNS.
from orchestrator.conformance import (  # noqa: F401
    checks_access,
    checks_batch,
    checks_formats,
    checks_generate,
    checks_held,
    checks_images,
    checks_likelihood,
    checks_load,
    checks_media,
    checks_prefix,
    checks_prompt,
    checks_requests,
    checks_samples,
    checks_service,
    checks_tools,
)
from orchestrator.conformance.check import (
    CHECKS,
    FIRST,
    RUNS,
    Check,
    Result,
    Status,
    applies,
    ended,
    needs_answer,
)
from orchestrator.conformance.server import Server, response_of
from orchestrator.engine.failures import not_there
from orchestrator.engine.pool import REACH_SECONDS

_CALLS = 12
"""Calls that a check may make one after another, each within the timeout."""


async def judge(
    address: str,
    credentials: Credentials = PLAIN,
    *,
    timeout: float = 60.0,
    pid: int | None = None,
    only: Collection[str] = (),
    waiting: Callable[[CallError, float], None] = lambda _error, _seconds: None,
) -> AsyncIterator[Result]:
    """Yields the result of each check, one after another.

    Args:
        address: The server's `host:port`.
        credentials: How to dial it.
        timeout: Seconds that one call may take.
        pid: The server's process, which the last check ends; None skips that check.
        only: Names of the checks to run; empty runs all.
        waiting: Gets, once, why the server does not answer yet and for how many seconds it is waited for.

    Raises:
        CallError: The server cannot be reached, or does not describe itself.
    """
    async with dial(address, credentials) as channel:
        server = Server(address, credentials, channel, timeout, pid=pid)
        server.info = await _info(server, waiting)
        mute = False
        for check in CHECKS.values():
            if only and check.name not in only:
                continue
            if mute and needs_answer(check.name):
                yield Result(check, Status.SKIPPED, f"the server gives no answer: see {FIRST}", 0.0)
                continue
            result = await ended(check, _run(check, server), _CALLS * timeout)
            mute |= check.name == FIRST and result.status is Status.FAILED
            yield result


async def _info(server: Server, waiting: Callable[[CallError, float], None]) -> model.GetModelInfoResponse:
    """Waits for a server that is still loading as long as a call may take; less where nobody listens."""
    started, announced = time.monotonic(), False
    while True:
        try:
            info: model.GetModelInfoResponse = await server.call("GetModelInfo", model.GetModelInfoRequest())
            return info
        except CallError as error:
            patience = min(REACH_SECONDS, server.timeout) if not_there(error) else server.timeout
            left = started + patience - time.monotonic()
            if error.consequence.retries is not None or left < 0:
                raise
            if not announced:
                waiting(error, left)
                announced = True
        await asyncio.sleep(0.2)


async def _run(check: Check, server: Server) -> str | None:
    missing = [need for need in check.needs if not server.claims(need)]
    applies(not missing, f"the server does not claim {', '.join(missing)}")
    if run := RUNS.get(check.name):
        return await run(server)
    for case, fields in check.refused.items():
        await server.refused(server.parsed(fields), what=case)
    for case, fields in check.answered.items():
        response_of(await server.ending(server.parsed(fields)), case)
    return None
