"""Decodes audio and video files; the contract determines the frames and samples that a model gets.

Frames are 8-bit RGB and upright as the file's display matrix says. Samples are floats between -1 and 1, the mean of
all channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from google.protobuf.duration_pb2 import Duration

from lyncean.arrays import np
from lyncean.errors import UserError
from lyncean.media.cell import read_facts, read_frames, read_samples, read_track
from lyncean.media.clips import DAMAGE, cause
from lyncean.media.containers import TooLongError
from lyncean.media.types import Kind
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest
from model_server.backend import seconds

MAX_FRAME_PIXELS = 500_000_000
"""Default limit on the pixels of all frames that are seen of a video: 1.5 GB once decoded."""
MAX_SAMPLES = 250_000_000
"""Limit on the samples that are decoded of an audio file, and on those that a model hears: 1 GB each."""
_SAMPLE_PIXELS = 0.4
"""Memory of a sample, decoded and resampled to 8 bytes, as a share of a pixel's (`model_server.images`)."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Decoded frames of a video.

    Attributes:
        images: The frames, each [height, width, 3], uint8.
        times: Seconds from the first frame of the file to each frame.
        numbers: Index of each frame in the span.
        total: Frames in the span.
        duration: Seconds of the span.
        rate: Frames per second of the file, on average.
    """

    images: Sequence[np.ndarray[Any, np.dtype[np.uint8]]]
    times: Sequence[float]
    numbers: Sequence[int]
    total: int
    duration: float
    rate: float

    def usage(self) -> model.MediaUsage:
        """Returns its usage for a response."""
        return model.MediaUsage(duration=seconds(self.duration), frames=len(self.images))


@dataclass(frozen=True, slots=True)
class Sound:
    """Decoded samples of an audio file.

    Attributes:
        samples: [samples], float32.
        rate: Samples per second.
    """

    samples: np.ndarray[Any, np.dtype[np.float32]]
    rate: int

    @property
    def duration(self) -> float:
        """Seconds."""
        return len(self.samples) / self.rate

    def usage(self) -> model.MediaUsage:
        """Returns its usage for a response."""
        return model.MediaUsage(duration=seconds(self.duration), sample_rate=self.rate)


def decode_video(
    video: model.Video,
    default: model.FrameSampling,
    *,
    where: str = "the video",
    max_frames: int = 0,
    max_pixels: int = MAX_FRAME_PIXELS,
) -> Frames:
    """Decodes the frames that a request asks for.

    Args:
        video: The part.
        default: Sampling of a part without one; it yields fewer frames, spread as by count, to keep within the limits.
        where: Its name in errors.
        max_frames: Refuse more; 0 means unlimited.
        max_pixels: Refuse more pixels of all frames together.

    Raises:
        InvalidRequest: The file cannot be decoded, its span is empty, or a limit is passed.
    """
    sampling = video.sampling if video.HasField("sampling") else default
    try:
        return _decode_video(video, sampling, where, max_frames, max_pixels)
    except DAMAGE as error:
        raise _bad("video", where, error) from error


def decode_audio(audio: model.Audio, rate: int = 0, *, where: str = "the audio", max_seconds: float = 0) -> Sound:
    """Decodes the samples that a request asks for.

    Args:
        audio: The part.
        rate: Samples per second that the model takes; 0 is the file's own.
        where: Its name in errors.
        max_seconds: Refuse more; 0 means unlimited.

    Raises:
        InvalidRequest: The file cannot be decoded, its span is empty, or a limit is passed.
    """
    try:
        samples, file_rate = read_samples(audio.data, MAX_SAMPLES)
    except TooLongError as error:
        raise InvalidRequest("too_much_audio", f"{where}: {error}", limit=str(MAX_SAMPLES)) from error
    except DAMAGE as error:
        raise _bad("audio", where, error) from error
    start, end = _span(audio)
    heard = samples[_ceil(start * file_rate) : None if end is None else _ceil(end * file_rate)]
    if not len(heard):
        raise InvalidRequest(
            "empty_span", f"{where}: the span holds nothing of its {len(samples) / file_rate:g} seconds"
        )
    if max_seconds and len(heard) > max_seconds * file_rate:
        raise InvalidRequest(
            "too_much_audio",
            f"{where}: {len(heard) / file_rate:g} seconds, the limit is {max_seconds:g}: ask for less by its span",
            limit=f"{max_seconds:g}",
            value=f"{len(heard) / file_rate:g}",
        )
    if rate * len(heard) > MAX_SAMPLES * file_rate:
        raise InvalidRequest(
            "too_much_audio",
            f"{where}: more than {MAX_SAMPLES:,} samples at the model's {rate:,} a second: ask for less by its span",
            limit=str(MAX_SAMPLES),
        )
    return Sound(_resampled(heard, file_rate, rate) if rate and rate != file_rate else heard, rate or file_rate)


def most_pixels(video: model.Video) -> int:
    """Returns an upper bound on a video's decoded pixels, by its header; 0 if that cannot be read."""
    try:
        facts = read_facts("video", video.data)
    except (*DAMAGE, UserError):
        return 0  # decoding refuses it, with words of its own
    sampling, frames = video.sampling, facts.rate * facts.duration
    if sampling.WhichOneof("policy") == "count":
        frames = min(frames, sampling.count) if frames else sampling.count
    elif sampling.per_second:
        frames = sampling.per_second * facts.duration + 1
    if sampling.max_count:
        frames = min(frames, sampling.max_count)
    return min(int(frames * facts.width * facts.height), MAX_FRAME_PIXELS)


