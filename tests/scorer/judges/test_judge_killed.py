"""A scorer killed while it waits for its judge: only questions that were in flight are asked again."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers.judge_server import Vendor


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    endpoint = Vendor(lambda _: {"explanation": "because", "correct": True})
    yield endpoint
    endpoint.release.set()


def command(tmp_path: Path, judge: str, number: int = 8) -> list[str]:
    lines = [{"key": str(n), "rule": "judge_answer", "text": f"blue {n}", "targets": ["blue"]} for n in range(number)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command_line = [sys.executable, "-m", "scorer", "score", str(tmp_path / "items.jsonl"), "--judge", judge]
    return [*command_line, "--judge-cache", str(tmp_path / "judge.sqlite"), "--judge-poll", "0.05"]


COUNTS = {"replies": "SELECT count(*) FROM replies", "batches": "SELECT count(*) FROM batches"}


def kept(tmp_path: Path, table: str) -> int:
    if not (tmp_path / "judge.sqlite").exists():
        return 0
    with closing(sqlite3.connect(tmp_path / "judge.sqlite")) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            return 0
        return int(database.execute(COUNTS[table]).fetchone()[0])


def killed(command_line: list[str], when: Callable[[], bool]) -> None:
    process = subprocess.Popen(command_line, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 300
    while not when():
        assert process.poll() is None
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    process.kill()
    process.wait()


def scored(command_line: list[str]) -> list[str]:
    done = subprocess.run(command_line, capture_output=True, text=True, check=True)
    return [json.loads(line)["outcome"] for line in done.stdout.splitlines()]


def test_live_replies_in_flight_at_a_kill_are_asked_again_and_no_others(
    url: str, vendor: Vendor, tmp_path: Path
) -> None:
    vendor.faults = [""] * 5 + ["hold"] * 3
    command_line = command(tmp_path, f"openai:j@{url}")
    killed(command_line, lambda: kept(tmp_path, "replies") == 5 and len(vendor.requests) == 8)
    held = {body["messages"][-1]["content"] for body in vendor.requests} - set(vendor.asked)
    assert len(held) == 3
    assert scored(command_line) == ["scored"] * 8
    times_asked = Counter(body["messages"][-1]["content"] for body in vendor.requests)
    assert {text for text, times in times_asked.items() if times == 2} == held
    assert sum(times_asked.values()) == 8 + 3


def test_a_batch_under_way_at_a_kill_is_found_again(url: str, vendor: Vendor, tmp_path: Path) -> None:
    vendor.pending = 1_000_000
    command_line = command(tmp_path, f"batch:j@{url}")
    killed(command_line, lambda: kept(tmp_path, "batches") == 8)
    vendor.batches["batch-0"]["left"] = 1
    assert scored(command_line) == ["scored"] * 8
    assert len(vendor.batches) == 1
    assert set(vendor.asked.values()) == {1}
    assert kept(tmp_path, "batches") == 0
    assert kept(tmp_path, "replies") == 8
