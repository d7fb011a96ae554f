"""Encoded images, decoded safely and always alike.

What is applied, in this order: the pixel limit (an error, never a warning), the first frame of
an animation, the EXIF orientation (cameras and phones store it, and every viewer and every
processor pipeline of `transformers` that loads a file itself applies it), 16-bit and
floating grey scaled to 8 bits over the format's whole range, transparency laid over white
(the page that a diagram with a transparent ground was drawn for), and RGB.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from PIL import Image, ImageFile, UnidentifiedImageError

from lyncean.arrays import np
from lyncean.media import types as media
from lyncean.media.picture_formats import DAMAGE, orientation
from lyncean.media.pictures import damage, open_image
from lyncean.media.rare_pictures import RareImage
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest

MAX_PIXELS = 100_000_000
"""Default limit on an image's pixels: 300 MB once decoded."""

_PIXEL_BYTES = 20
"""Memory of a pixel at its peak: pillow keeps 4 bytes, and up to four copies while transparency is laid over white."""
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_TURNS: dict[object, Image.Transpose] = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_DEEP = {"I;16": 257.0, "I;16B": 257.0, "I;16L": 257.0, "I;16N": 257.0}


class PixelBudget:
    """Bounds the pixels of all requests that a backend has at a time, so that large images wait for one another.

    Args:
        limit: Pixels; by default those that half of the container's memory holds once decoded.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit or memory() // 2 // _PIXEL_BYTES
        self._held = 0
        self._entry = asyncio.Lock()
        self._freed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def held(self, pixels: int) -> AsyncIterator[None]:
        """Waits until there is room for what a request shows once decoded, in the order of arrival, and holds it.

        Args:
            pixels: Of its images, frames and audio together.

        Raises:
            InvalidRequest: With reason "image_too_large", if this request alone does not fit.
        """
        if pixels > self.limit:
            raise InvalidRequest(
                "image_too_large",
                f"the request's media count as {pixels:,} pixels, this server's memory is enough for {self.limit:,}",
                limit=str(self.limit),
                value=str(pixels),
            )
        if pixels:
            async with self._entry:  # the first to come is the next to get room, however large
                while self._held + pixels > self.limit:
                    self._freed.clear()
                    await self._freed.wait()
                self._held += pixels
        try:
            yield
        finally:
            self._held -= pixels
            self._freed.set()


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS, where: str = "the image") -> Image.Image:
    """Returns the image as 8-bit RGB.

    Args:
        data: The file's bytes.
        max_pixels: Limit on width times height.
        where: What to call it in an error.

    Raises:
        InvalidRequest: With reason "bad_image" or "image_too_large".
    """
    with _refusing(max_pixels, where):
        image = _limited(data, max_pixels, where)
        image.load()
        return _rgb(_upright(image))


def check(data: bytes, *, max_pixels: int = MAX_PIXELS, where: str = "the image") -> None:
    """Refuses an image that is too large or damaged, mostly at a fraction of what decoding it costs.

    Args and errors are those of `decode`, which alone finds damage that only noise would show.
    """
    with _refusing(max_pixels, where):
        _limited(data, max_pixels, where)
    if cause := damage(data):
        raise InvalidRequest("bad_image", f"{where}: {cause}")


def _limited(data: bytes, max_pixels: int, where: str) -> ImageFile.ImageFile | RareImage:
    image = _opened(data)
    pixels = image.width * image.height
    if pixels > max_pixels:
        raise InvalidRequest(
            "image_too_large",
            f"{where} has {pixels:,} pixels ({image.width} x {image.height}), the limit is {max_pixels:,}",
            limit=str(max_pixels),
            value=str(pixels),
        )
    return image


@contextlib.contextmanager
def _refusing(max_pixels: int, where: str) -> Iterator[None]:
    """Turns what pillow raises into refusals."""
    try:
        yield
    except Image.DecompressionBombError as error:
        raise InvalidRequest("image_too_large", f"{where}: {error}", limit=str(max_pixels)) from error
    except UnidentifiedImageError as error:
        raise InvalidRequest("bad_image", f"{where} is in no image format that can be read") from error
    except DAMAGE as error:
        raise InvalidRequest("bad_image", f"{where} cannot be decoded: {error}") from error


def media_type(data: bytes) -> str:
    """Returns the media type by the bytes, without decoding the image.

    A signature that is known decides. Pillow calls a phone's JPEG with a second frame image/mpo and an animated PNG
    image/apng, and endpoints refuse both.

    Raises:
        InvalidRequest: With reason "bad_image".
    """
    try:
        image = _opened(data)
    except (*DAMAGE, Image.DecompressionBombError) as error:
        raise InvalidRequest("bad_image", "the image is in no image format that can be read") from error
    known = media.media_type(data)
    return known if known.startswith("image/") else image.get_format_mimetype() or known


def _opened(data: bytes) -> ImageFile.ImageFile | RareImage:
    with warnings.catch_warnings():  # our own limits are the ones that count, and they are errors
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return open_image(data)


def digest(image: model.Image) -> bytes:
    """Returns the SHA-256 of an image's bytes; one that the image has was checked when it arrived."""
    return image.sha256 or hashlib.sha256(image.data).digest()


def pixels(data: bytes) -> int:
    """Returns the pixels of an encoded image by its header, 0 if that cannot be read."""
    try:
        image = _opened(data)
    except (*DAMAGE, Image.DecompressionBombError):
        return 0  # decoding refuses it by its header, with words of its own
    return image.width * image.height


def memory() -> int:
    """Returns the bytes of memory that this process may take: the container's limit, or else the machine's."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" means unlimited
            sizes.append(int(Path(path).read_text()))
    return min(sizes)


def _upright(image: Image.Image) -> Image.Image:
    """Turns the image as EXIF says.

    Pillow's own `exif_transpose` writes the rest of EXIF anew, which fails where a value is not of its tag's type.
    """
    turn = _TURNS.get(orientation(image))
    return image if turn is None else image.transpose(turn)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _DEEP:
        deep = np.asarray(image)
        shown = (deep / _DEEP[image.mode]).round().astype(np.uint8)
        shown[deep == image.info.get("transparency")] = 255
        return Image.fromarray(shown).convert("RGB")
    if image.mode == "I":  # PGM files of 16 bits, and TIFF files of any range
        grey = np.asarray(image)
        scale = 257.0 if image.format == "PPM" or grey.max(initial=0) > 255 else 1.0
        return Image.fromarray((grey / scale).clip(0, 255).round().astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        grey = np.nan_to_num(np.asarray(image))
        scale = 255.0 if grey.max(initial=0.0) <= 1.0 else 1.0
        return Image.fromarray((grey * scale).clip(0, 255).round().astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        layer = image if image.mode == "RGBA" else image.convert("RGBA")
        ground = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(ground, layer).convert("RGB")
    return image.convert("RGB")
