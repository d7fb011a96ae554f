"""Archives that unpack to more than a file of their size may: refused in one line, in little memory."""

from __future__ import annotations

import copy
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import bombs
from helpers.imports import run_import

from lyncean_interop.archives import MAX_MEMBERS, room, unpacked
from orchestrator.data.rows import DataError

GIB = 1 << 30
SPEC = {
    "created": "2026-01-01T00:00:00+00:00", "task": "colours", "dataset": {"name": "d"}, "model": "m", "config": {},
    "eval_id": "e", "run_id": "r", "task_id": "t",
}  # fmt: skip
SAMPLE: dict[str, Any] = {"id": 1, "epoch": 1, "input": "Which colour?", "target": "B"}
READ = "from lyncean_interop.inspect_import import read"


def log(path: Path, add: Callable[[zipfile.ZipFile], None], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Writes a log of Inspect with one sample, and what is added to it."""
    header = {"version": 2, "status": "success", "eval": SPEC}
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("header.json", json.dumps(header))
        file.writestr("samples/1_epoch_1.json", json.dumps(SAMPLE))
        add(file)
    return path


def member(file: zipfile.ZipFile, piece: bytes, times: int, *, start: bytes = b"", end: bytes = b"") -> None:
    """Adds a second sample, of which a piece is repeated."""
    with file.open("samples/2_epoch_1.json", "w", force_zip64=True) as target:
        target.write(start)
        for _ in range(times):
            target.write(piece)
        target.write(end)


def huge(file: zipfile.ZipFile) -> None:
    listed = json.dumps({**SAMPLE, "id": 2, "metadata": {"a": 0}})[:-3].encode() + b"["
    member(file, b"[]," * (1 << 18), GIB // (3 << 18), start=listed, end=b"[]]}}")


def values(file: zipfile.ZipFile) -> None:
    """Few enough bytes, and a list for each third of them."""
    listed = json.dumps({**SAMPLE, "id": 2, "metadata": {"a": 0}})[:-3].encode() + b"["
    member(file, b"[]," * (1 << 18), 80, start=listed, end=b"[]]}}")


def many(file: zipfile.ZipFile) -> None:
    for number in range(MAX_MEMBERS):
        file.writestr(f"samples/{number}_epoch_2.json", b"")


def overlapping(file: zipfile.ZipFile) -> None:
    """Many members of 8 MiB that are the same bytes of the file."""
    file.writestr("samples/2_epoch_1.json", bytes(8 << 20))
    one = file.infolist()[-1]
    for number in range(3, 203):
        other = copy.copy(one)
        other.filename = f"samples/{number}_epoch_1.json"
        file.filelist.append(other)


def attached(file: zipfile.ZipFile) -> None:
    """One image of a MiB, named by each of a thousand parts."""
    name = "0123456789abcdef0123456789abcdef"
    parts = [{"type": "image", "image": f"attachment://{name}"}] * 1000
    message = {"role": "user", "content": parts}
    image = "data:image/png;base64," + "A" * (1 << 20)
    sample = {**SAMPLE, "id": 2, "input": [message], "attachments": {name: image}}
    file.writestr("samples/2_epoch_1.json", json.dumps(sample))


def lying(path: Path, method: int, stated: int) -> Path:
    """Writes a log whose second sample is a GiB of blanks and states fewer, with their checksum."""
    log(path, lambda file: member(file, b" " * (1 << 20), 1024), method)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        offset = file.getinfo("samples/2_epoch_1.json").header_offset
    checksum = zlib.crc32(b" " * stated)
    central = data.rindex(b"PK\1\2")
    struct.pack_into("<I", data, offset + 14, checksum)
    struct.pack_into("<I", data, central + 16, checksum)
    struct.pack_into("<I", data, central + 24, stated)
    path.write_bytes(data)
    with zipfile.ZipFile(path) as file:
        assert file.getinfo("samples/2_epoch_1.json").file_size == stated
    return path


BOMBS: dict[str, tuple[Callable[[zipfile.ZipFile], None], str]] = {
    "one huge member": (huge, "unpacks to 1,073,"),
    "many values": (values, "more values of JSON"),
    "many members": (many, f"has {MAX_MEMBERS + 2:,} members, the limit is {MAX_MEMBERS:,}"),
    "overlapping members": (overlapping, "unpacks to 1,686,"),
    "attachments": (attached, "its samples hold 1,048,598,013 characters"),
}


@pytest.fixture(autouse=True)
def _inspect() -> None:
    pytest.importorskip("inspect_ai.log")


@pytest.mark.parametrize("name", BOMBS)
def test_a_log_that_unpacks_to_more_is_refused_in_little_memory(name: str, tmp_path: Path) -> None:
    add, message = BOMBS[name]
    path = log(tmp_path / "bomb.eval", add)
    result, grown = bombs.grown(path, READ, "read(Path(sys.argv[1]), None, None)")
    assert result.startswith(f"DataError: {path}")
    assert message in result
    assert "\n" not in result
    assert grown < bombs.LIMIT


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, 93])
def test_a_member_is_unpacked_to_what_it_states(method: int, tmp_path: Path) -> None:
    path = lying(tmp_path / "bomb.eval", method, 100)
    result, grown = bombs.grown(path, READ, "read(Path(sys.argv[1]), None, None)")
    assert result.startswith(f"DataError: {path} cannot be read as a log of Inspect: JSONDecodeError")
    assert grown < bombs.LIMIT


def test_the_command_and_the_viewer_say_so(tmp_path: Path) -> None:
    path = log(tmp_path / "bomb.eval", huge)
    done = run_import("inspect", path, "--run", tmp_path / "run")
    assert done.exit_code == 2
    assert "bomb.eval unpacks to 1,073,4" in done.output
    assert f"the limit for a file of its size is {room(path):,}" in done.output
    assert "Traceback" not in done.output
    log(tmp_path / "good.eval", lambda file: None)
    imports = """
import time
from orchestrator.report.live.logs import ToolLogs
def look():
    logs = ToolLogs(Path(sys.argv[1]).parent)
    while True:
        states = {name: log.state() for name, log in logs.runs().items()}
        if all(state["state"] != "reading" for state in states.values()):
            return [(name, str(state["state"]), state.get("note")) for name, state in sorted(states.items())]
        time.sleep(0.05)
"""
    result, grown = bombs.grown(path, READ + imports, "look()")
    assert "('bomb.eval', 'unreadable', " in result
    assert "unpacks to 1,073,4" in result
    assert "('good.eval', 'complete', " in result
    assert grown < bombs.LIMIT


def test_a_log_is_read_as_before_without_what_is_not_used(tmp_path: Path) -> None:
    """Events refer to a pool of messages by ranges, so that a short one stands for any number of them."""
    from lyncean_interop import inspect_import

    pool = [{"role": "user", "content": f"{number}"} for number in range(2000)]
    event = {
        "event": "model", "model": "m", "input": [], "input_refs": [[0, 2000]] * 2000, "tools": [],
        "tool_choice": "auto", "config": {}, "output": {}, "timestamp": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    used = {**SAMPLE, "id": 2, "choices": ["red", "blue"], "metadata": {"kind": "colour"}}
    sample = {**used, "events": [event] * 40, "events_data": {"messages": pool, "calls": []}, "messages": pool}
    path = log(tmp_path / "log.eval", lambda file: file.writestr("samples/2_epoch_1.json", json.dumps(sample)))
    result, grown = bombs.grown(path, READ, "read(Path(sys.argv[1]), None, None).answers")
    assert grown < bombs.LIMIT
    plain = log(tmp_path / "plain.eval", lambda file: file.writestr("samples/2_epoch_1.json", json.dumps(used)))
    answers = inspect_import.read(plain, None, None).answers
    assert str(answers) == result
    assert (answers[1].prompt, answers[1].options, answers[1].labels) == (
        "Which colour?", ("red", "blue"), {"kind": "colour"},
    )  # fmt: skip


def test_other_methods_and_damage_are_refused(tmp_path: Path) -> None:
    path = log(tmp_path / "x.eval", lambda file: None, zipfile.ZIP_LZMA)
    with pytest.raises(DataError, match="a member packed by method 14"), unpacked(path):
        pass
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(zipfile.BadZipFile), unpacked(path):
        pass


def test_what_is_unpacked_is_what_the_archive_holds(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.json", b"first")
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("a.json", b"last")
        file.writestr("folder/", b"")
        file.writestr("b.bin", bytes(range(256)) * 4000)
    with unpacked(path) as plain, zipfile.ZipFile(plain) as file:
        assert {info.filename: file.read(info) for info in file.infolist()} == {
            "a.json": b"last", "folder/": b"", "b.bin": bytes(range(256)) * 4000,
        }  # fmt: skip
    assert not plain.exists()


def test_a_table_that_unpacks_to_more_is_refused(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "model_data.xlsx"
    book = openpyxl.Workbook()
    book.active.append(["index", "question", "answer", "prediction"])
    book.save(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file, file.open("xl/other.xml", "w") as target:
        for _ in range(1024):
            target.write(b"<si/>" * 200_000)
    call = "list(read(Path(sys.argv[1]), None, None).answers)"
    result, grown = bombs.grown(path, "from lyncean_interop.vlmevalkit_import import read", call)
    assert result.startswith(f"DataError: {path} unpacks to 1,024,")
    assert grown < bombs.LIMIT
