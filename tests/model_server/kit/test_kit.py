"""The kit over real gRPC: what an author need not write."""

from __future__ import annotations

import asyncio
import re
import runpy
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from helpers import clips
from helpers.clips import shown
from helpers.model_serving import refusal

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, call, is_serving
from model_server import images
from model_server.backend import LoadError
from model_server.kit.backend import KitBackend
from model_server.kit.model import Model, Output, Request, Score
from model_server.metrics import Metrics
from model_server.service import NAME


class Echo(Model):
    """Says how many images of what size it saw, then the text."""

    name = "echo"
    max_context_tokens = 50
    image_tokens = 10

    def generate(self, request: Request) -> str:
        sizes = "".join(f"[{image.width}x{image.height} {image.mode}]" for image in request.images)
        return f"{sizes}{request.text}"


class Scorer(Echo):
    def likelihood(self, request: Request, continuations: Sequence[str]) -> list[Score]:
        return [Score(-float(len(text)), [(text, -float(len(text)))], False) for text in continuations]


def echo(kind: type[Model] = Echo, metrics: Metrics | None = None) -> KitBackend:
    return KitBackend(kind(), metrics or Metrics())


def request(message: model.Message, **config: Any) -> model.GenerateRequest:
    return model.GenerateRequest(messages=[message], config=model.GenerationConfig(**config))


async def test_answers_with_images_and_usage(served: Any, ask: Any, picture: Callable[..., bytes]) -> None:
    async with served(echo()) as server:
        sent = request(ask(picture(1, (30, 20)), "how", picture(2, (8, 9), "JPEG"), "now"))
        reply = await server.send(sent)
        assert [part.text for part in reply.parts] == ["[30x20 RGB][8x9 RGB]how\nnow"]
        assert reply.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE
        assert (reply.usage.input_tokens, reply.usage.image_tokens) == (22, 20)
        assert reply.effective_config.max_output_tokens == 50 - 22  # what the context leaves
        assert reply.effective_config.HasField("temperature")


class Thinker(Echo):
    reasoning = True

    def generate(self, request: Request) -> Output:
        return Output("the answer is B", reasoning="one two three")


async def test_reasoning_counts_toward_the_limit_and_stays_apart(served: Any, ask: Any) -> None:
    async with served(echo(Thinker)) as server:
        assert model.CAPABILITY_REASONING in (await server.info()).capabilities
        for limit, stop, reasoning, text, finish, used in (
            (30, [], "one two three", "the answer is B", model.FINISH_REASON_END_OF_SEQUENCE, (7, 3)),
            (5, [], "one two three", "the answer", model.FINISH_REASON_MAX_TOKENS, (5, 3)),
            (2, [], "one two", "", model.FINISH_REASON_MAX_TOKENS, (2, 2)),
            (30, ["two", " is"], "one two three", "the answer", model.FINISH_REASON_STOP_STRING, (5, 3)),
        ):
            got = await server.generate(ask("x"), max_output_tokens=limit, stop=stop)
            assert (got.reasoning, [part.text for part in got.parts]) == (reasoning, [text])
            assert got.finish_reason == finish
            assert (got.usage.output_tokens, got.usage.reasoning_tokens) == used

    class Unclaimed(Thinker):
        reasoning = False

    async with served(echo(Unclaimed)) as server:
        assert await refusal(server.generate(ask("x"))) == ("INTERNAL", "reasoning_not_claimed")


class Held(Model):
    """Answers and scores once it is let go."""

    name = "held"
    max_concurrency = 2
    max_queue = 3
    at_once = 2

    def __init__(self) -> None:
        self.go = threading.Event()
        self.entered = 0

    def generate(self, request: Request) -> str:
        self.entered += 1
        self.go.wait(30)
        return "done"

    def likelihood(self, request: Request, continuations: Sequence[str]) -> list[Score]:
        self.entered += 1
        self.go.wait(30)
        return [Score(-1.0, [(text, -1.0)]) for text in continuations]


class HeldBatch(Held):
    max_batch = 2
    at_once = 1  # the first batch may be one call

    def generate_batch(self, requests: Sequence[Request]) -> Sequence[str]:
        return [self.generate(request) for request in requests]


