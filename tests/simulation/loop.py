"""An event loop whose clock is a number and whose order is the same in every process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import selectors
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

EPOCH = 1_700_000_000.0
_LAGS = (0.0, 0.0, 0.0, 0.0, 0.002, 0.03)
"""Seconds that code takes between two looks at the clock: some work is short, some is long (`engine.worker`)."""
_TURNS = 400_000
"""Turns of the loop after which a world counts as spinning."""


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


class _Selector(selectors.SelectSelector):
    """Waits for nothing: the clock is put forward instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.turns = 0.0, 0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.turns += 1
        if timeout is None:
            raise Stuck(f"at {self.now:.3f} s nothing is left to wait for")
        if self.turns > _TURNS:
            raise Stuck(f"at {self.now:.3f} s after {_TURNS:,} turns of the event loop")
        self.now += max(timeout, 0.0)
        return []


class Loop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self.selector = _Selector()
        super().__init__(self.selector)
        self.handlers: dict[int, Callable[[], object]] = {}
        self.main: asyncio.Task[Any] | None = None
        self.set_task_factory(lambda loop, coro, **kwargs: _Task(coro, loop=loop, **kwargs))

    def time(self) -> float:
        return self.selector.now

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

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
