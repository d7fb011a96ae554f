"""The HTTP front before a real gRPC server, asked by the official client and by our own `openai` backend."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from helpers.certificates import issue

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import (
    CONSEQUENCES,
    CallError,
    Denied,
    OutOfRange,
    Overloaded,
    ServerConfig,
    StatusError,
    Tls,
    Unavailable,
    Unsupported,
)
from model_server.backend import Backend, Call, describe
from model_server.metrics import Metrics

uvicorn = pytest.importorskip("uvicorn")
openai = pytest.importorskip("openai")

from helpers.http_front import front  # noqa: E402

from lyncean_openai_front import app as front_app  # noqa: E402
from lyncean_openai_front.errors import HTTP  # noqa: E402
from lyncean_openai_front.sampling import set_effort  # noqa: E402
from model_server.openai_api.backend import OpenAIBackend  # noqa: E402
from model_server.openai_api.client import Settings  # noqa: E402

USER = {"role": "user", "content": "hello"}


def of_audio(data: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}}]}


def of_video(url: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "video_url", "video_url": {"url": url}}]}


def picture_of(url: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


class Recorder(Backend):
    """Answers with all that the contract has, and keeps what it was asked."""

    def __init__(self) -> None:
        self.seen: list[model.GenerateRequest] = []
        self.failure: StatusError | None = None
        self.most = 0
        self.together: list[int] = []
        self.hold = self.proxies = False
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()

    def info(self) -> model.GetModelInfoResponse:
        names = [
            model.CAPABILITY_GENERATE,
            model.CAPABILITY_IMAGE_INPUT,
            model.CAPABILITY_MULTI_IMAGE,
            model.CAPABILITY_AUDIO_INPUT,
            model.CAPABILITY_VIDEO_INPUT,
            model.CAPABILITY_OUTPUT_LOGPROBS,
            model.CAPABILITY_SEED,
            model.CAPABILITY_REASONING,
            model.CAPABILITY_CHAT_TEMPLATE_ARGUMENTS,
            model.CAPABILITY_ANSWER_PREFIX,
            model.CAPABILITY_ANSWER_CHOICES,
            model.CAPABILITY_ANSWER_REGEX,
            model.CAPABILITY_ANSWER_JSON_SCHEMA,
        ]
        claims = dict.fromkeys(names, True) | {model.CAPABILITY_SAMPLES: bool(self.most)}
        claims[model.CAPABILITY_EXTRA_BODY] = self.proxies
        return describe(claims, model_name="m", max_concurrency=8, max_context_tokens=99, max_samples=self.most)

    async def generate_samples(self, requests: Any, call: Call) -> Any:
        self.together.append(len(requests))
        return await super().generate_samples(requests, call)

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        self.seen.append(request)
        if self.failure:
            raise self.failure
        if self.hold:
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        response = model.GenerateResponse(
            reasoning="because", effective_config=request.config, finish_reason=model.FINISH_REASON_STOP_STRING
        )
        response.parts.add(text=f"answer {request.config.seed}")
        response.usage.MergeFrom(model.Usage(input_tokens=7, output_tokens=3, reasoning_tokens=1, cached_tokens=2))
        if request.config.top_logprobs:
            token = response.logprobs.add(token=b"\xff", logprob=-0.5)
            token.top.add(token=b"a", logprob=-0.5)
        return response


def client(port: int, **more: Any) -> Any:
    return openai.AsyncOpenAI(**{"base_url": f"http://127.0.0.1:{port}/v1", "api_key": "x", "max_retries": 0} | more)


@pytest.mark.parametrize("most", [0, 2], ids=["one by one", "two of a prompt"])
async def test_every_field_arrives_and_comes_back(served: Any, picture: Any, most: int) -> None:
    backend, image = Recorder(), picture(1)
    backend.most = most
    url = "data:image/png;base64," + base64.b64encode(image).decode()
    fields: dict[str, Any] = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "?"}],
            },
        ],
        "max_completion_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.25,
        "seed": 40,
        "stop": "\n",
        "n": 3,
        "logprobs": True,
        "top_logprobs": 1,
        "presence_penalty": 0,
        "user": "someone",
    }
    extra = {"top_k": 9, "chat_template_kwargs": {"style": "short"}}
    async with served(backend) as server, front(server.channel) as port, client(port) as caller:
        assert [card.id async for card in caller.models.list()] == ["m"]
        assert (await caller.models.retrieve("m")).max_model_len == 99
        with pytest.raises(openai.NotFoundError):
            await caller.models.retrieve("owner/other")
        reply = await caller.chat.completions.create(**fields, extra_body=extra)
        stream = await caller.chat.completions.create(
            **fields, extra_body=extra, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert backend.together == ([2, 2] if most else [])  # of three choices, by each of two requests
    sent = next(request for request in backend.seen if request.config.seed == 40)
    assert [message.role for message in sent.messages] == [model.ROLE_SYSTEM, model.ROLE_USER]
    assert sent.messages[1].parts[0].image.data == image
    config = model.GenerationConfig(
        max_output_tokens=5, temperature=0.5, top_p=0.25, top_k=9, seed=40, stop=["\n"], top_logprobs=1
    )
    config.chat_template_arguments.update({"style": "short"})
    assert sent.config == config
    assert [choice.message.content for choice in reply.choices] == ["answer 40", "answer 41", "answer 42"]
    first = reply.choices[0]
    assert (first.finish_reason, first.message.reasoning_content) == ("stop", "because")
    (token,) = first.logprobs.content
    assert (token.bytes, token.logprob, token.top_logprobs[0].token) == ([255], -0.5, "a")
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (7, 9, 16)
    assert (usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens) == (2, 3)
    assert [chunk.choices[0].delta.content for chunk in chunks[:-1]] == ["answer 40", "answer 41", "answer 42"]
    assert chunks[-1].usage == usage


async def test_an_answer_that_is_begun_is_continued_if_the_request_says_so(served: Any) -> None:
    backend = Recorder()
    begun = {"role": "assistant", "content": "The answer is", "reasoning_content": "Hm."}
    async with served(backend) as server, front(server.channel) as port, httpx.AsyncClient() as client:

        async def post(*messages: dict[str, Any], **fields: Any) -> tuple[int, str]:
            url, body = f"http://127.0.0.1:{port}/v1/chat/completions", {"model": "m", "messages": messages}
            reply = await client.post(url, json=body | fields)
            return reply.status_code, reply.json().get("error", {}).get("code", "")

        assert await post(USER, begun, continue_final_message=True, add_generation_prompt=False) == (200, "")
        assert await post(USER, begun) == (400, "last_not_user")
        assert await post(USER, continue_final_message=True) == (400, "last_not_user")
        assert await post(USER, begun, continue_final_message=True, add_generation_prompt=True) == (400, "bad_field")
    (seen,) = backend.seen
    last = seen.messages[-1]
    assert (last.role, last.parts[0].text, last.reasoning) == (model.ROLE_ASSISTANT, "The answer is", "Hm.")


async def test_audio_and_videos_arrive_as_they_are(served: Any) -> None:
    backend = Recorder()
    messages = [of_audio(base64.b64encode(b"sound").decode()), of_video("data:video/mp4;base64,ZmlsbQ==")]
    async with served(backend) as server, front(server.channel) as port, client(port) as caller:
        await caller.chat.completions.create(model="m", messages=messages)
    sound, film = (message.parts[0] for message in backend.seen[0].messages)
    assert sound.audio == model.Audio(data=b"sound", media_type="audio/mpeg")
    assert film.video == model.Video(data=b"film", media_type="video/mp4")


SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("extra", "sent"),
    [
        ({"response_format": SCHEMA}, {"json_schema": '{"type":"integer"}'}),
        ({"structured_outputs": {"json": '{"type": "null"}'}}, {"json_schema": '{"type": "null"}'}),
        ({"structured_outputs": {"choice": ["A", "B"]}}, {"choices": {"texts": ["A", "B"]}}),
        ({"structured_outputs": {"regex": "[ab]+"}, "response_format": {"type": "text"}}, {"regex": "[ab]+"}),
    ],
)
async def test_a_format_of_the_answer_arrives(extra: Any, sent: Any, served: Any) -> None:
    backend = Recorder()
    question = [{"role": "user", "content": "hi"}]
    async with served(backend) as server, front(server.channel) as port, client(port) as caller:
        await caller.chat.completions.create(model="m", messages=question, extra_body=extra)
    assert backend.seen[0].config.response_format == model.ResponseFormat(**sent)


async def test_what_changes_nothing_is_taken(served: Any, picture: Any) -> None:
    backend, url = Recorder(), "data:image/png;base64," + base64.b64encode(picture(1)).decode()
    part = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    fields = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [part], "name": "someone"},
        ],
        "repetition_penalty": 1.0,
        "skip_special_tokens": True,
        "mm_processor_kwargs": {},
        "reasoning_effort": "high",
        "response_format": {"type": "json_object"},
    }
    async with served(backend) as server, front(server.channel) as port, httpx.AsyncClient() as http:
        reply = await http.post(f"http://127.0.0.1:{port}/v1/chat/completions", json={"model": "m"} | fields)
    assert reply.status_code == 200, reply.text
    (seen,) = backend.seen
    assert [message.role for message in seen.messages] == [model.ROLE_SYSTEM, model.ROLE_USER]
    assert "".join(part.text for part in seen.messages[0].parts) == "Be brief.\n\nBe kind."
    assert seen.config.response_format.json_schema == '{"type":"object"}'
    assert dict(seen.config.chat_template_arguments) == {"reasoning_effort": "high"}


@pytest.mark.parametrize(
    ("claims", "effort", "sent"),
    [
        ([model.CAPABILITY_THINKING], "none", model.GenerationConfig(thinking=False)),
        ([], "none", model.GenerationConfig()),
        ([model.CAPABILITY_REASONING], "none", None),
        ([model.CAPABILITY_THINKING], "low", None),
        ([], "low", None),
    ],
)
def test_reasoning_effort_is_obeyed_or_refused_by_name(claims: list[Any], effort: str, sent: Any) -> None:
    config = model.GenerationConfig()
    if sent is None:
        with pytest.raises(CallError, match="reasoning_effort"):
            set_effort(config, effort, claims)
    else:
        set_effort(config, effort, claims)
        assert config == sent


async def test_fields_beyond_the_contract_reach_the_endpoint_behind_a_proxy(served: Any) -> None:
    backend = Recorder()
    backend.proxies = True
    beyond = {"repetition_penalty": 1.5, "mm_processor_kwargs": {"max_pixels": 9}, "reasoning_effort": "low"}
    async with served(backend) as server, front(server.channel) as port, client(port) as caller:
        await caller.chat.completions.create(model="m", messages=[USER], extra_body=beyond)
    assert dict(backend.seen[0].config.extra_body) == beyond


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"model": "other"}, 404, "model_not_found"),
        ({"response_format": {"type": "grammar"}}, 400, "response_format.type: 'grammar' is not one of"),
        ({"reasoning_effort": "extreme"}, 400, "reasoning_effort"),
        ({"repetition_penalty": 1.1}, 422, "repetition_penalty"),
        ({"skip_special_tokens": False}, 422, "skip_special_tokens"),
        ({"mm_processor_kwargs": {"max_pixels": 9}}, 422, "mm_processor_kwargs"),
        ({"messages": [USER, {"role": "system", "content": "x"}]}, 400, "system_not_first"),
        ({"response_format": {"type": "json_schema"}}, 400, "json_schema"),
        ({"response_format": SCHEMA, "structured_outputs": {"regex": "a"}}, 400, "two_formats"),
        ({"structured_outputs": {"regex": "^a"}}, 400, "bad_response_format"),
        ({"structured_outputs": {"grammar": "a"}}, 400, "grammar"),
        ({"tools": [{"type": "function"}]}, 400, "tools[0]: the field 'function' is missing"),
        ({"functions": [{"name": "f"}]}, 422, "functions"),
        ({"tool_choice": "required"}, 422, "tool_choice"),
        ({"frequency_penalty": 0.5}, 422, "frequency_penalty"),
        ({"best_of\x1b[31m": 2}, 422, "best_of"),
        ({"max_tokens": 4, "max_completion_tokens": 5}, 400, "two_limits"),
        ({"max_tokens": -1}, 400, "out of range"),
        ({"max_tokens": 0}, 400, "zero_tokens"),
        ({"n": 65}, 400, "bad_n"),
        ({"top_logprobs": 2}, 400, "logprobs: true"),
        ({"temperature": "hot"}, 400, "temperature: takes a number, and got text"),
        ({"messages": [{"role": "tool", "content": "x"}]}, 400, "needs a tool_call_id"),
        ({"messages": [{"role": "function", "content": "x"}]}, 400, "messages[0].role"),
        ({"messages": [{"role": "user", "content": None}]}, 400, "messages[0]: the field 'content' is missing"),
        ({"messages": [{"role": "user", "content": 7}]}, 400, "messages[0].content: takes text or a list, and got"),
        ({"messages": [{"role": "user", "content": "x", "nom": "y"}]}, 400, "messages[0]: 'nom' is not a field"),
        ({"messages": [{"role": "user", "content": "x", "tool_call_id": "y"}]}, 400, "tool_call_id"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, 400, "input_audio"),
        ({"messages": [of_audio("@@")]}, 400, "messages[0].content[0]: the audio is not valid base64"),
        ({"messages": [of_video("file:///etc/passwd")]}, 400, "fetches no videos"),
        ({"messages": [picture_of("https://example.org/a.png")]}, 400, "fetches no images"),
        ({"messages": [picture_of("data:image/png;base64,@@")]}, 400, "not valid base64"),
        ({"messages": []}, 400, "empty_prompt"),
    ],
)
async def test_what_cannot_be_obeyed_is_refused(served: Any, change: dict[str, Any], status: int, word: str) -> None:
    backend = Recorder()
    async with served(backend) as server, front(server.channel) as port, httpx.AsyncClient() as http:
        body = {"model": "m", "messages": [USER]} | change
        reply = await http.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body)
    assert reply.status_code == status
    assert word in json.dumps(reply.json()["error"])
    assert "\x1b" not in reply.json()["error"]["message"]
    assert not backend.seen


async def test_damaged_and_oversize_bodies(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_app, "MAX_BODY_BYTES", 1000)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"x" * 500

    async with served(Recorder()) as server, front(server.channel) as port, httpx.AsyncClient() as http:
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        for body in (b"", b"{", b"[]", b"\xff\xfe", b'{"model": 1}', b"[" * 900):
            assert (await http.post(url, content=body)).status_code == 400, body
        for content in (b"x" * 1001, pieces()):  # with a stated length, and in chunks
            assert (await http.post(url, content=content)).status_code == 413


async def test_statuses_and_our_own_backend_agree(served: Any, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HTTP.keys() == CONSEQUENCES.keys()
    retried = {408, 409, 429}
    for code, (status, _) in HTTP.items():
        repeats = CONSEQUENCES[code].retries != 0
        assert (status in retried or status >= 499) == repeats, code
    backend = Recorder()
    async with served(backend) as server, front(server.channel) as port:
        proxy = OpenAIBackend(Settings(model="m", base_url=f"http://127.0.0.1:{port}/v1", retries=0), Metrics())
        async with served(proxy) as through:
            for failure, expected in (
                (OutOfRange("context_exceeded", "9 tokens, the context is 8"), grpc.StatusCode.OUT_OF_RANGE),
                (Denied("content_policy", "no"), grpc.StatusCode.PERMISSION_DENIED),
                (Overloaded("queue_full", "later", retry_after=6.5), grpc.StatusCode.RESOURCE_EXHAUSTED),
                (Unavailable("draining", "later"), grpc.StatusCode.UNAVAILABLE),
                (Unsupported("no_seed", "no"), grpc.StatusCode.INVALID_ARGUMENT),
            ):
                backend.failure = failure
                with pytest.raises(CallError) as caught:
                    await through.generate(ask("?"))
                assert caught.value.code is expected
                assert caught.value.retry_after == (7 if isinstance(failure, Overloaded) else 0)


async def test_a_client_that_leaves_cancels_the_call(served: Any) -> None:
    backend = Recorder()
    backend.hold = True
    async with served(backend) as server, front(server.channel) as port, client(port) as caller:
        asking = asyncio.ensure_future(caller.chat.completions.create(model="m", messages=[USER]))
        await backend.started.wait()
        asking.cancel()
        await backend.cancelled.wait()


async def test_answers_are_those_of_grpc(served: Any, ask: Any, picture: Any) -> None:
    pytest.importorskip("torch")
    from model_server.demo import CHECKPOINT
    from model_server.hf.backend import HfBackend
    from model_server.hf.settings import Settings as HfSettings

    bundled = HfBackend(HfSettings(model=str(CHECKPOINT), name="demo"), Metrics())
    async with served(bundled) as direct, front(direct.channel) as port:
        assert (await direct.info()).properties["generate_batching"] == "continuous"
        proxy = OpenAIBackend(Settings(model="demo", base_url=f"http://127.0.0.1:{port}/v1"), Metrics())
        async with served(proxy) as through:
            slots = asyncio.Semaphore(8)

            async def both(index: int) -> tuple[Any, Any]:
                message = ask(picture(index, (48 + index % 9, 36)), f"What colour is patch {index}?")
                async with slots:
                    one = await direct.generate(message, max_output_tokens=12)
                    two = await through.generate(message, max_output_tokens=12)
                return [(r.parts[0].text, r.finish_reason, r.usage.output_tokens) for r in (one, two)]

            pairs = await asyncio.gather(*(both(index) for index in range(60)))
    assert [one for one, _ in pairs] == [two for _, two in pairs]
    assert len({one[0] for one, _ in pairs}) > 1


async def test_token_and_tls(served: Any, tmp_path: Path) -> None:
    names = {"dnsNames": ["localhost"], "usages": ["server auth"], "secretName": "s"}
    files = issue([{"spec": {"isCA": True, "commonName": "ca"}}, {"spec": names}])["s"]
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    config = ServerConfig(grace=1, token="sesame", tls=Tls(tmp_path / "tls.crt", tmp_path / "tls.key"))
    context = __import__("ssl").create_default_context(cafile=str(tmp_path / "ca.crt"))
    async with served(Recorder()) as server, front(server.channel, config) as port:
        async with httpx.AsyncClient(verify=context, base_url=f"https://localhost:{port}") as http:
            bodies = {"json": {"model": "m", "messages": [USER]}}
            for header, status in (
                ({}, 401),
                ({"authorization": "Bearer wrong"}, 401),
                ({"authorization": "Bearer sesame"}, 200),
            ):
                assert (await http.post("/v1/chat/completions", headers=header, **bodies)).status_code == status
            assert (await http.get("/v1/models")).status_code == 401
            assert (await http.get("/health")).status_code == 200


async def test_the_command_serves_drains_and_says_what_is_wrong(served: Any, tmp_path: Path) -> None:
    async def start(*more: str) -> asyncio.subprocess.Process:
        command = (sys.executable, "-m", "model_server", "http", "--endpoint", endpoint, *more)
        return await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)

    backend = Recorder()
    async with served(backend) as server:
        endpoint, file = f"127.0.0.1:{server.port}", tmp_path / "port"
        process = await start("--port", "0", "--port-file", str(file))
        while not file.exists():
            await asyncio.sleep(0.05)
        async with client(int(file.read_text())) as caller:
            reply = await caller.chat.completions.create(model="m", messages=[USER])
            assert reply.choices[0].message.content == "answer 0"
        taken = await start("--port", file.read_text().strip())
        _, stderr = await taken.communicate()
        assert taken.returncode == 2
        assert b"cannot listen on 127.0.0.1" in stderr
        assert b"Traceback" not in stderr
        process.terminate()
        assert await process.wait() == 0
