"""Digests that are kept: believed while a file is untouched, and never after."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.data import digest as digests
from orchestrator.data.digest import WORTH_BYTES, remembered


class Counted:
    """A digest that knows how often it was computed."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, path: Path) -> str:
        self.times += 1
        return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lyncean" / "digests"


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as left alone however new they are."""
    monkeypatch.setattr(digests, "SETTLED_SECONDS", -60.0)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(bytes(WORTH_BYTES))
    return path


def rewritten(path: Path, content: bytes) -> None:
    """Writes the same length and sets the time of modification back, as an archive's unpacker does."""
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.usefixtures("cache", "settled")
def test_an_untouched_file_is_hashed_once(large: Path) -> None:
    digest = Counted()
    first = remembered(large, digest)
    assert [remembered(large, digest) for _ in range(3)] == [first] * 3
    assert first == hashlib.sha256(bytes(WORTH_BYTES)).hexdigest()
    assert digest.times == 1


@pytest.mark.usefixtures("cache", "settled")
def test_a_file_of_the_same_size_and_time_is_hashed_again(large: Path) -> None:
    first = remembered(large, Counted())
    rewritten(large, b"x" * WORTH_BYTES)
    assert remembered(large, Counted()) == hashlib.sha256(b"x" * WORTH_BYTES).hexdigest() != first


@pytest.mark.usefixtures("cache", "settled")
def test_another_file_in_its_place_is_hashed(large: Path) -> None:
    first = remembered(large, Counted())
    large.rename(large.with_name("old"))
    large.write_bytes(b"y" * WORTH_BYTES)
    assert remembered(large, Counted()) != first


def test_a_file_that_was_just_written_is_not_believed(cache: Path, large: Path) -> None:
    digest = Counted()
    remembered(large, digest)
    remembered(large, digest)
    assert digest.times == 2
    assert not cache.exists()


@pytest.mark.usefixtures("settled")
def test_a_file_that_changes_meanwhile_is_not_kept(cache: Path, large: Path) -> None:
    def slow(path: Path) -> str:
        digest = Counted()(path)
        rewritten(path, b"z" * WORTH_BYTES)
        return digest

    remembered(large, slow)
    assert not cache.exists()
    assert remembered(large, Counted()) == hashlib.sha256(b"z" * WORTH_BYTES).hexdigest()


@pytest.mark.usefixtures("settled")
def test_small_files_are_hashed_each_time(cache: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.write_bytes(b"small")
    digest = Counted()
    assert remembered(small, digest) == remembered(small, digest)
    assert digest.times == 2
    assert not cache.exists()


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("damage", [lambda kept: kept.write_text("0" * 12), lambda kept: kept.write_text("")])
def test_a_damaged_note_is_not_believed(cache: Path, large: Path, damage: Callable[[Path], object]) -> None:
    first = remembered(large, Counted())
    (kept,) = cache.iterdir()
    damage(kept)
    assert remembered(large, Counted()) == first
    assert kept.read_text() == first


@pytest.mark.usefixtures("settled")
def test_without_a_cache_folder_it_is_computed(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert remembered(large, Counted()) == hashlib.sha256(bytes(WORTH_BYTES)).hexdigest()
