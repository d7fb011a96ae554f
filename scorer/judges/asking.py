"""Between a rule and a judge: the cache, and one request for equal questions."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from scorer.judges.base import JudgePrompt, Reply, Single
from scorer.judges.keeping import KeptReplies


class Cached:
    """A judge that is asked once for each prompt, ever.

    Equal prompts that arrive while the first is looked up or in flight wait for it, and count as cached. Only
    usable replies are kept: what failed is asked again when the item is scored again.

    Args:
        judge: Who is asked.
        cache: Where replies are kept.
    """

    def __init__(self, judge: Single, cache: KeptReplies) -> None:
        self._judge = judge
        self._cache = cache
        self._waiting: dict[str, asyncio.Task[Reply]] = {}

    @property
    def identity(self) -> str:
        """The judge's own."""
        return self._judge.identity

    @property
    def waits_for(self) -> str:
        """The judge's own, or the cache's."""
        return self._judge.waits_for or self._cache.waits_for

    async def ask(self, prompt: JudgePrompt) -> Reply:
        """Returns the kept reply, or asks; raises as the judge does."""
        await self._judge.prepare()
        task = self._waiting.get(prompt.sha256)
        shares = task is not None
        if task is None:
            task = asyncio.create_task(self._ask(prompt))
            self._waiting[prompt.sha256] = task
            task.add_done_callback(lambda done: self._ended(prompt.sha256, done))
        # Shielded: one caller that goes away must not take the others' reply, which is being paid for.
        reply = await asyncio.shield(task)
        # Tokens are in the verdict of the item that asked, so that a sum over verdicts is what was paid.
        return replace(reply, input_tokens=0, output_tokens=0, cached=True) if shares else reply

    def _ended(self, prompt: str, task: asyncio.Task[Reply]) -> None:
        self._waiting.pop(prompt, None)
        if not task.cancelled():
            task.exception()  # all who wait may have gone away: the event loop would log a traceback

    async def _ask(self, prompt: JudgePrompt) -> Reply:
        kept = await self._cache.get(self.identity, prompt)
        if kept is not None:
            return kept
        reply = await self._judge.ask(prompt)
        await self._cache.put(self.identity, [(prompt.sha256, reply)])
        return reply

    async def close(self) -> None:
        """Lets go of what is asked and closes the judge; the cache belongs to whoever opened it."""
        tasks = list(self._waiting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._judge.close()
