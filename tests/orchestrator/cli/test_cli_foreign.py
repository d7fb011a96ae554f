"""Commands over files and folders that are missing, empty, torn or somebody else's: one line each, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.mistakes import FILES, error, refuses_no_folder

FOLDER_COMMANDS = [
    ("report", "{path}"),
    ("report", "{path}", "--format", "terminal"),
    ("compare", "{path}", "{path}"),
    ("score", "{path}"),
    ("merge", "{path}", "--run", "merged"),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("arguments", FOLDER_COMMANDS, ids=lambda arguments: " ".join(arguments[:2]))
def test_no_folder_a_file_and_an_empty_folder(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    refuses_no_folder(arguments, tmp_path)


@pytest.mark.parametrize("arguments", FOLDER_COMMANDS, ids=lambda arguments: " ".join(arguments[:3]))
@pytest.mark.parametrize("content", FILES)
def test_manifests(tmp_path: Path, arguments: tuple[str, ...], content: str) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "manifest.json").write_bytes(FILES[content])
    assert "manifest.json" in error(folder, arguments)
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json"]
    assert not (tmp_path / "merged").exists()
