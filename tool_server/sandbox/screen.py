"""Collects the output of code: text and images in their order, within bounds."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

from tool_server.sandbox.limits import IMAGE_BYTES

if TYPE_CHECKING:
    from PIL import Image

Piece = tuple[str, str]
"""("text", the text) or ("image", a PNG as base64)."""


class Screen(io.TextIOBase):
    """Text and images that one call has shown so far.

    Args:
        characters: Bound on the text; further characters are counted and left out.
        images: Bound on the number of images.
        pixels: Bound on the pixels of one image.
    """

    encoding = "utf-8"

    def __init__(self, characters: int, images: int, pixels: int) -> None:
        self._left, self._images, self._pixels = characters, images, pixels
        self._bytes = IMAGE_BYTES
        self._cut = self._unseen = 0
        self._pieces: list[Piece] = []
        self._text: list[str] = []

    @property
    def shown(self) -> bool:
        """True if there is an image."""
        return any(kind == "image" for kind, _ in self._pieces)

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join([*(text for kind, text in self._pieces if kind == "text"), *self._text])

    def writable(self) -> bool:
        """Returns True."""
        return True

    def write(self, text: str, /) -> int:
        """Appends text up to the bound."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        kept = text[: self._left]
        self._left -= len(kept)
        self._cut += len(text) - len(kept)
        if kept:
            self._text.append(kept)
        return len(text)

    def image(self, image: Image.Image) -> None:
        """Appends an image; a line of text replaces one that is too large."""
        if self._images <= 0:
            self._unseen += 1
        elif image.width * image.height > self._pixels:
            size = f"{image.width} x {image.height}"
            self.write(f"[an image of {size} is not shown: the limit is {self._pixels} pixels]\n")
        else:
            buffer = io.BytesIO()
            plain = image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else image.convert("RGB")
            plain.save(buffer, "PNG")
            self._file(buffer.getvalue())

    def _file(self, data: bytes) -> None:
        if len(data) > self._bytes:
            self._unseen += 1
            return
        self._images, self._bytes = self._images - 1, self._bytes - len(data)
        self._flushed()
        self._pieces.append(("image", base64.b64encode(data).decode()))

    def pieces(self) -> list[Piece]:
        """Returns all pieces, with a line that counts the omitted ones."""
        notes = [f"{self._cut} more characters are not shown"] if self._cut else []
        notes += [f"{self._unseen} more images are not shown"] if self._unseen else []
        if notes:
            self._text.append(f"\n[{'; '.join(notes)}]\n")
        self._flushed()
        return self._pieces

    def _flushed(self) -> None:
        if self._text:
            self._pieces.append(("text", "".join(self._text)))
            self._text = []


def picture_of(value: Any) -> Image.Image | None:
    """Returns the image that a notebook shows for a value: an image or a figure; None for other values."""
    from PIL import Image

    if isinstance(value, Image.Image):
        return value
    if hasattr(value, "savefig"):
        buffer = io.BytesIO()
        value.savefig(buffer, format="png", bbox_inches="tight")
        return Image.open(buffer)
    return None


def picture_of_array(value: Any) -> Image.Image | None:
    """Returns an array of bytes with 1, 3 or 4 channels as an image, None for anything else."""
    import numpy
    from PIL import Image

    if not isinstance(value, numpy.ndarray) or value.dtype != numpy.uint8 or not value.size:
        return None
    plain = value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (3, 4))
    return Image.fromarray(value) if plain else None
