"""Frames and samples follow the contract in any container."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers import bombs
from helpers.clips import audio, shown, video
from hypothesis import given, strategies as st

from lyncean.media.clips import read_facts
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest
from model_server import clips
from model_server.clips import audio_pixels, chosen_frames, decode_audio, decode_video, most_pixels

FORMS = [("mp4", "libx264"), ("avi", "mpeg4"), ("matroska", "ffv1"), ("webm", "libvpx"), ("mpegts", "mpeg2video")]
ALL = model.FrameSampling(count=1000)


def part(data: bytes, start: float | None = None, end: float | None = None, **sampling: Any) -> model.Video:
    film = model.Video(data=data)
    if sampling:
        film.sampling.CopyFrom(model.FrameSampling(**sampling))
    for field, value in (("start", start), ("end", end)):
        if value is not None:
            getattr(film.span, field).FromMilliseconds(round(value * 1000))
    return film


@pytest.mark.parametrize(("form", "codec"), FORMS)
def test_frames_are_those_of_the_policy(form: str, codec: str) -> None:
    data = video(10, 5, form=form, codec=codec)  # at 0.0, 0.2, ... 1.8 seconds
    for wanted, numbers, duration in (
        (part(data), list(range(10)), 2.0),
        (part(data, count=4), [0, 3, 6, 9], 2.0),
        (part(data, count=3), [0, 4, 9], 2.0),
        (part(data, count=1), [0], 2.0),
        (part(data, per_second=2), [0, 2, 5, 7], 2.0),
        (part(data, per_second=100), list(range(10)), 2.0),
        (part(data, per_second=2, max_count=2), [0, 7], 2.0),
        (part(data, 0.5, 1.0), [3, 4], 0.5),
        (part(data, 1.0), [5, 6, 7, 8, 9], 1.0),
        (part(data, 0, 99), list(range(10)), 2.0),
        (part(data, 0.5, 1.7, count=2), [3, 8], 1.2),
    ):
        seen = decode_video(wanted, ALL)
        assert [shown(image) for image in seen.images] == numbers, wanted
        assert seen.times == pytest.approx([number / 5 for number in numbers])
        assert seen.duration == pytest.approx(duration)
        assert seen.images[0].shape == (48, 64, 3)
        usage = seen.usage()
        assert (usage.frames, usage.duration.ToMilliseconds()) == (len(numbers), round(duration * 1000))
    facts = read_facts("video", data)
    assert (facts.width, facts.height, facts.rate) == (64, 48, 5)
    assert most_pixels(part(data, count=4)) == 4 * 64 * 48
    assert most_pixels(part(data)) == 10 * 64 * 48


def test_frames_of_uneven_length_are_chosen_by_time() -> None:
    data = video([0, 1, 2, 10, 20], 10, form="matroska", codec="ffv1")
    seen = decode_video(part(data, per_second=2), ALL)
    assert [shown(image) for image in seen.images] == [0, 2, 3, 4]  # at 0, 0.5, 1, 1.5 (again) and 2 seconds
    assert seen.times == pytest.approx([0, 0.2, 1.0, 2.0])


@given(
    st.lists(st.integers(1, 50), max_size=60),
    st.sampled_from([0.1, 0.5, 1.0, 2.0, 7.3, 24.0, 1000.0]),
    st.integers(0, 70),
)
def test_frames_per_second_are_those_on_show_at_each_step(gaps: list[int], rate: float, limit: int) -> None:
    times = [Fraction(0)]
    for gap in gaps:
        times.append(times[-1] + Fraction(gap, 24))
    plain: list[int] = []
    step = 0
    while Fraction(step) / Fraction(rate) <= times[-1]:
        on_show = sum(time <= Fraction(step) / Fraction(rate) for time in times) - 1
        if not plain or plain[-1] != on_show:
            plain.append(on_show)
        step += 1
    assert chosen_frames(times, model.FrameSampling(per_second=rate)) == plain
    bounded = chosen_frames(times, model.FrameSampling(per_second=rate, max_count=limit))
    assert set(bounded) <= set(plain)
    assert len(bounded) == min(len(plain), limit or len(plain))


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_a_count_of_frames_is_spread_from_the_first_to_the_last(total: int, count: int) -> None:
    numbers = chosen_frames([Fraction(time) for time in range(total)], model.FrameSampling(count=count))
    assert numbers == sorted(set(numbers))
    assert len(numbers) == min(total, count)
    assert numbers[0] == 0
    if count > 1:
        assert numbers[-1] == total - 1
        gaps = np.diff(numbers)
        assert len(gaps) == 0 or gaps.max() - gaps.min() <= 1


def test_samples_are_the_mean_of_the_channels_in_the_span() -> None:
    rate = 8000
    data = audio(2.0, rate)
    whole = decode_audio(model.Audio(data=data))
    assert (len(whole.samples), whole.rate) == (2 * rate, rate)
    assert whole.samples.max() == pytest.approx(0.25, abs=1e-3)  # half of 0.5: the right channel is silent
    spanned = model.Audio(data=data)
    spanned.span.start.FromMilliseconds(500)
    spanned.span.end.FromMilliseconds(750)
    heard = decode_audio(spanned)
    assert np.array_equal(heard.samples, whole.samples[rate // 2 : 3 * rate // 4])
    assert (heard.usage().duration.ToMilliseconds(), heard.usage().sample_rate) == (250, rate)
    again = decode_audio(spanned, 16_000)
    assert again.rate == 16_000
    assert len(again.samples) == 4000
    spectrum = np.abs(np.fft.rfft(again.samples))
    assert np.argmax(spectrum) * 16_000 / len(again.samples) == pytest.approx(440, abs=4)


def test_what_cannot_be_seen_or_heard_is_refused_in_one_line() -> None:
    clip, sound = video(), audio()
    for wrong in (b"", b"no video " * 50, clip[: len(clip) // 2], sound):
        with pytest.raises(InvalidRequest, match=r"^the video cannot be decoded: [^\n]+$") as caught:
            decode_video(model.Video(data=wrong), ALL)
        assert caught.value.reason == "bad_video"
    for wrong in (b"", b"no audio " * 50, sound[:20], clip):
        with pytest.raises(InvalidRequest, match=r"^the audio cannot be decoded: [^\n]+$") as caught:
            decode_audio(model.Audio(data=wrong))
        assert caught.value.reason == "bad_audio"
    with pytest.raises(InvalidRequest, match="the span holds no frame of its 2 seconds"):
        decode_video(part(clip, 5.0), ALL)
    with pytest.raises(InvalidRequest, match="10 frames, the limit is 8: ask for fewer by its sampling"):
        decode_video(part(clip, count=10), ALL, max_frames=8)
    with pytest.raises(InvalidRequest, match="30,720 pixels, the limit is 30,000"):
        decode_video(part(clip, count=10), ALL, max_pixels=30_000)
    for limits in ({"max_frames": 4}, {"max_pixels": 4 * 64 * 48}):  # its own choice is one that it takes
        assert [shown(image) for image in decode_video(part(clip), ALL, **limits).images] == [0, 3, 6, 9]
    with pytest.raises(InvalidRequest, match="3,072 pixels, the limit is 3,000"):
        decode_video(part(clip), ALL, max_pixels=3000)


def test_audio_is_counted_before_and_while_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    flac = audio(2.0, 8000, form="flac", codec="flac")
    assert audio_pixels(model.Audio(data=flac)) == 6400  # 16,000 samples, of which five take as much as two pixels
    assert audio_pixels(model.Audio(data=b"nothing")) == 0
    monkeypatch.setattr(clips, "MAX_SAMPLES", 10_000)
    assert audio_pixels(model.Audio(data=flac)) == 4000
    for data, message in (
        (flac, "its header announces 16,000 samples, the limit is 10,000"),
        (bombs.announcing(flac, 0), "it has more than 10,000 samples"),
        (bombs.announcing(flac, 9_000), "it has more than 10,000 samples"),
    ):
        with pytest.raises(InvalidRequest, match=f"^the audio: {message}") as caught:
            decode_audio(model.Audio(data=data))
        assert caught.value.reason == "too_much_audio"
    short = model.Audio(data=audio(1.0, 8000))
    assert len(decode_audio(short, 10_000).samples) == 10_000
    with pytest.raises(InvalidRequest, match="more than 10,000 samples at the model's 16,000 a second") as caught:
        decode_audio(short, 16_000)
    assert caught.value.reason == "too_much_audio"
