"""A session from outside: its process, its folder, and the checks of its replies."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lyncean.cell import Bounds, Cell, CellError, Fence, StartError, Zygote
from lyncean.rpc import Unavailable
from lyncean.vocabulary.tool_results import MAX_PARTS
from tool_server.folders import remove
from tool_server.sandbox.limits import IMAGE_BYTES, NOTHING, Limits
from tool_server.types import Output

SETUP = "tool_server.sandbox.inside:setup"
READS = ("/usr/share/fonts",)
_LOST = "Variables and files of earlier calls are lost."
_PNG = b"\x89PNG\r\n\x1a\n"
_LARGEST_ERROR = 10_000


class PythonSession:
    """Variables and files of one conversation; see `tool_server.types.Session`.

    Args:
        zygote: The process from which sessions are forked.
        folder: The session's own folder, which exists and is empty; it is removed at the end.
        limits: Bounds of the code.
    """

    def __init__(self, zygote: Zygote, folder: Path, limits: Limits) -> None:
        self._folder, self._limits, self._zygote = folder, limits, zygote
        self._calls = self._known = 0
        self._begun = False
        self._cell = self._new_cell()

    def _new_cell(self) -> Cell:
        limits = self._limits
        bounds = {"characters": limits.characters, "images": limits.images, "pixels": limits.pixels}
        fence = Fence(READS, (str(self._folder),), limits.memory, limits.disk, strict=True)
        arguments = {"folder": str(self._folder), "bounds": bounds}
        return Cell(SETUP, arguments, fence, zygote=self._zygote, still=True)

    def call(self, name: str, arguments: str, images: Sequence[bytes]) -> Output:
        """Runs code; returns its exceptions and exceeded limits as text for the model.

        Raises:
            Unavailable: The process was killed from outside, for example because the system is short of memory.
        """
        code = str(json.loads(arguments)["code"])
        if self._begun and not self._cell.running:
            raise _lost("its process is gone")
        self._calls += 1
        new = [base64.b64encode(data).decode() for data in images[self._known :]]
        try:
            reply = self._request(code, new)
        except StartError:
            raise
        except CellError as error:
            if "SIGKILL" in str(error):
                raise _lost(str(error)) from error
            self._renew()
            return Output((self._message(error),), is_error=True)
        self._known, self._begun = len(images), True
        return reply

    def _request(self, code: str, images: list[str]) -> Output:
        limits = self._limits
        most = 2 * IMAGE_BYTES + 12 * (limits.characters + _LARGEST_ERROR)
        bounds = Bounds(limits.wall, most, self._watch)
        reply = self._cell.call(
            "run", code, self._calls, images, self._known + 1, seconds=limits.seconds, bounds=bounds
        )
        return self._checked(reply)

    def _checked(self, reply: Any) -> Output:
        """Returns a reply as an output; distrusts it, as the model's code may have written it.

        Raises:
            CellError: It is malformed or beyond a limit.
        """
        try:
            if reply["call"] != self._calls:
                raise ValueError("another call's reply")
            content = [_piece(kind, value, self._limits) for kind, value in reply["pieces"]]
            error = str(reply["error"])
        except (TypeError, KeyError, ValueError) as problem:
            raise CellError("what it sent is not its reply") from problem
        images = [piece for piece in content if isinstance(piece, bytes)]
        texts = sum(len(piece) for piece in content if isinstance(piece, str))
        beyond = len(images) > self._limits.images or sum(map(len, images)) > IMAGE_BYTES or len(content) >= MAX_PARTS
        # The margin is for the line that counts omitted output, and the folder's longer name in results.
        if beyond or texts > 2 * self._limits.characters + 1000:
            raise CellError("what it sent is larger than a reply may be")
        if error:
            content.append(error if len(error) <= _LARGEST_ERROR else f"[...]\n{error[-_LARGEST_ERROR:]}")
        return Output(tuple(piece for piece in content if piece) or (NOTHING,), is_error=bool(error))

    def _watch(self) -> None:
        """Ends a call that fills the disk: the system limits only the size of single files."""
        size = count = 0
        folders = [str(self._folder)]
        while folders and count <= self._limits.files:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        count += 1
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
            except OSError:
                continue  # a folder that cannot be read: its files cannot grow beyond what the mode allows
        if size > self._limits.disk:
            raise CellError(f"it wrote more than {self._limits.disk >> 20} MiB of files", "file")
        if count > self._limits.files:
            raise CellError(f"it made more than {self._limits.files:,} files", "file")

    def _message(self, error: CellError) -> str:
        limits = self._limits
        messages = {
            "cpu": f"TimeoutError: the code was ended: it may take {limits.seconds:g} seconds of processor time, and "
            f"{limits.wall:g} by the clock.",
            "file": f"OSError: the code was ended: {error}.",
        }
        return f"{messages.get(error.limit, f'SystemError: the process was ended: {error}.')} {_LOST}\n"

    def _renew(self) -> None:
        """Replaces the process by a new one with an empty folder, for the next call."""
        self._known, self._begun = 0, False
        self._cell.close()
        remove(self._folder)
        self._folder.mkdir(mode=0o700)
        self._cell = self._new_cell()

    def close(self) -> None:
        """Ends the process and removes the folder."""
        self._cell.close()
        remove(self._folder)


def _lost(cause: str) -> Unavailable:
    return Unavailable("session_lost", f"a session of the sandbox was lost: {cause}")


def _piece(kind: str, value: str, limits: Limits) -> str | bytes:
    """Returns a text or an image of a reply.

    Raises:
        ValueError: It is neither, or the image is too large.
    """
    if kind == "text" and isinstance(value, str):
        return value
    if kind != "image":
        raise ValueError("neither text nor image")
    try:
        data = base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    if not data.startswith(_PNG) or data[12:16] != b"IHDR" or not 0 < width * height <= limits.pixels:
        raise ValueError("not a PNG, or too large")
    return data
