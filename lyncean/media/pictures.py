"""Reads encoded images for both sides of the contract, so that both see the same pixels."""

from __future__ import annotations

import io
import re
import struct
import warnings
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING

from lyncean.media.picture_formats import DAMAGE, formats
from lyncean.media.types import media_type

# Imported on use: the scorer never opens images, and its container has no pillow.
if TYPE_CHECKING:
    from PIL import ImageFile

    from lyncean.media.rare_pictures import RareImage

_FAST = ("image/png", "image/jpeg", "image/webp")
"""Formats decoded in this process: they are the most common, and a cell would take longer than decoding."""
_START_OF_JPEG, _START_OF_SCAN, _END_OF_IMAGE = b"\xff\xd8\xff", b"\xff\xda", b"\xff\xd9"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Second bytes of the markers that start a JPEG frame; its height follows three bytes later."""
_FIRST_ROWS, _FIRST_BYTES = 32, 2048
"""Part of a JPEG that is decoded: rows of the tallest block, and bytes of its scan."""
_COMMENT = 0xFE
_LARGE_HEAD = 4096
"""Largest header in bytes for which the check of tables is cached; larger ones mostly hold metadata of one file."""
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
"""Start of a segment within a scan; all other bytes are samples, and wrong samples only show as noise."""
_START_OF_PNG, _FIRST_CHUNK = b"\x89PNG\r\n\x1a\n", b"\0\0\0\x0dIHDR"
_CHUNK = struct.Struct(">I4s")
_HEADER = struct.Struct(">16sIIBB3s")
_BITS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_METHODS = (b"\0\0\0", b"\0\0\1")
_CHUNKS = {
    b"IHDR": 13,
    b"PLTE": None,
    b"IDAT": None,
    b"IEND": 0,
    b"tEXt": None,
    b"eXIf": None,
    b"gAMA": 4,
    b"cHRM": 32,
    b"sRGB": 1,
    b"pHYs": 9,
}
"""Chunks that pillow parses without errors once their checksum is right -> their length if a PNG has one only."""
_MOST_PIXELS = 25_000_000
"""Larger images are not test-decoded: the server may refuse them."""


def open_image(data: bytes) -> ImageFile.ImageFile | RareImage:
    """Opens an encoded image and reads its header: PNG, JPEG and WebP in this process, others in a cell.

    Raises:
        OSError: Its format is not supported (PIL.UnidentifiedImageError).
        Image.DecompressionBombError: It is too large for any use.
        Exception: One of `DAMAGE`: it is damaged.
    """
    if media_type(data) not in _FAST:
        from lyncean.media import rare_pictures

        return rare_pictures.open_image(data)
    from PIL import Image

    return Image.open(io.BytesIO(data), formats=formats())


def damage(data: bytes) -> str:
    """Returns why an encoded image cannot be decoded, "" if it can, usually at a fraction of the cost of decoding.

    A PNG is checked by its checksums, a WebP by its length. For a complete JPEG, the tables and the first rows are
    decoded, once for all files with the same tables: later damage shows as noise, which decoders accept. Other images,
    and those that fail these checks, are decoded, so only images that no decoder accepts count as damaged.
    """
    if _is_plain_png(data) or _is_whole_jpeg(data):
        return ""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            if not _looks_whole(data):
                image = open_image(data)
                if image.width * image.height <= _MOST_PIXELS:
                    image.load()
    except UnidentifiedImageError:
        return "it is in no image format that can be read"
    except Image.DecompressionBombError:
        return ""  # the server decides whether it is too large
    except DAMAGE as error:
        return f"it cannot be decoded: {error}"
    return ""


def pixel_count(data: bytes) -> int:
    """Returns width times height of an intact image from its header."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = open_image(data)
    except Image.DecompressionBombError:
        return 2 * (Image.MAX_IMAGE_PIXELS or 0) + 1  # pillow only tells that there are more than these
    return image.width * image.height


def _looks_whole(data: bytes) -> bool:
    """Returns True if the cheap check of a PNG or WebP passes."""
    try:
        image = open_image(data)
        if image.format == "PNG":
            image.verify()
            return True
        return image.format == "WEBP" and 8 + int.from_bytes(data[4:8], "little") <= len(data)
    except DAMAGE:
        return False


def _is_plain_png(data: bytes) -> bool:
    """Returns True for a PNG of common chunks with right checksums; five times as fast as pillow's `verify`."""
    view, offset, kind, kinds = memoryview(data), len(_START_OF_PNG), b"", set[bytes]()
    try:
        while kind != b"IEND":
            length, kind = _CHUNK.unpack_from(data, offset)
            end = offset + _CHUNK.size + length
            expected = _CHUNKS.get(kind, -1)
            if expected is not None and (expected != length or kind in kinds):
                return False
            if zlib.crc32(view[offset + 4 : end]) != int.from_bytes(view[end : end + 4]):
                return False
            kinds.add(kind)
            offset = end + 4
        start, width, height, bits, colour, methods = _HEADER.unpack_from(data)
    except struct.error:
        return False
    usual = start == _START_OF_PNG + _FIRST_CHUNK and bits in _BITS.get(colour, ()) and methods in _METHODS
    return usual and width * height > 0 and b"IDAT" in kinds


def _is_whole_jpeg(data: bytes) -> bool:
    """Returns True for a complete JPEG whose tables and first rows can be decoded."""
    if not data.startswith(_START_OF_JPEG):
        return False
    end = data.rfind(_END_OF_IMAGE)
    if end < 0 or data.find(_START_OF_SCAN, end) >= 0:
        return False
    try:
        head, scan = _first_rows(data, end)
        unusual = len(head) > _LARGE_HEAD or _MARKER.search(scan)
        return _decodes(head + scan) if unusual else _tables_decode(head)
    except DAMAGE:
        return False


def _first_rows(data: bytes, end: int) -> tuple[bytes, bytes]:
    """Splits a JPEG into its tables, without comments, and the beginning of its first scan.

    Args:
        data: The file's bytes.
        end: Offset of the end marker.

    Raises:
        LookupError: Its segments are not contiguous.
    """
    head, offset = [data[: len(_START_OF_JPEG) - 1]], len(_START_OF_JPEG) - 1
    while data[offset + 1] not in _FRAMES:
        if data[offset] != 0xFF:
            raise LookupError
        start, kind, offset = offset, data[offset + 1], offset + 2 + int.from_bytes(data[offset + 2 : offset + 4])
        if kind != _COMMENT:
            head.append(data[start:offset])
    rows = offset + 5
    height = min(int.from_bytes(data[rows : rows + 2]), _FIRST_ROWS)
    scan = data.index(_START_OF_SCAN, rows)
    begin = scan + 2 + int.from_bytes(data[scan + 2 : scan + 4])
    head += data[offset:rows], height.to_bytes(2), data[rows + 2 : begin]
    return b"".join(head), data[begin : min(scan + _FIRST_BYTES, end)]


def _decodes(jpeg: bytes) -> bool:
    """Decodes a JPEG at the lowest resolution. Raises one of `DAMAGE`, or returns True."""
    image = open_image(jpeg + _END_OF_IMAGE)
    image.draft("L", (1, 1))
    image.load()
    return True


@lru_cache(maxsize=1024)
def _tables_decode(head: bytes) -> bool:
    """Returns True if a scan can be decoded with a JPEG's tables; images of one source often share them."""
    try:
        return _decodes(head)
    except DAMAGE:
        return False
