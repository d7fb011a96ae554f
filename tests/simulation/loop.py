"""An event loop whose clock is a number and whose order is the same in every process."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import random
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from typing import Any

EPOCH = 1_700_000_000.0
_LAGS = (0.0, 0.0, 0.0, 0.0, 0.002, 0.03)
"""Seconds that code takes between two looks at the clock: some work is short, some is long (`engine.worker`)."""
_TURNS = 400_000
"""Turns of the loop after which a world counts as spinning."""


_RESOLUTION = 1e-9
"""Seconds by which two timers are apart that are not due together."""


class Stuck(AssertionError):
    """Nothing will ever happen again, or the same without end."""


class Crash(KeyboardInterrupt):
    """The process dies: no line of code runs after this one. The loop hands a KeyboardInterrupt through."""


class _Numbered:
    """Has a hash that does not hang on its address: sets are walked in the order in which their members were made."""

    _numbers = itertools.count()
    _number: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        made._number = next(cls._numbers)
        return made

    def __hash__(self) -> int:
        return self._number


class _Task(_Numbered, asyncio.Task[Any]):
    """A task of the loop."""


class _Future(_Numbered, asyncio.Future[Any]):
    """A future of the loop."""


class _Handle(asyncio.Handle):
    """A call of the loop, without what asyncio notes to debug it."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: Loop, context: Context | None
    ) -> None:
        self._context = context or copy_context()
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled, self._repr, self._source_traceback = False, None, None

    def cancel(self) -> None:
        self._cancelled, self._callback, self._args = True, None, None


class _Timer(asyncio.TimerHandle):
    """A later call of the loop."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], loop: Loop, context: Context | None
    ) -> None:
        self._context = context or copy_context()
        self._loop, self._callback, self._args = loop, callback, args
        self._cancelled, self._repr, self._source_traceback = False, None, None
        self._when, self._scheduled = when, True

    def __lt__(self, other: _Timer) -> bool:  # type: ignore[override]
        return self._when < other._when

    def cancel(self) -> None:
        self._cancelled, self._callback, self._args = True, None, None


class Loop(asyncio.BaseEventLoop):
    """See the module. It waits for nothing: the clock is put forward instead.

    What asyncio has for sockets, for threads and for debugging is left out: a world takes thousands of turns.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now, self.turns = 0.0, 0
        self.handlers: dict[int, Callable[[], object]] = {}
        self.main: asyncio.Task[Any] | None = None

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        return _Task(coro, loop=self, name=name, context=context)

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        return timer

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def _run_once(self) -> None:
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)
        self.turns += 1
        if not (ready or self._stopping):
            if not scheduled:
                raise Stuck(f"at {self.now:.3f} s nothing is left to wait for")
            self.now += max(0.0, scheduled[0]._when - self.now)
        if self.turns > _TURNS:
            raise Stuck(f"at {self.now:.3f} s after {_TURNS:,} turns of the event loop")
        now = self.now + _RESOLUTION
        while scheduled and scheduled[0]._when < now:
            ready.append(heapq.heappop(scheduled))
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        self.handlers[sig] = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self.handlers.pop(sig, None) is not None

    def terminate(self) -> None:
        """Sends SIGTERM to the process: its handler hears it, or the command is cancelled, as Ctrl-C does."""
        handler = self.handlers.get(signal.SIGTERM)
        if handler:
            handler()
        elif self.main:
            self.main.cancel()


@contextlib.contextmanager
def replaced(*values: tuple[Any, str, Any]) -> Iterator[None]:
    """Gives attributes of modules other values for a while, at a tenth of what a mock costs."""
    before = [getattr(module, name) for module, name, _ in values]
    for module, name, value in values:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(values, before, strict=True):
            setattr(module, name, value)


@contextlib.contextmanager
def deterministic(seed: int) -> Iterator[Loop]:
    """Makes a loop, whose time is everybody's and whose randomness is the seed's."""
    loop = Loop()
    state, names = random.getstate(), ("monotonic", "perf_counter", "time")
    real = {name: getattr(time, name) for name in names}
    random.seed(seed)
    lots, lag = random.Random(seed), 0.0

    def perf_counter() -> float:
        nonlocal lag
        lag += lots.choice(_LAGS)
        return loop.time() + lag

    time.monotonic, time.perf_counter = loop.time, perf_counter
    time.time = lambda: EPOCH + loop.time()
    try:
        asyncio.set_event_loop(loop)
        yield loop
    finally:
        for name in names:
            setattr(time, name, real[name])
        random.setstate(state)
        asyncio.set_event_loop(None)
        loop.close()


def run(loop: Loop, work: Coroutine[Any, Any, Any]) -> Any:
    """Runs work to its end; what is left over is cancelled, as `asyncio.run` does."""
    main = loop.main = loop.create_task(work)
    try:
        return loop.run_until_complete(main)
    finally:
        tasks = sorted(asyncio.all_tasks(loop), key=hash)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
