"""The ledger of a run: counts and log agree, and the first reason of an end counts."""

from __future__ import annotations

import ast
import asyncio
import errno
import inspect
import json
import os
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc.budget import Budget
from lyncean.rpc.waits import Wait
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine import ledger as module
from orchestrator.engine.accounting import Accounting
from orchestrator.engine.ledger import Ledger
from orchestrator.errors import EngineError
from orchestrator.run_folder import appender
from orchestrator.run_folder.errors import RunWriteError
from orchestrator.run_folder.log import RunLog, State
from orchestrator.run_folder.records import scoring_json
from orchestrator.samples import Scoring

SCORING = scoring_json(Scoring("choice", targets=("A",))) or {}


class Half:
    """Stops after two settled items."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Outcome, float]] = []

    def settled(self, key: str, outcome: Outcome, verdict: Mapping[str, Any]) -> bool:
        self.seen.append((key, outcome, verdict["score"]))
        return len(self.seen) == 2

    def wanted(self, sample: str) -> bool:
        return len(self.seen) < 2


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[RunLog]:
    log = RunLog(tmp_path / "run")
    yield log
    log.close()


def lines(path: Path) -> list[str]:
    return [json.loads(line)["key"] for line in path.read_text().splitlines()]


def verdict(key: str, outcome: Outcome = Outcome.SCORED, score: float = 1.0, reason: str = "") -> scorer.Verdict:
    return scorer.Verdict(key=key, outcome=outcome, score=score, reason=reason)


def test_it_knows_neither_episodes_nor_dispatchers() -> None:
    tree = ast.parse(inspect.getsource(module))
    met = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in met if name and name.startswith("orchestrator.engine")} == {
        "orchestrator.engine.accounting"
    }


async def test_a_key_is_planned_once(log: RunLog) -> None:
    ledger = Ledger(log)
    assert ledger.plan("toy/1", "toy", True).state is State.NONE
    ledger.plan("toy/1/draft", "toy", False)
    assert ledger.accounting.planned == 1
    with pytest.raises(EngineError, match="'toy/1' twice"):
        ledger.plan("toy/1", "toy", True)


async def test_counts_and_log_agree(log: RunLog) -> None:
    ledger = Ledger(log, accounting := Accounting())
    for number in range(3):
        ledger.plan(f"toy/{number}", "toy", True)
    ledger.used(model.Usage(input_tokens=5, output_tokens=2))
    assert ledger.add_response("toy/0", None, b'{"key": "toy/0"}') == 0
    ledger.judged(verdict("toy/0", score=0.5), SCORING, scorer.ScoreRequest(text="A"))
    ledger.add_response("toy/1", None, b'{"key": "toy/1"}')
    ledger.judged(verdict("toy/1", Outcome.UNPARSED, 0.0, "no_match"), SCORING, scorer.ScoreRequest(text="words"))
    ledger.add_response("toy/2", Outcome.REFUSED, b'{"key": "toy/2"}')
    ledger.add_verdict("toy/2", "toy", Outcome.REFUSED, b'{"key": "toy/2"}')
    await asyncio.sleep(0)  # answers are written once a turn of the event loop, verdicts once these are on the disk
    assert lines(log.path / "verdicts.jsonl") == []
    log.sync()
    assert lines(log.path / "responses.jsonl") == lines(log.path / "verdicts.jsonl") == ["toy/0", "toy/1", "toy/2"]
    assert accounting.outcomes == {Outcome.SCORED: 1, Outcome.UNPARSED: 1, Outcome.REFUSED: 1}
    assert (accounting.answered, accounting.tokens, accounting.tasks["toy"].score) == (1, 7, 0.5)
    assert accounting.tasks["toy"].unreadable == 1
    assert accounting.tasks["toy"].example == ("toy/1", "words", "A")
    assert log.entry("toy/2").settled is Outcome.REFUSED


async def test_what_a_stop_hears_and_says(log: RunLog) -> None:
    ledger, called = Ledger(log, stopping=(half := Half())), list[int]()
    ledger.fewer = lambda: called.append(len(half.seen))
    for number in range(2):
        ledger.plan(f"toy/{number}", "toy", True)
        ledger.add_response(f"toy/{number}", None, b"{}")
        ledger.judged(verdict(f"toy/{number}", Outcome.UNJUDGED, 0.25), SCORING, scorer.ScoreRequest(text="A"))
    assert half.seen == [("toy/0", Outcome.UNJUDGED, 0.25), ("toy/1", Outcome.UNJUDGED, 0.25)]
    assert called == [2]
    assert ledger.settled(log.entry("toy/0")) is None, "a stop waits for the judge"
    assert Ledger(log).settled(log.entry("toy/0")) is Outcome.UNJUDGED


async def test_the_first_error_ends_the_run(log: RunLog) -> None:
    ledger = Ledger(log)
    ledger.stop(EngineError("first"))
    ledger.stop(EngineError("second"))
    with pytest.raises(EngineError, match="first"):
        await ledger.stopped
    ledger.close()


async def test_a_log_that_cannot_be_written_ends_the_run(log: RunLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise RunWriteError("the disk is full")

    ledger = Ledger(log)
    monkeypatch.setattr(log, "flush", full)
    ledger.add_response("toy/1", None, b"{}")
    with pytest.raises(RunWriteError, match="full"):
        await asyncio.wait_for(ledger.stopped, 5)
    ledger.close()  # and does not raise again


async def test_a_run_that_ends_well_leaves_no_future_behind(log: RunLog) -> None:
    ledger = Ledger(log)
    ledger.close()
    assert ledger.stopped.cancelled()


async def test_the_budget_says_why_nothing_more_is_sent(log: RunLog) -> None:
    assert Ledger(log).spent() == ""
    budget = Budget(max_tokens=1000)
    ledger = Ledger(log, budget=budget)
    assert ledger.spent() == ""
    budget.used(1500)
    assert ledger.spent().startswith("the budget of 1,000 tokens is spent (1,500 so far in this run); ")
    assert Ledger(log, budget=Budget(deadline=1e-9)).spent().startswith("the deadline has passed")


async def test_a_write_that_fails_and_cannot_be_undone_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once is enough: after a torn line no further line would be whole."""
    ledger = Ledger(log := RunLog(tmp_path / "run"))
    ledger.add_response("toy/0", None, b'{"key": "toy/0"}')
    await asyncio.sleep(0)
    whole = (log.path / "responses.jsonl").read_bytes()

    disk = SimpleNamespace(**vars(os))

    def once(fd: int, data: bytes) -> int:
        disk.write = os.write
        os.write(fd, data[:5])
        raise OSError(errno.EIO, "Input/output error")

    def never(_fd: int, _size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk.write, disk.ftruncate = once, never
    monkeypatch.setattr(appender, "os", disk)
    ledger.add_response("toy/1", None, b'{"key": "toy/1"}')
    with pytest.raises(RunWriteError, match="Input/output error; fix that and run the command again"):
        await asyncio.wait_for(ledger.stopped, 5)
    ledger.add_response("toy/2", None, b'{"key": "toy/2"}')
    with pytest.raises(RunWriteError):
        log.flush()
    ledger.close()
    log.close()
    monkeypatch.undo()
    assert (log.path / "responses.jsonl").read_bytes() == whole + b'{"key'
    again = RunLog(log.path)
    assert (again.resumed, again.entry("toy/1").state) == (1, State.NONE)
    again.close()


async def test_what_could_not_be_synced_is_not_taken_for_synced(log: RunLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second fsync succeeds where a first has failed, and the data is lost all the same: no verdict is written."""
    log.add_response("toy/0", None, b'{"key": "toy/0"}')
    log.add_verdict("toy/0", Outcome.SCORED, b'{"key": "toy/0"}')
    with monkeypatch.context() as patch:

        def fails(_fd: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        patch.setattr(appender.os, "fsync", fails)
        with pytest.raises(RunWriteError):
            log.sync()
    with pytest.raises(RunWriteError):
        log.sync()
    assert lines(log.path / "verdicts.jsonl") == []


@pytest.mark.parametrize("of", ["on_disk", "reading"])
async def test_a_disk_that_hangs_ends_the_run(log: RunLog, of: str) -> None:
    ledger, answers = Ledger(log, disk=Wait("the disk", 0.05)), threading.Event()
    with pytest.raises(RunWriteError, match="the disk did not answer for 0 s; what is on the disk is safe"):
        await asyncio.wait_for(getattr(ledger, of)(answers.wait), 30)
    answers.set()
    with pytest.raises(RunWriteError):
        log.sync()
