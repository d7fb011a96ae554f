"""Ids that stand twice are named, however many rows there are, and large files that were right are not read again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from orchestrator.data import digest, opening
from orchestrator.data.opening import check_unique, open_rows
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table

TABLE = Table(hub="owner/name", split="test", columns={"id": int}, images=())


def name(row: Row) -> str:
    return str(row["id"])


def source(ids: list[int]) -> RowSource:
    return RowSource("rows", "digest", len(ids), lambda: (Row({"id": i}, lambda _: None) for i in ids))


@given(st.lists(st.integers(-9, 9)), st.integers(1, 4))
def test_in_parts_as_in_one(ids: list[int], most: int) -> None:
    seen = set[int]()
    second = next((i for i in ids if i in seen or seen.add(i)), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_READ", 3)
        patch.setattr(opening, "_SORTED", most)
        if second is None:
            check_unique(source(ids), "task", name)
        else:
            with pytest.raises(DataError, match=f"rows: id {second} stands twice"):
                check_unique(source(ids), "task", name)


def test_two_ids_with_one_hash_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "hash", lambda _: 7, raising=False)
    check_unique(source([1, 2, 3]), "task", name)
    with pytest.raises(DataError, match="id 2 stands twice"):
        check_unique(source([1, 2, 3, 2]), "task", name)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as large and as left alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(digest, "WORTH_BYTES", 1)
    monkeypatch.setattr(digest, "SETTLED_SECONDS", -60.0)
    return written(tmp_path / "rows.parquet", [1, 2, 3])


def written(path: Path, ids: list[int]) -> Path:
    """Writes a file, later than it was written before: clocks of file systems tick every few milliseconds."""
    before = path.stat().st_ctime_ns if path.exists() else 0
    while not path.exists() or path.stat().st_ctime_ns == before:
        pq.write_table(pa.table({"id": ids}), path)
    return path


def unread(path: Path) -> RowSource:
    """A file's rows, of which none may be read."""

    def iterate() -> None:
        raise AssertionError("a row was read")

    return replace(open_rows(path, TABLE), iterate=iterate)


def test_rows_of_an_untouched_file_are_read_once(file: Path) -> None:
    check_unique(open_rows(file, TABLE), "task", name)
    check_unique(unread(file), "task", name)
    with pytest.raises(AssertionError):
        check_unique(unread(file), "another task", name)
    with pytest.raises(AssertionError):  # another task file of the same name
        check_unique(replace(unread(file), digest="other"), "task", name)


def test_a_file_that_was_written_again_is_read_again(file: Path) -> None:
    check_unique(open_rows(file, TABLE), "task", name)
    before = file.stat()
    written(file, [1, 2, 2])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DataError, match="id 2 stands twice"):
        check_unique(open_rows(file, TABLE), "task", name)


def test_what_is_wrong_is_said_each_time(file: Path) -> None:
    written(file, [3, 1, 3])
    for _ in range(2):
        with pytest.raises(DataError, match="id 3 stands twice"):
            check_unique(open_rows(file, TABLE), "task", name)


def test_one_of_several_files_that_changed_has_all_read(tmp_path: Path, file: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file.rename(folder / "test-0.parquet")
    written(folder / "test-1.parquet", [4, 5])
    check_unique(open_rows(folder, TABLE), "task", name)
    check_unique(unread(folder), "task", name)
    written(folder / "test-1.parquet", [4, 1])
    with pytest.raises(DataError, match="id 1 stands twice"):
        check_unique(open_rows(folder, TABLE), "task", name)


def test_rows_without_files_are_read_each_time(file: Path) -> None:
    check_unique(replace(open_rows(file, TABLE), files=()), "task", name)
    with pytest.raises(AssertionError):
        check_unique(replace(unread(file), files=()), "task", name)
