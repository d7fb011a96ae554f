"""Formats, orientation and errors of damaged files, for pillow in the caller's process and in a cell."""

from __future__ import annotations

import struct
import zlib
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

# Imported on use: the scorer never opens images, and its container has no pillow.
if TYPE_CHECKING:
    from PIL import Image

DAMAGE = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    struct.error,
    zlib.error,
)
"""Exceptions of pillow's parsers for truncated or damaged files."""

_FORMATS = {
    "PNG": "Png",
    "JPEG": "Jpeg",
    "GIF": "Gif",
    "WEBP": "WebP",
    "BMP": "Bmp",
    "TIFF": "Tiff",
    "PPM": "Ppm",
    "JPEG2000": "Jpeg2K",
    "AVIF": "Avif",
    "ICO": "Ico",
}
"""Format -> pillow's plugin for it. Pillow has many more; the one for PostScript even starts an interpreter."""
ORIENTATION = 0x0112
"""EXIF's tag of the orientation."""


def orientation(image: Image.Image) -> object:
    """Returns the orientation from EXIF, 1 to 8; None without one.

    Unreadable EXIF counts as absent, as in every viewer.
    """
    try:
        return image.getexif().get(ORIENTATION)
    except DAMAGE:
        return None


@cache
def formats() -> tuple[str, ...]:
    """Returns the supported formats of this build of pillow. Imports only their plugins: all 45 take 25 ms."""
    from PIL import Image

    for plugin in _FORMATS.values():
        import_module(f"PIL.{plugin}ImagePlugin")
    return tuple(name for name in _FORMATS if name in Image.OPEN)