@pytest.mark.parametrize(("kind", "method"), [(Held, "Generate"), (Held, "Likelihood"), (HeldBatch, "Generate")])
async def test_no_more_wait_than_may_and_waiting_is_no_work(
    kind: type[Held], method: str, served: Any, ask: Any, picture: Callable[..., bytes]
) -> None:
    held, metrics = kind(), Metrics()
    messages = [ask(picture(1), "x")]
    sent: Any = model.GenerateRequest(messages=messages)
    if method == "Likelihood":
        sent = model.LikelihoodRequest(messages=messages, continuations=["A"])

    def queued() -> float:
        return metrics.registry.get_sample_value("lyncean_queued") or 0.0

    async with served(KitBackend(held, metrics)) as server:
        answer = getattr(server.stub, method)
        running = []
        for number in range(1, held.at_once + 1):
            running.append(asyncio.ensure_future(call(answer, sent, timeout=300)))
            while held.entered < number:
                await asyncio.sleep(0.01)
        running += [asyncio.ensure_future(call(answer, sent, timeout=300)) for _ in range(3)]
        while queued() < 3:
            await asyncio.sleep(0.01)
        with pytest.raises(CallError) as caught:
            await call(answer, sent, timeout=300)
        assert (caught.value.reason, caught.value.metadata["limit"]) == ("queue_full", "3")
        with pytest.raises(CallError) as caught:  # what is wrong with a request is said at once all the same
            await call(answer, type(sent)(messages=[ask(b"junk", "x")], **_continuations(method)), timeout=300)
        assert caught.value.reason == "bad_image"
        held.go.set()
        usages = [reply.usage for reply in await asyncio.gather(*running)]
        waits = sorted(usage.queue_time.ToNanoseconds() for usage in usages)
        works = sorted(usage.model_time.ToNanoseconds() for usage in usages)
        assert waits[2] > works[0], "who waited was not at work meanwhile"


def _continuations(method: str) -> dict[str, list[str]]:
    return {"continuations": ["A"]} if method == "Likelihood" else {}


async def test_limits_and_cuts(served: Any, ask: Any) -> None:
    async with served(echo()) as server:
        generate = server.stub.Generate
        reply = await call(generate, request(ask("one two three four"), max_output_tokens=2), timeout=300)
        assert reply.parts[0].text == "one two"
        assert reply.finish_reason == model.FINISH_REASON_MAX_TOKENS
        assert reply.usage.output_tokens == 2
        reply = await call(
            generate, request(ask("one two three four"), max_output_tokens=9, stop=["ee", "two"]), timeout=10
        )
        assert reply.parts[0].text == "one "
        assert reply.finish_reason == model.FINISH_REASON_STOP_STRING
        with pytest.raises(CallError) as caught:
            await call(generate, request(ask("w " * 45), max_output_tokens=20), timeout=300)
        assert caught.value.code == grpc.StatusCode.OUT_OF_RANGE
        assert caught.value.metadata == {"limit": "50", "value": "66"}


async def test_bad_images_are_refused_each_time(served: Any, ask: Any, picture: Callable[..., bytes]) -> None:
    async with served(echo()) as server:
        for data in (b"junk", picture(1)[:60], b"junk"):
            assert await refusal(server.generate(ask("x", data))) == ("INVALID_ARGUMENT", "bad_image")


class Blind(Model):
    """Answers without a look at its images."""

    name = "blind"
    answers = 0

    def generate(self, request: Request) -> str:
        self.answers += 1
        return "seen nothing"


