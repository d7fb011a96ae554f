"""Decoders in the hands of their file: what a clip's first bytes name is done, as if FFmpeg had such a flaw."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lyncean.media import cell, clips
from lyncean.media.types import Kind

_DEEDS: dict[str, Callable[[str], object]] = {}


def clip(deed: str, argument: object = "") -> bytes:
    """Returns a clip that has something done."""
    return f"deed {deed} {argument}\n".encode() + bytes(2000)


def setup() -> dict[str, Callable[..., Any]]:
    """Returns the functions of a cell for media, with decoders that do what a clip names."""
    opened = clips.open_clip

    def open_clip(kind: Kind, data: bytes, *most: int) -> Any:
        if data.startswith(b"deed "):
            _, deed, argument = data.partition(b"\n")[0].decode().split(" ")
            _DEEDS[deed](argument)
        return opened(kind, data, *most)

    clips.open_clip = open_clip  # type: ignore[assignment]
    return cell.setup()


def pictures_setup() -> dict[str, Callable[..., Any]]:
    """Returns the functions of a cell for media, with an image's pixels in the hands of what its last line names."""
    from PIL import ImageFile

    original = ImageFile.ImageFile.load

    def load(image: Any) -> Any:
        line = b""
        if image.fp:
            image.fp.seek(0)
            line = image.fp.read().rpartition(b"\n")[2]
        if line.startswith(b"deed "):
            _, deed, argument = line.decode().split(" ")
            _DEEDS[deed](argument)
        return original(image)

    ImageFile.ImageFile.load = load  # type: ignore[method-assign]
    return cell.setup()


def forging(results: dict[str, Any], size: int) -> dict[str, Callable[..., Any]]:
    """Returns functions that say of a file what they are started with, and leave a result of so many bytes."""

    def function(name: str) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            with contextlib.suppress(OSError, LookupError, TypeError):  # not all have a result
                os.ftruncate(arguments[1], size)
            return results[name]

        return called

    return {name: function(name) for name in results}


def _deed(function: Callable[[str], object]) -> Callable[[str], object]:
    _DEEDS[function.__name__] = function
    return function


@_deed
def abort(_: str) -> None:
    os.abort()


@_deed
def segfault(_: str) -> None:
    ctypes.string_at(0)


@_deed
def loop(_: str) -> None:
    while True:
        pass


@_deed
def allocate(count: str) -> None:
    bytearray(int(count))


@_deed
def opens(path: str) -> None:
    raise ValueError(Path(path).read_text())


@_deed
def connects(port: str) -> None:
    socket.create_connection(("127.0.0.1", int(port)))
