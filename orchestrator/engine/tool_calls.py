"""Calls of tools that servers make: each trajectory waits for its own, and no other for it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lyncean.rpc import CallError
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.episode import ToolLine, run_tools, take_output
from orchestrator.engine.prepared import Episode, UnsentOutcome
from orchestrator.run_folder.errors import write_error
from orchestrator.tools.types import ToolOutput

if TYPE_CHECKING:
    from orchestrator.engine.deviations import Deviations
    from orchestrator.engine.ledger import Ledger
    from orchestrator.engine.tool_server import ToolServer
    from orchestrator.engine.trajectory import Trajectory
    from orchestrator.engine.worker import Worker


class ToolCalls:
    """Makes the calls of tools that servers make, and logs their results.

    Args:
        servers: The servers, connected, in their order in `--tools`.
        ledger: The run's state.
        changes: The run's changes to requests.
        worker: Runs local work: built-in tools, hashes, lines of the log.
        go_on: Gets a trajectory all of whose calls have their results.
        end: Gets one that a failed call ends.
    """

    def __init__(
        self,
        servers: Sequence[ToolServer],
        ledger: Ledger,
        changes: Deviations,
        worker: Worker,
        go_on: Callable[[Episode], None],
        end: Callable[[Episode, UnsentOutcome], None],
    ) -> None:
        self._servers, self._ledger, self._changes, self._worker = servers, ledger, changes, worker
        self._go_on, self._end = go_on, end
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, episode: Episode) -> None:
        """Makes the call that a trajectory waits for, and those after it."""
        task = asyncio.create_task(self._run(episode))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Waits for the calls in flight; a run that drains makes none after them."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Ends the calls in flight without a result."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, episode: Episode) -> None:
        ledger = self._ledger
        try:
            while (trajectory := episode.trajectory) and trajectory.pending:
                async with self._servers[trajectory.pending.server].slots:
                    if ledger.draining:
                        return
                    output = await self._made(episode, trajectory)
                    if isinstance(output, UnsentOutcome):
                        self._end(episode, output)
                        return
                    for line in output:
                        ledger.used_tool(line.is_error)
                        ledger.add_call(line.key, None, line.line, episode.rule)
                await ledger.synced()
            self._go_on(episode)
        except OSError as error:
            ledger.stop(write_error(ledger.log.path, error))
        except Exception as error:
            ledger.stop(error)

    async def _made(self, episode: Episode, trajectory: Trajectory) -> list[ToolLine] | UnsentOutcome:
        """Makes the pending call; returns its line and those of the built-in tools after it, up to the next."""
        call = trajectory.pending
        assert call is not None
        [images] = await self._worker.each(_images, [trajectory])
        history = [earlier for earlier in trajectory.made if earlier[0].server == call.server]
        server = self._servers[call.server]
        try:
            output = await server.make(call, images, history)
        except CallError as error:
            return UnsentOutcome(Outcome.FAILED, error.reason, f"the server of tools at {server.endpoint}: {error}")
        [lines] = await self._worker.each(lambda result: self._taken(episode, result), [output])
        return lines

    def _taken(self, episode: Episode, output: ToolOutput) -> list[ToolLine] | UnsentOutcome:
        log = self._ledger.log
        line = take_output(episode, log, output)
        rest = run_tools(episode, log, self._changes)
        return rest if isinstance(rest, UnsentOutcome) else [line, *rest]


def _images(trajectory: Trajectory) -> list[tuple[bytes, bytes]]:
    """Returns the images of a trajectory with their SHA-256, which is computed once for each."""
    pictures, digests = trajectory.pictures, trajectory.picture_digests
    digests += (hashlib.sha256(picture.data).digest() for picture in pictures[len(digests) :])
    return [(picture.data, digest) for picture, digest in zip(pictures, digests, strict=True)]
