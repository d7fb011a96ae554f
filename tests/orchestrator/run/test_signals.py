"""SIGTERM and Ctrl-C while requests are in flight."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from orchestrator.errors import IncompleteError, StoppedError
from orchestrator.run import evaluate
from orchestrator.run.evaluate import _signals
from orchestrator.run.plan import Plan
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.remote import grace
from orchestrator.suite import file as suite_file, run as suites


@pytest.fixture(autouse=True)
def renewed() -> Iterator[None]:
    yield
    grace.renew()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("error", [None, RunLogError("the log"), IncompleteError("some are left")])
async def test_a_signal_is_known_however_a_run_ends(number: signal.Signals, error: Exception | None) -> None:
    with pytest.raises(StoppedError if isinstance(error, IncompleteError) else RunLogError) if error else nullcontext():
        await signalled(number, error)
    assert grace.ending()
    # Results are to be written still: only the last upload's time is short.
    assert grace.within(lambda: threading.Event().wait(0.3) or "answer") == "answer"


async def test_a_suite_ends_with_the_cell_that_heard_the_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []

    async def run_plan(plan: Plan, *_: Any, **__: Any) -> None:
        begun.append(plan.request.run)
        await signalled(signal.SIGTERM, RunLogError("the log") if len(begun) == 1 else None)

    monkeypatch.setattr(evaluate, "run_plan", run_plan)
    (tmp_path / "night.yaml").write_text(
        "models: {a: {endpoint: 127.0.0.1:1}}\ntasks: {toy: {synthetic: true}, toy_two: {synthetic: true}}\n"
    )
    record = await suites.run(suite_file.read(tmp_path / "night.yaml"), tmp_path / "run", Console(quiet=True))
    assert [(cell.exit_code, cell.error) for cell in record.cells] == [(RunLogError.exit_code, "the log"), (None, "")]


async def signalled(number: signal.Signals, error: Exception | None) -> None:
    """Ends as a run does that hears a signal and then fails, or does not."""
    drained = asyncio.Event()
    engine: Any = SimpleNamespace(stop_soon=lambda _: drained.set())
    with _signals(engine, Console(quiet=True)):
        os.kill(os.getpid(), number)
        await drained.wait()
        if error:
            raise error
