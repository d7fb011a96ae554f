"""How encoded images are read by both sides of the contract: what one shows and the other sees is the same."""

from __future__ import annotations

import io
import re
import struct
import warnings
import zlib
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from lyncean.media.types import media_type

# Imported where it is used: the scorer looks at no images, and its container has no pillow.
if TYPE_CHECKING:
    from PIL import Image, ImageFile

    from lyncean.media.rare_pictures import RareImage

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
_FAST = ("image/png", "image/jpeg", "image/webp")
"""Formats that are decoded in this process: most images have them, and the way to a cell takes longer than decoding."""
_ORIENTATION = 0x0112
_START_OF_JPEG, _START_OF_SCAN, _END_OF_IMAGE = b"\xff\xd8\xff", b"\xff\xda", b"\xff\xd9"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Second bytes of the markers that begin a JPEG's frame: its height stands three bytes behind them."""
_FIRST_ROWS, _FIRST_BYTES = 32, 2048
"""What is decoded of a JPEG: the tallest row of blocks, of which a file may have fewer bytes."""
_COMMENT = 0xFE
_LARGE_HEAD = 4096
"""A JPEG that has more before its scan, metadata of its own mostly, is looked at by itself."""
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
"""In a scan, the begin of another segment: all other bytes are samples, and wrong ones show as noise."""
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
"""Chunks in which pillow has nothing to read that could be damaged behind a checksum; the length of those that a PNG
has once."""
_MOST_PIXELS = 25_000_000
"""Larger images are not decoded to find out whether they can be: they are the server's to refuse."""


def open_image(data: bytes) -> ImageFile.ImageFile | RareImage:
    """Returns an encoded image whose header has been read: PNG, JPEG and WebP here, all others in a cell.

    Raises:
        OSError: It is in no format that is read; PIL.UnidentifiedImageError is one.
        Image.DecompressionBombError: It is larger than any image should be.
        Exception: One of `DAMAGE`: it is damaged.
    """
    if media_type(data) not in _FAST:
        from lyncean.media import rare_pictures

        return rare_pictures.open_image(data)
    from PIL import Image

    return Image.open(io.BytesIO(data), formats=formats())


def damage(data: bytes) -> str:
    """Returns why an encoded image cannot be decoded, "" if it can, mostly at a fraction of what decoding it costs.

    Of a PNG the checksums tell it, of a WebP its length. Of a JPEG that has an end, the tables and the first rows are
    decoded, once for all files with the same tables: damage behind them shows as noise, and decoders take it. All
    others, and those that fail here, are decoded: what is called damaged is what no decoder takes.
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


def _looks_whole(data: bytes) -> bool:
    """Whether a look at an image other than a JPEG shows that it can be decoded."""
    try:
        image = open_image(data)
        if image.format == "PNG":
            image.verify()
            return True
        return image.format == "WEBP" and 8 + int.from_bytes(data[4:8], "little") <= len(data)
    except DAMAGE:
        return False


def _is_plain_png(data: bytes) -> bool:
    """Whether an image is a PNG of usual chunks, whole by their checksums; pillow takes five times as long for that."""
    view, place, kind, kinds = memoryview(data), len(_START_OF_PNG), b"", set[bytes]()
    try:
        while kind != b"IEND":
            length, kind = _CHUNK.unpack_from(data, place)
            end = place + _CHUNK.size + length
            expected = _CHUNKS.get(kind, -1)
            if expected is not None and (expected != length or kind in kinds):
                return False
            if zlib.crc32(view[place + 4 : end]) != int.from_bytes(view[end : end + 4]):
                return False
            kinds.add(kind)
            place = end + 4
        start, width, height, bits, colour, methods = _HEADER.unpack_from(data)
    except struct.error:
        return False
    usual = start == _START_OF_PNG + _FIRST_CHUNK and bits in _BITS.get(colour, ()) and methods in _METHODS
    return usual and width * height > 0 and b"IDAT" in kinds


def _is_whole_jpeg(data: bytes) -> bool:
    """Whether an image is a JPEG with an end whose tables and first rows can be decoded."""
    if not data.startswith(_START_OF_JPEG):
        return False
    end = data.rfind(_END_OF_IMAGE)
    if end < 0 or data.find(_START_OF_SCAN, end) >= 0:
        return False
    try:
        head, scan = _first_rows(data, end)
        own = len(head) > _LARGE_HEAD or _MARKER.search(scan)
        return _decodes(head + scan) if own else _tables_decode(head)
    except DAMAGE:
        return False


def _first_rows(data: bytes, end: int) -> tuple[bytes, bytes]:
    """Returns the tables and the first rows of a JPEG: what stands before its first scan, without comments, and that.

    Args:
        data: The file's bytes.
        end: Where its end is marked.

    Raises:
        LookupError: Its segments do not follow one another.
    """
    head, place = [data[: len(_START_OF_JPEG) - 1]], len(_START_OF_JPEG) - 1
    while data[place + 1] not in _FRAMES:
        if data[place] != 0xFF:
            raise LookupError
        start, kind, place = place, data[place + 1], place + 2 + int.from_bytes(data[place + 2 : place + 4])
        if kind != _COMMENT:
            head.append(data[start:place])
    rows = place + 5
    height = min(int.from_bytes(data[rows : rows + 2]), _FIRST_ROWS)
    scan = data.index(_START_OF_SCAN, rows)
    begin = scan + 2 + int.from_bytes(data[scan + 2 : scan + 4])
    head += data[place:rows], height.to_bytes(2), data[rows + 2 : begin]
    return b"".join(head), data[begin : min(scan + _FIRST_BYTES, end)]


def _decodes(jpeg: bytes) -> bool:
    """Decodes a JPEG at the lowest resolution. Raises one of `DAMAGE`, or returns True."""
    image = open_image(jpeg + _END_OF_IMAGE)
    image.draft("L", (1, 1))
    image.load()
    return True


@lru_cache(maxsize=1024)
def _tables_decode(head: bytes) -> bool:
    """Whether a JPEG's tables can be decoded with; images of one source often share them."""
    try:
        return _decodes(head)
    except DAMAGE:
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
def formats() -> tuple[str, ...]:
    """Returns those that this pillow was built with. Their plugins alone are imported: all 45 take 25 ms."""
    from PIL import Image

    for plugin in _FORMATS.values():
        import_module(f"PIL.{plugin}ImagePlugin")
    return tuple(name for name in _FORMATS if name in Image.OPEN)
