"""Model servers broken on purpose, one for each check, around one that is whole."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from lyncean import rpc
from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc.serve import StatusInterceptor
from lyncean.vocabulary.response_format import keeps
from model_server.core import Core
from model_server.demo.hash_model import HashModel
from model_server.kit.backend import KitBackend
from model_server.kit.model import Model, Output, Request
from model_server.metrics import Metrics
from model_server.service import NAME, ModelServicer
from orchestrator.conformance.check import CHECKS
from orchestrator.conformance.checks_generate import RIDDLE
from orchestrator.conformance.checks_images import picture
from orchestrator.conformance.checks_media import tone

Results = list[model.BatchResult]
PARTS = (math.log(0.9), math.log(0.05))


class Thinker(HashModel):
    """The demo model, which `Whole` lets reason about the riddle."""

    reasoning = thinking = thinking_budget = True
    answer_choices = answer_regex = answer_json_schema = True
    tools = tool_choices = True

    def generate(self, request: Request) -> str | Output:  # type: ignore[override]
        wants_call = request.tools and request.messages[-1].role == model.ROLE_USER
        if wants_call and request.tool_choice.mode != model.TOOL_CHOICE_MODE_NONE:
            return Output("I look.", tool_calls=[("look", {"corner": "left"})] * 2)
        if not request.config.HasField("response_format") or request.config.response_format.HasField("choices"):
            return super().generate(request)
        texts = ("No: 123!", "Yes: 456.", '{"zx7": "q", "n": true}', '{"zx7": "w", "n": false}')
        return next(text for text in texts if keeps(request.config.response_format, text))


WORDS: list[str] = []
"""The vocabulary of raw prompts."""


class Whole(ModelServicer):
    """The demo model with every capability; a mutant overrides one method."""

    limit = rpc.MAX_MESSAGE_BYTES
    health = True
    reflects = True
    explains = True
    guards: Sequence[grpc.aio.ServerInterceptor] = ()
    kit: type[Model] = Thinker
    # What a mutant changes: the description, a request, the answers of each method.
    describe: Callable[[Any], object] = staticmethod(lambda info: None)
    asked: Callable[[Any], object] = staticmethod(lambda request: None)
    said: Callable[[Any, Any], object] = staticmethod(lambda request, response: None)
    sampled: Callable[[Any, Any], object] = staticmethod(lambda request, response: None)
    scored: Callable[[Any, Any], object] = staticmethod(lambda request, response: None)
    batched: Callable[[Any, Results], Results] | None = None

    def __init__(self) -> None:
        backend = KitBackend(self.kit(), Metrics())
        backend.load()
        core = Core(backend)
        core.ready()
        super().__init__(core, Metrics())
        self.running = 0

    async def GetModelInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        info = model.GetModelInfoResponse()
        info.CopyFrom(await super().GetModelInfo(request, context))
        info.capabilities.extend([model.CAPABILITY_OUTPUT_LOGPROBS, model.CAPABILITY_IMAGE_OUTPUT])
        info.capabilities.append(model.CAPABILITY_RAW_PROMPT)
        self.describe(info)
        return info

    async def Generate(self, request: Any, context: Any) -> Any:  # noqa: N802
        plain = model.GenerateRequest()
        plain.CopyFrom(request)
        plain.modality, plain.config.top_logprobs = model.MODALITY_TEXT, 0
        if request.samples > 1 and request.modality == model.MODALITY_IMAGE:
            raise rpc.Unsupported("no_image_samples", "one by one")
        response = await self.call(plain, context, super().Generate)
        if response.samples:
            self.sampled(request, response)
            return response
        if request.config.top_logprobs:
            for word in " ".join(part.text for part in response.parts).split():
                token = response.logprobs.add(token=word.encode(), logprob=PARTS[0])
                for value in PARTS[: request.config.top_logprobs]:
                    token.top.add(token=b"x", logprob=value)
        if any(part.text == RIDDLE for message in request.messages for part in message.parts):
            self.think(response, request.config)
        if request.modality == model.MODALITY_IMAGE:
            response.parts.add(image=model.Image(data=picture("red")))
        self.said(request, response)
        return response

    @staticmethod
    def think(response: Any, config: Any) -> None:
        """Puts four words of reasoning before an answer, held to the limit and the budget."""
        limit, off = config.max_output_tokens, config.HasField("thinking") and not config.thinking
        tokens = [] if off else ["The", "ball", "costs", "less"][: min(limit, config.thinking_budget or limit)]
        response.reasoning, response.usage.reasoning_tokens = " ".join(tokens), len(tokens)
        response.usage.output_tokens += len(tokens)
        if len(tokens) == limit:
            response.parts[0].text, response.finish_reason = "", model.FINISH_REASON_MAX_TOKENS
            response.usage.output_tokens = limit

    async def Likelihood(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.score_prompt:
            response = prompt_scores(request.raw_prompt)
        else:
            response = await self.call(request, context, super().Likelihood)
        self.scored(request, response)
        return response

    async def call(self, request: Any, context: Any, method: Callable[[Any, Any], Any]) -> Any:
        self.running += 1
        try:
            self.asked(request)
            return await method(request, context)
        finally:
            self.running -= 1

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.batched is None:
            async for response in super().Batch(request, context):
                yield response
            return
        responses = [response async for response in super().Batch(request, context)]
        results = [result for response in responses for result in response.results]
        yield model.BatchResponse(results=self.batched(request, results))


def prompt_scores(raw: Any) -> Any:
    """Scores a raw prompt word by word; a word's number is its place among those seen."""
    for word in re.findall(r"\s*\S+", raw.text):
        if word not in WORDS:
            WORDS.append(word)
    numbers = list(raw.tokens.ids) or [WORDS.index(word) for word in re.findall(r"\s*\S+", raw.text)]
    response = model.LikelihoodResponse()
    response.usage.input_tokens = len(numbers)
    for index, number in enumerate(numbers):
        token = response.prompt_tokens.add(token=WORDS[number].encode(), token_id=number)
        if index:
            token.logprob = -0.25 * index
            token.top.add(token=b"x", logprob=-0.125 * index)
    return response


