"""How encoded images are read by both sides of the contract: what one shows and the other sees is the same."""

from __future__ import annotations

import struct
import zlib

from PIL import Image

Image.init()
FORMATS = tuple(
    name
    for name in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "ICO")
    if name in Image.OPEN
)
"""Formats that are read. Pillow knows many more, and for PostScript starts an interpreter that
runs what it is given."""

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
"""What pillow's parsers raise for files that are cut short or damaged."""

_ORIENTATION = 0x0112


def orientation(image: Image.Image) -> object:
    """Returns what EXIF says of how an image is to be turned, 1 to 8; None where it says nothing.

    EXIF that cannot be read says nothing: every viewer shows such a file.
    """
    try:
        return image.getexif().get(_ORIENTATION)
    except DAMAGE:
        return None
