"""Image files of every kind come out as the same 8-bit RGB, or as INVALID_ARGUMENT."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from lyncean.rpc import InvalidRequest
from model_server import images

RED = (200, 40, 30)


def encode(image: Image.Image, form: str = "PNG", **kwargs: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **kwargs)
    return buffer.getvalue()


def corner() -> Image.Image:
    """Red in the upper left, blue elsewhere."""
    image = Image.new("RGB", (20, 10), "blue")
    image.paste(RED, (0, 0, 10, 5))
    return image


def near(pixel: Any, wanted: tuple[int, ...], by: int = 3) -> bool:
    return all(abs(a - b) <= by for a, b in zip(pixel, wanted, strict=True))


@pytest.mark.parametrize("form", ["PNG", "WEBP", "BMP", "TIFF", "GIF"])
def test_formats(form: str) -> None:
    image = images.decode(encode(corner(), form, **({"lossless": True} if form == "WEBP" else {})))
    assert image.mode == "RGB"
    assert near(image.getpixel((2, 2)), RED)


def test_orientation_is_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees clockwise to see it upright
    image = images.decode(encode(corner(), "JPEG", exif=exif, quality=95))
    assert image.size == (10, 20)
    assert near(image.getpixel((8, 2)), RED, 30)
    assert near(image.getpixel((2, 2)), (0, 0, 255), 30)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_every_orientation_is_that_of_the_library(form: str) -> None:
    for turn in range(10):
        exif = Image.Exif()
        exif[0x0112] = turn
        data = encode(corner(), form, exif=exif)
        upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        assert images.decode(data).tobytes() == upright.convert("RGB").tobytes()
        assert images.decode(data).size == upright.size


def test_what_else_exif_says_does_not_matter() -> None:
    # Orientation 6, and the maker's name stored as a fraction: every viewer shows such a file.
    entries = struct.pack("<HHII", 0x010F, 5, 1, 38) + struct.pack("<HHII", 0x0112, 3, 1, 6)
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + entries + struct.pack("<I", 0) + struct.pack("<II", 1, 2)
    image = images.decode(encode(corner(), "JPEG", exif=exif, quality=95))
    assert image.size == (10, 20)
    assert near(image.getpixel((8, 2)), RED, 30)


def test_palette_with_transparency_lies_over_white() -> None:
    image = Image.new("P", (4, 4), 0)
    image.putpalette([0, 0, 0, *RED])
    image.putpixel((1, 1), 1)
    decoded = images.decode(encode(image, transparency=0))
    assert decoded.getpixel((0, 0)) == (255, 255, 255)
    assert decoded.getpixel((1, 1)) == RED


def test_alpha_lies_over_white() -> None:
    image = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    image.putpixel((0, 0), (*RED, 255))
    image.putpixel((1, 0), (0, 0, 0, 128))
    decoded = images.decode(encode(image))
    assert decoded.getpixel((0, 0)) == RED
    assert decoded.getpixel((3, 3)) == (255, 255, 255)
    assert near(decoded.getpixel((1, 0)), (127, 127, 127))


def test_grey_with_alpha() -> None:
    image = Image.new("LA", (2, 2), (10, 0))
    image.putpixel((0, 0), (10, 255))
    decoded = images.decode(encode(image))
    assert decoded.getpixel((0, 0)) == (10, 10, 10)
    assert decoded.getpixel((1, 1)) == (255, 255, 255)


def test_cmyk() -> None:
    decoded = images.decode(encode(Image.new("CMYK", (4, 4), (0, 255, 255, 0)), "TIFF"))
    assert decoded.mode == "RGB"
    assert near(decoded.getpixel((0, 0)), (255, 0, 0))


def test_sixteen_bits_are_scaled_and_not_clipped() -> None:
    deep = np.linspace(0, 65535, 256, dtype=np.uint16).reshape(16, 16)
    decoded = np.asarray(images.decode(encode(Image.fromarray(deep))))
    assert decoded.shape == (16, 16, 3)
    assert np.array_equal(decoded[..., 0].ravel(), np.arange(256))


@pytest.mark.parametrize("brightest", [255, 256, 65535])
def test_dark_images_of_sixteen_bits_stay_dark(brightest: int) -> None:
    pgm = b"P5 2 1 65535\n" + struct.pack(">HH", 0, brightest)
    assert images.decode(pgm).getpixel((1, 0)) == (round(brightest / 257),) * 3
    tiff = encode(Image.fromarray(np.array([[0, brightest]], dtype=np.uint16)), "TIFF")
    assert images.decode(tiff).getpixel((1, 0)) == (round(brightest / 257),) * 3


def test_transparency_of_sixteen_bits_lies_over_white() -> None:
    data = encode(Image.fromarray(np.array([[0, 1, 65535]], dtype=np.uint16)), transparency=0)
    decoded = images.decode(data)
    assert [decoded.getpixel((x, 0))[0] for x in range(3)] == [255, 0, 255]


@pytest.mark.filterwarnings("error")
def test_what_is_no_number_is_black_and_changes_no_other_pixel() -> None:
    data = encode(Image.fromarray(np.array([[np.nan, 0.5, 1.0]], dtype=np.float32)), "TIFF")
    decoded = images.decode(data)
    assert [decoded.getpixel((x, 0))[0] for x in range(3)] == [0, 128, 255]


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_first_frame_of_an_animation(form: str) -> None:
    frames = [Image.new("RGB", (8, 8), color) for color in (RED, "green", "blue")]
    kwargs = {"lossless": True} if form == "WEBP" else {}
    data = encode(frames[0], form, save_all=True, append_images=frames[1:], **kwargs)
    assert near(images.decode(data).getpixel((3, 3)), RED)


def test_one_bit() -> None:
    image = Image.new("1", (3, 3), 1)
    assert images.decode(encode(image)).getpixel((1, 1)) == (255, 255, 255)


@pytest.mark.parametrize("data", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"GIF89a"])
def test_what_is_no_image(data: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        images.decode(data)
    assert caught.value.reason == "bad_image"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_files_cut_short(form: str) -> None:
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    data = encode(noise, form)
    with pytest.raises(InvalidRequest) as caught:
        images.decode(data[: len(data) // 2])
    assert caught.value.reason == "bad_image"


def test_a_limit_on_pixels_is_an_error_before_decoding() -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)  # 10 GB once decoded
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    with pytest.raises(InvalidRequest) as caught:
        images.decode(bomb)
    assert caught.value.reason == "image_too_large"
    with pytest.raises(InvalidRequest) as caught:
        images.decode(encode(corner()), max_pixels=199)
    assert caught.value.metadata == {"limit": "199", "value": "200"}
    assert "199" in str(caught.value)
    assert "200" in str(caught.value)
    assert images.decode(encode(corner()), max_pixels=200).size == (20, 10)


def test_media_type_is_told_by_the_bytes() -> None:
    assert images.media_type(encode(corner(), "JPEG")) == "image/jpeg"
    assert images.media_type(encode(corner(), "WEBP")) == "image/webp"
    with pytest.raises(InvalidRequest):
        images.media_type(b"nothing")


def test_media_types_are_those_that_endpoints_know() -> None:
    second = Image.new("RGB", (8, 8))
    phone = encode(corner(), "MPO", save_all=True, append_images=[second])
    moving = encode(corner(), "PNG", save_all=True, append_images=[second.resize((20, 10))])
    assert Image.open(io.BytesIO(phone)).get_format_mimetype() == "image/mpo"
    assert Image.open(io.BytesIO(moving)).get_format_mimetype() == "image/apng"
    assert images.media_type(phone) == "image/jpeg"
    assert images.media_type(moving) == "image/png"
    assert images.media_type(encode(corner(), "ICO")) == "image/x-icon"
    assert images.decode(phone).size == (20, 10)