def lenient(*reasons: str) -> type[Whole]:
    """Returns a server that answers what it should refuse for these reasons."""

    class Lenient(Whole):
        async def call(self, request: Any, context: Any, method: Any) -> Any:
            try:
                return await super().call(request, context, method)
            except rpc.StatusError as error:
                if error.reason not in reasons:
                    raise
            if isinstance(request, model.GenerateRequest):
                reason = model.FINISH_REASON_END_OF_SEQUENCE
                return model.GenerateResponse(parts=[model.Part(text="fine")], finish_reason=reason)
            score = model.ContinuationScore(logprob=-1.0, token_count=1)
            return model.LikelihoodResponse(scores=[score for _ in request.continuations])

    return Lenient


def broken(**attributes: Any) -> type[Whole]:
    """Returns a server of which some attributes are others."""
    plain = {name: staticmethod(value) if callable(value) else value for name, value in attributes.items()}
    return type("Broken", (Whole,), plain)


def rescored(change: Callable[[int, Any, Any], object]) -> type[Whole]:
    """Returns a server whose scores are changed: gets the place of each, it, and the response."""

    def scored(request: Any, response: Any) -> None:
        for index, score in enumerate(response.scores):
            change(index, score, response)

    return broken(scored=scored)


def result_by_result(change: Callable[[Any], object]) -> type[Whole]:
    """Returns a server of which each result of a Batch is changed."""

    def batched(request: Any, results: Results) -> Results:
        for result in results:
            change(result)
        return results

    return broken(batched=batched)


def refuse(condition: Callable[[Any], bool]) -> type[Whole]:
    """Returns a server that refuses requests of a kind."""

    def asked(request: Any) -> None:
        if condition(request):
            raise rpc.InvalidRequest("mutant", "no")

    return broken(asked=asked)


def cleared(hook: str, message: str, *fields: str) -> type[Whole]:
    """Returns a server that leaves fields out of a message of its responses; "" is the response itself."""

    def change(request: Any, response: Any) -> None:
        for field in fields:
            (getattr(response, message) if message else response).ClearField(field)

    return broken(**{hook: change})


def shift(score: Any, by: float) -> None:
    """Moves a score and, to be consistent, its last token."""
    score.logprob += by
    if score.tokens:
        score.tokens[-1].logprob += by


counter = itertools.count(40)


def unknown_fields(request: Any) -> bool:
    small = request.ByteSize() < 1_000_000
    return small and any(len(UnknownFieldSet(message)) for message in (request, *request.messages))


def numbered(request: Any, response: Any) -> None:
    response.parts[0].text = f"{next(counter)} {response.parts[0].text}"


def no_stop(request: Any) -> None:
    if isinstance(request, model.GenerateRequest) and "" not in request.config.stop:
        del request.config.stop[:]


def always_ends(request: Any, response: Any) -> None:
    if response.finish_reason == model.FINISH_REASON_MAX_TOKENS:
        response.finish_reason = model.FINISH_REASON_END_OF_SEQUENCE


def repeats(request: Any, response: Any) -> None:
    if _begins(request):
        response.parts[0].text = request.messages[-1].parts[0].text + response.parts[0].text


def starts_over(request: Any) -> None:
    """Leaves out the beginning of an answer."""
    if _begins(request) and request.messages[-1].parts[0].text:
        del request.messages[-1]


def _begins(request: Any) -> bool:
    return bool(request.messages) and request.messages[-1].role == model.ROLE_ASSISTANT


def thinks_aloud(request: Any, response: Any) -> None:
    """The answer begins with the marks of the reasoning."""
    if response.reasoning:
        response.parts[0].text = f"<think>{response.reasoning}</think>{response.parts[0].text}"


def thinks_on(request: Any, response: Any) -> None:
    """Reasoning that is turned off goes on."""
    if request.config.HasField("thinking"):
        response.reasoning = "The ball costs less"


def thinks_over(request: Any, response: Any) -> None:
    """Reasoning that is to be short is long."""
    if request.config.HasField("thinking_budget"):
        response.usage.reasoning_tokens = response.usage.output_tokens = 60


def beside(kind: str) -> type[Whole]:
    """Returns a server whose answers of one kind of format end in a full stop."""

    def said(request: Any, response: Any) -> None:
        if request.config.response_format.HasField(kind):
            response.parts[0].text += " ."

    return broken(said=said)


class OneFormat(Whole):
    """Forgets the format of a request that comes while another is answered."""

    async def call(self, request: Any, context: Any, method: Any) -> Any:
        if isinstance(request, model.GenerateRequest) and self.running:
            request.config.ClearField("response_format")
        self.running += 1
        await asyncio.sleep(0.02)
        self.running -= 1
        return await super().call(request, context, method)


