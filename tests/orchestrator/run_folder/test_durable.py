"""A verdict is of one answer: it names its checksum, and is never on the disk without it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Cluster, Server
from helpers.report_runs import marvel_run

from lyncean.rpc.waits import Wait
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine import ledger as ledger_module
from orchestrator.engine.ledger import Ledger
from orchestrator.report import write_report
from orchestrator.run_folder import appender, durable, manifest
from orchestrator.run_folder.errors import RunWriteError
from orchestrator.run_folder.image_store import ImageStore
from orchestrator.run_folder.lines import sealed
from orchestrator.run_folder.log import RunLog


def line(key: str, outcome: str | None = None, text: str = "A") -> bytes:
    return orjson.dumps({"key": key, **({"outcome": outcome} if outcome else {}), "sample": key, "text": text})


def answered(folder: Path, text: str = "A", keys: int = 3) -> None:
    log = RunLog(folder)
    for number in range(keys):
        log.add_response(f"toy/{number}", None, line(f"toy/{number}", text=text))
    log.close()


def judged(folder: Path, keys: int = 3) -> None:
    log = RunLog(folder)
    for number in range(keys):
        log.add_verdict(f"toy/{number}", Outcome.SCORED, line(f"toy/{number}", "scored"))
    log.close()


def settled(folder: Path) -> list[Outcome | None]:
    log = RunLog(folder)
    outcomes = [log.entry(f"toy/{number}").settled for number in range(3)]
    log.close()
    return outcomes


def test_a_verdict_does_not_stand_for_another_answer(tmp_path: Path) -> None:
    answered(tmp_path)
    judged(tmp_path)
    assert settled(tmp_path) == [Outcome.SCORED] * 3
    kept = (tmp_path / "responses.jsonl").read_bytes().split(b"\n")
    (tmp_path / "responses.jsonl").write_bytes(kept[0] + b"\n")
    answered(tmp_path, "B", keys=3)  # the last line of a key counts
    assert settled(tmp_path) == [None] * 3
    judged(tmp_path, keys=2)
    assert settled(tmp_path) == [Outcome.SCORED, Outcome.SCORED, None]


def test_verdicts_of_older_runs_have_no_checksum_of_their_answer(tmp_path: Path) -> None:
    answered(tmp_path)
    lines = [sealed(line(f"toy/{number}", "scored")) + b"\n" for number in range(3)]
    (tmp_path / "verdicts.jsonl").write_bytes(b"".join(lines))
    assert settled(tmp_path) == [Outcome.SCORED] * 3


def test_a_checksum_that_is_not_a_number_is_damage(tmp_path: Path) -> None:
    answered(tmp_path)
    text = sealed(orjson.dumps({"key": "toy/0", "outcome": "scored", "answer": "zzzzzzzz"}))
    (tmp_path / "verdicts.jsonl").write_bytes(text + b"\n")
    with pytest.raises(Exception, match="is not a number"):
        RunLog(tmp_path)


def test_a_resume_scores_answers_that_were_asked_again(
    cluster: Cluster, shared_scorer: Server, expected: bytes
) -> None:
    """The folder of a run that lost answers, asked again, and was killed before their verdicts."""
    server = cluster.model()
    arguments = cluster.words("run", [server], shared_scorer, "--limit", "120")
    cluster.orchestrator(*arguments)
    folder, whole = cluster.folder / "run", cluster.results("run")
    file = folder / "responses.jsonl"
    wrong = []
    for entry in cluster.lines("run")[:40]:
        entry["response"]["parts"] = [{"text": "nothing of that kind"}]
        del entry["crc32"]
        wrong.append(sealed(orjson.dumps(entry)))
    file.write_bytes(b"\n".join([*wrong, *file.read_bytes().splitlines()[40:]]) + b"\n")
    (folder / "results.json").unlink()
    cluster.orchestrator(*arguments)
    assert cluster.results("run") != whole
    checks = {entry["key"]: entry["crc32"] for entry in cluster.lines("run")}
    last = {entry["key"]: entry["answer"] for entry in cluster.lines("run", "verdicts.jsonl")}
    assert last == checks
    cluster.orchestrator("score", "run")
    last = {entry["key"]: entry["answer"] for entry in cluster.lines("run", "verdicts.jsonl")}
    assert last == checks


class SlowDisk:
    """`os` as the logs see it: knows what would survive a power cut, and looks at it at each write of verdicts."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.safe, self.orphans, self.looks = folder, dict[int, int](), 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, fd: int, data: Any) -> int:
        written = os.write(fd, data)
        responses, verdicts = (self.folder / name for name in ("responses.jsonl", "verdicts.jsonl"))
        if os.fstat(fd).st_ino == verdicts.stat().st_ino:
            safe = responses.read_bytes()[: self.safe.get(responses.stat().st_ino, 0)]
            answers = {json.loads(entry)["key"] for entry in safe.splitlines()}
            self.orphans += sum(json.loads(entry)["key"] not in answers for entry in bytes(data).splitlines())
            self.looks += 1
        return written

    def fsync(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        os.fsync(fd)
        self.safe[os.fstat(fd).st_ino] = size


def test_lines_that_a_thread_writes_are_not_written_again_by_who_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def write(fd: int, data: Any) -> int:
        begun.set()
        go_on.wait(0.2)  # who closes comes meanwhile
        return os.write(fd, data)

    log = appender.Appender(tmp_path / "verdicts.jsonl")
    for number in range(3):
        log.add(line(f"toy/{number}", "scored"))
    monkeypatch.setattr(appender, "os", SimpleNamespace(**{**vars(os), "write": write}))
    thread = threading.Thread(target=log.flush, args=(2,))
    thread.start()
    begun.wait()
    log.close()
    go_on.set()
    thread.join()
    keys = [json.loads(text)["key"] for text in (tmp_path / "verdicts.jsonl").read_bytes().splitlines()]
    assert keys == ["toy/0", "toy/1", "toy/2"]


async def test_no_verdict_is_on_the_disk_without_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk(tmp_path)
    monkeypatch.setattr(appender, "os", disk)
    monkeypatch.setattr(ledger_module, "_SYNC_SECONDS", 0.0)
    ledger = Ledger(log := RunLog(tmp_path))
    keeping = asyncio.create_task(ledger.keep())
    for number in range(300):
        ledger.add_response(f"toy/{number}", None, line(f"toy/{number}"))
        ledger.add_verdict(f"toy/{number}", "toy", Outcome.SCORED, line(f"toy/{number}", "scored"))
        await asyncio.sleep(0.001 if number % 10 == 0 else 0)
    while not disk.looks:
        await asyncio.sleep(0.01)
    keeping.cancel()
    ledger.close()
    log.close()
    assert disk.looks > 1
    assert disk.orphans == 0
    assert len((tmp_path / "verdicts.jsonl").read_bytes().splitlines()) == 300


@contextlib.contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """A disk that is full after so many bytes of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_manifest_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "manifest.json"
    manifest.write(file, {"seed": 1})
    with no_file_longer_than(20), pytest.raises(RunWriteError, match="make room and run the command again"):
        manifest.write(file, {"seed": 2, "words": "w" * 5000})
    assert orjson.loads(file.read_bytes()) == {"seed": 1}
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_is_on_the_disk_before_it_has_its_name_and_then_its_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def fsync(fd: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))

    monkeypatch.setattr(durable.os, "fsync", fsync)
    manifest.write(tmp_path / "results.json", {})
    log = RunLog(tmp_path)
    name = log.images.put(b"image")
    log.add_response("toy/0", None, line("toy/0"))
    log.sync()
    log.close()
    assert synced[:2] == [str(tmp_path / ".results.json.partial"), str(tmp_path)]
    images = tmp_path / "images"
    logs = [tmp_path / "responses.jsonl", tmp_path / "verdicts.jsonl"]
    wanted = [images / name, images, tmp_path, tmp_path.parent, *logs]
    assert synced[2:] == list(map(str, wanted))
    del synced[:]
    RunLog(tmp_path).close()
    assert set(map(str, logs)) <= set(synced), "what a killed process wrote may not be on the disk yet"


def test_a_disk_that_is_full_during_the_report_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = marvel_run(tmp_path / "run")

    def full(_fd: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(durable.os, "fsync", full)
    with pytest.raises(RunWriteError, match=r"report.html: No space left on device.*run the command again"):
        write_report(run)


async def test_a_disk_that_keeps_silent_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()
    disk = SimpleNamespace(**vars(os))
    disk.fsync = lambda _fd: hangs.wait(300)
    monkeypatch.setattr(appender, "os", disk)
    monkeypatch.setattr(ledger_module, "_SYNC_SECONDS", 0.0)
    ledger = Ledger(log := RunLog(tmp_path), disk=Wait("the disk of run", 0.2))
    ledger.add_response("toy/0", None, line("toy/0"))
    ledger.add_verdict("toy/0", "toy", Outcome.SCORED, line("toy/0", "scored"))
    with pytest.raises(RunWriteError, match="the disk of run did not answer for 0 s; what is on the disk is safe"):
        await ledger.keep()
    ledger.close()
    log.close()  # does not wait for it either
    hangs.set()
    assert (tmp_path / "verdicts.jsonl").read_bytes() == b""


def test_many_images_are_synced_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(durable.os, "fsync", synced.append)
    store = ImageStore(tmp_path / "images")
    for number in range(100):
        store.put(b"%d" % number)
    store.sync()
    assert len(synced) <= 101
    assert durable._sync_file_system(str(tmp_path)) is (not synced)
    store.sync()
    assert len(synced) in (0, 101)
