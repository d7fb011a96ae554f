"""A weights file that cannot be read: the true cause, and what to do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.refused_servers import refused
from safetensors.numpy import save_file

from model_server.backend import LoadError
from model_server.hf.files import check_files as check


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def cut_in_the_header(file: Path) -> None:
    os.truncate(file, 20)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def pointer(file: Path) -> None:
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")


def dangling(file: Path) -> None:
    file.unlink()
    file.symlink_to("nothing")


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "is cut short or damaged .*: download it again"),
        (cut_in_the_header, "is cut short or damaged .*: download it again"),
        (empty, "is empty: download it again"),
        (pointer, "git lfs pull"),
        (dangling, "is missing: download the checkpoint again"),
        (folder, "cannot be read .Is a directory.: check its owner"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"weight": np.zeros((50, 50), np.float32)}, file)
    check([file])
    damage(file)
    with pytest.raises(LoadError, match=f"model.safetensors {message}" if damage is not pointer else message):
        check([file])


def test_a_file_of_another_owner_is_not_called_missing(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"weight": np.zeros(4, np.float32)}, file)
    file.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(LoadError, match=r"cannot be read .Permission denied.: check its owner"):
            check([file])
    finally:
        os.seteuid(user)


def test_the_command_ends_with_the_cause_in_one_line(checkpoint_folder: Any, tmp_path: Path) -> None:
    whole = shutil.copytree(checkpoint_folder("text"), tmp_path / "copy")
    cut(whole / "model.safetensors")
    line = refused("--backend", "transformers", "--model", str(whole))
    assert line.startswith(f"Error: {whole / 'model.safetensors'} is cut short or damaged (")