def thinks_in_format(request: Any, response: Any) -> None:
    """The reasoning stands before the choice."""
    if request.config.HasField("response_format") and response.reasoning:
        response.parts[0].text = f"{response.reasoning}: {response.parts[0].text}"


def answers_in_thought(request: Any, response: Any) -> None:
    """Reasoning that is cut becomes the answer."""
    if response.reasoning and not response.parts[0].text:
        response.parts[0].text, response.reasoning = response.reasoning, ""


TOOLS = sorted(name for name, check in CHECKS.items() if "TOOLS" in check.needs)


def no_descriptions(request: Any) -> None:
    """Tools have names alone."""
    for tool in getattr(request, "tools", ()):
        tool.description = ""


def no_tool_images(request: Any) -> None:
    """Results hold texts alone."""
    for part in (part for message in request.messages for part in message.parts if part.HasField("tool_result")):
        texts = [piece for piece in part.tool_result.content if not piece.HasField("image")]
        del part.tool_result.content[:]
        part.tool_result.content.extend(texts)


def one_id(request: Any, response: Any) -> None:
    for part in (part for part in response.parts if part.HasField("tool_call")):
        part.tool_call.id = "call"


def calls_always(request: Any, response: Any) -> None:
    if request.tool_choice.mode == model.TOOL_CHOICE_MODE_NONE:
        response.parts.add(tool_call=model.ToolCall(id="x", name="look"))


def one_seed(request: Any, response: Any) -> None:
    """All outputs are the first."""
    for result in response.samples:
        result.CopyFrom(response.samples[0])


def one_less(request: Any, response: Any) -> None:
    if response.samples:
        del response.samples[-1]


def short_prompt(request: Any, response: Any) -> None:
    """The rendered prompt lacks its last token."""
    if response.prompt.token_ids:
        del response.prompt.token_ids[-1]


def prompt_unasked(request: Any, response: Any) -> None:
    response.prompt.text = "".join(part.text for message in request.messages[-1:] for part in message.parts)


def other_prompt(request: Any, response: Any) -> None:
    """Every conversation has the prompt of the first."""
    if response.HasField("prompt"):
        response.prompt.text = "Say which of the numbers 4711 and 815 or 816 is larger."


def renumbered(index: int, score: Any, response: Any) -> None:
    for token in score.tokens:
        token.token_id = index


def drops_system(request: Any) -> None:
    if request.messages and request.messages[0].role == model.ROLE_SYSTEM and len(request.messages) > 1:
        del request.messages[0]


def no_images(request: Any, response: Any) -> None:
    texts = [part for part in response.parts if part.WhichOneof("kind") == "text"]
    del response.parts[:]
    response.parts.extend(texts)


def mistaken_type(request: Any) -> bool:
    images = [part.image for message in request.messages for part in message.parts if part.HasField("image")]
    return any(image.media_type == "image/jpeg" and image.data.startswith(b"\x89PNG") for image in images)


def first_image_only(request: Any) -> None:
    for message in request.messages:
        indices = [index for index, part in enumerate(message.parts) if part.HasField("image")]
        for index in reversed(indices[1:]):
            del message.parts[index]


def own_frames(request: Any) -> None:
    for part in (part for message in request.messages for part in message.parts if part.HasField("video")):
        if part.video.sampling.count > 1 or part.video.sampling.per_second:
            part.video.ClearField("sampling")


def one_video(request: Any) -> None:
    for part in (part for message in request.messages for part in message.parts if part.HasField("video")):
        if part.video.HasField("span") and part.video.sampling.count == 1:
            part.video.ClearField("span")


def hashed(request: Any) -> list[Any]:
    """The images of a request that stand for their hash alone."""
    return [image for image in _images(request) if image.sha256 and not image.data]


def _images(request: Any) -> list[Any]:
    return [part.image for message in request.messages for part in message.parts if part.HasField("image")]


def no_hash(request: Any) -> None:
    """Drops media that have no bytes."""
    for message in request.messages:
        for index in reversed(range(len(message.parts))):
            if message.parts[index].HasField("image") and message.parts[index].image in hashed(request):
                del message.parts[index]


def never_there(request: Any) -> None:
    if missing := hashed(request):
        raise rpc.NotHeld([image.sha256 for image in missing])


class ByBucket(Whole):
    """Files are held in few places, the last one for all hashes of a place."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[int, bytes] = {}
        self.seen: set[bytes] = set()

    async def call(self, request: Any, context: Any, method: Any) -> Any:
        for image in _images(request):
            if image.sha256 and hashlib.sha256(image.data).digest() == image.sha256:
                self.places[0] = image.data
                self.seen.add(bytes(image.sha256))
            elif image.sha256 in self.seen:
                image.data = self.places[0]
                image.ClearField("sha256")
        return await super().call(request, context, method)


class Trusting(Whole):
    """Holds any bytes under the hash of the request, without a check."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[bytes, bytes] = {}

    async def call(self, request: Any, context: Any, method: Any) -> Any:
        for image in _images(request):
            if image.sha256 and image.data:
                self.files[bytes(image.sha256)] = image.data
            if image.sha256 in self.files:
                image.data = self.files[image.sha256]
                image.ClearField("sha256")
        return await super().call(request, context, method)


