"""Images for the checks, made here so that none has to be shipped."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache

from PIL import Image, ImageDraw

HUGE_SIDE = 30_000
"""Pixels a side of the huge image: 900 million, in a file of about 100 KB."""


@cache
def picture(colour: str, form: str = "PNG") -> bytes:
    """Returns a 96 x 64 image with a disc of a colour on white."""
    image = Image.new("RGB", (96, 64), "white")
    ImageDraw.Draw(image).ellipse((24, 8, 72, 56), fill=colour)
    buffer = io.BytesIO()
    image.save(buffer, form)
    return buffer.getvalue()


def broken() -> dict[str, bytes]:
    """Returns bytes that are no image, by what is wrong with them."""
    png, jpeg = picture("red"), picture("red", "JPEG")
    return {
        "no bytes at all": b"",
        "text in place of an image": b"this is not an image " * 20,
        "a PNG file cut in half": png[: len(png) // 2],
        "a JPEG file cut in half": jpeg[: len(jpeg) // 2],
    }


@cache
def huge() -> bytes:
    """Returns a valid PNG that is small as a file and enormous once decoded."""
    packer = zlib.compressobj(1)
    row = bytes(1 + (HUGE_SIDE + 7) // 8)
    data = b"".join(packer.compress(row * 500) for _ in range(HUGE_SIDE // 500)) + packer.flush()
    header = struct.pack(">IIBBBBB", HUGE_SIDE, HUGE_SIDE, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
