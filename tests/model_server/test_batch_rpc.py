"""Batch over real gRPC: every call as it would be by itself, and none waits for another."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from helpers.model_serving import refusal

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc import CallError, Credentials, InvalidRequest, Server, ServerConfig, call_stream, dial
from model_server.backend import Backend, Call
from model_server.batch_rpc import MOST_CALLS
from model_server.core import Core
from model_server.metrics import Metrics
from model_server.service import NAME, ModelServicer

CAPABILITIES = [model.CAPABILITY_GENERATE, model.CAPABILITY_LIKELIHOOD]


class Slow(Backend):
    """Answers "go" at once, "wait" once it may, "large" with much and "break" with a defect."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.ended: list[Call] = []

    def info(self) -> model.GetModelInfoResponse:
        return model.GetModelInfoResponse(model_name="slow", capabilities=CAPABILITIES, max_concurrency=8)

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        text = request.messages[0].parts[0].text
        if text == "wait":
            try:
                await self.gate.wait()
            finally:
                self.ended.append(call)
        if text == "break":
            raise ZeroDivisionError("a defect")
        if text == "refuse":
            raise InvalidRequest("refused_here", "no such thing", value="7")
        answer = "x" * 3_000_000 if text == "large" else f"said {text}"
        return model.GenerateResponse(parts=[model.Part(text=answer)], usage=model.Usage(output_tokens=1))

    async def likelihood(self, request: model.LikelihoodRequest, call: Call) -> model.LikelihoodResponse:
        scores = [model.ContinuationScore(logprob=-len(text), token_count=1) for text in request.continuations]
        return model.LikelihoodResponse(scores=scores)


def user(text: str) -> model.Message:
    return model.Message(role=model.ROLE_USER, parts=[model.Part(text=text)])


def say(text: str) -> model.BatchCall:
    return model.BatchCall(generate=model.GenerateRequest(messages=[user(text)]))


def batch(*calls: model.BatchCall) -> model.BatchRequest:
    return model.BatchRequest(calls=calls)


async def results(stub: Any, request: model.BatchRequest, timeout: float = 30) -> dict[int, model.BatchResult]:
    answers: dict[int, model.BatchResult] = {}
    async for response in call_stream(stub.Batch, request, timeout=timeout):
        for result in response.results:
            assert result.index not in answers, "answered twice"
            answers[result.index] = result
    return answers


async def test_each_call_is_answered_as_by_itself(served: Any) -> None:
    async with served(Slow()) as server:
        assert model.CAPABILITY_BATCH in (await server.stub.GetModelInfo(model.GetModelInfoRequest())).capabilities
        likelihood = model.LikelihoodRequest(messages=[user("x")], continuations=["a", "bcd"])
        calls = [say("one"), model.BatchCall(likelihood=likelihood), say("refuse"), say("two"), say("break"), say(" ")]
        answers = await results(server.stub, batch(*calls, model.BatchCall()))
        assert sorted(answers) == list(range(7))
        assert answers[0].generate == await server.stub.Generate(calls[0].generate)
        assert answers[1].likelihood == await server.stub.Likelihood(likelihood)
        assert answers[3].generate.parts[0].text == "said two"
        for index in (2, 4, 5):
            with pytest.raises(CallError) as caught:
                await server.send(calls[index].generate)
            error, failure = caught.value, CallError.from_status(answers[index].status)
            assert (failure.code, str(failure)) == (error.code, str(error))
            assert (failure.reason, failure.metadata) == (error.reason, error.metadata)
        assert CallError.from_status(answers[6].status).reason == "empty_call"


async def test_an_answer_does_not_wait_for_the_others(served: Any) -> None:
    backend = Slow()
    async with served(backend) as server:
        stream = server.stub.Batch(batch(say("wait"), say("go")))
        first = await stream.read()
        assert [result.index for result in first.results] == [1]
        backend.gate.set()
        second = await stream.read()
        assert [result.index for result in second.results] == [0]
        assert await stream.read() is grpc.aio.EOF


async def test_large_answers_come_in_several_messages(served: Any) -> None:
    async with served(Slow()) as server:
        responses = [one async for one in server.stub.Batch(batch(*[say("large")] * 5))]
        assert sorted(result.index for response in responses for result in response.results) == list(range(5))
        assert max(response.ByteSize() for response in responses) < 4 * 1024 * 1024


@pytest.mark.parametrize("how", ["cancelled", "deadline"])
async def test_calls_end_with_the_batch(served: Any, how: str) -> None:
    backend = Slow()
    async with served(backend) as server:
        stream = server.stub.Batch(batch(say("wait"), say("go"), say("wait")), timeout=0.5 if how == "deadline" else 30)
        await stream.read()
        if how == "cancelled":
            stream.cancel()
        async with asyncio.timeout(300):
            while len(backend.ended) < 2 or not all(one.over for one in backend.ended):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(("number", "reason"), [(0, "empty_batch"), (MOST_CALLS + 1, "too_many_calls")])
async def test_too_few_and_too_many_calls_are_refused(served: Any, number: int, reason: str) -> None:
    async with served(Slow()) as server:
        assert await refusal(results(server.stub, batch(*[say("wait")] * number))) == ("INVALID_ARGUMENT", reason)


async def test_calls_are_counted_one_by_one(served: Any) -> None:
    metrics = Metrics()
    async with served(Slow(), metrics=metrics) as server:
        await results(server.stub, batch(say("one"), say("two"), say("refuse")))

        def count(code: str) -> float | None:
            return metrics.registry.get_sample_value("lyncean_calls_total", {"method": "Generate", "code": code})

        assert (count("OK"), count("INVALID_ARGUMENT")) == (2, 1)


@pytest.mark.parametrize(("token", "code"), [("right", ""), ("wrong", "UNAUTHENTICATED"), (None, "UNAUTHENTICATED")])
async def test_it_needs_the_token(token: str | None, code: str) -> None:
    core = Core(Slow())
    core.ready()
    servicer = ModelServicer(core, Metrics())
    config = ServerConfig(token="right")
    server = Server(config, NAME, lambda s: model_grpc.add_ModelServiceServicer_to_server(servicer, s))
    channel = dial(f"127.0.0.1:{await server.start()}")
    stream = call_stream(
        model_grpc.ModelServiceStub(channel).Batch,
        batch(say("one"), say("two")),
        timeout=300,
        metadata=Credentials(token=token).metadata,
    )
    try:
        if code:
            with pytest.raises(CallError) as caught:
                _ = [one async for one in stream]
            assert caught.value.code.name == code
        else:
            assert sum([len(one.results) async for one in stream]) == 2
    finally:
        await channel.close()
        await server.stop()
