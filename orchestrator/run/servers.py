"""Servers of a run: the addresses it connects to, and those it starts itself."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from rich.console import Console

from lyncean.errors import printable
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import PLAIN, Credentials
from lyncean.rpc.waits import Waits
from lyncean.scorer.v1 import scorer_pb2
from orchestrator.engine import Endpoint, Pool, ScorerClient, parse_endpoints
from orchestrator.engine.pool import Notify
from orchestrator.errors import IncompleteError
from orchestrator.run import foreign
from orchestrator.run.arguments import (
    judge_arguments,
    model_arguments,
    one_endpoint,
    rule_arguments,
    stages_of,
    words_of,
)
from orchestrator.run.local_scorer import LocalChannel
from orchestrator.run.local_server import LocalServer, LocalServers
from orchestrator.run.request import RunRequest

_T = TypeVar("_T")
Guard = Callable[[], Coroutine[Any, Any, None]]
"""Watches something while a run lasts; returns never, and raises to end the run."""


class Targets(NamedTuple):
    """Addresses a run connects to.

    Attributes:
        endpoints: Model servers; empty starts one for the request's `model`.
        stages: Model servers of further stages by name.
        scorer: The scorer; None starts one.
        judge: Arguments of the `scorer serve` that is started, to give it its rules and judges.
        model: Arguments of the `model-server serve` that is started.
        foreign: Arguments of the `scorer serve` that is started, for tasks of other harnesses.
    """

    endpoints: Sequence[Endpoint]
    stages: Mapping[str, Sequence[Endpoint]]
    scorer: Endpoint | None
    judge: Sequence[str]
    model: Sequence[str]
    foreign: Sequence[str]

    @classmethod
    def of(cls, request: RunRequest) -> Targets:
        """Returns the addresses of a request.

        Raises:
            ConfigError: If one is none, a judge is given to a scorer that runs already, or an option of the model
                server is none.
        """
        return cls(
            parse_endpoints(words_of(request.endpoint)),
            stages_of(request.stages),
            one_endpoint(request.scorer),
            [
                *rule_arguments(request.rules, request.scorer),
                *judge_arguments(request.judge, request.judge_cache, request.judge_reads, request.scorer),
            ],
            model_arguments(request.model, request.model_options),
            foreign.of_request(request),
        )

    @property
    def scoring(self) -> Sequence[str]:
        """Arguments of the `scorer serve` that is started."""
        return [*self.judge, *self.foreign]


@dataclass(frozen=True, slots=True)
class Connections:
    """Connections to all servers of a run."""

    pools: Mapping[str, Pool]
    scorer: ScorerClient
    rules: scorer_pb2.ListRulesResponse
    guards: Sequence[Guard]
    waits: Waits

    @property
    def info(self) -> model.GetModelInfoResponse:
        """The model under evaluation."""
        return self.pools[""].info


@contextlib.asynccontextmanager
async def connect(
    request: RunRequest, console: Console, local: LocalServers | None = None, scorer: LocalChannel | None = None
) -> AsyncIterator[Connections]:
    """Connects to all servers of a request, those of our own started first; closes and ends all of it on exit.

    Args:
        request: The run.
        console: Shows what is waited for.
        local: Servers of our own that outlive the run; None ends them with it.
        scorer: The scorer within this process; None connects to the request's, or starts one.
    """
    targets, patience, waits = Targets.of(request), request.patience, Waits()

    def notify(line: str) -> None:
        console.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)

    def pool(endpoints: Sequence[Endpoint], credentials: Credentials) -> Pool:
        return Pool(endpoints, credentials, concurrency=request.concurrency, patience=patience, notify=notify)

    async with contextlib.AsyncExitStack() as stack:
        guards: list[Guard] = []
        servers = local if local is not None else await stack.enter_async_context(LocalServers())

        async def models() -> dict[str, Pool]:
            endpoints, credentials = targets.endpoints, request.credentials
            embedded: LocalServer | None = None
            if not endpoints:
                embedded, endpoint = await servers.get("model_server", targets.model)
                endpoints, credentials = [endpoint], PLAIN
                guards.append(embedded.watch)
            pools = {"": pool(endpoints, credentials)}
            pools |= {name: pool(there, request.credentials) for name, there in targets.stages.items()}
            for one in pools.values():
                stack.push_async_callback(one.close)
            connecting = (one.connect() for one in pools.values())
            try:
                await raced(together(*connecting), *(guard() for guard in guards))
            except IncompleteError as error:
                if embedded is not None and not pools[""].ready:
                    await embedded.explain(error)
                raise
            return pools

        scoring = connect_scorer(
            targets.scorer,
            request.credentials,
            patience,
            guards,
            arguments=targets.scoring,
            notify=notify,
            local=servers,
            channel=scorer,
            waits=waits,
        )
        # Side by side: each of the two may have a process to start.
        pools, (client, rules) = await together(models(), stack.enter_async_context(scoring))
        yield Connections(pools, client, rules, guards, waits)


def to_stderr(line: str) -> None:
    """Prints a line beside a command's output."""
    print(printable(line), file=sys.stderr)


@contextlib.asynccontextmanager
async def connect_scorer(
    endpoint: Endpoint | None,
    credentials: Credentials,
    patience: float,
    guards: list[Guard] | None = None,
    *,
    arguments: Sequence[str] = (),
    notify: Notify = to_stderr,
    local: LocalServers | None = None,
    channel: LocalChannel | None = None,
    waits: Waits | None = None,
) -> AsyncIterator[tuple[ScorerClient, scorer_pb2.ListRulesResponse]]:
    """Connects to the scorer at an endpoint, or over a channel; without either starts one, with its arguments."""
    async with contextlib.AsyncExitStack() as stack:
        if endpoint is None and channel is None:
            servers = local if local is not None else await stack.enter_async_context(LocalServers())
            embedded, endpoint = await servers.get("scorer", arguments)
            credentials = PLAIN
            if guards is not None:
                guards.append(embedded.watch)
        client = ScorerClient(endpoint, credentials, patience=patience, notify=notify, channel=channel, waits=waits)
        stack.push_async_callback(client.close)
        yield client, await client.list_rules()


async def raced(work: Coroutine[Any, Any, _T], *guards: Coroutine[Any, Any, None]) -> _T:
    """Returns what `work` returns, unless a guard raises first."""
    main = asyncio.ensure_future(work)
    others = [asyncio.ensure_future(guard) for guard in guards]
    try:
        done, _ = await asyncio.wait({main, *others}, return_when=asyncio.FIRST_COMPLETED)
        if main not in done:
            for task in done:
                await task
        return await main
    finally:
        for task in (main, *others):
            task.cancel()
        await asyncio.gather(main, *others, return_exceptions=True)


async def together(*works: Coroutine[Any, Any, Any]) -> list[Any]:
    """Returns what all the works return; the first failure ends the others before it is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
