"""Decoding, cutting and scaling of the images that tools work on, by the policies of published protocols."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lyncean.media.picture_formats import DAMAGE
from lyncean.media.pictures import open_image

if TYPE_CHECKING:
    from PIL import Image

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels; right and bottom are not included."""

MAX_PIXELS = 89_478_485
"""Bound on the pixels of an image that is decoded, cut out or made; pillow warns above it."""
MISTAKES = (*DAMAGE, MemoryError)
"""Errors of pillow and of arithmetic for boxes and images that cannot be used."""


Filter = Literal["nearest", "bilinear", "bicubic", "lanczos"]


@dataclass(frozen=True, slots=True)
class SizePolicy:
    """Bounds of an image that a model is shown.

    Attributes:
        shorter_side: Most pixels of the shorter side; unlimited if 0.
        factor: Above 1 both sides are multiples of it.
        min_pixels: Least area.
        max_pixels: Most area; if 0, neither it nor the least area is limited.
        min_side: Least pixels of the shorter side, where `factor` is 1.
        filter: Resampling.
    """

    shorter_side: int = 0
    factor: int = 1
    min_pixels: int = 0
    max_pixels: int = 0
    min_side: int = 0
    filter: Filter = "bicubic"


@dataclass(frozen=True, slots=True)
class CropPolicy:
    """Steps from a model's four numbers to the crop that it sees. All of it is part of what the model sees.

    Attributes:
        units: Unit of the numbers: "pixels" of the stored image, "fraction" of its sides, "per_mille" of them, or
            "fraction_or_pixels": fractions if all four are below 1.
        region: What is done to the box: "kept" (what lies outside is black), "clamped", "clamped_grown" (to at least
            `min_side`, about its centre), "clamped_whole" (whole pixels up to the last but one row and column), or
            "padded" (by `padding` of the image on each side, then clamped).
        size: How the crop is scaled: "kept", "factor" (sides are multiples of `factor`, the area is between the
            bounds), or "area" (between the bounds, the aspect kept).
        factor: Divisor of both sides for "factor".
        min_pixels: Least area.
        max_pixels: Most area.
        filter: Resampling.
        padding: Share of the image that "padded" adds.
        min_side: Pixels; "clamped_grown" grows shorter sides, "padded" refuses boxes that are not longer.
        max_aspect: Ratio of the sides from which "clamped_whole" refuses; unlimited if 0.
    """

    units: Literal["pixels", "fraction", "per_mille", "fraction_or_pixels"]
    region: Literal["kept", "clamped", "clamped_grown", "clamped_whole", "padded"]
    size: Literal["kept", "factor", "area"]
    min_pixels: int = 0
    max_pixels: int = 0
    filter: Filter = "bicubic"
    factor: int = 1
    padding: float = 0.0
    min_side: int = 0
    max_aspect: float = 0.0


