"""How encoded images are read by both sides of the contract: what one shows and the other sees is the same."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING

# Imported where it is used: the scorer looks at no images, and its container has no pillow.
if TYPE_CHECKING:
    from PIL import Image, ImageFile

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

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "ICO")
"""Pillow knows many more, and for PostScript starts an interpreter that runs what it is given."""
_ORIENTATION = 0x0112


def open_image(data: bytes) -> ImageFile.ImageFile:
    """Returns an encoded image whose header has been read.

    Raises:
        OSError: It is in no format that is read; PIL.UnidentifiedImageError is one.
        Image.DecompressionBombError: It is larger than any image should be.
        Exception: One of `DAMAGE`: it is damaged.
    """
    from PIL import Image

    return Image.open(io.BytesIO(data), formats=_formats())


def orientation(image: Image.Image) -> object:
    """Returns what EXIF says of how an image is to be turned, 1 to 8; None where it says nothing.

    EXIF that cannot be read says nothing: every viewer shows such a file.
    """
    try:
        return image.getexif().get(_ORIENTATION)
    except DAMAGE:
        return None


@cache
def _formats() -> tuple[str, ...]:
    """Returns those that this pillow was built with."""
    from PIL import Image

    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)
