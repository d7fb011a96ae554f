"""The engine: turns samples into calls, logs and scores the answers; none is lost, none is scored twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from lyncean.model.v1 import model_pb2 as model
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.answer_lines import response_line
from orchestrator.engine.backlog import Backlog
from orchestrator.engine.beginning import Beginning
from orchestrator.engine.check import is_cut, was_cut
from orchestrator.engine.dispatch import Dispatcher
from orchestrator.engine.episode import beyond_context, build, prompts_of, run_tools, without_answer
from orchestrator.engine.finishing import Finishing
from orchestrator.engine.jobs import Job, Result
from orchestrator.engine.ledger import Ledger
from orchestrator.engine.options import Options
from orchestrator.engine.pool import Pool
from orchestrator.engine.prepared import Episode, JudgedAnswer, PreparedRequest, UnsentOutcome
from orchestrator.engine.progress import Progress
from orchestrator.engine.scoring import ScorerClient
from orchestrator.engine.tool_calls import ToolCalls
from orchestrator.engine.worker import Worker
from orchestrator.errors import IncompleteError
from orchestrator.run_folder.errors import write_error
from orchestrator.run_folder.lines import Failure
from orchestrator.run_folder.records import answer_of
from orchestrator.samples import Sample

_BATCH = 16
_MOST_REPEATS = 64
"""Most repeats of a sample that are built together."""
_STRIDE = 2048
_BUILDS = 2
"""Batches built concurrently; two keep the worker thread busy."""
_FEW_CALLS = 8
"""With no more than these under way, a Batch being one, the event loop waits for the next build."""
STOP_SECONDS = 30.0
"""Seconds that a stopping run waits for calls in flight and their verdicts."""
_PREPARED_BYTES = 16 * 1024 * 1024


class Engine:
    """Runs one source of samples against one model.

    Args:
        samples: The samples, lazily. Read by a Worker.
        ledger: The run's state; requests whose answers its log holds are not sent again.
        pools: Connected replicas by stage; "" is the model under evaluation.
        scorer: The scorer.
        options: Options of the engine.
    """

    def __init__(
        self,
        samples: Iterator[Sample],
        ledger: Ledger,
        pools: Mapping[str, Pool],
        scorer: ScorerClient,
        options: Options,
    ) -> None:
        self._samples = samples
        self.ledger = ledger
        self._scorer = scorer
        self._options = options
        self._backlog = Backlog(ledger, scorer)
        self._finishing = Finishing(options.changes.finish_cut, ledger)
        self._progress = Progress(ledger, self._finishing, options.shard, self._backlog.later)
        self._dispatchers = {
            stage: Dispatcher(
                pool,
                self._answered,
                ledger.stop,
                timeout=options.timeout,
                patience=options.patience,
                budget=ledger.budget,
            )
            for stage, pool in pools.items()
        }
        self._worker = Worker(self._busy)
        self._open = 0
        self._prepared = self._largest = 0
        self._room = asyncio.Event()
        self._beginning = Beginning()
        self._builds: set[asyncio.Task[None]] = set()
        self._further: list[Episode] = []
        self._further_builds: set[asyncio.Task[None]] = set()
        self._tools = ToolCalls(options.tools, ledger, options.changes, self._worker, self._go_on, self._end_unsent)
        ledger.fewer = self._drop_unwanted
        ledger.traced = lambda rule: rule in scorer.needs
        scorer.on_verdict = ledger.judged

    async def run(self) -> None:
        """Runs to the end of the source.

        Raises:
            IncompleteError: If the run stopped early; it resumes when run again.
            EngineError: If it cannot go on.
            RunLogError: If the run folder cannot be written.
        """
        scoring = asyncio.create_task(self._scorer.run())
        helpers = [
            asyncio.create_task(work)
            for work in (self.ledger.keep(), self._watch(), self._backlog.run(), self._produce_and_finish())
        ]
        everything = {scoring, *helpers, self.ledger.stopped}
        try:
            while not helpers[-1].done():
                done, _ = await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    await task
                everything -= done
        finally:
            for dispatcher in self._dispatchers.values():
                dispatcher.cancel()
            self._tools.cancel()
            rest = [scoring, *helpers, *self._builds, *self._further_builds]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            self._worker.shutdown()
            self.ledger.close()
        if self.ledger.draining:
            raise IncompleteError(self.ledger.draining)

    @property
    def pause(self) -> str:
        """Reason and end of the wait of requests to be sent; "" if none waits long."""
        return "; ".join(filter(None, (dispatcher.pause for dispatcher in self._dispatchers.values())))

    def drain(self, why: str) -> None:
        """Sends nothing more, lets calls in flight end, then `run` raises IncompleteError, which says `why`."""
        self.ledger.draining = self.ledger.draining or why
        for dispatcher in self._dispatchers.values():
            dispatcher.drain()
        self._room.set()

    def stop_soon(self, why: str) -> None:
        """Drains, and ends at once if that takes longer than STOP_SECONDS, or the scorer keeps silent."""
        self.drain(why)
        self._scorer.hurry()
        late = IncompleteError(f"{why} (not waited for any longer: what takes more than {STOP_SECONDS:.0f} s)")
        asyncio.get_running_loop().call_later(STOP_SECONDS, self.ledger.stop, late)

    @property
    def _unit(self) -> int:
        """Samples that are built together: all repeats of one, if these may be sent together."""
        repeats = self._options.repeats
        together = any(dispatcher.pool.info.max_samples > 1 for dispatcher in self._dispatchers.values())
        return repeats if together and repeats <= _MOST_REPEATS else 1

    def _batch(self, most: int) -> int:
        """Returns the number of samples to build together, about `most`; the first alone, for its size."""
        fitting = min(most, _PREPARED_BYTES // self._largest) if self._largest else 1
        return self._unit * max(1, fitting // self._unit)

    async def _produce_and_finish(self) -> None:
        size = most = self._unit * max(1, _BATCH // self._unit)
        while not self.ledger.draining:
            [batch] = await self._worker.each(lambda count: list(islice(self._samples, count)), [size])
            if not batch:
                self.ledger.accounting.complete = True
                break
            episodes = [episode for sample in batch if (episode := self._progress.plan(sample))]
            # Rows that an earlier process answered are passed over in long strides.
            size = most if episodes else min(2 * size, _STRIDE // most * most)
            while episodes:
                while not self.ledger.draining and self._full():
                    self._room.clear()
                    await self._room.wait()
                if self.ledger.draining:
                    break
                count = self._batch(most)
                self._build(self._wanted(episodes[:count]), self._builds)
                del episodes[:count]
        while self._open and not self.ledger.draining:
            self._room.clear()
            await self._room.wait()
        for dispatcher in self._dispatchers.values():
            await dispatcher.finish()
        await self._tools.finish()
        await self._backlog.finish()
        await self._scorer.finish()
        self.ledger.log.flush()

    def _wanted(self, episodes: list[Episode]) -> list[Episode]:
        """Returns the episodes that are still to be asked; the others are no longer planned."""
        if (stopping := self.ledger.stopping) is None:
            return episodes
        for episode in (unwanted := [one for one in episodes if not stopping.wanted(one.sample.key)]):
            turns = episode.sample.turns[len(episode.answers) :]
            self.ledger.accounting.unplan(episode.task, sum(turn.scoring is not None for turn in turns))
        return [episode for episode in episodes if episode not in unwanted] if unwanted else episodes

    def _drop_unwanted(self) -> None:
        """Takes back waiting requests that are no longer needed."""
        if (stopping := self.ledger.stopping) is None:
            return
        for dispatcher in self._dispatchers.values():
            for job in dispatcher.drop(lambda job: not stopping.wanted(job.owner.episode.sample.key)):
                self._prepared -= job.request.size
                self._wanted([job.owner.episode])
                self._open -= 1
        self._room.set()

    def _busy(self) -> bool:
        return sum(dispatcher.in_flight for dispatcher in self._dispatchers.values()) > _FEW_CALLS

    def _full(self) -> bool:
        """Returns whether enough is prepared: twice the calls that can be in flight, or less if they are large."""
        if len(self._builds) >= (_BUILDS if self._largest else 1):
            return True
        dispatchers = self._dispatchers.values()
        if self._open >= 64 + 2 * sum(dispatcher.pool.slots for dispatcher in dispatchers):
            return True
        return self._prepared >= _PREPARED_BYTES and any(dispatcher.waiting for dispatcher in dispatchers)

    def _build(self, episodes: list[Episode], builds: set[asyncio.Task[None]]) -> None:
        """Has the next calls of these built, and hands them to the dispatchers once they are."""
        self._open += len(episodes)
        task = asyncio.create_task(self._build_and_submit(episodes, together=builds is self._builds))
        builds.add(task)
        task.add_done_callback(builds.discard)
        task.add_done_callback(lambda _: self._room.set())

    async def _build_and_submit(self, episodes: list[Episode], *, together: bool) -> None:
        """Builds the next calls and submits them; repeats of one prompt together where they are the first calls."""
        log, changes = self.ledger.log, self._options.changes
        try:
            episodes = await self._run_tools(episodes)
            requests = await self._worker.each(lambda episode: build(episode, log, changes, self._server), episodes)
            going = set(map(id, self._wanted(episodes)))
            prompts = prompts_of(requests) if together and self._options.repeats > 1 else [None] * len(requests)
            for episode, built, prompt in zip(episodes, requests, prompts, strict=True):
                self._largest = max(self._largest, built.request.size if isinstance(built, PreparedRequest) else 1)
                if id(episode) not in going:
                    self._open -= 1
                elif isinstance(built, UnsentOutcome):
                    self._end_unsent(episode, built)
                elif isinstance(built, JudgedAnswer):
                    self._take_answer(episode, built)
                else:
                    dispatcher = self._dispatchers.get(built.stage) or self._dispatchers[""]
                    self._prepared += built.request.size
                    dispatcher.submit(Job(built.request, built, prompt=prompt))
            self._heed_budget()
        except OSError as error:
            self.ledger.stop(write_error(log.path, error))
        except Exception as error:
            self.ledger.stop(error)

    async def _run_tools(self, episodes: list[Episode]) -> list[Episode]:
        """Runs the tools that the last answers call, and logs the results; returns the episodes that go on."""
        calling = [episode for episode in episodes if episode.trajectory or episode.logged]
        if not calling:
            return episodes
        log, changes = self.ledger.log, self._options.changes
        outputs = await self._worker.each(lambda episode: run_tools(episode, log, changes), calling)
        ended = set()
        for episode, lines in zip(calling, outputs, strict=True):
            if isinstance(lines, UnsentOutcome):
                self._end_unsent(episode, lines)
                ended.add(id(episode))
                continue
            for line in lines:
                self.ledger.used_tool(line.is_error)
                self.ledger.add_call(line.key, None, line.line, episode.rule)
        if any(outputs):
            await self.ledger.synced()
        for episode in calling:
            if episode.trajectory and episode.trajectory.pending and id(episode) not in ended:
                self._tools.begin(episode)
                ended.add(id(episode))
        return [episode for episode in episodes if id(episode) not in ended]

    def _server(self, stage: str) -> model.GetModelInfoResponse:
        return (self._dispatchers.get(stage) or self._dispatchers[""]).pool.info

    def _answered(self, result: Result) -> None:
        built: PreparedRequest = result.job.owner
        self._prepared -= built.request.size
        response = result.response
        if response is None:
            assert result.error is not None
            error = result.error
            if built.begun is not None:
                self._finishing.leave(built.key, built.begun, error)
                self._go_on(built.episode)
                return
            if (limited := beyond_context(built.episode, error)) and (trajectory := built.episode.trajectory):
                self._add_line(built, result, limited)
                trajectory.end_of_context(limited.detail)
                self._go_on(built.episode)
                return
            failed = UnsentOutcome(error.consequence.outcome, error.reason, str(error))
            self._end_sent(built, result, failed)
            self._heed_beginning(failed, error.code.name)
            return
        self._beginning.answered()
        self.ledger.used(response.usage)
        self._heed_budget()
        if getattr(response, "finish_reason", 0) == model.FINISH_REASON_CONTENT_FILTER:
            detail = "the server withheld the output by policy"
            self._end_sent(built, result, UnsentOutcome(Outcome.REFUSED, "content_filter", detail))
            return
        if built.begun is not None:
            response, built.line.finished = self._finishing.merged(built.key, built.begun, response)
            result = replace(result, response=response)
        ended = None if built.episode.turn.may_be_cut else without_answer(response)
        offset = self._add_line(built, result, ended)
        if was_cut(response) and self._finishing.take(built.key, offset):
            self._go_on(built.episode)
            return
        if ended:
            self._end(built.episode, ended)
            return
        answer = answer_of(response)
        if built.episode.trajectory:
            built.episode.trajectory.add_answer(answer)
        else:
            cut = built.line.after_cut or is_cut(answer, built.request.choices)
            self._backlog.score(built.score, built.scoring, answer, offset, cut=cut)
            built.episode.answers.append(answer)
        self._go_on(built.episode)

    def _end_unsent(self, episode: Episode, ended: UnsentOutcome) -> None:
        """Ends a turn for which no call was made, or no further one."""
        self._progress.end_unsent(episode, ended)
        self._close()
        self._heed_beginning(ended, "")

    def _take_answer(self, episode: Episode, judged: JudgedAnswer) -> None:
        """Takes the answer of a turn with tools."""
        offset = self.ledger.add_response(episode.key, None, judged.line)
        self._backlog.score(judged.score, judged.scoring, judged.answer, offset, cut=judged.cut)
        episode.answers.append(judged.answer)
        episode.trajectory = None
        self._go_on(episode)

    def _go_on(self, episode: Episode) -> None:
        """Sends the next request of a sample, unless the run drains."""
        if episode.over or self._progress.resume(episode):
            self._close()
        elif not self.ledger.draining:
            if not self._further:
                # Not at once: answers that come together are processed together.
                asyncio.get_running_loop().call_soon(self._build_further)
            self._further.append(episode)

    def _build_further(self) -> None:
        """Has the next calls of samples built that are under way."""
        further, self._further = self._further, []
        for start in range(0, len(further), _BATCH):
            batch = further[start : start + _BATCH]
            self._open -= len(batch)
            self._build(self._wanted(batch), self._further_builds)

    def _add_line(self, built: PreparedRequest, result: Result, ended: UnsentOutcome | None) -> int:
        line = response_line(built, result, ended, lambda image: self.ledger.log.images.put(image.data))
        outcome = ended.outcome if ended else None
        if built.episode.trajectory:
            return self.ledger.add_call(built.key, outcome, line, built.episode.rule)
        return self.ledger.add_response(built.key, outcome, line)

    def _end_sent(self, built: PreparedRequest, result: Result, ended: UnsentOutcome) -> None:
        self._add_line(built, result, ended)
        self._end(built.episode, ended)

    def _end(self, episode: Episode, ended: UnsentOutcome) -> None:
        """Ends a turn whose last call has a line with the reason for the missing answer."""
        end = self._progress.end_unsent if episode.turn.play else self._progress.end
        end(episode, ended)
        self._close()

    def _close(self) -> None:
        self._open -= 1
        self._room.set()

    async def _watch(self) -> None:
        """Checks every half second whether the run may go on."""
        while True:
            await asyncio.sleep(0.5)
            for dispatcher in self._dispatchers.values():
                if dispatcher.waiting or dispatcher.in_flight:
                    dispatcher.pool.check()
            self._drop_unwanted()  # a call may have failed since, and wait to be sent again
            self._heed_budget()

    def _heed_beginning(self, ended: UnsentOutcome, code: str) -> None:
        """Stops if all requests so far failed alike, and others are left to send."""
        why = self._beginning.failed(ended.outcome, Failure(code, ended.reason, ended.detail))
        if why and self.ledger.accounting.goes_on:
            self.drain(why)

    def _heed_budget(self) -> None:
        """Stops if requests are left that the budget does not allow; a complete run stays complete."""
        if (why := self.ledger.spent()) and any(dispatcher.waiting for dispatcher in self._dispatchers.values()):
            self.drain(why)
