"""A suite's folder in a bucket: what is uploaded while it grows, and what where something goes wrong."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from orchestrator.errors import IncompleteError
from orchestrator.run_folder.lines import sealed
from orchestrator.run_folder.remote import RemoteError
from orchestrator.run_folder.remote.session import SECONDS
from orchestrator.run_folder.remote.store import Store
from orchestrator.suite.bucket import kept
from orchestrator.suite.record import Record, RecordedCell

LINES = [sealed(b'{"key":"%d"}' % number) + b"\n" for number in range(4)]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "there"


def cell(folder: Path, *lines: bytes) -> Path:
    """Makes a cell of these answers."""
    path = folder / "cell"
    path.mkdir(exist_ok=True)
    (path / "responses.jsonl").write_bytes(b"".join(lines))
    (path / "manifest.json").write_text("{}")
    return path


def answers(bucket: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((bucket / "cell" / "responses").glob("*")))


def test_a_part_whose_reply_was_lost_is_not_there_twice(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECONDS, "0.01")
    lost, again = threading.Event(), threading.Event()
    put = Store.put

    def put_and_lose(store: Store, name: str, data: bytes) -> None:
        if lost.is_set():
            again.wait()
        put(store, name, data)
        if LINES[0] in data and not lost.is_set():
            lost.set()
            raise RemoteError("the reply is lost")

    monkeypatch.setattr(Store, "put", put_and_lose)

    async def suite() -> None:
        with kept(f"file://{bucket}") as (folder, (keep,)):
            uploads = asyncio.create_task(keep())
            cell(folder, LINES[0])
            await asyncio.to_thread(lost.wait)
            cell(folder, *LINES)  # the second is written by the time at which the first is tried again
            again.set()
            while not answers(bucket).endswith(LINES[-1]):
                await asyncio.sleep(0.01)
            uploads.cancel()

    asyncio.run(suite())
    assert answers(bucket) == b"".join(LINES)


def test_other_answers_of_this_machine_are_not_uploaded(bucket: Path) -> None:
    with kept(f"file://{bucket}") as (folder, _):
        cell(folder, LINES[0])
    cell(folder, LINES[1])
    with kept(f"file://{bucket}") as (folder, _):
        assert (folder / "cell" / "responses.jsonl").read_bytes() == LINES[0]
        assert (folder / "cell.superseded1" / "responses.jsonl").read_bytes() == LINES[1]
    assert [path.name for path in bucket.iterdir() if path.is_dir()] == ["cell"]


def test_the_error_that_ended_a_suite_is_raised_where_its_upload_fails_too(
    bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise RemoteError("503")

    def suite() -> None:
        with kept(f"file://{bucket}") as (folder, _):
            cell(folder, LINES[0])
            monkeypatch.setattr(Store, "put", refused)
            raise IncompleteError("stopped")

    with pytest.raises(IncompleteError, match="stopped"):
        suite()
    with pytest.raises(RemoteError, match="not all of the suite is uploaded: 503"), kept(f"file://{bucket}"):
        pass


def test_no_record_is_there_before_the_cells_that_it_names(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = Store.put
    ends = False

    def put_while_it_ends(store: Store, name: str, data: bytes) -> None:
        put(store, name, data)
        if name.startswith("responses/") and ends:  # the cell ends while its answers are uploaded
            cell(folder, *LINES)
            Record("night", "", "", [RecordedCell("cell", "m", "", ["t"], request="complete")]).save(folder)

    monkeypatch.setattr(Store, "put", put_while_it_ends)
    with kept(f"file://{bucket}") as (folder, _):
        cell(folder, LINES[0])
        ends = True
    assert answers(bucket) == LINES[0]
    assert not (bucket / "suite.json").exists()