def names(change: Callable[[Any, str], str]) -> type[Whole]:
    """Returns a server that names the files that are missing otherwise."""

    class Naming(Whole):
        async def call(self, request: Any, context: Any, method: Any) -> Any:
            try:
                return await super().call(request, context, method)
            except rpc.NotHeld as error:
                error.metadata["sha256"] = change(request, error.metadata["sha256"])
                raise

    return Naming


def deaf(request: Any) -> None:
    for part in (part for message in request.messages for part in message.parts if part.HasField("audio")):
        if part.audio.data[:4] == b"RIFF" and not part.audio.HasField("span"):
            part.audio.data = tone(220)


def sorted_images(request: Any) -> None:
    for message in request.messages:
        message.parts.sort(key=lambda part: (not part.HasField("image"), part.image.data))


def positive(index: int, score: Any, response: Any) -> None:
    for scored in (score, *score.tokens):
        scored.logprob = -scored.logprob


def cut_tokens(index: int, score: Any, response: Any) -> None:
    if score.tokens:
        score.tokens[-1].token = score.tokens[-1].token[:-1]


def once(request: Any, response: Any) -> None:
    seen = set()
    for text, score in zip(request.continuations, response.scores, strict=True):
        if text in seen:
            shift(score, -1.0)
        seen.add(text)


def equal_once(request: model.BatchRequest, results: Results) -> Results:
    """Two calls that are the same get one result."""
    seen = {call.SerializeToString(): index for index, call in reversed(list(enumerate(request.calls)))}
    return [result for result in results if result.index in seen.values()]


def shuffled(request: model.BatchRequest, results: Results) -> Results:
    """The answers of Generate go to one another's calls."""
    generated = [result for result in results if result.HasField("generate")]
    texts = [result.generate.SerializeToString() for result in generated]
    for result, text in zip(generated, texts[1:] + texts[:1], strict=True):
        result.generate.ParseFromString(text)
    return results


def unknown_code(result: Any) -> None:
    if reason_of(result) not in ("", "empty_call"):
        result.status.code = grpc.StatusCode.UNKNOWN.value[0]


def reason_of(result: Any) -> str:
    """The reason of a call's failure in a Batch, "" of an answer."""
    return rpc.CallError.from_status(result.status).reason if result.HasField("status") else ""


def as_before(result: Any) -> None:
    """A failure as servers tell it that do not know BatchResult.status."""
    if result.HasField("status"):
        error = rpc.CallError.from_status(result.status)
        failure = model.BatchFailure(code=result.status.code, message=result.status.message, reason=error.reason)
        result.failure.CopyFrom(failure)


def scores_lost(result: Any) -> None:
    if result.HasField("likelihood"):
        del result.likelihood.scores[1:]


def sinking(condition: Callable[[str], bool]) -> Callable[[Any, Results], Results]:
    """A call that fails for some reasons takes the Batch with it."""

    def batched(request: Any, results: Results) -> Results:
        for result in results:
            if result.HasField("status") and condition(reason_of(result)):
                raise rpc.InvalidRequest(reason_of(result), result.status.message)
        return results

    return batched


def one_kind(request: model.BatchRequest, results: Results) -> Results:
    if len({call.WhichOneof("request") for call in request.calls} - {None}) > 1:
        raise rpc.InvalidRequest("mixed", "one kind at a time")
    return results


class Drifting(Whole):
    """Scores depend on how many requests there are."""

    async def call(self, request: Any, context: Any, method: Any) -> Any:
        self.running += 1
        await asyncio.sleep(0.02)
        company = self.running - 1
        try:
            response = await method(request, context)
        finally:
            self.running -= 1
        if isinstance(request, model.LikelihoodRequest):
            for score in response.scores:
                shift(score, -0.1 * company)
        return response


class Mixed(Whole):
    """Hands whoever asks at the same time the answer to what came last."""

    last = ""

    async def call(self, request: Any, context: Any, method: Any) -> Any:
        response = await super().call(request, context, method)
        prompt = "".join(part.text for message in request.messages for part in message.parts)
        if prompt.startswith("Round"):
            self.last = prompt
            await asyncio.sleep(0.02)
            response.parts[0].text = self.last
        return response


def leaking(when: Callable[[float], bool]) -> type[Whole]:
    """Returns a server that stops with the first call that is given up: where all is slow, few arrive before that."""

    class Leaking(Whole):
        def __init__(self) -> None:
            super().__init__()
            self.places = 1

        async def call(self, request: Any, context: Any, method: Any) -> Any:
            if self.places <= 0:
                await asyncio.sleep(3600)
            left = context.time_remaining()
            try:
                await asyncio.sleep(0.2)
            except asyncio.CancelledError:
                if when(left):
                    self.places -= 1
                raise
            return await super().call(request, context, method)

    return Leaking


class Nothing(Whole):
    """A Batch without calls ends well."""

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.calls:
            async for response in super().Batch(request, context):
                yield response


class Unbounded(Whole):
    """A Batch has as many calls as it likes."""

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        for start in range(0, max(1, len(request.calls)), 1024):
            part = model.BatchRequest(calls=request.calls[start : start + 1024])
            async for response in super().Batch(part, context):
                for result in response.results:
                    result.index += start
                yield response


class Absent(Whole):
    """Batch is claimed and was never written."""

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not implemented!")
        yield model.BatchResponse()


