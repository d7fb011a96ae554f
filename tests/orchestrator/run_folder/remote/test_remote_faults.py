"""Uploads are final: no damaged line is uploaded, and no part twice after a lost reply."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from orchestrator.run_folder.lines import sealed
from orchestrator.run_folder.remote import RemoteError, session, writing
from orchestrator.run_folder.remote.mirror import Mirror
from orchestrator.run_folder.remote.store import Store

LINES = [sealed(b'{"key":"%d"}' % number) + b"\n" for number in range(3)]


def parts(folder: Path, log: str = "responses") -> list[bytes]:
    return [path.read_bytes() for path in sorted((folder / log).glob("*"))]


def run_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "responses.jsonl").write_bytes(LINES[0])
    (folder / "verdicts.jsonl").write_bytes(b"")
    return folder


def test_a_damaged_line_is_not_uploaded_and_neither_is_a_verdict_behind_it(tmp_path: Path) -> None:
    here, remote = run_folder(tmp_path / "here"), tmp_path / "there"
    mirror = Mirror(here, Store(f"file://{remote}"))
    mirror.upload()
    damaged = bytearray(LINES[1])
    damaged[3] ^= 1
    (here / "responses.jsonl").write_bytes(LINES[0] + damaged + LINES[2])
    (here / "verdicts.jsonl").write_bytes(LINES[0])
    with pytest.raises(RemoteError, match=r"responses\.jsonl, line 2: damaged .*delete the line"):
        mirror.upload()
    assert (parts(remote), parts(remote, "verdicts")) == ([LINES[0]], [])
    (here / "responses.jsonl").write_bytes(LINES[0] + LINES[2])  # as the sentence says
    mirror.upload()
    assert (parts(remote), parts(remote, "verdicts")) == ([LINES[0], LINES[2]], [LINES[0]])


def test_a_part_whose_reply_was_lost_is_not_there_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(session.SECONDS, "0.01")
    lost: list[str] = []
    put = Store.put

    def put_and_lose(store: Store, name: str, data: bytes) -> None:
        put(store, name, data)
        if LINES[1] in data and not lost:
            lost.append(name)
            raise RemoteError("the reply is lost")

    monkeypatch.setattr(Store, "put", put_and_lose)
    remote = tmp_path / "there"

    async def until(done: Any) -> None:
        while not done():
            await asyncio.sleep(0.01)

    async def run() -> None:
        with writing(f"file://{remote}") as (folder, (keep,)):
            assert folder
            run_folder(folder)
            keeping = asyncio.create_task(keep())
            await until(lambda: parts(remote))
            for line in LINES[1:]:  # the second is written by the time at which the first is tried again
                with (folder / "responses.jsonl").open("ab") as file:
                    file.write(line)
                await until(lambda: lost)
            await until(lambda: b"".join(parts(remote)).endswith(LINES[2]))
            keeping.cancel()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert b"".join(parts(remote)) == b"".join(LINES)


def test_a_folder_that_is_deleted_here_stays_a_run_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    remote = tmp_path / "there"
    with writing(f"file://{remote}") as (folder, _):
        assert folder
        run_folder(folder)
    with writing(f"file://{remote}") as (folder, _):
        assert folder
        shutil.rmtree(folder)
    assert (remote / "manifest.json").exists()
    with writing(f"file://{remote}") as (folder, _):
        assert folder
        assert (folder / "responses.jsonl").read_bytes() == LINES[0]
