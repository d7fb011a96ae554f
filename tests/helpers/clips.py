"""Small audio and video files, made here: each frame and each second of sound can be told from the others."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction

import av
import numpy as np
from hypothesis import strategies as st

from lyncean.model.v1 import model_pb2 as model

spans = st.none() | st.builds(
    lambda start, end: {"start": start, "end": end},
    st.none() | st.builds(dict, seconds=st.integers(0, 9), nanos=st.sampled_from([0, 500_000_000])),
    st.none() | st.builds(dict, seconds=st.integers(10, 99)),
)
samplings = st.sampled_from([None, {"count": 4}, {"per_second": 0.5}, {"per_second": 2, "max_count": 64}])
kinds = st.sampled_from(["", "video/mp4", "audio/wav"])
abouts = st.builds(model.Audio, media_type=kinds, span=spans) | st.builds(
    model.Video, media_type=kinds, span=spans, sampling=samplings
)
"""Fields of clips in requests, beside their bytes."""


def video(
    frames: int | Sequence[int] = 10,
    rate: int = 5,
    *,
    size: tuple[int, int] = (64, 48),
    form: str = "mp4",
    codec: str = "libx264",
) -> bytes:
    """Returns a video whose frames are grey, frame i 16 + 20 * i; or with these times, in frames, for each of them."""
    times = list(range(frames)) if isinstance(frames, int) else list(frames)
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=form) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        for number, time in enumerate(times):
            grey = np.full((size[1], size[0], 3), (16 + 20 * number) % 240, np.uint8)
            frame = av.VideoFrame.from_ndarray(grey, format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return buffer.getvalue()


def shown(image: np.ndarray) -> int:
    """Returns the number of the frame of `video` that an image is."""
    return round((float(image.mean()) - 16) / 20)


def audio(
    seconds: float = 1.0, rate: int = 8000, *, hertz: float = 440, form: str = "wav", codec: str = "pcm_s16le"
) -> bytes:
    """Returns a tone, stereo, its right channel silent."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=form) as container:
        stream = container.add_stream(codec, rate=rate, layout="stereo")
        wave = np.sin(np.arange(round(seconds * rate)) / rate * 2 * np.pi * hertz) * 16384
        samples = np.stack([wave, np.zeros_like(wave)], axis=1).astype(np.int16).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="stereo")
        frame.sample_rate = rate
        for packet in [*stream.encode(frame), *stream.encode()]:
            container.mux(packet)
    return buffer.getvalue()
