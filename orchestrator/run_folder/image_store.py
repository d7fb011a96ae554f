"""The run folder's images: each stored once, under its own hash."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from PIL import Image

from lyncean.pictures import open_image, orientation
from orchestrator.samples import BadRowError, Call, Part, image_part
from orchestrator.samples import Image as EncodedImage

_QUARTERS = (5, 6, 7, 8)


class ImageStore:
    """Content-addressed files. Safe from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}/"
        self._known: set[bytes] = set()

    def put(self, data: bytes) -> str:
        """Stores a file's bytes unless they are there, and returns their sha256 in hex.

        Raises:
            OSError: If they cannot be written.
        """
        sha = hashlib.sha256(data)
        name = sha.hexdigest()
        if sha.digest() not in self._known:
            self._write(self._folder + name, data)
            if len(self._known) >= _KNOWN_LIMIT:
                self._known.clear()
            self._known.add(sha.digest())
        return name

    def get(self, sha256: str) -> bytes:
        """Returns a stored file's bytes.

        Raises:
            OSError: If it is not there.
            ValueError: If it holds other bytes than were stored, for example after a power cut.
        """
        data = Path(self._folder + sha256).read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"images/{sha256} is damaged")
        return data

    def _write(self, path: str, data: bytes) -> None:
        """Writes a file once. Other bytes under its name are what a killed process or a power cut left."""
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            if Path(path).stat().st_size == len(data) and Path(path).read_bytes() == data:
                return
            file = os.open(path, os.O_WRONLY | os.O_TRUNC)
        except FileNotFoundError:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            self._write(path, data)
            return
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
        finally:
            os.close(file)


_KNOWN_LIMIT = 100_000


def blinded(call: Call) -> Call:
    """Returns the call with each image replaced by grey of the same size and format.

    Raises:
        BadRowError: If an image's header cannot be read.
    """
    return replace(
        call,
        messages=tuple(
            replace(message, parts=tuple(_grey_part(part.image) if part.image else part for part in message.parts))
            for message in call.messages
        ),
    )


def _grey_part(image: EncodedImage) -> Part:
    try:
        with open_image(image.data) as opened:
            size, kind = _seen_size(opened), opened.format or "PNG"
    except (OSError, Image.DecompressionBombError) as error:
        raise BadRowError("bad_image", f"the image cannot be read: {error}") from error
    return image_part(_grey(size, kind))


def _seen_size(image: Image.Image) -> tuple[int, int]:
    """Width and height as a model sees them: servers turn images as EXIF says, unreadable EXIF says nothing."""
    if image.format == "TIFF":
        return image.size  # pillow has turned it
    return (image.height, image.width) if orientation(image) in _QUARTERS else image.size


@lru_cache(maxsize=64)
def _grey(size: tuple[int, int], kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (128, 128, 128)).save(buffer, format=kind)
    return buffer.getvalue()
