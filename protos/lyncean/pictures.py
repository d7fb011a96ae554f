"""How encoded images are read by both sides of the contract: what one shows and the other sees is the same."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from functools import cache
from importlib import import_module
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
"""Format -> the plugin that reads it. Pillow knows many more, and for PostScript starts an interpreter that runs what
it is given."""
_ORIENTATION = 0x0112
_START_OF_SCAN, _END_OF_IMAGE = b"\xff\xda", b"\xff\xd9"
_FIRST_ROWS = 2048
_MOST_PIXELS = 25_000_000
"""Larger images are not decoded to find out whether they can be: they are the server's to refuse."""


def open_image(data: bytes) -> ImageFile.ImageFile:
    """Returns an encoded image whose header has been read.

    Raises:
        OSError: It is in no format that is read; PIL.UnidentifiedImageError is one.
        Image.DecompressionBombError: It is larger than any image should be.
        Exception: One of `DAMAGE`: it is damaged.
    """
    from PIL import Image

    return Image.open(io.BytesIO(data), formats=_formats())


def damage(data: bytes) -> str:
    """Returns why an encoded image cannot be decoded, "" if it can, mostly at a fraction of what decoding it costs.

    Of a PNG the checksums tell it, of a WebP its length. Of a JPEG that has an end, the tables and the first rows are
    decoded: damage behind them shows as noise, and decoders take it. All others, and those that fail here, are
    decoded: what is called damaged is what no decoder takes.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = open_image(data)
            if not _looks_whole(image, data) and image.width * image.height <= _MOST_PIXELS:
                open_image(data).load()
    except UnidentifiedImageError:
        return "it is in no image format that can be read"
    except Image.DecompressionBombError:
        return ""  # too large for some servers, and theirs to say
    except DAMAGE as error:
        return f"it cannot be decoded: {error}"
    return ""


def pixel_count(data: bytes) -> int:
    """Returns width times height of an encoded image that is not damaged, as its header tells."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = open_image(data)
    except Image.DecompressionBombError:
        return 2 * (Image.MAX_IMAGE_PIXELS or 0) + 1  # more than this is all that is known
    return image.width * image.height


def _looks_whole(image: ImageFile.ImageFile, data: bytes) -> bool:
    """Whether a look at an image whose header was read shows that it can be decoded."""
    try:
        if image.format == "PNG":
            image.verify()
            return True
        if image.format == "JPEG" and data.rfind(_END_OF_IMAGE) > data.rfind(_START_OF_SCAN):
            first = open_image(data[: data.find(_START_OF_SCAN) + _FIRST_ROWS] + _END_OF_IMAGE)
            first.draft("L", (1, 1))
            first.load()
            return True
        if image.format == "WEBP":
            return 8 + int.from_bytes(data[4:8], "little") <= len(data)
    except DAMAGE:
        pass
    return False


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
    """Returns those that this pillow was built with. Their plugins alone are imported: all 45 take 25 ms."""
    from PIL import Image

    for plugin in _FORMATS.values():
        import_module(f"PIL.{plugin}ImagePlugin")
    return tuple(name for name in _FORMATS if name in Image.OPEN)
