"""Requests are refused before the model is touched, each for its own reason."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from helpers import clips
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import StatusError
from model_server import images
from model_server.backend import Backend, Call
from model_server.core import Core
from model_server.images import PixelBudget

ALL = [value for value in model.Capability.values() if value]


class Recorder(Backend):
    """Counts what reaches it."""

    def __init__(self, capabilities: list[Any] | None = None) -> None:
        self.capabilities = ALL if capabilities is None else capabilities
        self.reached = 0

    def info(self) -> model.GetModelInfoResponse:
        return model.GetModelInfoResponse(model_name="recorder", capabilities=self.capabilities)

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        self.reached += 1
        return model.GenerateResponse()

    async def likelihood(self, request: model.LikelihoodRequest, call: Call) -> model.LikelihoodResponse:
        self.reached += 1
        return model.LikelihoodResponse()


def user(*parts: model.Part) -> model.Message:
    return model.Message(role=model.ROLE_USER, parts=parts or [model.Part(text="hello")])


def begun(text: str, reasoning: str = "") -> model.Message:
    """Returns the beginning of an answer."""
    return model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text=text)], reasoning=reasoning)


def image() -> model.Part:
    return model.Part(image=model.Image(data=b"bytes"))


def video(**fields: Any) -> model.Part:
    return model.Part(video=model.Video(data=b"bytes", **fields))


def audio(**fields: Any) -> model.Part:
    return model.Part(audio=model.Audio(data=b"bytes", **fields))


def request(*messages: model.Message, **config: Any) -> model.GenerateRequest:
    return model.GenerateRequest(messages=messages or [user()], config=model.GenerationConfig(**config))


INVALID = {
    "empty_prompt": model.GenerateRequest(),
    "no_role": request(model.Message(parts=[model.Part(text="x")])),
    "unknown_role": request(model.Message(role=99, parts=[model.Part(text="x")])),  # type: ignore[arg-type]
    "system_not_first": request(user(), model.Message(role=model.ROLE_SYSTEM, parts=[model.Part(text="x")]), user()),
    "empty_message": request(model.Message(role=model.ROLE_USER)),
    "empty_part": request(user(model.Part())),
    "bad_image": request(user(model.Part(image=model.Image()))),
    "bad_audio": request(user(model.Part(audio=model.Audio()))),
    "bad_video": request(user(model.Part(video=model.Video()))),
    "negative_span": request(user(audio(span={"start": {"seconds": -1}}))),
    "empty_span": request(user(audio(span={"start": {"seconds": 2}, "end": {"seconds": 2}}))),
    "end_at_once": request(user(video(span={"end": {}}))),
    "no_policy": request(user(video(sampling={"max_count": 3}))),
    "no_frames": request(user(video(sampling={"count": 0}))),
    "bad_rate": request(user(video(sampling={"per_second": -2.0}))),
    "endless_rate": request(user(video(sampling={"per_second": float("inf")}))),
    "two_bounds": request(user(video(sampling={"count": 4, "max_count": 3}))),
    "too_many_clips": request(user(*[audio()] * 33, *[video()] * 32)),
    "last_not_user": request(model.Message(role=model.ROLE_SYSTEM, parts=[model.Part(text="x")])),
    "empty_prefix": request(user(), begun("")),
    "prefix_alone": request(begun("x")),
    "prefix_of_an_image": request(user(), model.Message(role=model.ROLE_ASSISTANT, parts=[image()])),
    "users_reasoning": request(model.Message(role=model.ROLE_USER, parts=[model.Part(text="x")], reasoning="y")),
    "earlier_reasoning": request(user(), begun("x", "y"), user()),
    "blank_prompt": request(user(model.Part(text=" \n"))),
    "too_many_images": request(user(*[image() for _ in range(257)])),
    "zero_tokens": request(max_output_tokens=0),
    "bad_temperature": request(temperature=-0.5),
    "nan_temperature": request(temperature=float("nan")),
    "bad_top_p": request(top_p=0.0),
    "high_top_p": request(top_p=1.5),
    "empty_stop": request(stop=["a", ""]),
    "too_many_stops": request(stop=["a"] * 65),
    "too_many_logprobs": request(top_logprobs=21),
    "no_format": request(response_format={}),
    "bad_choices": request(response_format={"choices": {"texts": ["a", ""]}}),
    "bad_regex": request(response_format={"regex": "(?i)a"}),
    "bad_regex_lines": request(response_format={"regex": "(\n"}),
    "bad_schema": request(response_format={"json_schema": "{"}),
    "format_conflict": request(response_format={"regex": "a"}, stop=["b"]),
}
REASONS = {"unknown_role": "no_role", "blank_prompt": "empty_prompt", "nan_temperature": "bad_temperature"}
REASONS |= {"high_top_p": "bad_top_p"}
REASONS |= dict.fromkeys(("empty_prefix", "prefix_alone", "prefix_of_an_image"), "bad_answer_prefix")
REASONS |= dict.fromkeys(("users_reasoning", "earlier_reasoning"), "reasoning_not_last")
REASONS |= dict.fromkeys(("negative_span", "empty_span", "end_at_once"), "bad_span")
REASONS |= dict.fromkeys(("no_policy", "no_frames", "bad_rate", "endless_rate", "two_bounds"), "bad_sampling")
FORMATS = ("no_format", "bad_choices", "bad_regex", "bad_regex_lines", "bad_schema")
REASONS |= dict.fromkeys(FORMATS, "bad_response_format")


@pytest.mark.parametrize("name", INVALID)
async def test_invalid_requests_never_reach_the_model(name: str) -> None:
    backend = Recorder()
    core = Core(backend)
    core.ready()
    with pytest.raises(StatusError) as caught:
        await core.generate(INVALID[name], Call())
    assert caught.value.code == grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.reason == REASONS.get(name, name)
    assert "\n" not in str(caught.value)
    assert backend.reached == 0


@pytest.mark.parametrize("name", ["too_many_images", "too_many_clips", "too_many_stops", "too_many_logprobs"])
async def test_a_limit_is_told_with_the_value(name: str) -> None:
    core = Core(Recorder())
    core.ready()
    with pytest.raises(StatusError) as caught:
        await core.generate(INVALID[name], Call())
    facts = caught.value.metadata
    assert facts["limit"] in str(caught.value)
    assert facts["value"] in str(caught.value)
    assert int(facts["value"]) > int(facts["limit"])


@pytest.mark.parametrize(
    ("continuations", "reason"),
    [([], "no_continuations"), (["a", ""], "empty_continuation"), (["a"] * 4097, "too_many_continuations")],
)
async def test_continuations_are_checked(continuations: list[str], reason: str) -> None:
    backend = Recorder()
    core = Core(backend)
    core.ready()
    with pytest.raises(StatusError) as caught:
        await core.likelihood(model.LikelihoodRequest(messages=[user()], continuations=continuations), Call())
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert backend.reached == 0


OUTSIDE: dict[str, tuple[Any, Callable[[Core], Any]]] = {
    "no_generate": (model.CAPABILITY_GENERATE, lambda c: c.generate(request(), Call())),
    "no_likelihood": (
        model.CAPABILITY_LIKELIHOOD,
        lambda c: c.likelihood(model.LikelihoodRequest(messages=[user()], continuations=["a"]), Call()),
    ),
    "no_answer_prefix": (model.CAPABILITY_ANSWER_PREFIX, lambda c: c.generate(request(user(), begun("x")), Call())),
    "no_reasoning": (model.CAPABILITY_REASONING, lambda c: c.generate(request(user(), begun("x", "y")), Call())),
    "no_image_input": (model.CAPABILITY_IMAGE_INPUT, lambda c: c.generate(request(user(image())), Call())),
    "no_multi_image": (model.CAPABILITY_MULTI_IMAGE, lambda c: c.generate(request(user(image(), image())), Call())),
    "no_audio_input": (model.CAPABILITY_AUDIO_INPUT, lambda c: c.generate(request(user(audio())), Call())),
    "no_video_input": (model.CAPABILITY_VIDEO_INPUT, lambda c: c.generate(request(user(video())), Call())),
    "no_image_output": (
        model.CAPABILITY_IMAGE_OUTPUT,
        lambda c: c.generate(model.GenerateRequest(messages=[user()], modality=model.MODALITY_IMAGE), Call()),
    ),
    "no_logprobs": (model.CAPABILITY_OUTPUT_LOGPROBS, lambda c: c.generate(request(top_logprobs=2), Call())),
    "no_seed": (model.CAPABILITY_SEED, lambda c: c.generate(request(seed=1, temperature=0.7), Call())),
}


@pytest.mark.parametrize(
    ("capability", "response_format"),
    [
        (model.CAPABILITY_ANSWER_CHOICES, {"choices": {"texts": ["a"]}}),
        (model.CAPABILITY_ANSWER_REGEX, {"regex": "a"}),
        (model.CAPABILITY_ANSWER_JSON_SCHEMA, {"json_schema": "{}"}),
    ],
)
async def test_a_format_that_is_not_claimed_is_unimplemented(capability: Any, response_format: dict[str, Any]) -> None:
    without, everything = (Core(Recorder(claims)) for claims in ([c for c in ALL if c != capability], ALL))
    without.ready()
    with pytest.raises(StatusError) as caught:
        await without.generate(request(response_format=response_format), Call())
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.UNIMPLEMENTED, "no_response_format")
    everything.ready()
    await everything.generate(request(response_format=response_format), Call())


@pytest.mark.parametrize("reason", OUTSIDE)
async def test_what_is_not_claimed_is_unimplemented(reason: str) -> None:
    capability, run = OUTSIDE[reason]
    without, everything = Recorder([c for c in ALL if c != capability]), Recorder()
    core = Core(without)
    core.ready()
    with pytest.raises(StatusError) as caught:
        await run(core)
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.UNIMPLEMENTED, reason)
    assert without.reached == 0
    able = Core(everything)
    able.ready()
    await run(able)
    assert everything.reached == 1


async def test_a_part_of_a_kind_from_the_future_is_unimplemented() -> None:
    core = Core(Recorder())
    core.ready()
    part = model.Part.FromString(b"\x9a\x06\x03\x0a\x01x")  # field 99, a message
    with pytest.raises(StatusError, match="message 0, part 1 is of a kind that this server does not know") as caught:
        await core.generate(request(user(model.Part(text="x"), part)), Call())
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.UNIMPLEMENTED, "unknown_part")


async def test_a_seed_beside_greedy_decoding_needs_no_capability() -> None:
    backend = Recorder([model.CAPABILITY_GENERATE])
    core = Core(backend)
    core.ready()
    await core.generate(request(seed=1, temperature=0.0), Call())
    assert backend.reached == 1


async def test_before_loading_everything_is_unavailable() -> None:
    backend = Recorder()
    core = Core(backend)
    for run in (lambda: core.generate(request(), Call()), lambda: core.likelihood(model.LikelihoodRequest(), Call())):
        with pytest.raises(StatusError) as caught:
            await run()
        assert caught.value.code == grpc.StatusCode.UNAVAILABLE
    assert backend.reached == 0


class Decoding(Backend):
    """Holds each request until it is told to answer; notes how many it had at a time."""

    def __init__(self) -> None:
        self.inside: list[int] = []
        self.most = 0
        self.go = asyncio.Event()

    def info(self) -> model.GetModelInfoResponse:
        return model.GetModelInfoResponse(model_name="decoding", capabilities=ALL)

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        self.inside.append(len(request.messages[0].parts))
        self.most = max(self.most, sum(self.inside))
        try:
            await self.go.wait()
        finally:
            self.inside.pop()
        return model.GenerateResponse()


def picture(width: int, height: int) -> model.Part:
    file = io.BytesIO()
    Image.new("L", (width, height)).save(file, "PNG")
    return model.Part(image=model.Image(data=file.getvalue()))


async def test_decoded_images_stay_within_the_memory() -> None:
    backend = Decoding()
    core = Core(backend, PixelBudget(2500))
    core.ready()
    too_large = request(user(*[picture(50, 20)] * 3))
    with pytest.raises(StatusError, match="3,000 pixels, this server's memory is enough for 2,500") as caught:
        await core.generate(too_large, Call())
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "image_too_large")

    large = [asyncio.ensure_future(core.generate(request(user(picture(50, 20))), Call())) for _ in range(6)]
    small = asyncio.ensure_future(core.generate(request(), Call()))
    await asyncio.wait([small, *large], timeout=0.1)
    assert len(backend.inside) == 3  # two of 1,000 pixels and one of none
    large[2].cancel()  # whoever gives up while waiting holds nothing
    large[0].cancel()  # nor does one that is cut off while it is answered
    await asyncio.wait([large[0], large[2]])
    backend.go.set()
    await asyncio.gather(small, large[1], *large[3:])
    assert backend.most <= 3
    heard = request(user(model.Part(audio=model.Audio(data=clips.audio(1.0, 8000)))))
    with pytest.raises(StatusError, match="3,200 pixels, this server's memory is enough for 2,500"):
        await core.generate(heard, Call())
    backend.decodes = False
    await core.generate(too_large, Call())
    await core.generate(heard, Call())


def test_the_budget_is_that_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, none = tmp_path / "memory.max", tmp_path / "none"
    none.write_text("max\n")
    monkeypatch.setattr(images, "_LIMITS", (str(none), str(tmp_path / "absent")))
    whole = PixelBudget().limit
    limit.write_text(f"{512 * 2**20}\n")
    monkeypatch.setattr(images, "_LIMITS", (str(none), str(limit)))
    assert PixelBudget().limit == 512 * 2**20 // 40 < whole
