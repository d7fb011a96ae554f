"""The cache of replies in a thread: calls have deadlines, and a paid reply is not lost while the cache is."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from lyncean.rpc import Unavailable
from lyncean.rpc.patience import backoff
from lyncean.rpc.waits import OverdueError, Wait
from scorer.judges.base import JudgePrompt, Reply
from scorer.judges.cache import Cache, CacheError

log = logging.getLogger(__name__)

SILENCE_SECONDS = 5.0
"""Longest call of the cache; longer than `BUSY_SECONDS`, so that a failing connection reports its cause first."""

_T = TypeVar("_T")
_Job = tuple[Callable[[Cache], Any], Future[Any], float]


class CacheLost(Unavailable):
    """The cache does not answer; the judge is not asked, since the reply may be in there and paid for."""

    def __init__(self, why: str) -> None:
        super().__init__("judge_cache_lost", f"the judge cache cannot be asked: {why}")


class _Worker:
    """A thread that owns a connection to the cache and makes calls one by one.

    Args:
        address: Path or address of the cache.
    """

    def __init__(self, address: str) -> None:
        self.wait = Wait("the judge cache", SILENCE_SECONDS)
        self._address = address
        self._cache: Cache | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._failure: tuple[float, CacheError] | None = None
        # A daemon, so that a thread that hangs does not keep the process alive.
        threading.Thread(target=self._run, name="judge-cache", daemon=True).start()

    def submit(self, work: Callable[[Cache], _T]) -> Future[_T]:
        """Returns the future result of a call."""
        done: Future[_T] = Future()
        self._jobs.put((work, done, time.monotonic()))
        return done

    def stop(self) -> None:
        """Ends the thread after the calls that are already queued."""
        self._jobs.put(None)

    def abandon(self) -> None:
        """Ends a call that hangs, and its thread."""
        self.stop()
        if self._cache:
            self._cache.abandon()

    def _run(self) -> None:
        while job := self._jobs.get():
            work, done, submitted = job
            if not done.set_running_or_notify_cancel():
                continue
            self.wait.begin()
            try:
                if self._failure and submitted < self._failure[0]:
                    raise self._failure[1]  # queued during a failing call: fails at once, without its full timeout
                done.set_result(work(self._opened()))
            except BaseException as error:
                if isinstance(error, CacheError):
                    self._failure = time.monotonic(), error
                done.set_exception(error)
            self.wait.end()
        if self._cache:
            self._cache.close()

    def _opened(self) -> Cache:
        if self._cache is None:
            cache = Cache(self._address, create=False)
            self._cache = cache  # set before `create`, so that `abandon` can end that, too
            cache.create()
        return self._cache


class KeptReplies:
    """A cache whose calls run in a thread and have a deadline.

    A reply that cannot be written stays in memory until the cache answers again, since it is paid for; its verdict
    does not wait for that.

    Args:
        address: Path or address of the cache, as in `Cache`.

    Raises:
        CacheError: If it cannot be opened.

    Attributes:
        waits_for: The last failure of the cache, as text for people; "" after a success.
    """

    def __init__(self, address: str) -> None:
        self.waits_for = ""
        self._address = address
        self._worker = _Worker(address)
        self._unkept: dict[tuple[str, str], Reply] = {}
        self._unwritten: deque[Callable[[Cache], Any]] = deque()
        self._writing: asyncio.Task[None] | None = None
        try:
            self.call(lambda cache: None)
        except CacheError:
            self._worker.stop()
            raise

    def call(self, work: Callable[[Cache], _T]) -> _T:
        """Makes a call and blocks until it returns; for the start of a process, and for commands.

        Raises:
            CacheError: It cannot be opened, or does not answer.
        """
        worker, done = self._worker, self._worker.submit(work)
        while True:
            try:
                return done.result(0.1)
            except TimeoutError:
                if worker.wait.left <= 0:
                    self._replace(worker)
                    raise CacheError(f"the judge cache does not answer for {SILENCE_SECONDS:.0f} s") from None

    async def get(self, judge: str, prompt: JudgePrompt) -> Reply | None:
        """Returns the kept reply of this judge to this prompt.

        Raises:
            CacheLost: The cache does not answer.
            JudgeError: The kept reply does not fit the prompt's schema.
        """
        if reply := self._unkept.get((judge, prompt.sha256)):
            data = prompt.read(reply.text)
            return replace(reply, data=data, input_tokens=0, output_tokens=0, cached=True)
        return await self._run(lambda cache: cache.get(judge, prompt))

    async def put(self, judge: str, replies: Iterable[tuple[str, Reply]]) -> None:
        """Keeps usable replies, in pairs with the hashes of their prompts; the first reply to a prompt stays."""
        pairs = list(replies)
        self._unkept.update(((judge, prompt), reply) for prompt, reply in pairs)

        def write(cache: Cache) -> None:
            cache.put_all(judge, pairs)
            for prompt, _ in pairs:
                self._unkept.pop((judge, prompt), None)

        await self.write(write)

    async def write(self, work: Callable[[Cache], Any]) -> None:
        """Makes a call that writes: now, or, if the cache does not answer, later in the order of the calls."""
        if not self._unwritten:
            try:
                await self._run(work)
                return
            except CacheLost as error:
                log.warning("%s; replies that were paid for are kept in memory until it does", error)
        self._unwritten.append(work)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        failures = 0
        while self._unwritten:
            failures += 1
            await asyncio.sleep(backoff(failures))
            try:
                while self._unwritten:
                    await self._run(self._unwritten[0])
                    self._unwritten.popleft()
            except CacheLost as error:
                self.waits_for = str(error)
        log.warning("the judge cache answers again")

    async def _run(self, work: Callable[[Cache], _T]) -> _T:
        worker = self._worker
        try:
            result = await worker.wait.bound(asyncio.wrap_future(worker.submit(work)))
        except (OverdueError, CacheError) as error:
            if isinstance(error, OverdueError):
                self._replace(worker)
            lost = CacheLost(str(error))
            self.waits_for = str(lost)
            raise lost from None
        self.waits_for = ""
        return result

    def _replace(self, worker: _Worker) -> None:
        """Replaces a thread that hangs, and its connection."""
        if worker is self._worker:
            worker.abandon()
            self._worker = _Worker(self._address)

    async def close(self) -> None:
        """Tries once more to write the calls that failed, and closes the cache."""
        if self._writing:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        try:
            while self._unwritten:
                await self._run(self._unwritten[0])
                self._unwritten.popleft()
        except CacheLost as error:
            log.error("%s; %d replies that were paid for are not kept", error, len(self._unkept))
        self._worker.stop()
