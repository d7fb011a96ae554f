"""The layer between a rule and a judge: looks replies up, and joins equal questions in flight."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from scorer.judges.base import JudgePrompt, Reply, Single
from scorer.judges.keeping import KeptReplies


class Cached:
    """A judge that gets each prompt once, in this run and in later ones.

    Equal prompts that arrive while the first is looked up or in flight wait for it, and count as cached. Only
    usable replies are kept: a failed prompt is sent again when its item is scored again.

    Args:
        judge: The judge.
        cache: The kept replies.
    """

    def __init__(self, judge: Single, cache: KeptReplies) -> None:
        self._judge = judge
        self._cache = cache
        self._waiting: dict[str, asyncio.Task[Reply]] = {}

    @property
    def identity(self) -> str:
        """The judge's identity."""
        return self._judge.identity

    @property
    def waits_for(self) -> str:
        """The reason of the judge, else that of the cache."""
        return self._judge.waits_for or self._cache.waits_for

    async def ask(self, prompt: JudgePrompt) -> Reply:
        """Returns the kept reply, or that of the judge; raises as the judge does."""
        await self._judge.prepare()
        task = self._waiting.get(prompt.sha256)
        shares = task is not None
        if task is None:
            task = asyncio.create_task(self._ask(prompt))
            self._waiting[prompt.sha256] = task
            task.add_done_callback(lambda done: self._ended(prompt.sha256, done))
        # Shielded: a caller that is cancelled must not cancel the request, which others wait for and which is paid for.
        reply = await asyncio.shield(task)
        # Only the first verdict counts the tokens, so that the sum over verdicts equals the bill.
        return replace(reply, input_tokens=0, output_tokens=0, cached=True) if shares else reply

    def _ended(self, prompt: str, task: asyncio.Task[Reply]) -> None:
        self._waiting.pop(prompt, None)
        if not task.cancelled():
            task.exception()  # retrieved, since without a caller left the event loop would log a traceback

    async def _ask(self, prompt: JudgePrompt) -> Reply:
        kept = await self._cache.get(self.identity, prompt)
        if kept is not None:
            return kept
        reply = await self._judge.ask(prompt)
        await self._cache.put(self.identity, [(prompt.sha256, reply)])
        return reply

    async def close(self) -> None:
        """Cancels requests in flight and closes the judge; the owner of the cache closes that."""
        tasks = list(self._waiting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._judge.close()
