"""Whether the files of a checkpoint can be read at all, asked before a library reports it as something else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open

from model_server.backend import LoadError

_POINTER = b"version https://git-lfs"


def check(files: Iterable[Path]) -> None:
    """Opens weight files and reads what they say of themselves, no weights.

    Raises:
        LoadError: One is missing, may not be read, or is cut short or damaged; with the cause and the fix.
    """
    for file in files:
        try:
            with file.open("rb") as stream:
                head = stream.read(len(_POINTER))
        except FileNotFoundError as error:
            raise LoadError(f"{file} is missing: download the checkpoint again") from error
        except OSError as error:
            raise LoadError(
                f"{file} cannot be read ({error.strerror}): check its owner, its mode and that it is a file"
            ) from error
        if head == _POINTER:
            raise LoadError(f"{file} is a pointer of git-lfs and not the weights: run git lfs pull")
        if not head:
            raise LoadError(f"{file} is empty: download it again")
        if file.suffix == ".safetensors":
            _read_header(file)


def _read_header(file: Path) -> None:
    try:
        with safe_open(file, "np"):
            pass
    except SafetensorError as error:
        raise LoadError(f"{file} is cut short or damaged ({error}): download it again") from error