def audio_pixels(audio: model.Audio) -> int:
    """Returns the pixels that take as much memory as an audio file once decoded, by its header; 0 if unknown."""
    try:
        facts = read_facts("audio", audio.data)
    except (*DAMAGE, UserError):
        return 0  # decoding refuses it, with words of its own
    return int(min(facts.rate * facts.duration, MAX_SAMPLES) * _SAMPLE_PIXELS)


def usage_of(
    messages: Sequence[model.Message], audio: Iterable[Sound], videos: Iterable[Frames]
) -> Iterator[model.MediaUsage]:
    """Yields the usage of a prompt's audio and video parts, in their order."""
    heard, seen = iter(audio), iter(videos)
    for part in (part for message in messages for part in message.parts):
        if part.HasField("audio"):
            yield next(heard).usage()
        elif part.HasField("video"):
            yield next(seen).usage()


def chosen_frames(times: Sequence[Fraction], sampling: model.FrameSampling) -> list[int]:
    """Returns the numbers of the frames that a policy chooses (FrameSampling in model.proto).

    Args:
        times: Presentation time of each frame, ascending, at least one.
        sampling: A policy that the core has checked.
    """
    total = len(times)
    if sampling.WhichOneof("policy") == "count":
        return _spread(total, sampling.count)
    step = 1 / Fraction(sampling.per_second)
    numbers: list[int] = []
    index, wanted = 0, times[0]
    while wanted <= times[-1]:
        while index + 1 < total and times[index + 1] <= wanted:
            index += 1
        if not numbers or numbers[-1] != index:
            numbers.append(index)
        # Steps between two frames show the same one: continue with the first step at or after the next frame.
        following = times[index + 1] if index + 1 < total else times[-1] + 1
        wanted += step * max(1, -((wanted - following) // step))
    limit = sampling.max_count
    return [numbers[kept] for kept in _spread(len(numbers), limit)] if limit else numbers


def _spread(total: int, count: int) -> list[int]:
    if count >= total:
        return list(range(total))
    return [index * (total - 1) // (count - 1) for index in range(count)] if count > 1 else [0]


def _decode_video(
    video: model.Video, sampling: model.FrameSampling, where: str, max_frames: int, max_pixels: int
) -> Frames:
    start, end = _span(video)
    track = read_track(video.data)
    times = [(stamp - track.stamps[0]) * track.base for stamp in track.stamps]
    length = times[-1] + 1 / track.rate
    inside = [index for index, time in enumerate(times) if start <= time and (end is None or time < end)]
    if not inside:
        raise InvalidRequest("empty_span", f"{where}: the span holds no frame of its {float(length):g} seconds")
    numbers = chosen_frames([times[index] for index in inside], sampling)
    if not video.HasField("sampling"):
        most = min(max_frames or len(numbers), max_pixels // max(1, track.width * track.height))
        numbers = [numbers[index] for index in _spread(len(numbers), most)]
    if max_frames and len(numbers) > max_frames:
        raise InvalidRequest(
            "too_many_frames",
            f"{where}: {len(numbers):,} frames, the limit is {max_frames:,}: ask for fewer by its sampling",
            limit=str(max_frames),
            value=str(len(numbers)),
        )
    pixels = len(numbers) * track.width * track.height
    if pixels > max_pixels:
        raise InvalidRequest(
            "too_many_pixels",
            f"{where}: {len(numbers):,} frames of {track.width} x {track.height} are {pixels:,} pixels, the "
            f"limit is {max_pixels:,}: ask for fewer by its sampling",
            limit=str(max_pixels),
            value=str(pixels),
        )
    stamps = [track.stamps[inside[number]] for number in numbers]
    images = read_frames(video.data, stamps, max(max_pixels, MAX_FRAME_PIXELS))
    until = length if end is None else min(end, length)
    return Frames(
        images,
        [float(times[inside[number]]) for number in numbers],
        numbers,
        len(inside),
        float(until - max(start, Fraction(0))),
        float(track.rate),
    )


def _resampled(
    samples: np.ndarray[Any, np.dtype[np.float32]], rate: int, wanted: int
) -> np.ndarray[Any, np.dtype[np.float32]]:
    import av

    resampler = av.AudioResampler(format="fltp", layout="mono", rate=wanted)
    frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
    frame.sample_rate = rate
    pieces = [piece.to_ndarray()[0] for source in (frame, None) for piece in resampler.resample(source)]
    return np.concatenate(pieces)


def _span(part: model.Audio | model.Video) -> tuple[Fraction, Fraction | None]:
    span = part.span
    return _seconds(span.start), _seconds(span.end) if span.HasField("end") else None


def _seconds(duration: Duration) -> Fraction:
    return Fraction(duration.seconds) + Fraction(duration.nanos, 1_000_000_000)


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def _bad(kind: Kind, where: str, error: BaseException) -> InvalidRequest:
    return InvalidRequest(f"bad_{kind}", f"{where} cannot be decoded: {cause(kind, error)}")
