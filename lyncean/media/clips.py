"""What both sides of the contract read of audio and video files: what one counts and the other sees is the same.

All of this decodes in the process that calls it. `lyncean.media.cell` has the functions that do so in a cell, and files
of others are read by those.
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
NOT_INSTALLED = "PyAV is not installed: pip install 'lyncean[media]'"


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
        raise UserError(NOT_INSTALLED) from error
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

    samples = array("f")  # grows in place: pieces and what they are joined to would be twice as much
    _, rate = write_samples(data, samples.frombytes, most)
    return np.frombuffer(samples, np.float32), rate


def write_samples(data: bytes, write: Callable[[bytes], object], most: int = MAX_SAMPLES) -> tuple[int, int]:
    """Decodes a file's first track piece by piece.

    Args:
        data: The file's bytes.
        write: Takes the samples of each piece, native float32.
        most: As in `read_samples`, like the errors.

    Returns:
        How many samples there are, and how many a second.
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
    """The frames that a video has.

    Attributes:
        stamps: When each is shown, ascending, in units of `base`.
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
    """Reads which frames a file's first video track has.

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
    """Returns when each frame is shown, ascending: by the packets, and by decoding where they do not say."""
    stream = clip.streams.video[0]
    packets, stamps = 0, set[int]()
    for packet in clip.demux(stream):  # none is kept: unpacked by the container, it may be larger than the file
        packets += bool(packet.size)
        if packet.size and packet.pts is not None and not packet.is_discard:
            stamps.add(packet.pts)
    if packets and len(stamps) == packets:
        return sorted(stamps)
    clip.seek(0)
    return sorted({frame.pts for frame in clip.decode(stream) if frame.pts is not None})


def read_frames(data: bytes, stamps: Sequence[int]) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Yields the frames of a file that are shown at these times, upright, each [height, width, 3].

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
    """Returns what FFmpeg says of a file, without the earlier lines of its log."""
    if kind == "video" and getattr(error, "errno", 0) == EINVAL:  # all that it says of a frame beyond its limit
        return f"{error.strerror}: it is damaged, or its frames have more than {MAX_FRAME:,} pixels"  # type: ignore[attr-defined]
    return str(getattr(error, "strerror", None) or error)
