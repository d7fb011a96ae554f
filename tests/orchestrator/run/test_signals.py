"""SIGTERM and Ctrl-C while requests are in flight."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from orchestrator.errors import IncompleteError, StoppedError
from orchestrator.run.evaluate import _signals
from orchestrator.run_folder.remote import grace


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(grace, "SECONDS", 0)
    yield
    grace.renew()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("error", [None, OSError("the log"), IncompleteError("some are left")])
async def test_however_a_run_ends_after_a_signal_a_silent_bucket_does_not_hold_it(
    number: signal.Signals, error: Exception | None
) -> None:
    drained, answered = asyncio.Event(), threading.Event()
    engine: Any = SimpleNamespace(stop_soon=lambda _: drained.set())

    async def work() -> None:
        with _signals(engine, Console(quiet=True), uploads=True):
            os.kill(os.getpid(), number)
            await drained.wait()
            if error:
                raise error

    if error:
        with pytest.raises(StoppedError if isinstance(error, IncompleteError) else type(error)):
            await work()
    else:
        await work()
    threading.Timer(30, answered.set).start()  # a call that would end at some time
    with pytest.raises(TimeoutError, match="the command was stopped"):
        grace.within(answered.wait)
    answered.set()


async def test_a_cell_of_a_suite_leaves_the_time_of_uploads_to_the_suite() -> None:
    drained = asyncio.Event()
    engine: Any = SimpleNamespace(stop_soon=lambda _: drained.set())
    with _signals(engine, Console(quiet=True), uploads=False):
        os.kill(os.getpid(), signal.SIGTERM)
        await drained.wait()
    assert grace.within(lambda: threading.Event().wait(0.3) or "answer") == "answer"
