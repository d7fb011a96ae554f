"""Model servers broken on purpose, one for each check, around one that is whole."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
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
from lyncean.model.v1 import model_pb2 as model
from lyncean.model.v1 import model_pb2_grpc as model_grpc
from model_server.core import Core
from model_server.demo.hash_model import HashModel
from model_server.kit.backend import KitBackend
from model_server.kit.model import Model
from model_server.metrics import Metrics
from model_server.service import NAME, ModelServicer
from orchestrator.conformance.checks_images import picture

PARTS = (math.log(0.9), math.log(0.05))


class Whole(ModelServicer):
    """The demo model with every capability; a mutant overrides one method."""

    limit = rpc.MAX_MESSAGE_BYTES
    health = True
    reflects = True
    explains = True
    guards: Sequence[grpc.aio.ServerInterceptor] = ()
    kit: type[Model] = HashModel

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
        self.describe(info)
        return info

    async def Generate(self, request: Any, context: Any) -> Any:  # noqa: N802
        plain = model.GenerateRequest()
        plain.CopyFrom(request)
        plain.modality, plain.config.top_logprobs = model.MODALITY_TEXT, 0
        response = await self.call(plain, context, super().Generate)
        if request.config.top_logprobs:
            for word in " ".join(part.text for part in response.parts).split():
                token = response.logprobs.add(token=word.encode(), logprob=PARTS[0])
                for value in PARTS[: request.config.top_logprobs]:
                    token.alternatives.add(token=b"x", logprob=value)
        if request.modality == model.MODALITY_IMAGE:
            response.parts.add(image=model.Image(data=picture("red")))
        self.said(request, response)
        return response

    async def Likelihood(self, request: Any, context: Any) -> Any:  # noqa: N802
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

    def describe(self, info: Any) -> None:
        """Changes the description."""

    def asked(self, request: Any) -> None:
        """Changes a request, or refuses it."""

    def said(self, request: Any, response: Any) -> None:
        """Changes what Generate answers."""

    def scored(self, request: Any, response: Any) -> None:
        """Changes what Likelihood answers."""


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


def describing(change: Callable[[Any], None]) -> type[Whole]:
    return type("Describing", (Whole,), {"describe": lambda _, info: change(info)})


def asking(change: Callable[[Any], None]) -> type[Whole]:
    return type("Asking", (Whole,), {"asked": lambda _, request: change(request)})


def saying(change: Callable[[Any, Any], None]) -> type[Whole]:
    return type("Saying", (Whole,), {"said": lambda _, request, response: change(request, response)})


def scoring(change: Callable[[Any, Any], None]) -> type[Whole]:
    return type("Scoring", (Whole,), {"scored": lambda _, request, response: change(request, response)})


def shift(score: Any, by: float) -> None:
    """Moves a score and, to be consistent, its last token."""
    score.logprob += by
    if score.tokens:
        score.tokens[-1].logprob += by


def rename(info: Any) -> None:
    info.model_name = ""


counter = itertools.count(40)


def restless(info: Any) -> None:
    info.max_concurrency = next(counter)


def refuse(reason: str, condition: Callable[[Any], bool]) -> type[Whole]:
    def change(request: Any) -> None:
        if condition(request):
            raise rpc.InvalidRequest(reason, "no")

    return asking(change)


def unknown_fields(request: Any) -> bool:
    small = request.ByteSize() < 1_000_000
    return small and any(len(UnknownFieldSet(each)) for each in (request, *request.messages))


def numbered(request: Any, response: Any) -> None:
    response.parts[0].text = f"{next(counter)} {response.parts[0].text}"


def numbered_samples(request: Any, response: Any) -> None:
    if request.config.temperature > 0:
        numbered(request, response)


def unreported(request: Any, response: Any) -> None:
    if not request.config.HasField("temperature"):
        response.effective_config.ClearField("temperature")


def no_top_p(request: Any, response: Any) -> None:
    response.effective_config.ClearField("top_p")


def no_stop(request: Any) -> None:
    if isinstance(request, model.GenerateRequest) and "" not in request.config.stop:
        del request.config.stop[:]


def always_ends(request: Any, response: Any) -> None:
    if response.finish_reason == model.FINISH_REASON_MAX_TOKENS:
        response.finish_reason = model.FINISH_REASON_END_OF_SEQUENCE


def no_input_tokens(request: Any, response: Any) -> None:
    response.usage.input_tokens = 0


def no_reason(request: Any, response: Any) -> None:
    response.finish_reason = model.FINISH_REASON_UNSPECIFIED


def backwards(request: Any, response: Any) -> None:
    for token in response.logprobs:
        token.alternatives.reverse()


def no_images(request: Any, response: Any) -> None:
    for index in reversed(range(len(response.parts))):
        if response.parts[index].WhichOneof("kind") == "image":
            del response.parts[index]


def mistaken_type(request: Any) -> bool:
    images = [part.image for message in request.messages for part in message.parts if part.HasField("image")]
    return any(image.media_type == "image/jpeg" and image.data.startswith(b"\x89PNG") for image in images)


def first_image_only(request: Any) -> None:
    for message in request.messages:
        places = [place for place, part in enumerate(message.parts) if part.HasField("image")]
        for place in reversed(places[1:]):
            del message.parts[place]


def sorted_images(request: Any) -> None:
    for message in request.messages:
        message.parts.sort(key=lambda part: (not part.HasField("image"), part.image.data))


def positive(request: Any, response: Any) -> None:
    for score in response.scores:
        score.logprob = -score.logprob
        for token in score.tokens:
            token.logprob = -token.logprob


def mean(request: Any, response: Any) -> None:
    for score in response.scores:
        score.logprob /= score.token_count


def cut_tokens(request: Any, response: Any) -> None:
    for score in response.scores:
        if score.tokens:
            score.tokens[-1].token = score.tokens[-1].token[:-1]


def no_output_tokens(request: Any, response: Any) -> None:
    response.usage.output_tokens = 0


def never_greedy(request: Any, response: Any) -> None:
    for score in response.scores:
        score.is_greedy = False


def by_place(request: Any, response: Any) -> None:
    for place, score in enumerate(response.scores):
        shift(score, -0.1 * place)


def by_number(request: Any, response: Any) -> None:
    for score in response.scores:
        shift(score, -0.1 * len(response.scores))


def once(request: Any, response: Any) -> None:
    seen = set()
    for text, score in zip(request.continuations, response.scores, strict=True):
        if text in seen:
            shift(score, -1.0)
        seen.add(text)


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
    """Returns a server of four places that loses one with each call that is given up."""

    class Leaking(Whole):
        def __init__(self) -> None:
            super().__init__()
            self.places = 4

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


def options(**attributes: Any) -> type[Whole]:
    return type("Configured", (Whole,), attributes)


def mutant(server: type[Whole], *breaks: str, only: Collection[str] = ()) -> Mutant:
    return Mutant(breaks, server, only)


SIZES = "batch_sizes_count_together"
NO_SEED = describing(lambda info: info.capabilities.remove(model.CAPABILITY_SEED))
MUTANTS = {
    "nameless": mutant(describing(rename), "info_names_the_model"),
    "restless": mutant(describing(restless), "info_is_stable"),
    "twice": mutant(
        describing(lambda info: info.capabilities.append(model.CAPABILITY_GENERATE)), "info_capabilities_make_sense"
    ),
    "keys": mutant(
        describing(lambda info: info.properties.update({"Compute Device": "cpu"})), "info_fields_are_well_formed"
    ),
    "unhealthy": mutant(options(health=False), "health_has_both_names"),
    "unreflected": mutant(options(reflects=False), "reflection_names_the_service"),
    "unexplained": mutant(options(explains=False), "errors_carry_error_info"),
    "no_messages": mutant(lenient("empty_prompt"), "refuses_no_messages", "errors_carry_error_info"),
    "no_parts": mutant(lenient("empty_message"), "refuses_no_parts"),
    "no_kind": mutant(lenient("empty_part"), "refuses_part_without_kind"),
    "no_role": mutant(lenient("no_role"), "refuses_no_role"),
    "last_role": mutant(lenient("last_not_user"), "refuses_last_role"),
    "one_round": mutant(
        refuse("one_round", lambda r: len(r.messages) > 1 and r.messages[-1].role == model.ROLE_USER),
        "answers_several_rounds",
    ),
    "claims_less": mutant(NO_SEED, "refuses_what_it_does_not_claim"),
    "zero_tokens": mutant(lenient("zero_tokens"), "refuses_zero_output_tokens"),
    "any_decoding": mutant(lenient("bad_temperature", "bad_top_p"), "refuses_impossible_decoding"),
    "empty_stop": mutant(lenient("empty_stop"), "refuses_impossible_decoding"),
    "scores_nothing": mutant(lenient("empty_continuation", "no_continuations"), "refuses_empty_continuations"),
    "truncates": mutant(lenient("context_exceeded"), "refuses_over_long_input"),
    "strict_fields": mutant(refuse("unknown_field", unknown_fields), "ignores_unknown_fields"),
    "numbered": mutant(
        saying(numbered),
        "greedy_repeats_itself",
        "unset_is_not_zero",
        "stop_strings_end_the_output",
        "output_limit_holds",
        "seed_repeats",
        "parallel_equals_serial",
        "batch_answers_as_by_itself",
        "batch_mixes_generate_and_likelihood",
    ),
    "unreported": mutant(saying(unreported), "unset_is_not_zero"),
    "no_top_p": mutant(saying(no_top_p), "effective_config_is_complete"),
    "no_stop": mutant(asking(no_stop), "stop_strings_end_the_output", "effective_config_is_complete"),
    "always_ends": mutant(saying(always_ends), "output_limit_holds"),
    "no_input_tokens": mutant(saying(no_input_tokens), "usage_is_reported"),
    "no_reason": mutant(saying(no_reason), "finish_reason_is_set", "stop_strings_end_the_output", "output_limit_holds"),
    "numbered_samples": mutant(saying(numbered_samples), "seed_repeats"),
    "backwards": mutant(saying(backwards), "logprobs_make_sense"),
    "no_images": mutant(saying(no_images), "images_are_made"),
    "mistaken_type": mutant(refuse("type", mistaken_type), "image_bytes_decide"),
    "bad_image": mutant(lenient("bad_image"), "refuses_corrupt_images"),
    "huge_image": mutant(lenient("image_too_large"), "refuses_huge_images"),
    "first_image_only": mutant(asking(first_image_only), "several_images_are_seen"),
    "sorted_images": mutant(asking(sorted_images), "image_order_is_kept"),
    "positive": mutant(scoring(positive), "logprobs_are_logarithms"),
    "mean": mutant(scoring(mean), "sum_is_that_of_the_tokens"),
    "cut_tokens": mutant(scoring(cut_tokens), "tokenization_joins"),
    "no_output_tokens": mutant(scoring(no_output_tokens), "likelihood_usage_is_reported"),
    "never_greedy": mutant(scoring(never_greedy), "agrees_with_greedy"),
    "by_place": mutant(scoring(by_place), "order_does_not_matter", "company_does_not_matter", "duplicates_score_alike"),
    "by_number": mutant(scoring(by_number), "company_does_not_matter"),
    "once": mutant(scoring(once), "duplicates_score_alike"),
    "drifting": mutant(
        Drifting, "batches_do_not_drift", "batch_answers_as_by_itself", "batch_mixes_generate_and_likelihood"
    ),
    "mixed": mutant(Mixed, "parallel_equals_serial"),
    "leaks_cancelled": mutant(
        leaking(lambda left: left > 0.5), "cancellation_frees_the_slot", only=["cancellation_frees_the_slot"]
    ),
    "leaks_late": mutant(leaking(lambda left: left < 0.5), "deadline_is_honoured", only=["deadline_is_honoured"]),
    "small_messages": mutant(
        options(limit=4 << 20), "accepts_large_requests", SIZES, only=["accepts_large_requests", SIZES]
    ),
    "any_message": mutant(
        options(limit=-1), "refuses_oversize_messages", SIZES, only=["refuses_oversize_messages", SIZES]
    ),
}
"""Broken servers by name. Access checks (TLS, token, drain) have theirs in the test itself."""


@asynccontextmanager
async def served(kind: type[Whole]) -> AsyncIterator[str]:
    """Serves one on loopback; yields its address."""
    interceptor = rpc.serve.StatusInterceptor() if kind.explains else Unexplained()
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


class Unexplained(rpc.serve.StatusInterceptor):
    """Fails with the right code and without ErrorInfo."""

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or "Health" in handler_call_details.method:
            return handler
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(
                streamed(handler.unary_stream), handler.request_deserializer, handler.response_serializer
            )
        if not handler.unary_unary:
            return handler

        async def guarded(request: Any, context: Any) -> Any:
            try:
                return await handler.unary_unary(request, context)
            except rpc.StatusError as error:
                await context.abort(error.code, str(error))

        return grpc.unary_unary_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)


def streamed(method: Any) -> Any:
    """Returns a method that answers with a stream, failing with the right code and without ErrorInfo."""

    async def guarded(request: Any, context: Any) -> Any:
        try:
            async for response in method(request, context):
                yield response
        except rpc.StatusError as error:
            await context.abort(error.code, str(error))

    return guarded


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
