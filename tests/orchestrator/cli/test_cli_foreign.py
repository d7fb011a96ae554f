"""Commands over files and folders that are missing, empty, torn or somebody else's: one line each, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.mistakes import mistake

from orchestrator.cli import main

SAMPLES = "1_samples_vstar_bench.jsonl"
FILES = {
    "empty": b"",
    "torn": b'{"doc_id": ',
    "words": b"hello world",
    "bytes": b"\xff\xfe\x00\x01",
    "other": b'{"a": 1}',
    "list": b"[1, 2]",
    "number": b"3",
}
FILE_COMMANDS = [
    ("import", "lmms-eval", "{path}"),
    ("import", "reform", "{path}", "--formulation", "SingleChoice"),
]
FOLDER_COMMANDS = [
    ("report", "{path}"),
    ("report", "{path}", "--format", "terminal"),
    ("compare", "{path}", "{path}"),
    ("score", "{path}"),
    ("merge", "{path}", "--run", "merged"),
    ("import", "reform-instructions", "{path}", "-o", "x.json"),
]


def error(path: Path, words: tuple[str, ...]) -> str:
    return mistake(main, *(word.format(path=path) for word in words))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("words", FILE_COMMANDS, ids=lambda words: words[1])
@pytest.mark.parametrize("content", FILES)
def test_files(tmp_path: Path, words: tuple[str, ...], content: str) -> None:
    path = tmp_path / SAMPLES
    path.write_bytes(FILES[content])
    assert SAMPLES in error(path, words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("words", FILE_COMMANDS, ids=lambda words: words[1])
def test_no_file_and_a_folder_for_a_file(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert "does not exist" in error(tmp_path / "nothing", words)
    assert "is a directory" in error(tmp_path, words)


@pytest.mark.parametrize("words", FOLDER_COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_no_folder_a_file_and_an_empty_folder(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert "nothing" in error(tmp_path / "nothing", words)
    file = tmp_path / "file"
    file.write_text("x")
    assert "is a file" in error(file, words)
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "folder" in error(folder, words)


@pytest.mark.parametrize("words", FOLDER_COMMANDS[:-1], ids=lambda words: " ".join(words[:3]))
@pytest.mark.parametrize("content", FILES)
def test_manifests(tmp_path: Path, words: tuple[str, ...], content: str) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "manifest.json").write_bytes(FILES[content])
    assert "manifest.json" in error(folder, words)
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json"]
    assert not (tmp_path / "merged").exists()