class Slow(Whole):
    """Stories are told for as long as somebody listens."""

    async def call(self, request: Any, context: Any, method: Any) -> Any:
        if any(part.text.startswith("Story") for message in request.messages for part in message.parts):
            await asyncio.Event().wait()
        return await super().call(request, context, method)


class Collecting(Slow):
    """Nothing is said before all is there."""

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        for response in [response async for response in super().Batch(request, context)]:
            yield response


def leaking_batches(when: Callable[[float], bool]) -> type[Whole]:
    """Returns a server that loses a place with each call of a Batch that is given up, and with no other."""

    class LeakingBatches(leaking(lambda _: False)):  # type: ignore[misc]
        places: int

        async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
            left = context.time_remaining()
            ended = False
            try:
                async for response in super().Batch(request, context):
                    yield response
                ended = True
            finally:
                if not ended and when(left):
                    self.places -= len(request.calls)

    return LeakingBatches


class InTurn(Whole):
    """An honest server in a language without tasks: one call after another, each answer sent when it is there."""

    gathers = True

    async def Batch(self, request: Any, context: Any) -> Any:  # noqa: N802
        if not 0 < len(request.calls) <= 1024:
            raise rpc.InvalidRequest("bad_batch", f"{len(request.calls)} calls")
        if self.gathers:
            calls = [getattr(call, call.WhichOneof("request")) for call in request.calls if call.WhichOneof("request")]
            await self._core.held.complete_batch([call.messages for call in calls])
        for index, call in enumerate(request.calls):
            alone = model.BatchRequest(calls=[call])
            async for response in super().Batch(alone, context):
                response.results[0].index = index
                yield response


class Crowded(Whole):
    """An honest server with room for two calls and no queue, although it asks for more."""

    async def call(self, request: Any, context: Any, method: Any) -> Any:
        if self.running >= 2:
            raise rpc.Overloaded("queue_full", "full")
        return await super().call(request, context, method)


class _InBatches(HashModel):
    """A model that makes all answers of a batch in one go, as a GPU does."""

    def generate_batch(self, requests: Sequence[Request]) -> list[str]:
        """Takes its time, and then answers all."""
        time.sleep(0.02)
        return [self.generate(request) for request in requests]


class InBatches(Whole):
    """An honest server of such a model."""

    kit = _InBatches


@dataclass(frozen=True)
class Mutant:
    """A broken server.

    Attributes:
        breaks: The checks that it must fail, and no others.
        server: It.
        only: The checks to run; empty runs all but those of huge messages.
    """

    breaks: Collection[str]
    server: type[Whole]
    only: Collection[str] = ()


def mutant(server: type[Whole], *breaks: str, only: Collection[str] = ()) -> Mutant:
    return Mutant(breaks, server, only)


SIZES = "batch_sizes_count_together"
NO_SEED = broken(describe=lambda info: info.capabilities.remove(model.CAPABILITY_SEED))
NAMES = (
    "batch_answers_each_call_once",
    "batch_answers_as_by_itself",
    "batch_mixes_generate_and_likelihood",
    "batch_failures_stay_alone",
    "batch_refuses_calls_without_request",
    "batch_refuses_no_calls",
    "batch_refuses_too_many_calls",
    "batch_gives_places_back",
)
ONCE, ALIKE, MIXED, ALONE, NO_REQUEST, NO_CALLS, TOO_MANY, PLACES = NAMES
KEPT = ("choices_are_kept", "regex_is_kept", "json_schema_is_kept")
WHO = "answers_say_who_gave_them"
WAIT = "batch_answers_do_not_wait"
BY_HASH = ("files_are_taken_by_their_hash", "missing_files_are_named", "hashes_are_checked")
SHARE = "batch_calls_share_their_files"
FILES = (*BY_HASH, SHARE)


def crashes(request: Any) -> None:
    raise ValueError("the weights are not there")


