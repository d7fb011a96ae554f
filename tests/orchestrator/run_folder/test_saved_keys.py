"""The copy of the key table: a resume with it finds what a resume without it finds, or does not use it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings, strategies as st

from lyncean.vocabulary.outcomes import Outcome
from orchestrator.run_folder import appender, log as logs
from orchestrator.run_folder.errors import RunLogError, RunWriteError
from orchestrator.run_folder.key_table import KeyTable, digest
from orchestrator.run_folder.lines import sealed
from orchestrator.run_folder.log import Entry, RunLog

KEYS = [f"toy/{number}" for number in range(40)]
RESPONSES, VERDICTS, COPY = "responses.jsonl", "verdicts.jsonl", ".keys"


@pytest.fixture(autouse=True)
def _saved_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_UNSAVED", 4)


def line(key: str, outcome: str | None = None, text: str = "words") -> bytes:
    return orjson.dumps({"key": key} | ({"outcome": outcome} if outcome else {}) | {"sample": key, "text": text})


def write(log: RunLog, keys: list[str]) -> None:
    for key in keys:
        log.add_response(key, None, line(key))
        log.add_verdict(key, Outcome.SCORED, line(key, "scored"))
        log.flush()


def written(run: Path, keys: list[str] = KEYS) -> Path:
    """Makes a run of these keys with a copy behind which there are some lines."""
    log = RunLog(run)
    write(log, keys)
    log.close()
    assert (run / COPY).exists()
    return run


def state(run: Path, keys: list[str] = KEYS) -> tuple[int, list[Entry]]:
    log = RunLog(run)
    try:
        return log.resumed, [log.entry(key) for key in keys]
    finally:
        log.close()


def plain_state(run: Path, keys: list[str] = KEYS) -> tuple[int, list[Entry]]:
    """Returns what a resume of the same logs without a copy finds."""
    other = run.with_name(f"{run.name}-plain")
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(run, other)
    (other / COPY).unlink(missing_ok=True)
    return state(other, keys)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns where logs were begun to be read, both of a run in turn."""
    found: list[int] = []
    heads = logs.heads

    def noting(path: Path, start: int = 0) -> Iterator[logs.Heads]:
        found.append(start)
        return heads(path, start)

    monkeypatch.setattr(logs, "heads", noting)
    return found


def test_only_what_is_behind_the_copy_is_read(tmp_path: Path, starts: list[int]) -> None:
    run = written(tmp_path / "run")
    starts.clear()
    found = state(run)
    assert all(starts)
    assert found == plain_state(run)
    assert [entry.settled for entry in found[1]] == [Outcome.SCORED] * len(KEYS)


def test_lines_behind_the_copy_change_what_it_says(tmp_path: Path, starts: list[int]) -> None:
    run = written(tmp_path / "run")
    with (run / RESPONSES).open("ab") as responses, (run / VERDICTS).open("ab") as verdicts:
        responses.write(sealed(line(KEYS[3], "failed")) + b"\n" + b'{"key":"torn')
        verdicts.write(sealed(line(KEYS[3], "failed")) + b"\n")
    starts.clear()
    found = state(run)
    assert all(starts)
    assert found == plain_state(run)
    assert found[1][3].settled is Outcome.FAILED


