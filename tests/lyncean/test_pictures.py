"""Damaged images are named without decoding them whole."""

from __future__ import annotations

import io
import random
import struct
import zlib
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image, ImageFile

from lyncean.media import pictures
from lyncean.media.picture_formats import DAMAGE
from lyncean.media.pictures import damage, open_image

KINDS: dict[str, dict[str, Any]] = {
    "JPEG": {"format": "JPEG"},
    "progressive JPEG": {"format": "JPEG", "progressive": True},
    "PNG": {"format": "PNG"},
    "PNG with a profile": {"format": "PNG", "icc_profile": bytes(range(200)), "dpi": (72, 72)},
    "WebP": {"format": "WEBP"},
    "GIF": {"format": "GIF"},
}


@cache
def encoded(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((90, 70), 60).convert("RGB").save(buffer, **KINDS[kind])
    return buffer.getvalue()


def decodes(data: bytes) -> bool:
    try:
        open_image(data).load()
    except (*DAMAGE, Image.DecompressionBombError):
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(share=st.floats(0, 1, exclude_max=True))
def test_what_is_cut_short_is_named_where_a_decoder_refuses_it(kind: str, share: float) -> None:
    assert damage(encoded(kind)) == ""
    cut = encoded(kind)[: int(share * len(encoded(kind)))]
    assert bool(damage(cut)) is not decodes(cut)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=100)
@given(position=st.floats(0, 1, exclude_max=True), zeros=st.integers(1, 600))
def test_nothing_is_named_that_decodes(kind: str, position: float, zeros: int) -> None:
    data = bytearray(encoded(kind))
    start = int(position * len(data))
    data[start : start + zeros] = bytes(len(data[start : start + zeros]))
    if decodes(bytes(data)):
        assert damage(bytes(data)) == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "no image format"), (b"<html>not found</html>", "no image format"), (b"\x89PNG\r\n\x1a\n", "")],
)
def test_why_is_said(data: bytes, message: str) -> None:
    assert message in damage(data)
    assert damage(data)


def test_one_bit_of_a_png_is_found() -> None:
    data = bytearray(encoded("PNG"))
    data[len(data) // 2] ^= 4
    assert "cannot be decoded" in damage(bytes(data))


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", len(content), kind) + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(b"gAMA", b"\0")],
        [chunk(b"pHYs", bytes(9)), chunk(b"tEXt", b"a\0b")],
        [chunk(b"zTXt", b"a\0\7b")],
        [chunk(b"IHDR", bytes(13))],
        [chunk(b"IHDR", struct.pack(">IIBBBBB", 90, 70, 7, 2, 0, 0, 0))],
        [chunk(b"IEND", b"")],
    ],
)
def test_a_png_whose_checksums_fit_is_named_where_pillow_refuses_it(chunks: list[bytes]) -> None:
    whole = encoded("PNG")
    header, rest = whole[:33], whole[33:]
    for data in (header + b"".join(chunks) + rest, whole[:8] + b"".join(chunks) + rest):
        assert bool(damage(data)) is not decodes(data)


def jpeg(seed: int, quality: int) -> bytes:
    buffer = io.BytesIO()
    image = Image.frombytes("RGB", (48, 40), random.Random(seed).randbytes(48 * 40 * 3))
    image.save(buffer, "JPEG", quality=quality, comment=f"number {seed}")
    return buffer.getvalue()


def test_of_jpegs_with_the_same_tables_one_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[bytes] = []

    def opening(data: bytes) -> ImageFile.ImageFile:
        opened.append(data)
        return open_image(data)

    monkeypatch.setattr(pictures, "open_image", opening)
    pictures._tables_decode.cache_clear()
    assert [damage(jpeg(seed, quality)) for quality in (61, 62) for seed in range(5)] == [""] * 10
    assert len(opened) == 2


@settings(deadline=None, max_examples=100)
@given(position=st.integers(0, 1500), kind=st.integers(0, 255))
def test_a_jpeg_is_not_taken_for_whole_by_its_tables_alone(position: int, kind: int) -> None:
    data = jpeg(1, 61)
    assert damage(data) == ""
    position += data.index(b"\xff\xda") + 14
    other = data[:position] + bytes((0xFF, kind)) + data[position:]
    assert bool(damage(other)) is not decodes(other)