MUTANTS = {
    "crashing": mutant(broken(asked=crashes), "answers_a_plain_question"),
    "nameless": mutant(broken(describe=lambda info: info.ClearField("model_name")), "info_names_the_model"),
    "restless": mutant(broken(describe=lambda info: setattr(info, "max_concurrency", next(counter))), "info_is_stable"),
    "twice": mutant(
        broken(describe=lambda info: info.capabilities.append(model.CAPABILITY_GENERATE)),
        "info_capabilities_make_sense",
    ),
    "keys": mutant(
        broken(describe=lambda info: info.properties.update({"Compute Device": "cpu"})), "info_fields_are_well_formed"
    ),
    "anonymous": mutant(cleared("scored", "", "served_by"), WHO),
    "reborn": mutant(broken(said=lambda request, response: setattr(response.served_by, "boot_id", "another")), WHO),
    "anonymous in a Batch": mutant(
        result_by_result(
            lambda result: (
                setattr(result.generate.served_by, "boot_id", "another") if result.HasField("generate") else None
            )
        ),
        WHO,
    ),
    "unhealthy": mutant(broken(health=False), "health_has_both_names"),
    "unreflected": mutant(broken(reflects=False), "reflection_names_the_service"),
    "unexplained": mutant(broken(explains=False), "errors_carry_error_info", BY_HASH[1]),
    "thinks_aloud": mutant(broken(said=thinks_aloud), "reasoning_stays_apart", "format_begins_behind_the_reasoning"),
    "answers_in_thought": mutant(broken(said=answers_in_thought), "reasoning_stays_apart"),
    "thinks_on": mutant(broken(said=thinks_on), "thinking_turns_off"),
    "thinks_over": mutant(broken(said=thinks_over), "thinking_budget_holds"),
    "any_choice": mutant(beside("choices"), "choices_are_kept", "format_begins_behind_the_reasoning"),
    "part_of_a_match": mutant(beside("regex"), "regex_is_kept"),
    "more_than_json": mutant(beside("json_schema"), "json_schema_is_kept"),
    "one_format": mutant(OneFormat, *KEPT, only=KEPT),
    "thinks_in_format": mutant(broken(said=thinks_in_format), "format_begins_behind_the_reasoning"),
    "any_format": mutant(
        lenient("bad_response_format", "format_conflict"),
        "refuses_malformed_choices",
        "refuses_malformed_regexes",
        "refuses_malformed_schemas",
    ),
    "contradicts": mutant(lenient("zero_budget", "thinking_conflict"), "refuses_thinking_contradictions"),
    "no_messages": mutant(lenient("empty_prompt"), "refuses_no_messages", "errors_carry_error_info"),
    "no_parts": mutant(lenient("empty_message"), "refuses_no_parts"),
    "no_kind": mutant(lenient("empty_part"), "refuses_part_without_kind"),
    "no_role": mutant(lenient("no_role"), "refuses_no_role"),
    "last_role": mutant(lenient("last_not_user"), "refuses_last_role"),
    "repeats": mutant(broken(said=repeats), "answers_are_continued"),
    "starts_over": mutant(
        broken(asked=starts_over),
        "answers_are_continued",
        "scores_stand_behind_the_beginning",
        "reasoning_of_the_beginning_is_seen",
    ),
    "thoughtless": mutant(
        broken(asked=lambda request: _begins(request) and request.messages[-1].ClearField("reasoning")),
        "reasoning_of_the_beginning_is_seen",
    ),
    "wordless": mutant(lenient("bad_answer_prefix"), "refuses_beginnings_that_are_none"),
    "thoughts_anywhere": mutant(lenient("reasoning_not_last"), "refuses_beginnings_that_are_none"),
    "prompt_unread": mutant(cleared("scored", "", "prompt_tokens"), "raw_prompts_are_scored"),
    "first_scored": mutant(
        broken(scored=lambda _, r: [setattr(token, "logprob", -2.0) for token in r.prompt_tokens[:1]]),
        "raw_prompts_are_scored",
    ),
    "half_read": mutant(
        broken(scored=lambda q, r: [r.prompt_tokens.pop() for _ in r.prompt_tokens[3:] if q.raw_prompt.text]),
        "raw_prompts_are_scored",
    ),
    "any_tools": mutant(
        lenient("bad_tool", "bad_tool_choice", "no_tools_to_choose", "tools_conflict"),
        "refuses_malformed_tools",
        only=TOOLS,
    ),
    "any_results": mutant(
        lenient("bad_tool_results", "no_tool_results", "bad_tool_call", "misplaced_tool_call", "misplaced_opaque"),
        "refuses_misplaced_results",
        only=TOOLS,
    ),
    "no_descriptions": mutant(broken(asked=no_descriptions), "tools_reach_the_model", only=TOOLS),
    "no_tool_images": mutant(broken(asked=no_tool_images), "tool_images_are_as_stated", only=TOOLS),
    "nowhere": mutant(
        broken(describe=lambda info: info.tool_rendering.ClearField("images")), "tool_images_are_as_stated", only=TOOLS
    ),
    "one_id": mutant(broken(said=one_id), "calls_are_well_formed", only=TOOLS),
    "calls_always": mutant(broken(said=calls_always), "tool_choice_is_kept", only=TOOLS),
    "one_round": mutant(
        refuse(lambda r: len(r.messages) > 1 and r.messages[-1].role == model.ROLE_USER),
        "answers_several_rounds",
        "system_messages_are_as_stated",
    ),
    "claims_less": mutant(NO_SEED, "refuses_what_it_does_not_claim"),
    "zero_tokens": mutant(lenient("zero_tokens"), "refuses_zero_output_tokens"),
    "any_decoding": mutant(lenient("bad_temperature", "bad_top_p"), "refuses_impossible_decoding"),
    "empty_stop": mutant(lenient("empty_stop"), "refuses_impossible_decoding"),
    "scores_nothing": mutant(lenient("empty_continuation", "no_continuations"), "refuses_empty_continuations"),
    "truncates": mutant(lenient("context_exceeded"), "refuses_over_long_input"),
    "strict_fields": mutant(refuse(unknown_fields), "ignores_unknown_fields"),
    "numbered": mutant(
        broken(said=numbered),
        "greedy_repeats_itself",
        "unset_is_not_zero",
        "stop_strings_end_the_output",
        "output_limit_holds",
        "reasoning_stays_apart",
        "answers_are_continued",
        *KEPT,
        "format_begins_behind_the_reasoning",
        "seed_repeats",
        "parallel_equals_serial",
        "batch_answers_as_by_itself",
        "batch_mixes_generate_and_likelihood",
        "rendered_prompt_is_returned",
        "samples_are_separate_outputs",
        BY_HASH[0],
        SHARE,
    ),
    "unreported": mutant(
        broken(
            said=lambda request, response: (
                request.config.HasField("temperature") or response.effective_config.ClearField("temperature")
            )
        ),
        "unset_is_not_zero",
    ),
    "no_top_p": mutant(cleared("said", "effective_config", "top_p"), "effective_config_is_complete"),
    "no_stop": mutant(
        broken(asked=no_stop),
        "stop_strings_end_the_output",
        "effective_config_is_complete",
        "refuses_malformed_choices",
    ),
    "always_ends": mutant(broken(said=always_ends), "output_limit_holds", "reasoning_stays_apart"),
    "no_input_tokens": mutant(
        cleared("said", "usage", "input_tokens"),
        "usage_is_reported",
        "answers_are_continued",
        "rendered_prompt_is_returned",
        "system_messages_are_as_stated",
        "samples_are_separate_outputs",
    ),
    "no_reason": mutant(
        cleared("said", "", "finish_reason"),
        "finish_reason_is_set",
        "stop_strings_end_the_output",
        "output_limit_holds",
        "reasoning_stays_apart",
    ),
    "numbered_samples": mutant(
        broken(said=lambda request, response: request.config.temperature > 0 and numbered(request, response)),
        "seed_repeats",
        "samples_are_separate_outputs",
        *KEPT,
    ),
    "backwards": mutant(
        broken(said=lambda _, response: [token.top.reverse() for token in response.logprobs]),
        "logprobs_make_sense",
    ),
    "no_images": mutant(broken(said=no_images), "images_are_made"),
    "one_seed": mutant(broken(sampled=one_seed), "samples_are_separate_outputs"),
    "one_less": mutant(broken(sampled=one_less), "samples_are_separate_outputs", "samples_are_bounded"),
    "any_samples": mutant(lenient("too_many_samples"), "samples_are_bounded"),
    "no_max_samples": mutant(broken(describe=lambda info: info.ClearField("max_samples")), "samples_are_bounded"),
    "short_prompt": mutant(broken(said=short_prompt), "rendered_prompt_is_returned"),
    "prompt_unasked": mutant(broken(scored=prompt_unasked), "rendered_prompt_is_returned"),
    "no_prompt": mutant(cleared("said", "", "prompt"), "rendered_prompt_is_returned"),
    "other_prompt": mutant(broken(said=other_prompt), "rendered_prompt_is_returned", "system_messages_are_as_stated"),
    "renumbered": mutant(rescored(renumbered), "token_ids_name_tokens"),
    "drops_system": mutant(broken(asked=drops_system), "system_messages_are_as_stated"),
    "takes_system": mutant(
        broken(describe=lambda info: setattr(info, "system_messages", model.SYSTEM_MESSAGES_REFUSED)),
        "system_messages_are_as_stated",
    ),
    "any_number": mutant(lenient("too_many_images"), "image_limit_is_kept"),
    "odd_hash": mutant(
        broken(describe=lambda info: setattr(info, "processor_sha256", "v2")), "info_fields_are_well_formed"
    ),
    "mistaken_type": mutant(refuse(mistaken_type), "image_bytes_decide"),
    "bad_image": mutant(lenient("bad_image"), "refuses_corrupt_images"),
    "huge_image": mutant(lenient("image_too_large"), "refuses_huge_images"),
    "first_image_only": mutant(broken(asked=first_image_only), "several_images_are_seen", "image_limit_is_kept"),
    "own_frames": mutant(broken(asked=own_frames), "video_frames_are_those_asked_for"),
    "one_video": mutant(broken(asked=one_video), "videos_are_seen"),
    "no_hash": mutant(broken(asked=no_hash), *BY_HASH, only=FILES),
    "never_there": mutant(broken(asked=never_there), *BY_HASH[:2], only=FILES),
    "by_bucket": mutant(ByBucket, BY_HASH[0], only=FILES),
    "holds_nothing": mutant(
        broken(describe=lambda info: info.ClearField("max_held_bytes")), "info_capabilities_make_sense"
    ),
    "trusting": mutant(Trusting, BY_HASH[2], only=FILES),
    "names_none": mutant(names(lambda request, named: ""), BY_HASH[1], only=FILES),
    "names_all": mutant(
        names(lambda request, named: ",".join(image.sha256.hex() for image in _images(request))), BY_HASH[1], only=FILES
    ),
    "each_for_itself": mutant(type("EachForItself", (InTurn,), {"gathers": False}), SHARE, only=FILES),
    "deaf": mutant(broken(asked=deaf), "audio_is_heard"),
    "bad_media": mutant(
        lenient("bad_audio", "bad_video", "bad_sampling", "empty_span"), "refuses_corrupt_audio_and_video"
    ),
    "sorted_images": mutant(broken(asked=sorted_images), "image_order_is_kept"),
    "positive": mutant(rescored(positive), "logprobs_are_logarithms"),
    "mean": mutant(
        rescored(lambda _, score, response: setattr(score, "logprob", score.logprob / score.token_count)),
        "sum_is_that_of_the_tokens",
        "scores_stand_behind_the_beginning",
    ),
    "cut_tokens": mutant(rescored(cut_tokens), "tokenization_joins", "token_ids_name_tokens"),
    "no_output_tokens": mutant(cleared("scored", "usage", "output_tokens"), "likelihood_usage_is_reported"),
    "never_greedy": mutant(
        rescored(lambda index, score, response: score.ClearField("is_greedy")), "agrees_with_greedy"
    ),
    "by_place": mutant(
        rescored(lambda index, score, response: shift(score, -0.1 * index)),
        "order_does_not_matter",
        "company_does_not_matter",
        "duplicates_score_alike",
    ),
    "by_number": mutant(
        rescored(lambda index, score, response: shift(score, -0.1 * len(response.scores))),
        "company_does_not_matter",
        "scores_stand_behind_the_beginning",
    ),
    "once": mutant(broken(scored=once), "duplicates_score_alike"),
    "drifting": mutant(
        Drifting, "batches_do_not_drift", "batch_answers_as_by_itself", "batch_mixes_generate_and_likelihood", SHARE
    ),
    "mixed": mutant(Mixed, "parallel_equals_serial"),
    "leaks_cancelled": mutant(
        leaking(lambda left: left > 0.5), "cancellation_frees_the_slot", only=["cancellation_frees_the_slot"]
    ),
    "leaks_late": mutant(leaking(lambda left: left < 0.5), "deadline_is_honoured", only=["deadline_is_honoured"]),
    "small_messages": mutant(
        broken(limit=4 << 20), "accepts_large_requests", SIZES, only=["accepts_large_requests", SIZES]
    ),
    "any_message": mutant(
        broken(limit=-1), "refuses_oversize_messages", SIZES, only=["refuses_oversize_messages", SIZES]
    ),
    "answers_twice": mutant(broken(batched=lambda request, results: results + results[-1:]), ONCE),
    "counts_from_one": mutant(
        broken(batched=lambda _, results: [*results, model.BatchResult(index=len(results))]), ONCE
    ),
    "equal_once": mutant(broken(batched=equal_once), ONCE, SHARE),
    "shuffled": mutant(broken(batched=shuffled), ALIKE, MIXED),
    "shifted": mutant(
        result_by_result(lambda result: [shift(score, -0.1) for score in result.likelihood.scores]), ALIKE, MIXED, SHARE
    ),
    "scores_lost": mutant(result_by_result(scores_lost), ALIKE, MIXED, SHARE),
    "unknown_code": mutant(result_by_result(unknown_code), ALONE),
    "batch_no_reason": mutant(
        result_by_result(lambda result: result.HasField("status") and result.status.ClearField("details")),
        ALONE,
    ),
    "sinking": mutant(broken(batched=sinking(lambda reason: reason != "empty_call")), ALONE),
    "sinking_empty": mutant(broken(batched=sinking(lambda reason: reason == "empty_call")), NO_REQUEST),
    "empty_answer": mutant(
        result_by_result(lambda result: reason_of(result) == "empty_call" and result.generate.SetInParent()),
        NO_REQUEST,
    ),
    "one_kind": mutant(broken(batched=one_kind), MIXED),
    "nothing": mutant(Nothing, NO_CALLS),
    "unbounded": mutant(Unbounded, TOO_MANY),
    "collecting": mutant(Collecting, WAIT, only=[WAIT]),
    "batch_leaks_cancelled": mutant(leaking_batches(lambda left: left > 0.5), PLACES, only=[PLACES]),
    "batch_leaks_late": mutant(leaking_batches(lambda left: left < 0.5), PLACES, only=[PLACES]),
    "absent": mutant(Absent, *NAMES, SHARE),
}
"""Broken servers by name. Access checks (TLS, token, drain) have theirs in the test itself."""

