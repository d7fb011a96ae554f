"""What both sides of the contract read of audio and video files: what one counts and the other sees is the same."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyncean.errors import UserError
from lyncean.media import Kind

# Imported where it is used: it belongs to an extra.
if TYPE_CHECKING:
    import numpy as np
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.stream import VideoStream

DAMAGE = (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, struct.error)
"""What PyAV raises for files that are cut short, damaged, or hold no such track; its own errors are some of these."""


MAX_SAMPLES = 192_000 * 3600
"""Limit on the samples that are decoded of an audio file."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the header of a file says.

    Attributes:
        duration: Seconds; 0 if unknown.
        rate: Samples or frames per second.
        width: Pixels; 0 for audio.
        height: Pixels; 0 for audio.
        container: Name of the container's format as FFmpeg has it.
    """

    duration: float
    rate: float
    width: int = 0
    height: int = 0
    container: str = ""


def open_clip(data: bytes) -> InputContainer:
    """Opens an encoded file.

    Raises:
        UserError: PyAV is not installed.
        Exception: One of `DAMAGE`.
    """
    try:
        import av
    except ModuleNotFoundError as error:
        raise UserError("PyAV is not installed: pip install 'lyncean[media]'") from error
    # FFmpeg's log stays off, as PyAV has it: a level would call Python from FFmpeg's threads, and deadlock.
    return av.open(io.BytesIO(data), "r", metadata_errors="replace")


def read_facts(kind: Kind, data: bytes) -> Facts:
    """Reads the header of a file and decodes its beginning.

    Raises:
        UserError: PyAV is not installed.
        Exception: One of `DAMAGE`.
    """
    with open_clip(data) as clip:
        name, seconds = clip.format.name, (clip.duration or 0) / 1_000_000
        for sound in clip.streams.audio[: kind == "audio"]:
            for _ in clip.decode(sound):
                return Facts(_seconds(sound) or seconds, float(sound.rate), container=name)
        for video in clip.streams.video[: kind == "video"]:
            for frame in clip.decode(video):
                rate = float(video.average_rate or video.guessed_rate or 0)
                width, height = (frame.height, frame.width) if frame.rotation % 180 else (frame.width, frame.height)
                return Facts(_seconds(video) or seconds, rate, width, height, name)
    raise ValueError(f"it holds no {kind}")


def _seconds(stream: AudioStream | VideoStream) -> float:
    return float(stream.duration * stream.time_base) if stream.duration and stream.time_base else 0.0


def read_samples(data: bytes, most: int = MAX_SAMPLES) -> tuple[np.ndarray[Any, np.dtype[np.float32]], int]:
    """Decodes a file's first track.

    Args:
        data: The file's bytes.
        most: How many samples to decode; one more says that there are more.

    Returns:
        The mean of its channels, [samples], between -1 and 1, and how many there are a second.

    Raises:
        UserError: PyAV is not installed.
        Exception: One of `DAMAGE`.
    """
    import numpy as np

    with open_clip(data) as clip:
        import av

        if not clip.streams.audio:
            raise ValueError("it holds no audio")
        stream = clip.streams.audio[0]
        resampler = av.AudioResampler(format="fltp")
        pieces: list[np.ndarray[Any, np.dtype[np.float32]]] = []
        total = 0
        for frame in clip.decode(stream):
            for piece in resampler.resample(frame):
                pieces.append(piece.to_ndarray().mean(axis=0, dtype=np.float32))
                total += len(pieces[-1])
            if total > most:
                break
        if not total:
            raise ValueError("it holds no samples")
        return np.concatenate(pieces)[: most + 1], int(stream.rate)


def damage(kind: Kind, data: bytes) -> str:
    """Returns why an audio or video file cannot be decoded, "" if its header and beginning can."""
    try:
        read_facts(kind, data)
    except DAMAGE as error:
        return f"it cannot be decoded: {cause(error)}"
    return ""


def cause(error: BaseException) -> str:
    """Returns what FFmpeg says of a file, without the earlier lines of its log."""
    return str(getattr(error, "strerror", None) or error)
