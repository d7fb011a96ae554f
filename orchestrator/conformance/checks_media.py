"""Audio and videos in prompts: what is heard and seen of a file, and what is refused."""

from __future__ import annotations

import io
import math
import struct
import wave
from functools import cache
from pathlib import Path
from typing import Any

import grpc

from lyncean.model.v1 import model_pb2 as model
from orchestrator.conformance.check import applies, check, wants
from orchestrator.conformance.server import Request, Server, refusal, text_of
from orchestrator.engine.batch import Ending

_FRAMES, _RATE = 8, 4
"""Of the video: a disc that has another colour in each frame."""
_INVALID, _LACKING = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED


@check
async def video_frames_are_those_asked_for(server: Server) -> str:
    """Counts, rates and spans, each obeyed or refused."""
    choices: list[tuple[str, dict[str, Any], int]] = [
        ("count 4", {"sampling": {"count": 4}}, 4),
        ("count 1", {"sampling": {"count": 1}}, 1),
        ("count 100", {"sampling": {"count": 100}}, _FRAMES),
        ("2 per second", {"sampling": {"per_second": 2}}, 4),
        ("100 per second", {"sampling": {"per_second": 100}}, _FRAMES),
        ("100 per second, at most 3", {"sampling": {"per_second": 100, "max_count": 3}}, 3),
        ("count 100 between 0.5 and 1 seconds", {"sampling": {"count": 100}, "span": _span(500, 1000)}, 2),
    ]
    obeyed = reported = 0
    for case, fields, frames in choices:
        ending = await server.ending(media_request(server, model.Video(data=film(), **fields)))
        if _refused(ending, f"a video sampled by {case}"):
            continue
        obeyed += 1
        seen = list(ending.usage.media)  # type: ignore[union-attr]
        if seen:
            reported += 1
            wants(len(seen) == 1, f"one video was sent and usage.media has {len(seen)} entries")
            wants(seen[0].frames == frames, f"a video by {case} has {frames} frames, {seen[0].frames} were seen")
    applies(obeyed > 0, "every choice of frames is refused")
    applies(reported > 0, "usage.media is empty: nobody can say what was seen")
    return f"{obeyed} of {len(choices)} choices of frames obeyed"


@check
async def videos_are_seen(server: Server) -> str:
    """The first and the last frame of a video change the answer, if videos count at all."""
    early, late = _span(0, 250), _span(500, 750)
    answers = set()
    for span in (early, late):
        ending = await server.ending(
            media_request(server, model.Video(data=film(), span=span, sampling=model.FrameSampling(count=1)))
        )
        applies(not _refused(ending, "a video with a span"), "spans are refused")
        answers.add(_ending_text(ending))
    _differ(server, answers, "a red and a green disc in a video")
    return "other frames change the answer"


@check
async def audio_is_heard(server: Server) -> str:
    """Two tones change the answer, and what was heard has the right duration."""
    answers = set()
    for hertz in (220, 1760):
        ending = await server.ending(media_request(server, model.Audio(data=tone(hertz))))
        wants(not isinstance(ending, Exception), f"a WAV file of one second: {ending}")
        answers.add(_ending_text(ending))
        for seen in ending.usage.media:  # type: ignore[union-attr]
            seconds = seen.duration.ToMilliseconds() / 1000
            wants(abs(seconds - 1) < 0.1, f"one second of audio was sent, {seconds} were heard")
    _differ(server, answers, "a low and a high tone")
    return "another tone changes the answer"


@check
async def refuses_corrupt_audio_and_video(server: Server) -> None:
    """No bytes, a text, files cut short, and spans that hold nothing."""
    corrupt: dict[str, model.Audio | model.Video] = {}
    beyond = _span(60_000, 61_000)
    if server.claims("AUDIO_INPUT"):
        corrupt["audio without bytes"] = model.Audio()
        corrupt["a text in place of audio"] = model.Audio(data=b"this is no audio " * 20)
        corrupt["audio after its end"] = model.Audio(data=tone(220), span=beyond)
    if server.claims("VIDEO_INPUT"):
        corrupt["a video without bytes"] = model.Video()
        corrupt["a text in place of a video"] = model.Video(data=b"this is no video " * 20)
        corrupt["a video cut in half"] = model.Video(data=film()[: len(film()) // 2])
        corrupt["a video after its end"] = model.Video(data=film(), span=beyond)
        corrupt["no frame of a video"] = model.Video(data=film(), sampling=model.FrameSampling(count=0))
    applies(bool(corrupt), "the server claims neither AUDIO_INPUT nor VIDEO_INPUT")
    for case, medium in corrupt.items():
        codes = (_INVALID, _LACKING) if "after its end" in case else (_INVALID,)
        await server.refused(media_request(server, medium), *codes, what=case)
    await server.alive("corrupt audio and videos")


def _span(start: int, end: int) -> model.TimeSpan:
    """Returns a span by its ends in milliseconds."""
    span = model.TimeSpan()
    span.start.FromMilliseconds(start)
    span.end.FromMilliseconds(end)
    return span


def _refused(ending: Ending, case: str) -> bool:
    """Returns True if a request was refused as outside the server's capabilities; raises `Broken` for other errors."""
    if not isinstance(ending, Exception):
        return False
    refusal(ending, case, _LACKING)
    return True


def media_request(server: Server, medium: model.Audio | model.Video) -> Request:
    """Returns a question about audio or a video."""
    part = model.Part(audio=medium) if isinstance(medium, model.Audio) else model.Part(video=medium)
    messages = [model.Message(role=model.ROLE_USER, parts=[part, model.Part(text="What is it?")])]
    if server.claims("LIKELIHOOD"):
        return model.LikelihoodRequest(messages=messages, continuations=["red", "blue"])
    return server.request(*messages)


def _differ(server: Server, answers: set[str], case: str) -> None:
    """Holds two answers apart; scores differ at least in their last digits, words need not."""
    applies(len(answers) == 2 or server.claims("LIKELIHOOD"), f"{case} give the same answer, which may be right")
    wants(len(answers) == 2, f"{case} give the same scores, to the last digit")


def _ending_text(ending: Any) -> str:
    if isinstance(ending, model.GenerateResponse):
        return text_of(ending)
    return " ".join(f"{score.logprob:.6g}" for score in ending.scores)


@cache
def film() -> bytes:
    """Returns two seconds of video."""
    return Path(__file__).with_name("discs.mp4").read_bytes()


@cache
def tone(hertz: int) -> bytes:
    """Returns a second of a tone as a WAV file."""
    rate = 8000
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        waves = (round(9000 * math.sin(2 * math.pi * hertz * index / rate)) for index in range(rate))
        file.writeframes(b"".join(struct.pack("<h", value) for value in waves))
    return buffer.getvalue()
