"""Grey images, grey frames and silence, for a run that shows what a model answers without seeing or hearing."""

from __future__ import annotations

import io
import wave
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from lyncean.media.cell import read_facts
from lyncean.media.clips import Facts
from lyncean.media.picture_formats import orientation
from lyncean.media.pictures import open_image
from lyncean.rpc.limits import MAX_MESSAGE_BYTES
from orchestrator.engine.check import check_clip, check_image
from orchestrator.samples import BadRowError, Call, Clip, Image as EncodedImage, Part, image_part

if TYPE_CHECKING:
    from PIL import Image

_QUARTERS = (5, 6, 7, 8)
"""Values of EXIF's orientation that swap width and height."""


def blinded(call: Call) -> Call:
    """Returns the call with empty media: grey images of the same size and format, silence and grey frames.

    Raises:
        BadRowError: If the header of an image or clip cannot be read, or silence is longer than a request may be.
    """
    messages = (replace(message, parts=tuple(map(_blind_part, message.parts))) for message in call.messages)
    return replace(call, messages=tuple(messages))


def _blind_part(part: Part) -> Part:
    if part.clip:
        return _empty_clip(part.clip)
    return _grey_part(part.image) if part.image else part


def _empty_clip(clip: Clip) -> Part:
    """Returns silence as WAV, or grey frames as MP4: of the same duration, rate and size."""
    check_clip(clip.kind, clip.data)
    facts = read_facts(clip.kind, clip.data)
    about = type(clip.about)()
    about.CopyFrom(clip.about)  # type: ignore[arg-type]
    about.media_type = "audio/wav" if clip.kind == "audio" else "video/mp4"
    return Part(clip=Clip(_silence(facts) if clip.kind == "audio" else _grey_video(facts), about))


@lru_cache(maxsize=16)
def _silence(facts: Facts) -> bytes:
    size = 2 * round(facts.duration * facts.rate)
    if size > MAX_MESSAGE_BYTES:
        seconds, most = f"{facts.duration:,.0f} seconds", MAX_MESSAGE_BYTES >> 20
        raise BadRowError(
            "too_much_audio", f"silence of {seconds} takes {size >> 20:,} MiB, a request has {most} at most"
        )
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(round(facts.rate))
        file.writeframes(bytes(size))
    return buffer.getvalue()


@lru_cache(maxsize=16)
def _grey_video(facts: Facts) -> bytes:
    """Returns a video without a difference between its frames; MPEG-4 takes even sizes alone."""
    import av
    import numpy as np

    rate = Fraction(facts.rate).limit_denominator(1001)
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height = facts.width + facts.width % 2, facts.height + facts.height % 2
        grey = np.full((stream.height * 3 // 2, stream.width), 128, np.uint8)
        frame = av.VideoFrame.from_ndarray(grey, format="yuv420p")
        for number in range(max(1, round(facts.duration * facts.rate))):
            frame.pts, frame.time_base = number, 1 / rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return buffer.getvalue()


def _grey_part(image: EncodedImage) -> Part:
    from PIL import Image

    check_image(image.data)
    try:
        with open_image(image.data) as opened:
            size, kind = _seen_size(opened), opened.format or "PNG"
    except (OSError, Image.DecompressionBombError) as error:
        raise BadRowError("bad_image", f"the image cannot be read: {error}") from error
    return image_part(_grey(size, kind))


def _seen_size(image: Image.Image) -> tuple[int, int]:
    """Width and height as a model sees them: servers turn images as EXIF says, unreadable EXIF says nothing."""
    if image.format == "TIFF":
        return image.size  # pillow has turned it
    return (image.height, image.width) if orientation(image) in _QUARTERS else image.size


@lru_cache(maxsize=64)
def _grey(size: tuple[int, int], kind: str) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", size, (128, 128, 128)).save(buffer, format=kind)
    return buffer.getvalue()