async def test_what_the_model_never_looks_at_is_not_decoded(
    served: Any, ask: Any, picture: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model_server.images.decode", lambda *_, **__: pytest.fail("decoded"))
    monkeypatch.setattr("PIL.Image.Image.convert", lambda *_, **__: pytest.fail("decoded"))
    photo = picture(1, (600, 400), "JPEG")
    blind = Blind()
    async with served(KitBackend(blind, Metrics())) as server:
        assert (await server.generate(ask("x", photo, picture(2)))).parts[0].text == "seen nothing"
        for data in (photo[:-20], picture(3)[:-20], b"junk"):
            assert await refusal(server.generate(ask("x", data))) == ("INVALID_ARGUMENT", "bad_image")
    assert blind.answers == 1, "a damaged image is refused before the model is called"


async def test_likelihood_is_claimed_by_writing_it(served: Any, ask: Any) -> None:
    async with served(echo()) as server:
        info = await server.info()
        assert model.CAPABILITY_LIKELIHOOD not in info.capabilities
        assert (await refusal(server.score(ask("x"), ["a"])))[0] == "UNIMPLEMENTED"
    async with served(echo(Scorer)) as server:
        reply = await server.score(ask("x"), ["abc", "a", "abc"], return_tokens=True)
        assert [score.logprob for score in reply.scores] == [-3, -1, -3]
        assert reply.scores[0].tokens[0].token == b"abc"


async def test_calls_run_side_by_side(served: Any, ask: Any) -> None:
    class Meeting(Model):
        name = "meeting"
        max_concurrency = 3

        def __init__(self) -> None:
            self.barrier = threading.Barrier(3)

        def generate(self, request: Request) -> str:
            self.barrier.wait(5)  # passes only if three are here at once
            return "met"

    async with served(echo(Meeting)) as server:
        replies = await asyncio.gather(*[server.generate(ask("x")) for _ in range(3)])
        assert [reply.parts[0].text for reply in replies] == ["met"] * 3


async def test_the_batching_hook(served: Any, ask: Any) -> None:
    class Together(Model):
        name = "together"
        max_batch = 4
        batch_wait = 60.0  # a full batch does not wait

        def generate_batch(self, requests: Sequence[Request]) -> list[str]:
            return [f"{request.text} of {len(requests)}" for request in requests]

    async with served(echo(Together)) as server:
        replies = await asyncio.gather(*[server.generate(ask(text)) for text in "abcd"])
        assert [reply.parts[0].text for reply in replies] == [f"{text} of 4" for text in "abcd"]


@pytest.mark.parametrize("way", ["generate", "generate_batch", "generate_samples"])
async def test_an_image_is_decoded_once_for_all_samples(
    way: str, served: Any, ask: Any, picture: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Looks(Model):
        name = "looks"
        max_concurrency = 1

    def one(request: Request) -> str:
        (image,) = request.images
        seen = f"{image.size} {image.getpixel((0, 0))}"
        image.paste((0, 0, 0), (0, 0, *image.size))  # its own: the others see what was sent
        return seen

    many = lambda _, requests: [one(request) for request in requests]  # noqa: E731
    setattr(Looks, "generate", lambda _, request: one(request))  # noqa: B010
    if way != "generate":
        setattr(Looks, way, many)
    decoded: list[bytes] = []
    decode = images.decode
    monkeypatch.setattr(images, "decode", lambda data: (decoded.append(data), decode(data))[1])
    async with served(echo(Looks)) as server:
        config = model.GenerationConfig(temperature=1.0, seed=1)
        sent = model.GenerateRequest(messages=[ask(picture(1, (30, 20)), "how")], config=config, samples=3)
        replies = [result.output.parts[0].text for result in (await server.send(sent)).samples]
    assert len(replies) == 3
    assert len(set(replies)) == 1
    assert replies[0] != "(30, 20) (0, 0, 0)"
    assert len(decoded) == 1


async def test_an_iterator_that_ends_in_the_authors_code_is_internal_too(served: Any, ask: Any) -> None:
    class Exhausted(Echo):
        def generate(self, request: Request) -> str:
            return str(next(iter(())))  # StopIteration, which a future cannot carry

    async with served(echo(Exhausted)) as server:
        assert (await refusal(server.generate(ask("x"))))[0] == "INTERNAL"


async def test_an_exception_of_the_authors_is_internal(served: Any, ask: Any) -> None:
    class Broken(Model):
        name = "broken"

        def generate(self, request: Request) -> str:
            raise KeyError("oops")

    metrics = Metrics()
    async with served(echo(Broken, metrics), metrics=metrics) as server:
        with pytest.raises(CallError) as caught:
            await server.generate(ask("x"))
        assert caught.value.code == grpc.StatusCode.INTERNAL
        assert "oops" not in str(caught.value)
    labels = {"method": "Generate", "code": "INTERNAL"}
    assert metrics.registry.get_sample_value("lyncean_calls_total", labels) == 1


async def test_cancelling_reaches_the_author(served: Any, ask: Any) -> None:
    class Slow(Model):
        name = "slow"
        max_concurrency = 1

        def __init__(self) -> None:
            self.ended = threading.Event()
            self.begun = threading.Event()

        def generate(self, request: Request) -> str:
            if request.text == "quick":
                return "quick"
            self.begun.set()
            while not request.call.over:
                self.ended.wait(0.01)
            self.ended.set()
            return "late"

    kit = Slow()
    async with served(KitBackend(kit, Metrics())) as server:
        running = server.stub.Generate(request(ask("slow")))
        task = asyncio.ensure_future(running)
        await asyncio.to_thread(kit.begun.wait, 5)
        task.cancel()
        reply = await server.generate(ask("quick"))
        assert reply.parts[0].text == "quick"
        assert kit.ended.is_set()


async def test_image_output(served: Any, ask: Any, picture: Callable[..., bytes]) -> None:
    class Painter(Model):
        name = "painter"
        image_output = True

        def generate(self, request: Request) -> Output:
            return Output("there", image_files=[picture(3)])

    async with served(echo(Painter)) as server:
        sent = model.GenerateRequest(messages=[ask("draw")], modality=model.MODALITY_IMAGE)
        reply = await server.send(sent)
        assert reply.parts[1].image.data == picture(3)


class Listener(Echo):
    """Says what it heard and saw."""

    max_context_tokens = 0
    audio_input = video_input = True
    sample_rate = 16_000
    frames, max_frames = 4, 8
    audio_tokens = 25

    def generate(self, request: Request) -> str:
        heard = [f"{len(sound.samples)}/{sound.rate}" for sound in request.audio]
        seen = [",".join(str(shown(image)) for image in video.images) for video in request.videos]
        return f"{heard} {seen} {request.text}"


class Shown(Echo):
    max_images = 1
    max_image_pixels = 48 * 36
    system_messages = False

    def render(self, request: Request) -> tuple[str, list[int]]:
        return f"<s>{request.text}", [1, *range(2, 2 + len(self.tokenize(request.text)))]


async def test_prompts_are_shown_and_limits_kept(served: Any, ask: Any, picture: Any) -> None:
    async with served(echo(Shown)) as server:
        info = await server.info()
        assert model.CAPABILITY_RENDERED_PROMPT in info.capabilities
        assert (info.media_limits.max_images, info.media_limits.max_image_pixels) == (1, 48 * 36)
        sent = request(ask("two words"))
        assert not (await server.send(sent)).HasField("prompt")
        sent.return_prompt = True
        reply = await server.send(sent)
        assert (reply.prompt.text, list(reply.prompt.token_ids)) == ("<s>two words", [1, 2, 3])
        too_many, too_large = ask(picture(1), picture(2)), ask(picture(1, size=(49, 36)))
        assert await refusal(server.send(request(too_many))) == ("INVALID_ARGUMENT", "too_many_images")
        assert await refusal(server.send(request(too_large))) == ("INVALID_ARGUMENT", "image_too_large")
        system = model.Message(role=model.ROLE_SYSTEM, parts=[model.Part(text="Be brief.")])
        sent.messages.insert(0, system)
        assert await refusal(server.send(sent)) == ("UNIMPLEMENTED", "no_system_messages")
    async with served(echo(Echo)) as server:
        assert (await server.info()).system_messages == model.SYSTEM_MESSAGES_UNSPECIFIED
        sent = request(ask("two words"))
        sent.return_prompt = True
        assert await refusal(server.send(sent)) == ("UNIMPLEMENTED", "no_rendered_prompt")


async def test_audio_and_videos_are_decoded_and_reported(served: Any) -> None:
    film, tone = model.Video(data=clips.video(10, 5)), model.Audio(data=clips.audio(0.5, 8000))
    few = model.Video(data=film.data, sampling=model.FrameSampling(per_second=1))
    kinds = [{"video": film}, {"audio": tone}, {"text": "how"}, {"video": few}]
    message = model.Message(role=model.ROLE_USER, parts=[model.Part(**kind) for kind in kinds])
    async with served(echo(Listener)) as server:
        info = await server.info()
        assert {model.CAPABILITY_AUDIO_INPUT, model.CAPABILITY_VIDEO_INPUT} <= set(info.capabilities)
        assert (info.media_limits.max_frames, info.media_limits.max_images) == (8, 256)
        reply = await server.send(request(message))
        assert reply.parts[0].text == "['8000/16000'] ['0,3,6,9', '0,5'] how"
        usage = reply.usage
        assert (usage.input_tokens, usage.video_tokens, usage.audio_tokens) == (1 + 60 + 13, 60, 13)
        reported = [(clip.frames, clip.sample_rate, clip.duration.ToMilliseconds()) for clip in usage.media]
        assert reported == [(4, 0, 2000), (0, 16_000, 500), (2, 0, 2000)]
        message.parts[0].video.sampling.count = 9
        assert await refusal(server.send(request(message))) == ("INVALID_ARGUMENT", "too_many_frames")
        message.parts[0].video.ClearField("sampling")
        message.parts[1].audio.data = b"no sound"
        assert await refusal(server.send(request(message))) == ("INVALID_ARGUMENT", "bad_audio")


async def test_the_page_reads_a_prompt_once(
    served: Any, ask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[3] / "docs/plug-your-own.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "generate_samples" in block)
    (tmp_path / "words.py").write_text(code)
    kits: list[type[Model]] = []
    monkeypatch.setattr("model_server.kit.main", kits.append)
    runpy.run_path(str(tmp_path / "words.py"))
    async with served(echo(kits[0])) as server:
        sent = request(ask("one two three four five six"), temperature=1.0, seed=8)
        alone = []
        for seed in range(8, 12):
            sent.config.seed = seed
            alone.append((await server.send(sent)).parts[0].text)
        sent.config.seed, sent.samples = 8, 4
        outputs = [result.output for result in (await server.send(sent)).samples]
    assert [output.parts[0].text for output in outputs] == alone
    assert [output.usage.cached_tokens for output in outputs] == [0, 6, 6, 6]
    assert len(set(alone)) > 1


async def test_health_follows_loading(served: Any, ask: Any) -> None:
    async with served(echo(), load=False) as server:
        assert await is_serving(server.channel)
        assert not await is_serving(server.channel, NAME)
        assert await refusal(server.info()) == ("UNAVAILABLE", "model_loading")
        server.core.ready()
        await server.server.set_serving()
        assert await is_serving(server.channel, NAME)
        await server.info()


class Chooser(Echo):
    """Keeps to choices, or says the prompt."""

    answer_choices = True

    def generate(self, request: Request) -> str:
        return request.text or request.config.response_format.choices.texts[-1]


async def test_a_format_reaches_a_model_that_claims_it_and_is_held_against_its_answer(served: Any, ask: Any) -> None:
    choices = {"choices": {"texts": ["no", "yes"]}}
    async with served(echo(Chooser)) as server:
        reply = await server.send(request(ask("yes"), response_format=choices))
        assert reply.parts[0].text == "yes"
        assert reply.effective_config.response_format.choices.texts == ["no", "yes"]
        refused = await refusal(server.send(request(ask("perhaps"), response_format=choices)))
        assert refused == ("INTERNAL", "format_not_kept")
        refused = await refusal(server.send(request(ask("yes"), response_format={"regex": "yes"})))
        assert refused == ("UNIMPLEMENTED", "no_response_format")


class Awaited(Echo):
    async def generate(self, request: Request) -> str:  # type: ignore[override]
        return request.text


class Streamed(Echo):
    def generate(self, request: Request) -> Iterator[str]:  # type: ignore[override]
        yield from request.text.split()


class StreamedLater(Scorer):
    async def likelihood(self, request: Request, continuations: Sequence[str]) -> AsyncIterator[Score]:  # type: ignore[override]
        yield Score(0.0, [(request.text, 0.0)])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Awaited, "Awaited.generate is async.*plain def"),
        (Streamed, "Streamed.generate yields.*whole answer"),
        (StreamedLater, "StreamedLater.likelihood yields"),
    ],
)
def test_handlers_whose_result_is_not_the_answer_are_refused_at_load(kind: type[Model], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        echo(kind).load()
