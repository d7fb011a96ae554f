"""What both sides of the contract read of audio and video files: what one counts and the other sees is the same."""

from __future__ import annotations

import io
import struct
from array import array
from dataclasses import dataclass
from errno import EINVAL
from typing import TYPE_CHECKING, Any

from lyncean.errors import UserError
from lyncean.media import containers
from lyncean.media.containers import MAX_FRAME, MAX_SAMPLES, TooLongError
from lyncean.media.types import Kind

# Imported where it is used: it belongs to an extra.
if TYPE_CHECKING:
    import numpy as np
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.stream import VideoStream

DAMAGE = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, struct.error,
    MemoryError,
)  # fmt: skip
"""What PyAV raises for files that are cut short, damaged, or hold no such track; its own errors are some of these."""


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


def open_clip(kind: Kind, data: bytes, most: int = MAX_SAMPLES) -> InputContainer:
    """Opens an encoded file whose headers announce no more of a kind than its bytes can hold.

    Args:
        kind: What is read of it.
        data: The file's bytes.
        most: Limit on the samples that audio announces.

    Raises:
        UserError: PyAV is not installed.
        TooLongError: It announces more samples.
        Exception: One of `DAMAGE`.
    """
    try:
        import av
    except ModuleNotFoundError as error:
        raise UserError("PyAV is not installed: pip install 'lyncean[media]'") from error
    data, formats = containers.checked(data)
    # Of chapters, whose titles have up to 64 KiB, all may stand at one place of a file.
    options = {"format_whitelist": formats, "max_pixels": str(MAX_FRAME), "ignore_chapters": "1"}
    try:
        # FFmpeg's log stays off, as PyAV has it: a level would call Python from FFmpeg's threads, and deadlock.
        clip = av.open(io.BytesIO(data), "r", options=options, metadata_errors="replace")
    except ValueError as error:
        if getattr(error, "errno", 0) == EINVAL:  # how FFmpeg refuses a format that is not listed
            raise ValueError("it is in no format that is read") from error
        raise
    try:
        _check_streams(kind, clip, len(data), most)
    except ValueError:
        clip.close()
        raise
    return clip


def _check_streams(kind: Kind, clip: InputContainer, size: int, most: int) -> None:
    for stream in (*clip.streams.audio[: kind == "audio"], *clip.streams.video[: kind == "video"]):
        if stream.codec_context is None:
            raise ValueError("its codec is not known")
    for sound in clip.streams.audio[: kind == "audio"]:
        estimated = clip.format.name in containers.UNTABLED.split(
            ","
        )  # by the bit rate at the beginning, often wrongly
        containers.check_sound(sound.rate, 0 if estimated else _seconds(sound, clip) * sound.rate, most)
    for video in clip.streams.video[: kind == "video"]:
        containers.check_pixels(video.width * video.height)
        containers.check_frames(_seconds(video, clip) * _rate(video), size)
        video.codec_context.options = {"max_pixels": str(MAX_FRAME)}


def read_facts(kind: Kind, data: bytes) -> Facts:
    """Reads the header of a file and decodes its beginning.

    Raises:
        UserError: PyAV is not installed.
        Exception: One of `DAMAGE`.
    """
    with open_clip(kind, data) as clip:
        name = clip.format.name
        for sound in clip.streams.audio[: kind == "audio"]:
            for _ in clip.decode(sound):
                return Facts(_seconds(sound, clip), float(sound.rate), container=name)
        for video in clip.streams.video[: kind == "video"]:
            for frame in clip.decode(video):
                width, height = (frame.height, frame.width) if frame.rotation % 180 else (frame.width, frame.height)
                return Facts(_seconds(video, clip), _rate(video), width, height, name)
    raise ValueError(f"it holds no {kind}")


def _rate(video: VideoStream) -> float:
    return float(video.average_rate or video.guessed_rate or 0)


def _seconds(stream: AudioStream | VideoStream, clip: InputContainer) -> float:
    """Returns how long a stream is by its own header, or else by the file's; 0 if neither says."""
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    return (clip.duration or 0) / 1_000_000


def read_samples(data: bytes, most: int = MAX_SAMPLES) -> tuple[np.ndarray[Any, np.dtype[np.float32]], int]:
    """Decodes a file's first track.

    Args:
        data: The file's bytes.
        most: Limit on the samples that it announces or has.

    Returns:
        The mean of its channels, [samples], between -1 and 1, and how many there are a second.

    Raises:
        UserError: PyAV is not installed.
        TooLongError: It has more samples.
        Exception: One of `DAMAGE`.
    """
    import numpy as np

    with open_clip("audio", data, most) as clip:
        import av

        if not clip.streams.audio:
            raise ValueError("it holds no audio")
        stream = clip.streams.audio[0]
        resampler = av.AudioResampler(format="fltp")
        samples = array("f")  # grows in place: pieces and what they are joined to would be twice as much
        for frame in clip.decode(stream):
            for piece in resampler.resample(frame):
                samples.frombytes(piece.to_ndarray().mean(axis=0, dtype=np.float32).tobytes())
            if len(samples) > most:
                raise TooLongError(f"it has more than {most:,} samples")
        if not samples:
            raise ValueError("it holds no samples")
        return np.frombuffer(samples, np.float32), int(stream.rate)


def damage(kind: Kind, data: bytes) -> str:
    """Returns why an audio or video file cannot be decoded, "" if its header and beginning can."""
    try:
        read_facts(kind, data)
    except DAMAGE as error:
        return f"it cannot be decoded: {cause(kind, error)}"
    return ""


def cause(kind: Kind, error: BaseException) -> str:
    """Returns what FFmpeg says of a file, without the earlier lines of its log."""
    if kind == "video" and getattr(error, "errno", 0) == EINVAL:  # all that it says of a frame beyond its limit
        return f"{error.strerror}: it is damaged, or its frames have more than {MAX_FRAME:,} pixels"  # type: ignore[attr-defined]
    return str(getattr(error, "strerror", None) or error)
