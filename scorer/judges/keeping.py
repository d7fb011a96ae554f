"""The cache of replies beside the event loop: nobody waits for it for long, and what was paid for is never lost."""

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
"""A call of the cache that takes longer is given up. A connection that cannot be made gives up sooner by itself."""

_T = TypeVar("_T")
_Job = tuple[Callable[[Cache], Any], Future[Any], float]


class CacheLost(Unavailable):
    """The cache does not answer: what it holds is not known, so nothing is asked that may have been paid for."""

    def __init__(self, why: str) -> None:
        super().__init__("judge_cache_lost", f"the judge cache cannot be asked: {why}")


class _Worker:
    """A thread with a cache of its own, which works off calls one by one.

    Args:
        place: Where the cache is.
    """

    def __init__(self, place: str) -> None:
        self.wait = Wait("the judge cache", SILENCE_SECONDS)
        self._place = place
        self._cache: Cache | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._failure: tuple[float, CacheError] | None = None
        # A daemon: one that hangs does not keep the process.
        threading.Thread(target=self._run, name="judge-cache", daemon=True).start()

    def submit(self, work: Callable[[Cache], _T]) -> Future[_T]:
        """Returns the future result of a call."""
        done: Future[_T] = Future()
        self._jobs.put((work, done, time.monotonic()))
        return done

    def stop(self) -> None:
        """Ends the thread, once it has worked off what it was given."""
        self._jobs.put(None)

    def abandon(self) -> None:
        """Lets go of a call that hangs, and of the thread with it."""
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
                    raise self._failure[1]  # what waited behind a call that failed does not try for as long again
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
            cache = Cache(self._place, create=False)
            self._cache = cache  # from here on it can be abandoned
            cache.create()
        return self._cache


class KeptReplies:
    """A cache whose calls are made in a thread, each with a deadline.

    A reply that cannot be written stays here and is written once the cache answers again: it was paid for, and goes on
    to its verdict meanwhile.

    Args:
        place: Where the cache is, as `Cache` takes it.

    Raises:
        CacheError: If it cannot be opened.

    Attributes:
        waits_for: What is wrong with the cache, for people; "" where nothing is.
    """

    def __init__(self, place: str) -> None:
        self.waits_for = ""
        self._place = place
        self._worker = _Worker(place)
        self._unkept: dict[tuple[str, str], Reply] = {}
        self._unwritten: deque[Callable[[Cache], Any]] = deque()
        self._writing: asyncio.Task[None] | None = None
        try:
            self.call(lambda cache: None)
        except CacheError:
            self._worker.stop()
            raise

    def call(self, work: Callable[[Cache], _T]) -> _T:
        """Returns what a call of the cache returns; blocks: for the start of a process, and for commands.

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
        """Returns the reply of this judge to this prompt, if it was ever given.

        Raises:
            CacheLost: The cache does not answer.
            JudgeError: What is kept does not fit the prompt's schema.
        """
        if reply := self._unkept.get((judge, prompt.sha256)):
            data = prompt.read(reply.words)
            return replace(reply, data=data, input_tokens=0, output_tokens=0, cached=True)
        return await self._run(lambda cache: cache.get(judge, prompt))

    async def put(self, judge: str, replies: Iterable[tuple[str, Reply]]) -> None:
        """Keeps usable replies, each with the hash of its prompt, all at once; the first one of a prompt stands."""
        found = list(replies)
        self._unkept.update(((judge, prompt), reply) for prompt, reply in found)

        def write(cache: Cache) -> None:
            cache.put_all(judge, found)
            for prompt, _ in found:
                self._unkept.pop((judge, prompt), None)

        await self.write(write)

    async def write(self, work: Callable[[Cache], Any]) -> None:
        """Makes a call that writes: now, or where the cache does not answer as soon as it does, in the same order."""
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
            found = await worker.wait.bound(asyncio.wrap_future(worker.submit(work)))
        except (OverdueError, CacheError) as error:
            if isinstance(error, OverdueError):
                self._replace(worker)
            lost = CacheLost(str(error))
            self.waits_for = str(lost)
            raise lost from None
        self.waits_for = ""
        return found

    def _replace(self, worker: _Worker) -> None:
        """Replaces a thread that hangs, and with it the connection."""
        if worker is self._worker:
            worker.abandon()
            self._worker = _Worker(self._place)

    async def close(self) -> None:
        """Tries once more to write what was not, and closes the cache."""
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
