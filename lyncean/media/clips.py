"""Reads audio and video files for both sides of the contract, so that both see the same frames and samples.

These functions decode in the calling process; foreign files go through `lyncean.media.cell`, which calls them in cells.
"""

from __future__ import annotations

import io
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from errno import EINVAL
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lyncean.errors import UserError
from lyncean.media import containers
from lyncean.media.containers import MAX_FRAME, MAX_SAMPLES, TooLongError
from lyncean.media.types import Kind

# Imported on use: it belongs to an extra.
if TYPE_CHECKING:
    import numpy as np
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.stream import VideoStream

DAMAGE = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, struct.error,
    MemoryError,
)  # fmt: skip
"""Exceptions of PyAV for files that are truncated, damaged, or lack the track; its own errors derive from them."""
NOT_INSTALLED = "PyAV is not installed: pip install 'lyncean[media]'"


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts from the header of a file.

    Attributes:
        duration: Seconds; 0 if unknown.
        rate: Samples or frames per second.
        width: Pixels; 0 for audio.
        height: Pixels; 0 for audio.
        container: FFmpeg's name of the container format.
    """

    duration: float
    rate: float
    width: int = 0
    height: int = 0
    container: str = ""


def open_clip(kind: Kind, data: bytes, most: int = MAX_SAMPLES) -> InputContainer:
    """Opens an encoded file, unless its headers announce more than its bytes can hold.

    Args:
        kind: Kind of track to read.
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
        raise UserError(NOT_INSTALLED) from error
    data, formats = containers.checked(data)
    # Chapters may all point to one title of up to 64 KiB, so a small file can announce gigabytes.
    options = {"format_whitelist": formats, "max_pixels": str(MAX_FRAME), "ignore_chapters": "1"}
    try:
        # FFmpeg's log stays off, PyAV's default: a log level calls Python from FFmpeg's threads and deadlocks.
        clip = av.open(io.BytesIO(data), "r", options=options, metadata_errors="replace")
    except ValueError as error:
        if getattr(error, "errno", 0) == EINVAL:  # FFmpeg's error for a format outside the whitelist
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
    """Returns the duration of a stream from its header, else from the file's; 0 if unknown."""
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    return (clip.duration or 0) / 1_000_000


def read_samples(data: bytes, most: int = MAX_SAMPLES) -> tuple[np.ndarray[Any, np.dtype[np.float32]], int]:
    """Decodes a file's first track.

    Args:
        data: The file's bytes.
        most: Limit on the samples that it announces or has.

    Returns:
        The mean of its channels, [samples], between -1 and 1, and the samples per second.

    Raises:
        UserError: PyAV is not installed.
        TooLongError: It has more samples.
        Exception: One of `DAMAGE`.
    """
    import numpy as np

    samples = array("f")  # grows in place: joining pieces would take twice the memory
    _, rate = write_samples(data, samples.frombytes, most)
    return np.frombuffer(samples, np.float32), rate


def write_samples(data: bytes, write: Callable[[bytes], object], most: int = MAX_SAMPLES) -> tuple[int, int]:
    """Decodes a file's first track piece by piece.

    Args:
        data: The file's bytes.
        write: Receives the samples of each piece, native float32.
        most: As in `read_samples`, like the errors.

    Returns:
        The number of samples, and the samples per second.
    """
    import numpy as np

    with open_clip("audio", data, most) as clip:
        import av

        if not clip.streams.audio:
            raise ValueError("it holds no audio")
        stream = clip.streams.audio[0]
        resampler = av.AudioResampler(format="fltp")
        count = 0
        for frame in clip.decode(stream):
            for piece in resampler.resample(frame):
                samples = piece.to_ndarray().mean(axis=0, dtype=np.float32)
                write(samples.tobytes())
                count += len(samples)
            if count > most:
                raise TooLongError(f"it has more than {most:,} samples")
        if not count:
            raise ValueError("it holds no samples")
        return count, int(stream.rate)


@dataclass(frozen=True, slots=True)
class Track:
    """Frames of a video track.

    Attributes:
        stamps: Presentation times of the frames, ascending, in units of `base`.
        base: Seconds.
        rate: Frames per second, on average.
        width: Pixels.
        height: Pixels.
    """

    stamps: Sequence[int]
    base: Fraction
    rate: Fraction
    width: int
    height: int


def read_track(data: bytes) -> Track:
    """Reads the frame times of a file's first video track.

    Raises:
        UserError: PyAV is not installed.
        Exception: One of `DAMAGE`.
    """
    with open_clip("video", data) as clip:
        if not clip.streams.video:
            raise ValueError("it holds no video")
        stream = clip.streams.video[0]
        base, rate = stream.time_base or Fraction(1), stream.average_rate or stream.guessed_rate or Fraction(1)
        width, height = stream.width, stream.height
        stamps = _stamps(clip)
    if not stamps:
        raise ValueError("it holds no frame")
    return Track(stamps, Fraction(base), Fraction(rate), width, height)


def _stamps(clip: InputContainer) -> list[int]:
    """Returns the presentation times of the frames, ascending: from the packets, or by decoding if they lack times."""
    stream = clip.streams.video[0]
    packets, stamps = 0, set[int]()
    for packet in clip.demux(stream):  # packets are not kept: unpacked by the container, they may exceed the file
        packets += bool(packet.size)
        if packet.size and packet.pts is not None and not packet.is_discard:
            stamps.add(packet.pts)
    if packets and len(stamps) == packets:
        return sorted(stamps)
    clip.seek(0)
    return sorted({frame.pts for frame in clip.decode(stream) if frame.pts is not None})


def read_frames(data: bytes, stamps: Sequence[int]) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Yields the frames at the given times, upright, each [height, width, 3].

    Args:
        data: The file's bytes.
        stamps: Some of `Track.stamps`, ascending.

    Raises:
        UserError: PyAV is not installed.
        Exception: One of `DAMAGE`.
    """
    import numpy as np

    with open_clip("video", data) as clip:
        stream = clip.streams.video[0]
        stream.thread_type = "AUTO"
        wanted = iter(stamps)
        stamp = next(wanted, None)
        for frame in clip.decode(stream):
            if stamp is None:
                return
            if frame.pts == stamp:
                turns = round(frame.rotation / 90) % 4
                yield np.ascontiguousarray(np.rot90(frame.to_ndarray(format="rgb24"), turns))
                stamp = next(wanted, None)
        if stamp is not None:
            raise ValueError(f"its frames end before the one at {float(stamp * (stream.time_base or 1)):g} seconds")


def damage(kind: Kind, data: bytes) -> str:
    """Returns why an audio or video file cannot be decoded, "" if its header and beginning can."""
    try:
        read_facts(kind, data)
    except DAMAGE as error:
        return f"it cannot be decoded: {cause(kind, error)}"
    return ""


def cause(kind: Kind, error: BaseException) -> str:
    """Returns FFmpeg's error without the earlier lines of its log."""
    if kind == "video" and getattr(error, "errno", 0) == EINVAL:  # its error for frames above the limit, too
        return f"{error.strerror}: it is damaged, or its frames have more than {MAX_FRAME:,} pixels"  # type: ignore[attr-defined]
    return str(getattr(error, "strerror", None) or error)
