"""Completions of raw prompts through the front: the real HTTP server, a real gRPC server, a small checkpoint."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc import PLAIN, ServerConfig
from model_server.backend import Backend, Call, describe

uvicorn = pytest.importorskip("uvicorn")

from lyncean_openai_front.app import Front  # noqa: E402
from lyncean_openai_front.serve import settings  # noqa: E402

PROMPT = "The sky is blue, and the sea is"


class Scripted(Backend):
    """Knows raw prompts of three tokens, says one word, and keeps what it was asked."""

    def __init__(self, *, raw: bool = True) -> None:
        self.raw = raw
        self.seen: list[Any] = []

    def info(self) -> model.GetModelInfoResponse:
        names = [model.CAPABILITY_GENERATE, model.CAPABILITY_LIKELIHOOD, model.CAPABILITY_OUTPUT_LOGPROBS]
        names += [model.CAPABILITY_SEED] + [model.CAPABILITY_RAW_PROMPT] * self.raw
        return describe(dict.fromkeys(names, True), model_name="m", max_concurrency=8)

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        self.seen.append(request)
        cut = request.config.max_output_tokens == 1
        finish = model.FINISH_REASON_MAX_TOKENS if cut else model.FINISH_REASON_END_OF_SEQUENCE
        response = model.GenerateResponse(finish_reason=finish, effective_config=request.config)
        response.parts.add(text=" é")
        response.usage.MergeFrom(model.Usage(input_tokens=3, output_tokens=2))
        if request.config.top_logprobs:
            response.logprobs.add(token=b" \xc3", logprob=-0.5).top.add(token=b" x", logprob=-0.25)
            response.logprobs.add(token=b"\xa9", logprob=-1.5).top.add(token=b"\xa9", logprob=-1.5)
        return response

    async def likelihood(self, request: model.LikelihoodRequest, call: Call) -> model.LikelihoodResponse:
        self.seen.append(request)
        response = model.LikelihoodResponse()
        response.usage.input_tokens = 3
        for token, logprob in ((b"The", 0.0), (b" sky", -1.0), (b" is", -2.0)):
            response.prompt_tokens.add(token=token, logprob=logprob)
        for token in response.prompt_tokens[1:]:
            token.top.add(token=b" best", logprob=-0.5)
        return response


@asynccontextmanager
async def asking(channel: Any) -> AsyncIterator[Any]:
    """Runs the real HTTP server; gives a function that posts a completion."""
    front = Front(model_grpc.ModelServiceStub(channel), PLAIN, 60)
    server = uvicorn.Server(settings(front, ServerConfig(grace=1)))
    listening = socket.create_server(("127.0.0.1", 0))
    running = __import__("asyncio").ensure_future(server._serve([listening]))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}") as client:

        async def post(**fields: Any) -> tuple[int, Any]:
            reply = await client.post("/v1/completions", json={"model": "m", "prompt": "The sky is"} | fields)
            return reply.status_code, reply.text if fields.get("stream") else reply.json()

        try:
            yield post
        finally:
            server.should_exit = True
            await running


async def test_every_field_arrives_and_comes_back(served: Any) -> None:
    backend = Scripted()
    async with served(backend) as server, asking(server.channel) as post:
        more = {"temperature": 0.5, "top_p": 0.25, "top_k": -1, "seed": 4, "stop": ["\n"], "best_of": 1, "suffix": None}
        status, whole = await post(prompt=["a", "b"], n=2, max_tokens=7, logprobs=1, echo=True, **more)
        assert status == 200
        generated = [request for request in backend.seen if isinstance(request, model.GenerateRequest)]
        scored = [request for request in backend.seen if isinstance(request, model.LikelihoodRequest)]
        assert sorted((request.raw_prompt.text, request.config.seed) for request in generated) == [
            ("a", 4), ("a", 5), ("b", 4), ("b", 5),
        ]  # fmt: skip
        config = generated[0].config
        assert (config.max_output_tokens, config.temperature, config.top_p, config.top_k) == (7, 0.5, 0.25, 0)
        assert (list(config.stop), config.top_logprobs) == (["\n"], 1)
        assert sorted(request.raw_prompt.text for request in scored) == ["a", "b"]
        assert all(request.score_prompt for request in scored)
        assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2, 3]
        first = whole["choices"][0]
        assert (first["text"], first["finish_reason"]) == ("a é", "stop")
        # The prompt's tokens, the output's, and one for the end, which has no value of its own.
        assert first["logprobs"] == {
            "tokens": ["The", " sky", " is", "bytes:\\x20\\xc3", "bytes:\\xa9", ""],
            "token_logprobs": [None, -1.0, -2.0, -0.5, -1.5, None],
            "top_logprobs": [
                None, {" best": -0.5}, {" best": -0.5}, {" x": -0.25}, {"bytes:\\xa9": -1.5}, None,
            ],
            "text_offset": [0, 3, 7, 10, 24, 34],
        }  # fmt: skip
        assert whole["usage"] == {"prompt_tokens": 6, "completion_tokens": 8, "total_tokens": 14}
        status, whole = await post(prompt=[1, 2, 3], max_tokens=0, echo=True)
        assert (status, whole["choices"][0]["text"]) == (200, "The sky is")
        assert list(backend.seen[-1].raw_prompt.tokens.ids) == [1, 2, 3]
        backend.seen.clear()
        status, whole = await post(prompt=[[5], [6]], max_tokens=1)
        assert [choice["text"] for choice in whole["choices"]] == [" é", " é"]
        assert {choice["logprobs"] for choice in whole["choices"]} == {None}
        assert {choice["finish_reason"] for choice in whole["choices"]} == {"length"}
        assert len(backend.seen) == 2
        status, text = await post(stream=True, stream_options={"include_usage": True})
        lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
        assert (status, lines[-1], len(lines)) == (200, "[DONE]", 3)
        assert backend.seen[-1].config.max_output_tokens == 16


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": [[1, -1]]}, 400, "prompt"),
        ({"prompt": [1, "a"]}, 400, "prompt"),
        ({"prompt": {"a": 1}}, 400, "prompt"),
        ({"prompt": ""}, 400, "empty_prompt"),
        ({"prompt": ["a"] * 65}, 400, "bad_n"),
        ({"n": 0}, 400, "bad_n"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"logprobs": 21}, 400, "logprobs"),
        ({"logprobs": 2, "echo": True}, 422, "echo"),
        ({"temperature": -1}, 400, "bad_temperature"),
        ({"suffix": "x"}, 422, "suffix"),
        ({"best_of": 3}, 422, "best_of"),
        ({"messages": []}, 422, "messages"),
        ({"model": "other"}, 404, "model_not_found"),
    ],
)
async def test_what_cannot_be_obeyed_is_refused(served: Any, change: dict[str, Any], status: int, word: str) -> None:
    backend = Scripted()
    async with served(backend) as server, asking(server.channel) as post:
        code, reply = await post(**change)
    assert code == status
    assert word in str(reply["error"])
    assert not backend.seen


async def test_a_model_without_raw_prompts_says_so(served: Any) -> None:
    async with served(Scripted(raw=False)) as server, asking(server.channel) as post:
        status, reply = await post()
    assert (status, reply["error"]["code"]) == (422, "no_raw_prompt")


async def test_numbers_are_those_of_a_checkpoint(served: Any, hf: Any) -> None:
    pytest.importorskip("torch")
    async with served(hf("text", name="m")) as server, asking(server.channel) as post:
        request = model.LikelihoodRequest(raw_prompt=model.RawPrompt(text=PROMPT), score_prompt=True)
        direct = (await server.send(request)).prompt_tokens
        ids = [token.token_id for token in direct]
        fields = {"max_tokens": 1, "temperature": 0, "logprobs": 1, "seed": 1234, "echo": True}
        for prompt in (PROMPT, [ids]):
            status, whole = await post(prompt=prompt, **fields)
            assert status == 200, whole
            logprobs = whole["choices"][0]["logprobs"]
            assert logprobs["token_logprobs"][: len(ids)] == [None, *(token.logprob for token in direct[1:])]
            assert len(logprobs["tokens"]) == len(ids) + 1
            assert "".join(logprobs["tokens"][: len(ids)]) == PROMPT
