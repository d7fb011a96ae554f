"""A judge behind the Batch API: slower, cheaper, and safe across restarts."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import openai

from lyncean.rpc.budget import Budget
from lyncean.rpc.limiter import retry_after
from lyncean.rpc.patience import backoff
from scorer.judges.base import JudgeError, JudgePrompt, Reply, take
from scorer.judges.cache import Cache
from scorer.judges.endpoint import TRIES, EndpointConfig, body, client, content, read, spent
from scorer.judges.keeping import KeptReplies

log = logging.getLogger(__name__)

MOST_IN_BATCH = 50_000
_ENDED = {"completed", "expired", "failed", "cancelled"}
_NOT_DONE = (openai.RateLimitError,)
"""Failures that prove that a request had no effect: after any other, a paid request is not sent again."""
_PASSING = (openai.RateLimitError, openai.APIConnectionError, openai.InternalServerError)

_T = TypeVar("_T")


class Batch:
    """Gathers questions into batches, polls the batches, and hands out the replies.

    The cache holds the ids of batches under way: after a restart a question that is part of a
    batch waits for that batch and is not sent again. A batch that expired or failed may
    hold some replies; those are used, the rest fails with `judge_batch_expired` or
    `judge_batch_failed`. Replies are in the cache before their batch is forgotten; a batch that
    cannot be read stays remembered.

    Args:
        config: Model, endpoint and limits.
        budget: Bounds of its cost; tokens are charged when a batch has ended.
        cache: The kept ids and replies.
        poll: Poll interval of a batch in seconds.
        gather: Seconds without a new question after which a batch is submitted.
    """

    def __init__(
        self, config: EndpointConfig, budget: Budget, cache: KeptReplies, *, poll: float = 30.0, gather: float = 5.0
    ) -> None:
        self.config = config
        self._budget = budget
        self._cache = cache
        self._poll = poll
        self._gather = gather
        self._client = client(config)
        self._fresh: dict[str, JudgePrompt] = {}
        self._waiting: dict[str, tuple[JudgePrompt, asyncio.Future[Reply]]] = {}
        self._under_way = dict(cache.call(lambda kept: kept.batches(self.identity)))
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._submitting: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()

    @property
    def identity(self) -> str:
        """The same as the live endpoint's: their replies are interchangeable."""
        return self.config.identity

    @property
    def waits_for(self) -> str:
        """The batches under way."""
        return f"batches under way: {', '.join(self._tasks)}" if self._tasks else "a batch to be submitted"

    async def prepare(self) -> None:
        """Does nothing: the identity follows from the configuration."""

    async def ask(self, prompt: JudgePrompt) -> Reply:
        """Adds the question to the next batch and waits for its reply."""
        waiting = self._waiting.get(prompt.sha256)
        if waiting is None:
            waiting = prompt, asyncio.get_running_loop().create_future()
            self._waiting[prompt.sha256] = waiting
            batch = self._under_way.get(prompt.sha256)
            if batch is None:
                take(self._budget)
                self._fresh[prompt.sha256] = prompt
                self._arrived.set()
                if self._submitting is None or self._submitting.done():
                    self._submitting = asyncio.create_task(self._submit())
                    self._submitting.add_done_callback(self._broken)
            else:
                self._follow(batch)
        # Shielded: other callers wait for the same future.
        return await asyncio.shield(waiting[1])

    async def _submit(self) -> None:
        while self._fresh:
            while len(self._fresh) < MOST_IN_BATCH and self._arrived.is_set():
                self._arrived.clear()
                await asyncio.sleep(self._gather)
            prompts = dict(list(self._fresh.items())[:MOST_IN_BATCH])
            for sha256 in prompts:
                del self._fresh[sha256]
            try:
                batch = await self._create(prompts)
            except openai.APIError as error:
                for sha256 in prompts:
                    self._settle(sha256, JudgeError("judge_batch_failed", f"the batch could not be submitted: {error}"))
                continue
            await self._cache.write(partial(Cache.begin_batch, judge=self.identity, batch=batch, prompts=list(prompts)))
            self._under_way |= dict.fromkeys(prompts, batch)
            log.info("judge: batch %s with %d questions", batch, len(prompts))
            self._follow(batch)

    async def _create(self, prompts: Mapping[str, JudgePrompt]) -> str:
        lines = (
            json.dumps(
                {
                    "custom_id": sha256,
                    "method": "POST",
                    "url": "/v1/chat/completions",
                    "body": body(self.config.model, prompt),
                }
            )
            for sha256, prompt in prompts.items()
        )
        document = ("\n".join(lines) + "\n").encode()
        upload = ("lyncean.jsonl", document)
        file = await self._tried(lambda: self._client.files.create(file=upload, purpose="batch"), _PASSING)
        batch = await self._tried(
            lambda: self._client.batches.create(
                input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
            ),
            _NOT_DONE,
        )
        return batch.id

    async def _tried(self, call: Callable[[], Awaitable[_T]], passing: tuple[type[openai.APIError], ...]) -> _T:
        """Makes a call, and repeats it after failures that pass, as `Endpoint.ask` does."""
        clock = asyncio.get_running_loop().time
        give_up = clock() + self.config.patience
        tries = 0
        while True:
            tries += 1
            try:
                return await call()
            except passing as error:
                headers = error.response.headers if isinstance(error, openai.APIStatusError) else {}
                pause = retry_after(headers) or backoff(tries)
                exhausted = tries >= TRIES and not isinstance(error, openai.RateLimitError)
                if exhausted or clock() + pause > give_up:
                    raise
            await asyncio.sleep(pause)

    def _follow(self, batch: str) -> None:
        if batch not in self._tasks:
            self._tasks[batch] = asyncio.create_task(self._collect(batch))
            self._tasks[batch].add_done_callback(self._broken)

    async def _collect(self, batch: str) -> None:
        lines: list[Mapping[str, Any]] = []
        known = True
        try:
            state = await self._ended(batch)
            for file in (state.output_file_id, state.error_file_id):
                lines += await self._lines(file) if file else []
            reason = "judge_batch_expired" if state.status == "expired" else "judge_batch_failed"
            left = JudgeError(reason, f"batch {batch} ended as {state.status} without a reply to this question")
        except openai.NotFoundError as error:
            left = JudgeError("judge_batch_failed", f"batch {batch} is not to be found: {error}")
        except openai.APIError as error:
            known = False
            left = JudgeError("judge_batch_failed", f"batch {batch} cannot be read, and stays remembered: {error}")
        replies = [(str(line["custom_id"]), self._read(line)) for line in lines]
        # Replies first: after a crash in between, the next start finds them and pays for none twice.
        usable = [(sha256, reply) for sha256, reply in replies if isinstance(reply, Reply)]
        await self._cache.put(self.identity, usable)
        if known:
            await self._cache.write(partial(Cache.end_batch, judge=self.identity, batch=batch))
        for sha256, reply in replies:
            self._settle(sha256, reply)
        for sha256 in [sha256 for sha256, under_way in self._under_way.items() if under_way == batch]:
            if known:
                del self._under_way[sha256]
            self._settle(sha256, left)
        del self._tasks[batch]

    async def _lines(self, file: str) -> list[Mapping[str, Any]]:
        """Returns the replies of a batch's file; skips lines that are not a reply to a question."""
        lines = []
        for text in (await self._tried(lambda: self._client.files.content(file), _PASSING)).text.splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                line = None
            if isinstance(line, Mapping) and "custom_id" in line:
                lines.append(line)
            else:
                log.warning("judge: a line of %s is not a reply: %.200s", file, text)
        return lines

    async def _ended(self, batch: str) -> Any:
        failures = 0
        while True:
            try:
                state = await self._client.batches.retrieve(batch)
                failures = 0
                if state.status in _ENDED:
                    return state
            except openai.NotFoundError:
                raise
            except openai.APIError:
                failures += 1
                if failures > 20:
                    raise
            await asyncio.sleep(self._poll)

    def _read(self, line: Mapping[str, Any]) -> Reply | JudgeError:
        response = line.get("response") or {}
        prompt, _ = self._waiting.get(str(line["custom_id"]), (None, None))
        try:
            if response.get("status_code") != 200:
                error = line.get("error") or (response.get("body") or {}).get("error") or {}
                reason = "judge_batch_expired" if error.get("code") == "batch_expired" else "judge_error"
                status = f"the judge answered {response['status_code']}" if response else "the judge gave no answer"
                raise JudgeError(reason, f"{status}: {error.get('message', 'no reason given')}")
            completion = _attributes(response.get("body") or {})
            if prompt is None:
                # Sent before a restart, and not needed since: kept, so that it is not paid for again.
                return Reply(data={}, text=content(completion), model=completion.model)
            # Charged before it is read: an unusable reply is paid for, too.
            self._budget.used(*spent(completion))
            return read(prompt, completion)
        except JudgeError as failure:
            return failure

    def _settle(self, sha256: str, reply: Reply | BaseException) -> None:
        """Resolves a question's future with its reply or failure, if it still waits."""
        _, future = self._waiting.pop(sha256, (None, None))
        if future is None or future.done():
            return
        if isinstance(reply, Reply):
            future.set_result(reply)
        else:
            future.set_exception(reply)

    def _broken(self, task: asyncio.Task[None]) -> None:
        """Fails all waiting questions when a task dies of a defect, or of a cache that cannot be written."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            for sha256 in list(self._waiting):
                self._settle(sha256, error)

    async def close(self) -> None:
        """Stops polling; the endpoint continues its batches, and the next start finds them in the cache."""
        tasks = [*self._tasks.values(), *([self._submitting] if self._submitting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()


def _attributes(value: Any) -> Any:
    """Returns JSON with attribute access, like the library's objects, so that `content` reads both."""
    if isinstance(value, dict):
        names: dict[str, Any] = {
            "choices": [],
            "message": None,
            "content": None,
            "finish_reason": None,
            "model": "",
            "usage": None,
        }
        return SimpleNamespace(**names | {str(key): _attributes(item) for key, item in value.items()})
    return [_attributes(item) for item in value] if isinstance(value, list) else value
