"""A judge asked through the Batch API: slower, cheaper, and safe across restarts."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import openai

from scorer.judges.base import JudgeError, JudgePrompt, Reply
from scorer.judges.budget import Budget
from scorer.judges.cache import Cache
from scorer.judges.endpoint import EndpointConfig, body, client, content, read

log = logging.getLogger(__name__)

MOST_IN_BATCH = 50_000
_ENDED = {"completed", "expired", "failed", "cancelled"}


class Batch:
    """Gathers questions into batches, polls them, and hands out the replies.

    The ids of batches under way stand in the cache: after a restart a question that is in a
    batch already waits for that batch and is not sent again. A batch that expired may have
    answered in part; those replies are used, the rest is `judge_batch_expired`.

    Args:
        config: Where and what.
        budget: What it may cost; tokens are accounted for when a batch has ended.
        cache: Where ids and replies are kept.
        poll: Seconds between looks at a batch.
        gather: Seconds without a new question after which a batch is submitted.
    """

    def __init__(
        self, config: EndpointConfig, budget: Budget, cache: Cache, *, poll: float = 30.0, gather: float = 5.0
    ) -> None:
        self.config = config
        self._budget = budget
        self._cache = cache
        self._poll = poll
        self._gather = gather
        self._client = client(config)
        self._fresh: dict[str, JudgePrompt] = {}
        self._waiting: dict[str, tuple[JudgePrompt, asyncio.Future[Reply]]] = {}
        self._under_way = dict(cache.batches(self.identity))
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._submitting: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()

    @property
    def identity(self) -> str:
        """The same as the live endpoint's: their replies are interchangeable."""
        return self.config.identity

    async def ask(self, prompt: JudgePrompt) -> Reply:
        """Puts the question into the next batch and waits for its reply."""
        waiting = self._waiting.get(prompt.sha256)
        if waiting is None:
            waiting = prompt, asyncio.get_running_loop().create_future()
            self._waiting[prompt.sha256] = waiting
            batch = self._under_way.get(prompt.sha256)
            if batch is None:
                self._budget.take()
                self._fresh[prompt.sha256] = prompt
                self._arrived.set()
                if self._submitting is None or self._submitting.done():
                    self._submitting = asyncio.create_task(self._submit())
            else:
                self._follow(batch)
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
                    self._fail(sha256, JudgeError("judge_batch_failed", f"the batch could not be submitted: {error}"))
                continue
            self._cache.begin_batch(self.identity, batch, prompts)
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
        file = await self._client.files.create(file=("lynceus.jsonl", document), purpose="batch")
        batch = await self._client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        return batch.id

    def _follow(self, batch: str) -> None:
        if batch not in self._tasks:
            self._tasks[batch] = asyncio.create_task(self._collect(batch))

    async def _collect(self, batch: str) -> None:
        try:
            state = await self._ended(batch)
            for file in (state.output_file_id, state.error_file_id):
                if file:
                    for line in (await self._client.files.content(file)).text.splitlines():
                        self._resolve(json.loads(line))
            reason = "judge_batch_expired" if state.status == "expired" else "judge_batch_failed"
            left = JudgeError(reason, f"batch {batch} ended as {state.status} without a reply to this question")
        except openai.APIError as error:
            left = JudgeError("judge_batch_failed", f"batch {batch} cannot be read: {error}")
        self._cache.end_batch(self.identity, batch)
        for sha256 in [sha256 for sha256, under_way in self._under_way.items() if under_way == batch]:
            del self._under_way[sha256]
            self._fail(sha256, left)
        del self._tasks[batch]

    async def _ended(self, batch: str) -> Any:
        troubles = 0
        while True:
            try:
                state = await self._client.batches.retrieve(batch)
                troubles = 0
                if state.status in _ENDED:
                    return state
            except openai.NotFoundError:
                raise
            except openai.APIError:
                troubles += 1
                if troubles > 20:
                    raise
            await asyncio.sleep(self._poll)

    def _resolve(self, line: Mapping[str, Any]) -> None:
        sha256 = str(line["custom_id"])
        response = line.get("response") or {}
        prompt, future = self._waiting.get(sha256, (None, None))
        try:
            if response.get("status_code") != 200:
                cause = (line.get("error") or response.get("body") or {}).get("message", "no reason given")
                raise JudgeError("judge_error", f"the judge answered {response.get('status_code')}: {cause}")
            completion = _attributes(response["body"])
            if prompt is None or future is None:
                # Sent before a restart and not asked for since: kept, so that it is not paid for again.
                words = content(completion)
                self._cache.put(self.identity, sha256, Reply(data={}, words=words, model=completion.model))
                return
            reply = read(prompt, completion)
        except JudgeError as error:
            self._fail(sha256, error)
            return
        self._budget.add(reply)
        del self._waiting[sha256]
        future.set_result(reply)

    def _fail(self, sha256: str, error: JudgeError) -> None:
        _, future = self._waiting.pop(sha256, (None, None))
        if future is not None:
            future.set_exception(error)

    async def close(self) -> None:
        """Stops polling; batches under way go on at the endpoint and are found again at the next start."""
        tasks = [*self._tasks.values(), *([self._submitting] if self._submitting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()


def _attributes(value: Any) -> Any:
    """Returns JSON with attribute access, as the library's own objects have it."""
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
