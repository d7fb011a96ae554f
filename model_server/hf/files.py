"""Files of weights: which they are, whether they can be read, and the hash that identifies them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open

from model_server.backend import LoadError

_POINTER = b"version https://git-lfs"


def weight_files(folder: Path) -> list[Path]:
    """Returns the files of a folder that hold the model's weights, in one order."""
    for index, pattern in (
        ("model.safetensors.index.json", "*.safetensors"),
        ("pytorch_model.bin.index.json", "pytorch_model*.bin"),
    ):
        listed = folder / index
        if listed.exists():
            names = set(json.loads(listed.read_text(encoding="utf-8"))["weight_map"].values())
            return sorted(folder / name for name in names)
        files = sorted(folder.glob(pattern))
        if files:
            return files
    return []


def check_files(files: Iterable[Path]) -> None:
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
            try:
                with safe_open(file, "np"):
                    pass
            except SafetensorError as error:
                raise LoadError(f"{file} is cut short or damaged ({error}): download it again") from error


def content_hash(files: Iterable[Path]) -> str:
    """Returns "sha256:..." over the files' contents, in their order; "" for no files."""
    total, files = hashlib.sha256(), list(files)
    for path in files:
        with path.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return f"sha256:{total.hexdigest()}" if files else ""


def text_hash(text: str) -> str:
    """Returns a text's SHA-256 in hexadecimal; "" for no text."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""