def _edited(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    lines[1] = sealed(line(KEYS[1], text="other"))
    path.write_bytes(b"\n".join(lines) + b"\n")


def _swapped(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    lines[2], lines[3] = lines[3], lines[2]
    path.write_bytes(b"\n".join(lines) + b"\n")


def _deleted(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))


CHANGES: dict[str, Callable[[Path], object]] = {
    "edited": lambda run: _edited(run / RESPONSES),
    "lines swapped": lambda run: _swapped(run / VERDICTS),
    "first line deleted": lambda run: _deleted(run / RESPONSES),
    "torn within the copy": lambda run: os.truncate(run / RESPONSES, 1000),
    "verdicts torn": lambda run: os.truncate(run / VERDICTS, 1001),
    "verdicts emptied": lambda run: os.truncate(run / VERDICTS, 0),
    "responses deleted": lambda run: (run / RESPONSES).unlink(),
    "of another run": lambda run: shutil.copyfile(
        written(run.with_name("other"), KEYS[5:]) / RESPONSES, run / RESPONSES
    ),
    "copy of another run": lambda run: shutil.copyfile(written(run.with_name("other"), KEYS[5:]) / COPY, run / COPY),
    "copy of another format": lambda run: (run / COPY).write_bytes(b"lynkeys0" + (run / COPY).read_bytes()[8:]),
    "copy emptied": lambda run: (run / COPY).write_bytes(b""),
    "copy with more behind it": lambda run: (run / COPY).write_bytes((run / COPY).read_bytes() + b"x"),
    "a folder for a copy": lambda run: ((run / COPY).unlink(), (run / COPY).mkdir()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_copy_that_does_not_fit_is_not_used(
    tmp_path: Path, starts: list[int], change: Callable[[Path], object]
) -> None:
    run = written(tmp_path / "run")
    change(run)
    if (run / COPY).is_dir():  # neither read nor replaced, and no reason to stop
        expected = state(run)
        (run / COPY).rmdir()
        assert state(run) == expected
        return
    expected = plain_state(run)
    starts.clear()
    assert state(run) == expected
    assert starts == [0, 0]


def test_a_copy_damaged_at_any_byte_is_not_used(tmp_path: Path, starts: list[int]) -> None:
    run = written(tmp_path / "run", KEYS[:5])
    expected, whole = plain_state(run), (run / COPY).read_bytes()
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]):
            (run / COPY).write_bytes(damaged)
            starts.clear()
            assert state(run) == expected
            assert starts == [0, 0]


def test_a_damaged_line_within_the_copy_is_named(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    data = (run / RESPONSES).read_bytes()
    lines = data.splitlines(keepends=True)
    lines[2] = lines[2].replace(b"words", b"wards")
    (run / RESPONSES).write_bytes(b"".join(lines))
    with pytest.raises(RunLogError, match=r"responses.jsonl, line 3: damaged \(its checksum"):
        RunLog(run)
    (run / RESPONSES).write_bytes(data)
    assert state(run) == plain_state(run)


def test_an_older_copy_is_as_good(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "run")
    older: list[bytes] = []
    for key in KEYS:
        write(log, [key])
        if (log.path / COPY).exists():
            older.append((log.path / COPY).read_bytes())
    log.close()
    expected = plain_state(log.path)
    assert len(set(older)) > 3
    for copy in older:
        (log.path / COPY).write_bytes(copy)
        assert state(log.path) == expected


def test_planned_keys_without_lines_are_not_saved(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "run")
    for key in KEYS:
        log.plan(key)
    write(log, KEYS[:20])
    log.close()
    found = state(log.path)
    assert found == plain_state(log.path)
    assert not any(entry.planned for entry in found[1])


def test_verdicts_forgotten_are_not_remembered(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    log = RunLog(run)
    log.forget_verdicts()
    log.add_verdict(KEYS[0], Outcome.UNPARSED, line(KEYS[0], "unparsed"))
    log.close()
    found = state(run)
    assert found == plain_state(run)
    assert [entry.verdict for entry in found[1]] == [Outcome.UNPARSED] + [None] * (len(KEYS) - 1)


def test_a_copy_that_cannot_be_written_does_not_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / "run" / f"{COPY}.partial").mkdir(parents=True)
    log = RunLog(tmp_path / "run")
    write(log, KEYS)
    log.close()
    assert not (log.path / COPY).exists()
    assert state(log.path) == plain_state(log.path)


def test_lines_lost_to_a_full_disk_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RunLog(tmp_path / "run")
    for key in KEYS:
        log.add_response(key, None, line(key))

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(appender.os, "write", full)
        with pytest.raises(RunWriteError, match="make room"):
            log.flush()
    log.flush()
    log.close()
    assert not (log.path / COPY).exists()
    assert state(log.path)[0] == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.run_folder import log as logs, saved_keys
sys.path.insert(0, {tests!r})
from test_saved_keys import KEYS, line, write
logs._UNSAVED = 4
log = logs.RunLog(Path(sys.argv[1]))
if sys.argv[2] == "saving":
    write(log, KEYS[:20])
    # Killed while a copy is written: the old one stays.
    Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    write(log, KEYS[20:])
else:
    write(log, KEYS[:20])
    for key in KEYS[20:30]:
        log.add_response(key, None, line(key))
    log.responses.flush()
    os.write(log.responses._fd, b'{{"key":"toy/30","sample":"to')
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["saving", "writing"])
def test_a_killed_writer(tmp_path: Path, when: str, starts: list[int]) -> None:
    run = tmp_path / "run"
    code = KILLED.format(tests=str(Path(__file__).parent))
    ended = subprocess.run([sys.executable, "-c", code, run, when], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (run / f"{COPY}.partial").exists() == (when == "saving")
    expected = plain_state(run)
    starts.clear()
    assert state(run) == expected
    assert all(starts)
    log = RunLog(run)
    write(log, KEYS[20:])
    log.close()
    found = state(run)
    assert found == plain_state(run)
    assert all(entry.settled for entry in found[1])


steps = st.lists(
    st.tuples(st.sampled_from("rfvkx"), st.sampled_from(["toy/ünïcode", 'toy/"quoted"\\', *KEYS[:9]])), max_size=60
)


@settings(max_examples=60, deadline=None)
@given(steps, st.integers(0, 40), st.integers(0, 1))
def test_a_resume_with_the_copy_is_one_without(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]], torn: int, which: int
) -> None:
    run = tmp_path_factory.mktemp("runs") / "run"
    keys = ["toy/ünïcode", 'toy/"quoted"\\', *KEYS]
    log = RunLog(run)
    for step, key in steps:
        if step == "r":
            log.add_response(key, None, line(key))
        elif step == "f":
            log.add_response(key, Outcome.FAILED, line(key, "failed"))
        elif step == "v":
            log.add_verdict(key, Outcome.SCORED, line(key, "scored"))
        elif step == "x":
            log.forget_verdicts()
        else:
            log.flush()
        if step == "k":
            log.close()
            log = RunLog(run)
            assert (log.resumed, [log.entry(key) for key in keys]) == plain_state(run, keys)
    log.close()
    path = run / (RESPONSES, VERDICTS)[which]
    os.truncate(path, max(0, path.stat().st_size - torn))
    expected = plain_state(run, keys)
    assert state(run, keys) == expected


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 2**60), st.integers(0, 127)), max_size=900), max_size=4
    ),
    st.integers(0, 127),
    st.booleans(),
)
def test_many_keys_at_once_are_one_by_one(parts: list[list[tuple[int, int, int]]], mask: int, numbered: bool) -> None:
    one, all_at_once = KeyTable(), KeyTable()
    for part in parts:
        for key, number, flags in part:
            one.put(str(key), number=number if numbered else None, flags=flags & mask, mask=mask)
        hashes = np.array([digest(str(key)) for key, _, _ in part], np.uint64).reshape(-1, 2)
        numbers = np.array([number for _, number, _ in part], np.uint64) if numbered else None
        flags = np.array([flags & mask for _, _, flags in part], np.uint8)
        all_at_once.put_all(hashes[:, 0], hashes[:, 1], numbers=numbers, flags=flags, mask=mask)
    assert len(one) == len(all_at_once)
    for key in range(3001):
        assert one.get(str(key)) == all_at_once.get(str(key))