def decoded(data: bytes) -> Image.Image:
    """Returns an encoded image with its pixels, as stored: EXIF does not turn it.

    Raises:
        ValueError: It is larger than `MAX_PIXELS`, or a parser refuses it.
        Exception: Another one of `MISTAKES`: it is damaged.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = open_image(data)
            check_pixels(image.width, image.height)
            image.load()
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error
    return image


def check_pixels(width: float, height: float) -> None:
    """Raises ValueError if an area, in pixels, is larger than `MAX_PIXELS`."""
    if not abs(width) * abs(height) <= MAX_PIXELS:
        raise ValueError(f"an image of {width:,.0f} x {height:,.0f} pixels is too large")


def encoded(image: Image.Image, kind: Literal["PNG", "JPEG"] = "PNG") -> bytes:
    """Returns an image as a file; the same pixels give the same bytes. JPEG is written as RGB."""
    buffer = io.BytesIO()
    (image.convert("RGB") if kind == "JPEG" else image).save(buffer, format=kind)
    return buffer.getvalue()


def cut(image: Image.Image, numbers: Box, policy: CropPolicy) -> tuple[Image.Image, Box]:
    """Returns a crop of an image as a policy makes it, and its box in the image's pixels.

    Raises:
        ValueError: The box is refused; the words are the protocol's where it has some.
        Exception: Another one of `MISTAKES`.
    """
    from PIL import Image

    box = _region(_in_pixels(numbers, image.size, policy), image.size, policy)
    left, top, right, bottom = box
    check_pixels(right - left, bottom - top)
    crop = image.crop(box)  # pillow rounds
    if policy.region == "padded" and min(crop.size) <= policy.min_side:
        raise ValueError(f"Cropped image is too small: {crop.width}x{crop.height}")
    exact = policy.size == "factor" and policy.region != "padded"
    width, height = (right - left, bottom - top) if exact else crop.size
    size = _size(width, height, policy)
    check_pixels(*size)
    if size != crop.size or policy.size == "factor":
        crop = crop.resize(size, resample=Image.Resampling[policy.filter.upper()])
    return crop, box


def sized(image: Image.Image, policy: SizePolicy) -> Image.Image:
    """Returns an image within bounds; errors as in `cut`."""
    from PIL import Image

    filter_ = Image.Resampling[policy.filter.upper()]
    for size in _sizes(image.size, policy):
        check_pixels(*size)
        image = image if size == image.size else image.resize(size, resample=filter_)
    return image


def _sizes(size: tuple[int, int], policy: SizePolicy) -> Iterator[tuple[int, int]]:
    """Yields the sizes to which an image is scaled in turn."""
    width, height = size
    if policy.shorter_side and min(size) > policy.shorter_side:
        shorter, scale = policy.shorter_side, policy.shorter_side / min(size)
        yield (shorter, int(scale * height)) if width <= height else (int(scale * width), shorter)
    if policy.max_pixels and policy.factor > 1:
        yield multiples(width, height, policy.factor, policy.min_pixels, policy.max_pixels)
    elif policy.max_pixels:
        if width * height > policy.max_pixels:
            scale = math.sqrt(policy.max_pixels / (width * height))
            width, height = int(width * scale), int(height * scale)
            yield width, height
        if width * height < policy.min_pixels:
            scale = math.sqrt(policy.min_pixels / (width * height))
            width, height = int(width * scale), int(height * scale)
            yield width, height
        if min(width, height) < policy.min_side:
            scale = policy.min_side / min(width, height)
            yield int(width * scale + 1), int(height * scale + 1)


def multiples(width: float, height: float, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """Returns sides that are multiples of a factor with an area between two bounds, as qwen-vl-utils' `smart_resize`.

    Raises:
        ArithmeticError: A side is 0 or not finite.
    """
    wide, high = (max(factor, round(side / factor) * factor) for side in (width, height))
    if wide * high > max_pixels:
        scale = math.sqrt((width * height) / max_pixels)
        wide, high = (math.floor(side / scale / factor) * factor for side in (width, height))
    elif wide * high < min_pixels:
        scale = math.sqrt(min_pixels / (width * height))
        wide, high = (math.ceil(side * scale / factor) * factor for side in (width, height))
    return wide, high


def _in_pixels(numbers: Box, size: tuple[int, int], policy: CropPolicy) -> Box:
    width, height = size
    left, top, right, bottom = numbers
    match policy.units:
        case "per_mille":
            return left / 1000.0 * width, top / 1000.0 * height, right / 1000.0 * width, bottom / 1000.0 * height
        case "fraction":
            return left * width, top * height, right * width, bottom * height
        case "fraction_or_pixels" if all(number < 1 for number in numbers):
            return left * width, top * height, right * width, bottom * height
    return numbers


def _region(box: Box, size: tuple[int, int], policy: CropPolicy) -> Box:
    width, height = size
    left, top, right, bottom = box
    match policy.region:
        case "clamped" | "clamped_grown":
            clamped = max(0, left), max(0, top), min(width, right), min(height, bottom)
            return _grown(clamped, size, policy.min_side) if policy.region == "clamped_grown" else clamped
        case "clamped_whole":
            return _whole(box, size, policy.max_aspect)
        case "padded":
            return _padded(box, size, policy.padding)
    return box


def _grown(box: Box, size: tuple[int, int], least: int) -> Box:
    """Returns a box with its shorter side grown to a least one, or unchanged if the image is too small for that."""
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    if width >= least and height >= least:
        return box
    middle, centre = (left + right) / 2.0, (top + bottom) / 2.0
    ratio = least / min(height, width)
    half_width, half_height = math.ceil(width * ratio * 0.5), math.ceil(height * ratio * 0.5)
    grown = (
        max(0, math.floor(middle - half_width)),
        max(0, math.floor(centre - half_height)),
        min(size[0], math.ceil(middle + half_width)),
        min(size[1], math.ceil(centre + half_height)),
    )
    return grown if grown[2] - grown[0] > least and grown[3] - grown[1] > least else box


def _whole(box: Box, size: tuple[int, int], most: float) -> Box:
    bounds = [int(number) for number in box]
    left, top = max(bounds[0], 0), max(bounds[1], 0)
    right, bottom = min(bounds[2], size[0] - 1), min(bounds[3], size[1] - 1)
    clamped = [left, top, right, bottom]
    if left > right - 1:
        raise ValueError(f"The bounding box is not valid in width: {clamped}")
    if top > bottom - 1:
        raise ValueError(f"The bounding box is not valid in height: {clamped}")
    width, height = right - left, bottom - top
    if most and (width / height >= most or height / width >= most):
        message = f"The absolute aspect ratio of the bounding box exceeds {most:g}, which is too large."
        raise ValueError(message)
    return left, top, right, bottom


def _padded(box: Box, size: tuple[int, int], padding: float) -> Box:
    """Returns a box, in pixels, with a share of the image on each side, within the image."""
    left, top = (min(max(0, number / side - padding), 1) * side for number, side in zip(box[:2], size, strict=True))
    right, bottom = (min(max(0, number / side + padding), 1) * side for number, side in zip(box[2:], size, strict=True))
    return left, top, right, bottom


def _size(width: float, height: float, policy: CropPolicy) -> tuple[int, int]:
    if policy.size == "factor":
        return multiples(width, height, policy.factor, policy.min_pixels, policy.max_pixels)
    area = width * height
    scale = 1.0
    if policy.size == "kept":
        return int(width), int(height)
    if area > policy.max_pixels:
        scale = math.sqrt(policy.max_pixels / area)
    elif area < policy.min_pixels:
        scale = math.sqrt(policy.min_pixels / area)
    return (int(width), int(height)) if scale == 1.0 else (int(width * scale), int(height * scale))