HONEST: dict[str, type[Whole]] = {
    "in_turn": InTurn,
    "crowded": Crowded,
    "in_batches": InBatches,
    "slow": Slow,
    "as_before": result_by_result(as_before),
}
"""Servers whose Batch is correct, although it looks unusual."""


@asynccontextmanager
async def served(kind: type[Whole]) -> AsyncIterator[str]:
    """Serves one on loopback; yields its address."""
    interceptor = StatusInterceptor() if kind.explains else Unexplained()
    size = [("grpc.max_receive_message_length", kind.limit), ("grpc.max_send_message_length", kind.limit)]
    server = grpc.aio.server(interceptors=[interceptor, *kind.guards], options=size)
    model_grpc.add_ModelServiceServicer_to_server(kind(), server)
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    await health.set("", health_pb2.HealthCheckResponse.SERVING)
    await health.set(NAME, health_pb2.HealthCheckResponse.ServingStatus.Value("SERVING" if kind.health else "UNKNOWN"))
    if kind.reflects:
        reflection.enable_server_reflection((NAME,), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


class Unexplained(StatusInterceptor):
    """Fails calls that have one response with the right code and without ErrorInfo."""

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or not handler.unary_unary or "Health" in handler_call_details.method:
            return await super().intercept_service(continuation, handler_call_details)

        async def guarded(request: Any, context: Any) -> Any:
            try:
                return await handler.unary_unary(request, context)
            except rpc.StatusError as error:
                await context.abort(error.code, str(error))

        return grpc.unary_unary_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)


@asynccontextmanager
async def either(secure: str, clear: str) -> AsyncIterator[str]:
    """Forwards TLS to one server and everything else to another, on one port."""

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(1)
        host, _, port = (secure if first == b"\x16" else clear).rpartition(":")
        back_reader, back_writer = await asyncio.open_connection(host, int(port))
        back_writer.write(first)
        await asyncio.gather(pump(reader, back_writer), pump(back_reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
