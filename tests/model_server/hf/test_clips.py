"""Audio and videos on tiny checkpoints, against the processor and the decoding loop of `transformers` alone."""

from __future__ import annotations

import asyncio
import functools
import io
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from helpers import clips
from helpers.model_serving import refusal
from PIL import Image

from lyncean.model.v1 import model_pb2 as model

torch = pytest.importorskip("torch")
import transformers as tf  # noqa: E402

from model_server.hf import checkpoint as checkpoints  # noqa: E402
from model_server.hf.batch import to_device  # noqa: E402
from model_server.hf.likelihood import plain  # noqa: E402
from model_server.hf.prompt import Prompter  # noqa: E402
from model_server.hf.settings import Settings  # noqa: E402

SEES = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "llava_onevision", "smolvlm", "internvl"]
BOTH = ["qwen2_5_omni", "gemma4"]
HEARS = ["qwen2_audio", *BOTH]
KINDS = [*SEES, *HEARS]
LIKE_OTHERS = {"qwen2_vl", "qwen3_vl", "qwen3_5", "gemma4"}
TOKENS = 5
CONTINUATIONS = [" yes", "The answer is B, because", "The answer is C"]


@functools.cache
def film(first: int = 0) -> bytes:
    """Two seconds, ten frames of patterns."""
    generator = np.random.default_rng(first)
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as container:
        stream = container.add_stream("ffv1", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "bgr0"
        for number in range(10):
            blocks = generator.integers(0, 256, (3, 4, 3), np.uint8).repeat(16, 0).repeat(16, 1)
            frame = av.VideoFrame.from_ndarray(blocks, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 5)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return buffer.getvalue()


def frames(data: bytes, numbers: Sequence[int]) -> Any:
    with av.open(io.BytesIO(data)) as file:
        whole = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
    return np.stack([whole[number] for number in numbers])


def sound(hertz: float = 440, seconds: float = 1.0) -> bytes:
    return clips.audio(seconds, 16000, hertz=hertz)


def samples(hertz: float, seconds: float, start: float = 0.0) -> Any:
    """Samples of `sound`: the mean of a tone and a silent channel."""
    wave = np.sin(np.arange(round(seconds * 16000)) / 16000 * 2 * np.pi * hertz) * 16384
    return (wave.astype(np.int16) / 65536).astype(np.float32)[round(start * 16000) :]


def ask(*parts: str | bytes | model.Audio | model.Video) -> model.Message:
    message = model.Message(role=model.ROLE_USER)
    for part in parts:
        match part:
            case str():
                message.parts.add(text=part)
            case bytes():
                message.parts.add(image=model.Image(data=part))
            case model.Audio():
                message.parts.add(audio=part)
            case model.Video():
                message.parts.add(video=part)
    return message


def video(data: bytes, **sampling: Any) -> model.Video:
    return model.Video(data=data, sampling=model.FrameSampling(**sampling))


def request(message: model.Message, tokens: int = TOKENS) -> model.GenerateRequest:
    config = model.GenerationConfig(max_output_tokens=tokens, top_logprobs=1)
    return model.GenerateRequest(messages=[message], config=config)


def text(reply: model.GenerateResponse) -> str:
    return "".join(part.text for part in reply.parts)


class Alone:
    """The library without ours: its processor, its model, its greedy loop."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.processor = tf.AutoProcessor.from_pretrained(folder)
        auto, more = tf.AutoModelForMultimodalLM, {}
        if kind == "qwen2_5_omni":
            more["config"] = tf.AutoConfig.from_pretrained(folder).thinker_config
        self.net = auto.from_pretrained(folder, dtype=torch.float32, **more).eval()
        self.omni = kind == "qwen2_5_omni"

    def __call__(self, *parts: Any) -> tuple[str, list[float], int]:
        """Text, log-probabilities and prompt tokens for texts, images, samples and (frames, numbers of frames)."""
        kinds = {str: "text", Image.Image: "image", np.ndarray: "audio", tuple: "video"}
        content = [{"type": kinds[type(part)]} | ({"text": part} if isinstance(part, str) else {}) for part in parts]
        chat = [{"role": "user", "content": content}]
        rendered = self.processor.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=True, chat_template=self.processor.chat_template
        )
        media: dict[str, Any] = {}
        if images := [part for part in parts if isinstance(part, Image.Image)]:
            media["images"] = [images]
        if heard := [part for part in parts if isinstance(part, np.ndarray)]:
            media |= {"audio": heard, "audio_kwargs": {"sampling_rate": 16000}}
        if seen := [part for part in parts if isinstance(part, tuple)]:
            facts = [
                {"fps": 5, "total_num_frames": 10, "duration": 2.0, "frames_indices": list(numbers)}
                for _, numbers in seen
            ]
            media["videos"] = [shown for shown, _ in seen]
            media["videos_kwargs"] = {"do_sample_frames": False, "video_metadata": facts}
            if self.omni:  # it is told the rate of what was sampled
                media["videos_kwargs"]["fps"] = len(seen[0][1]) / 2.0
        inputs = self.processor(text=[rendered], return_tensors="pt", add_special_tokens=False, **media)
        before = inputs["input_ids"].shape[1]
        with torch.inference_mode():
            out = self.net.generate(
                **inputs,
                max_new_tokens=TOKENS,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
        ids = out.sequences[0, before:].tolist()
        logprobs = [row[0].float().log_softmax(-1)[number].item() for row, number in zip(out.logits, ids, strict=True)]
        return self.processor.decode(ids, skip_special_tokens=True), logprobs, before


@pytest.mark.parametrize("kind", KINDS)
async def test_equals_the_plain_loop(kind: str, served: Any, hf: Any, checkpoint_folder: Any, picture: Any) -> None:
    alone = Alone(checkpoint_folder(kind), kind)
    one, image = film(1), picture(1)
    shown = Image.open(io.BytesIO(image)).convert("RGB")

    def seen(*numbers: int) -> tuple[Any, tuple[int, ...]]:
        return frames(one, numbers), numbers

    cut = video(one, count=2)
    cut.span.start.FromMilliseconds(500)
    cases: list[tuple[list[Any], list[Any]]] = []
    if kind != "qwen2_audio":
        cases += [
            ([video(one, count=4), "What is it?"], [seen(0, 3, 6, 9), "What is it?"]),
            (["How many", video(one, count=3), "dogs?"], ["How many", seen(0, 4, 9), "dogs?"]),
            ([video(one, per_second=2), "Where?"], [seen(0, 2, 5, 7), "Where?"]),
        ]
        single = [0, 0] if kind.startswith("qwen3") else [0]  # whose processor refuses a single frame
        cases.append(([video(one, count=1), "When?"], [seen(*single), "When?"]))
    if kind not in ("qwen2_audio", "smolvlm"):
        parts = ["First", image, "then", video(one, count=4), "Same?"]
        cases.append((parts, ["First", shown, "then", seen(0, 3, 6, 9), "Same?"]))
    if kind in HEARS:
        late = model.Audio(data=sound(440))
        late.span.start.FromMilliseconds(250)
        cases += [
            ([model.Audio(data=sound(440)), "What is it?"], [samples(440, 1.0), "What is it?"]),
            (["Hear", late, "and", model.Audio(data=sound(990, 0.5)), "same?"],
             ["Hear", samples(440, 1.0, 0.25), "and", samples(990, 0.5), "same?"]),
        ]  # fmt: skip
    if kind in BOTH:
        parts = [image, model.Audio(data=sound(440)), video(one, count=2), "Same?"]
        cases.append((parts, [shown, samples(440, 1.0), seen(0, 9), "Same?"]))
    async with served(hf(kind, max_batch=1)) as server:
        claimed = set((await server.info()).capabilities)
        assert (model.CAPABILITY_VIDEO_INPUT in claimed) == (kind != "qwen2_audio")
        assert (model.CAPABILITY_AUDIO_INPUT in claimed) == (kind in HEARS)
        outputs = []
        for parts, plainly in cases:
            reply = await server.send(request(ask(*parts)))
            wanted, logprobs, before = alone(*plainly)
            assert text(reply) == wanted
            assert [token.logprob for token in reply.logprobs] == pytest.approx(logprobs, abs=1e-4)
            usage = reply.usage
            assert usage.input_tokens == before
            count = {name: sum(part.HasField(name) for part in ask(*parts).parts) for name in ("audio", "video")}
            assert len(usage.media) == sum(count.values())
            assert (usage.audio_tokens > 0, usage.video_tokens > 0) == (count["audio"] > 0, count["video"] > 0)
            assert (usage.image_tokens > 0) == (image in parts)
            outputs.append([round(token.logprob, 4) for token in reply.logprobs])
        assert len({str(output) for output in outputs}) == len(outputs), "other media give other answers"
        if kind != "qwen2_audio":
            for part, wanted_usage in ((video(one, count=4), (4, 2000)), (cut, (2, 1500))):
                (viewed,) = (await server.send(request(ask(part, "What?")))).usage.media
                assert (viewed.frames, viewed.duration.ToMilliseconds()) == wanted_usage
        if kind in HEARS:
            (heard,) = (await server.send(request(ask(model.Audio(data=sound()), "What?")))).usage.media
            assert (heard.sample_rate, heard.duration.ToMilliseconds(), heard.frames) == (16000, 1000, 0)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.weekly] if kind in LIKE_OTHERS else []) for kind in KINDS]
)
async def test_company_and_kept_features_change_nothing(kind: str, served: Any, hf: Any, picture: Any) -> None:
    one, two, image = film(1), film(2), picture(1)
    messages = [ask("There is nothing here. Say yes or no.")]
    if kind != "qwen2_audio":
        messages += [
            ask(video(one, count=4), "Which of these is right? (A) red (B) blue (C) green"),
            ask(video(two, count=4), "What is it?"),
            ask(video(one, count=2), "What is it?"),
            ask(image, "What is it?"),
        ]
    if kind not in ("qwen2_audio", "smolvlm"):
        messages += [ask(image, video(data, count=4), "Same?") for data in (one, two)]
        messages += [ask(video(data, count=4), image, "Same?") for data in (one, two)]
    if kind in HEARS:
        messages += [
            ask(model.Audio(data=sound(440)), "Which of these is right? (A) red (B) blue (C) green"),
            ask(model.Audio(data=sound(990)), "What is it?"),
            ask(model.Audio(data=sound(440, 0.5)), "What?"),
        ]
    if kind in BOTH:
        messages += [ask(image, model.Audio(data=sound(hertz)), "Same?") for hertz in (440, 990)]
    sent = [request(message) for message in messages]
    scored = [
        model.LikelihoodRequest(messages=[message], continuations=CONTINUATIONS, return_tokens=True)
        for message in messages
    ]
    async with served(hf(kind, max_batch=1, image_cache_bytes=0)) as server:
        alone = [await server.send(call) for call in sent]
        wanted = [await server.send(call) for call in scored]
    prompter, run = loop(hf(kind)._settings.model)
    for message, reply in zip(messages, wanted, strict=True):
        prompt = prompter.prepare([message])
        plainly = run(prompt, prompter.join(prompt, CONTINUATIONS))
        for one_score, other in zip(reply.scores, plainly, strict=True):
            assert [t.logprob for t in one_score.tokens] == pytest.approx(other.logprobs, abs=1e-5)
    async with served(hf(kind, max_batch=8, batch_wait=0.1)) as server:
        replies = await asyncio.gather(*[server.send(call) for call in sent])
        replies += [await server.send(call) for call in sent]  # again, with the features that are kept
        for one_reply, other_reply in zip(replies, alone * 2, strict=True):
            assert text(one_reply) == text(other_reply)
            logprobs = [token.logprob for token in other_reply.logprobs]
            assert [token.logprob for token in one_reply.logprobs] == pytest.approx(logprobs, abs=1e-4)
            assert one_reply.usage.video_tokens == other_reply.usage.video_tokens
        scores = await asyncio.gather(*[server.send(call) for call in scored])
        for one_scores, other_scores in zip(scores, wanted, strict=True):
            logprobs = [score.logprob for score in other_scores.scores]
            assert [score.logprob for score in one_scores.scores] == pytest.approx(logprobs, abs=1e-4)


def loop(folder: str) -> tuple[Prompter, Any]:
    checkpoint = checkpoints.load(Settings(model=folder))
    return Prompter(checkpoint, 10**8), functools.partial(plain, checkpoint)


def test_times_are_those_at_which_frames_are_shown(checkpoint_folder: Any) -> None:
    """Also where frames do not come at one rate, and after the start of a span."""
    prompter, _ = loop(str(checkpoint_folder("qwen3_vl")))
    film = model.Video(data=clips.video([0, 1, 2, 9, 10, 14], 5), sampling=model.FrameSampling(count=4))
    prompt = prompter.prepare([ask(film, "What?")])  # the frames at 0, 0.2, 1.8 and 2.8 seconds
    assert "<0.1 seconds>" in prompt.text
    assert "<2.3 seconds>" in prompt.text
    film.span.start.FromMilliseconds(1000)
    assert "<1.9 seconds>" in prompter.prepare([ask(film, "What?")]).text


def test_times_keep_their_precision() -> None:
    """In bfloat16 a third of a second becomes 0.334, and positions that are computed of it shift."""
    inputs = {"second_per_grid_ts": torch.tensor([4 / 3]), "pixel_values_videos": torch.ones(1)}
    moved = to_device(inputs, torch.device("cpu"), torch.bfloat16)
    assert (moved["second_per_grid_ts"].dtype, moved["pixel_values_videos"].dtype) == (torch.float32, torch.bfloat16)


async def test_each_video_has_its_own_rate(checkpoint_folder: Any) -> None:
    """Qwen-Omni's processor takes one rate for all videos of a prompt."""
    prompter, _ = loop(str(checkpoint_folder("qwen2_5_omni")))
    prompt = prompter.prepare([ask(video(film(1), count=4), video(film(1), count=10), "Same?")])
    assert prompt.inputs["video_second_per_grid"].tolist() == pytest.approx([2 / (4 / 2), 2 / (10 / 2)])


async def test_what_cannot_be_taken_is_refused(served: Any, hf: Any, picture: Any) -> None:
    async with served(hf("smolvlm")) as server:
        for parts, wanted in (
            ([video(film(1), count=2), picture(1), "x"], ("UNIMPLEMENTED", "no_mixed_media")),
            ([model.Audio(data=sound()), "x"], ("UNIMPLEMENTED", "no_audio_input")),
            ([video(b"nothing", count=2), "x"], ("INVALID_ARGUMENT", "bad_video")),
            ([video(clips.video()[:900], count=4), "x"], ("INVALID_ARGUMENT", "bad_video")),
            (["What is <video>?"], ("INVALID_ARGUMENT", "placeholder_in_text")),
        ):
            assert await refusal(server.send(request(ask(*parts)))) == wanted
        even = await server.send(request(ask(video(film(1), count=2), video(film(2), count=2), "Same?")))
        assert [seen.frames for seen in even.usage.media] == [2, 2]
        unsaid = ask(model.Video(data=film(1)), "x")
        assert (await server.send(request(unsaid))).usage.media[0].frames == 2, "its own choice: at most 2 frames"
    async with served(hf("llava_onevision")) as server:
        uneven = ask(video(film(1), count=2), video(film(2), count=3), "Same?")
        assert await refusal(server.send(request(uneven))) == ("INVALID_ARGUMENT", "processor_refused")
    async with served(hf("qwen2_audio")) as server:
        info = await server.info()
        assert info.media_limits.max_audio_duration.seconds == 2, "its processor cuts what is longer"
        assert info.media_limits.max_image_pixels == 0
        for part, wanted in (
            (model.Audio(data=sound(440, 2.1)), ("INVALID_ARGUMENT", "too_much_audio")),
            (model.Audio(data=b"nothing"), ("INVALID_ARGUMENT", "bad_audio")),
            ("<|AUDIO|>", ("INVALID_ARGUMENT", "placeholder_in_text")),
            (picture(1), ("UNIMPLEMENTED", "no_image_input")),
        ):
            assert await refusal(server.send(request(ask(part, "x")))) == wanted
        await server.send(request(ask(model.Audio(data=sound(440, 2.0)), "x")))


async def test_a_model_that_does_not_look_claims_nothing(
    served: Any, hf: Any, checkpoint_folder: Any, tmp_path: Path
) -> None:
    """A template that leaves videos out: each would be answered without them."""
    template = tmp_path / "template.jinja"
    template.write_text((checkpoint_folder("qwen2_5_vl") / "chat_template.jinja").read_text().replace("video", "film"))
    async with served(hf("qwen2_5_vl", chat_template=template)) as server:
        info = await server.info()
        assert model.CAPABILITY_IMAGE_INPUT in info.capabilities
        assert model.CAPABILITY_VIDEO_INPUT not in info.capabilities
        assert info.properties["video_likelihood_method"] == "none"
