"""The parts of a remote run folder: fetched back bit for bit, and never taken for whole when they are not."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from hypothesis import given, strategies as st

from orchestrator.run_folder.errors import RunBusyError
from orchestrator.run_folder.remote import lease as leases, mirror as mirrors, session
from orchestrator.run_folder.remote.lease import WRITER, Lease
from orchestrator.run_folder.remote.mirror import Mirror
from orchestrator.run_folder.remote.store import RemoteError, Store

LOGS = ("responses.jsonl", "verdicts.jsonl")


class Sides:
    """A run folder here, and what is uploaded of it there."""

    def __init__(self, folder: Path) -> None:
        self.here, self.remote = folder / "here", folder / "there"
        self.url = f"file://{self.remote}"
        (self.here / "images").mkdir(parents=True)
        (self.here / "manifest.json").write_text("{}")
        for log in LOGS:
            (self.here / log).touch()

    def add(self, log: str, data: bytes) -> None:
        with (self.here / log).open("ab") as file:
            file.write(data)

    def image(self, data: bytes) -> None:
        (self.here / "images" / hashlib.sha256(data).hexdigest()).write_bytes(data)

    def upload(self) -> Mirror:
        mirror = Mirror(self.here, Store(self.url))
        mirror.look()
        mirror.upload()
        return mirror

    def fetch(self, folder: str = "fetched") -> Path:
        mirror = Mirror(self.here.parent / folder, Store(self.url))
        mirror.fetch()
        return mirror.local

    def parts(self, log: str) -> list[Path]:
        folder = self.remote / log.removesuffix(".jsonl")
        return sorted(folder.iterdir()) if folder.exists() else []


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sides:
    monkeypatch.setattr(mirrors, "verify", lambda _line: None)  # lines here are shorter than a log's
    return Sides(tmp_path)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_that_was_copied_there_is_read_as_it_is(sides: Sides) -> None:
    for log in LOGS:
        sides.add(log, b"first\nsecond\n")
    sides.image(b"an image")
    shutil.copytree(sides.here, sides.remote)
    assert content(sides.fetch()) == content(sides.here)
    fetched = Mirror(sides.here.parent / "fetched", Store(sides.url))
    assert fetched.follows()
    with (fetched.local / LOGS[0]).open("ab") as file:
        file.write(b"third\n")
    assert fetched.follows(), "what is here goes on from what is there"
    fetched.look()
    fetched.upload()  # in parts, which count from now on
    assert (sides.fetch("again") / LOGS[0]).read_bytes() == b"first\nsecond\nthird\n"
    (fetched.local / LOGS[0]).write_bytes(b"other\n")
    assert not fetched.follows()


def test_another_copy_there_is_not_taken_for_this_one(sides: Sides) -> None:
    shutil.copytree(sides.here, sides.remote)
    (sides.remote / LOGS[0]).write_bytes(b"first\n")
    sides.add(LOGS[0], b"other\nsecond\n")
    assert not Mirror(sides.here, Store(sides.url)).follows()


def test_what_has_not_changed_is_not_written_again(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    sides.add(LOGS[0], b"a\n")
    sides.image(b"image")
    mirror = sides.upload()
    written: list[str] = []
    monkeypatch.setattr(mirror.store, "put", lambda name, data: written.append(name))
    monkeypatch.setattr(mirror.store, "delete", written.append)
    mirror.upload()
    assert not written
    (sides.here / "manifest.json").write_text('{"a": 1}')
    mirror.upload()
    assert written == ["manifest.json"]


@given(st.lists(st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b" ")), max_size=5), max_size=5))
def test_what_is_fetched_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, uploads: list[list[bytes]]
) -> None:
    sides = Sides(tmp_path_factory.mktemp("run"))
    mirror = sides.upload()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirrors, "_PART_BYTES", 30)
        patch.setattr(mirrors, "verify", lambda _line: None)
        for lines in uploads:
            for line in lines:
                sides.image(line)
                sides.add(LOGS[len(line) % 2], line + b"\n")
            mirror.upload()
    assert content(sides.fetch()) == content(sides.here)
    assert Mirror(sides.here, Store(sides.url)).follows()


def test_a_torn_line_and_a_half_written_image_wait(sides: Sides) -> None:
    sides.add("responses.jsonl", b'{"key":"a"}\n{"ke')
    sides.image(b"whole")
    (sides.here / "images" / hashlib.sha256(b"half").hexdigest()).write_bytes(b"ha")
    mirror = sides.upload()
    fetched = sides.fetch()
    assert (fetched / "responses.jsonl").read_bytes() == b'{"key":"a"}\n'
    assert [path.read_bytes() for path in (fetched / "images").iterdir()] == [b"whole"]
    sides.add("responses.jsonl", b'y":"b"}\n')
    sides.image(b"half")
    mirror.upload()
    assert content(sides.fetch("again")) == content(sides.here)


def test_parts_are_whole_or_named(sides: Sides) -> None:
    mirror = sides.upload()
    for line in (b"a\n", b"b\n", b"c\n"):
        sides.add("responses.jsonl", line)
        sides.image(line)
        mirror.upload()
    for path in [*sides.parts("responses.jsonl"), *(sides.remote / "images").iterdir()]:
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole[:1] + b"x" + whole[2:], whole + b"x", b""):
            if damaged == whole:
                continue
            path.write_bytes(damaged)
            shutil.rmtree(sides.here.parent / "fetched", ignore_errors=True)
            with pytest.raises(RemoteError, match="damaged"):
                sides.fetch()
        path.write_bytes(whole)
    first, second, _ = sides.parts("responses.jsonl")
    second.rename(sides.remote / "aside")
    with pytest.raises(RemoteError, match=r"/responses: what stands at byte 2 is missing"):
        sides.fetch()
    (sides.remote / "aside").rename(second)
    other = hashlib.sha256(b"z\n").hexdigest()
    first.with_name(f"{'0' * 15}-{'0' * 14}2-{other}.jsonl").write_bytes(b"z\n")
    with pytest.raises(RemoteError, match="there twice: two processes wrote to it"):
        sides.fetch()


def test_verdicts_written_anew_replace_the_old_and_answers_never_do(sides: Sides) -> None:
    sides.add("responses.jsonl", b"a\nb\n")
    sides.add("verdicts.jsonl", b"1\n2\n")
    sides.upload()
    (sides.here / "verdicts.jsonl").write_bytes(b"3\n4\n5\n")
    sides.upload()
    assert content(sides.fetch()) == content(sides.here)
    (sides.here / "responses.jsonl").write_bytes(b"c\nb\n")
    with pytest.raises(RemoteError, match="holds other answers than"):
        sides.upload()


def test_a_result_that_is_gone_here_goes_there(sides: Sides) -> None:
    (sides.here / "results.json").write_text("{}")
    sides.upload()
    assert (sides.remote / "results.json").exists()
    (sides.here / "results.json").unlink()
    sides.upload()
    assert not (sides.remote / "results.json").exists()


def test_a_local_copy_with_other_answers_is_moved_aside(
    sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sides.add("responses.jsonl", b"a\nb\n")
    sides.upload()
    mine = session.fetched(sides.url)
    (mine / "responses.jsonl").write_bytes(b"a\nb\nc\n")
    assert session.fetched(sides.url) == mine
    assert (mine / "responses.jsonl").read_bytes() == b"a\nb\nc\n", "what is here alone is kept"
    (mine / "responses.jsonl").write_bytes(b"a\nother\n")
    assert (session.fetched(sides.url) / "responses.jsonl").read_bytes() == b"a\nb\n"
    (aside,) = Path("runs").glob("*.superseded1")
    assert (aside / "responses.jsonl").read_bytes() == b"a\nother\n"


@pytest.mark.parametrize(("other", "value"), [("boot_id", "another's"), ("pid_namespace", 1)])
@pytest.mark.parametrize("known", [True, False])
def test_a_namesake_whose_process_is_not_seen_still_writes(
    tmp_path: Path, other: str, value: str | int, known: bool
) -> None:
    store = Store(f"file://{tmp_path}/run")
    Lease(store, 100)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    stored = orjson.loads(store.get(WRITER) or b"") | {"pid": gone.pid}
    assert stored.pop(other)
    store.put(WRITER, orjson.dumps(stored | {other: value} if known else stored))
    with pytest.raises(RunBusyError, match=socket.gethostname()):
        Lease(store, 100)
    store.put(WRITER, orjson.dumps(stored | {other: value, "renewed": stored["renewed"] - 101}))
    Lease(store, 100).renew()


def test_where_the_system_tells_no_boot_a_process_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_BOOT_ID", tmp_path / "none")
    store = Store(f"file://{tmp_path}/run")
    Lease(store, 100)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    store.put(WRITER, orjson.dumps(orjson.loads(store.get(WRITER) or b"") | {"pid": gone.pid}))
    with pytest.raises(RunBusyError):
        Lease(store, 100)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/run")
    lease = Lease(store, 100)
    with pytest.raises(RunBusyError, match=f"another process \\({socket.gethostname()}, pid {os.getpid()}\\)"):
        Lease(store, 100)
    lease.renew()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    stored = orjson.loads(store.get(WRITER) or b"")
    store.put(WRITER, orjson.dumps(stored | {"pid": gone.pid}))
    second = Lease(store, 100)
    with pytest.raises(RunBusyError):
        lease.renew()
    stored = orjson.loads(store.get(WRITER) or b"")
    store.put(WRITER, orjson.dumps(stored | {"host": "far", "renewed": stored["renewed"] - 99}))
    with pytest.raises(RunBusyError, match="far"):
        Lease(store, 100)
    store.put(WRITER, orjson.dumps(stored | {"host": "far", "renewed": stored["renewed"] - 101}))
    third = Lease(store, 100)
    with pytest.raises(RunBusyError):
        second.renew()
    third.release()
    Lease(store, 100).release()
