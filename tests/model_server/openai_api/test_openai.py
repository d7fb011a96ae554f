"""The `openai` backend against a real HTTP server that behaves as the vendors and vLLM do."""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from helpers import clips
from helpers.model_serving import refusal

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, call
from model_server.backend import LoadError

pytest.importorskip("openai")
from helpers.openai_endpoint import Endpoint, backend, completion, error, request

from model_server.openai_api.client import Settings, look


async def test_what_is_sent_and_what_comes_back(endpoint: Endpoint, served: Any, ask: Any, picture: Any) -> None:
    async with served(backend(endpoint)) as server:
        one, two = picture(1), picture(2, form="JPEG")
        sent = model.GenerateRequest(
            messages=[
                model.Message(role=model.ROLE_SYSTEM, parts=[model.Part(text="Be brief.")]),
                ask(one, "And", two, "?"),
                model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text="Two.")]),
                ask("Why?"),
            ],
            config=model.GenerationConfig(max_output_tokens=7, temperature=0.7, top_p=0.9, stop=["\n", "Q:"]),
        )
        reply = await server.send(sent)
        assert reply.parts[0].text == "fine"
        assert reply.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 2)
        assert reply.effective_config == sent.config
        (body,) = endpoint.seen
        assert endpoint.keys == ["Bearer sesame"]
        assert body == {
            "model": "m",
            "max_tokens": 7,
            "temperature": 0.7,
            "top_p": 0.9,
            "stop": ["\n", "Q:"],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(one)}"}},
                        {"type": "text", "text": "And"},
                        {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{b64(two)}"}},
                        {"type": "text", "text": "?"},
                    ],
                },
                {"role": "assistant", "content": "Two."},
                {"role": "user", "content": "Why?"},
            ],
        }


async def test_clips_are_sent_as_they_are_or_refused(endpoint: Endpoint, served: Any) -> None:
    film, tone = clips.video(4), clips.audio(0.1)
    message = model.Message(role=model.ROLE_USER)
    message.parts.add(video=model.Video(data=film))
    message.parts.add(audio=model.Audio(data=tone))
    message.parts.add(text="?")
    async with served(backend(endpoint)) as server:
        assert await refusal(server.generate(message)) == ("UNIMPLEMENTED", "no_audio_input")
    async with served(backend(endpoint, audio_input=True, video_input=True)) as server:
        await server.generate(message)
        message.parts[0].video.sampling.count = 4
        assert await refusal(server.generate(message)) == ("UNIMPLEMENTED", "no_sampling")
        message.parts[0].video.ClearField("sampling")
        message.parts[1].audio.data = b"fLaC" + tone
        assert await refusal(server.generate(message)) == ("INVALID_ARGUMENT", "bad_audio")
    (body,) = endpoint.seen
    assert body["messages"][0]["content"] == [
        {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{b64(film)}"}},
        {"type": "input_audio", "input_audio": {"data": b64(tone), "format": "wav"}},
        {"type": "text", "text": "?"},
    ]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("reply", "text", "reason"),
    [
        (completion("cut", "length"), "cut", model.FINISH_REASON_MAX_TOKENS),
        (completion(None, "content_filter"), "", model.FINISH_REASON_CONTENT_FILTER),
        (completion("a", choice={"stop_reason": "\n"}), "a", model.FINISH_REASON_STOP_STRING),
        (completion("a", choice={"stop_reason": 151645}), "a", model.FINISH_REASON_END_OF_SEQUENCE),
        (completion("a", choice={"matched_stop": "\n"}), "a", model.FINISH_REASON_STOP_STRING),
        (completion("a", choice={"matched_stop": 151645}), "a", model.FINISH_REASON_END_OF_SEQUENCE),
        (completion("", "length", usage=None), "", model.FINISH_REASON_MAX_TOKENS),
        (
            completion([{"type": "thinking", "thinking": []}, {"type": "text", "text": "B"}]),
            "B",
            model.FINISH_REASON_END_OF_SEQUENCE,
        ),
        (completion("cut in two \ud83d", "length"), "cut in two \ufffd", model.FINISH_REASON_MAX_TOKENS),
        (completion(None, "tool_calls"), "", model.FINISH_REASON_TOOL_CALLS),
        (
            completion(None, choice={"message": {"role": "assistant", "content": None, "refusal": "I cannot."}}),
            "I cannot.",
            model.FINISH_REASON_CONTENT_FILTER,
        ),
    ],
)
async def test_finish_reasons(reply: Any, text: str, reason: Any, endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.replies = [reply]
    async with served(backend(endpoint)) as server:
        got = await server.generate(ask("x"))
        assert "".join(part.text for part in got.parts) == text
        assert got.finish_reason == reason


THOUGHTS = "It barks, so it is the dog."


def thinking(content: Any, **message: Any) -> dict[str, Any]:
    return completion(content, choice={"message": {"role": "assistant", "content": content, **message}})


@pytest.mark.parametrize(
    "reply",
    [
        thinking("B", reasoning=THOUGHTS),
        thinking("B", reasoning_content=THOUGHTS),
        thinking("B", reasoning=f"{THOUGHTS}\n", reasoning_content=THOUGHTS),
        thinking(
            [{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHTS}]}, {"type": "text", "text": "B"}]
        ),
        thinking(f"<think>\n{THOUGHTS}\n</think>\n\nB"),
        thinking(f"{THOUGHTS}</think>B"),
        thinking(f"[THINK]{THOUGHTS}[/THINK]B"),
    ],
)
async def test_reasoning_is_apart_from_the_answer(reply: Any, endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.replies = [reply]
    async with served(backend(endpoint)) as server:
        assert model.CAPABILITY_REASONING in (await server.info()).capabilities
        got = await server.generate(ask("x"))
        assert (got.reasoning, [part.text for part in got.parts]) == (THOUGHTS, ["B"])


@pytest.mark.parametrize(("owner", "finish", "tokens"), [("vllm", "stop", 2), ("vllm", "length", 3), ("x", "stop", 3)])
async def test_the_end_token_is_no_output_token(
    owner: str, finish: str, tokens: int, endpoint: Endpoint, served: Any, ask: Any
) -> None:
    """vLLM counts the token that ends an output, and gives its log-probability; our own server does neither."""
    endpoint.card["owned_by"] = owner
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    content = [{"token": word, "logprob": -0.5, "top_logprobs": []} for word in ("It", " is", "<|im_end|>")]
    endpoint.replies = [completion("It is", finish, usage=usage, choice={"logprobs": {"content": content}})]
    async with served(backend(endpoint)) as server:
        got = await server.generate(ask("x"), **({"top_logprobs": 1} if owner == "vllm" else {}))
        assert got.usage.output_tokens == tokens
        if owner == "vllm":
            assert [token.token for token in got.logprobs] == [b"It", b" is", b"<|im_end|>"][:tokens]


async def test_thinking_and_further_fields_reach_the_endpoint(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    async with served(backend(endpoint)) as server:
        claims = {model.CAPABILITY_THINKING, model.CAPABILITY_CHAT_TEMPLATE_ARGUMENTS, model.CAPABILITY_EXTRA_BODY}
        assert claims <= set((await server.info()).capabilities)
        extra = {"min_p": 0.1, "thinking_token_budget": 64}
        await server.generate(ask("x"), thinking=False, chat_template_arguments={"style": "short"}, extra_body=extra)
        body = endpoint.seen[-1]
        assert body["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False, "style": "short"}
        assert (body["min_p"], body["thinking_token_budget"], body["repetition_penalty"]) == (0.1, 64, 1.0)
        for name in ("temperature", "messages", "top_k", "model"):
            clash = server.generate(ask("x"), extra_body={name: 1}, chat_template_arguments={"a": 1})
            assert await refusal(clash) == ("INVALID_ARGUMENT", "field_not_extra")
        assert len(endpoint.seen) == 1
        endpoint.replies = [thinking("B", reasoning=THOUGHTS)]
        assert await refusal(server.generate(ask("x"), thinking=False)) == ("UNIMPLEMENTED", "thinking_stays_on")
    endpoint.card["owned_by"] = "someone"
    async with served(backend(endpoint)) as server:
        await server.generate(ask("x"), extra_body={"reasoning": {"effort": "high"}})
        assert endpoint.seen[-1]["reasoning"] == {"effort": "high"}
        assert await refusal(server.generate(ask("x"), thinking=True)) == ("UNIMPLEMENTED", "no_thinking")


LETTERS = {"choices": {"texts": ["A", "B+"]}}
SCHEMA = '{"type": "object", "required": ["a"]}'
NAMED = {"name": "answer", "schema": {"type": "object", "required": ["a"]}, "strict": True}
AS_JSON = {"response_format": {"type": "json_schema", "json_schema": NAMED}}


@pytest.mark.parametrize(
    ("owner", "response_format", "fields", "good", "bad"),
    [
        ("vllm", LETTERS, {"structured_outputs": {"choice": ["A", "B+"]}}, "B+", "B"),
        ("vllm", {"regex": r"\d."}, {"structured_outputs": {"regex": r"[0-9][^\n]"}}, "1a", "1\n"),
        ("vllm", {"json_schema": SCHEMA}, AS_JSON, '{"a": 1}', "{}"),
        ("sglang", LETTERS, {"regex": r"(A|B\+)"}, "A", "A."),
        ("sglang", {"regex": "a|b"}, {"regex": "(a|b)"}, "b", "ab"),
        ("someone", {"json_schema": SCHEMA}, AS_JSON, '{"a": 1}', "a: 1"),
    ],
)
async def test_a_format_goes_to_the_endpoint_and_its_reply_is_held_against_it(
    owner: str, response_format: Any, fields: Any, good: str, bad: str, endpoint: Endpoint, served: Any, ask: Any
) -> None:
    endpoint.card["owned_by"] = owner
    endpoint.replies = [
        completion(good),
        completion(bad),
        completion(bad, "length"),
        thinking(good, reasoning=THOUGHTS),
    ]
    async with served(backend(endpoint)) as server:
        send = functools.partial(server.generate, ask("x"), response_format=response_format)
        assert (await send()).parts[0].text == good
        assert fields.items() <= endpoint.seen[0].items()
        assert await refusal(send()) == ("INTERNAL", "format_not_kept")
        cut = await send()
        assert (cut.parts[0].text, cut.finish_reason) == (bad, model.FINISH_REASON_MAX_TOKENS)
        thought = await send()
        assert (thought.reasoning, thought.parts[0].text) == (THOUGHTS, good)
        clash = send(extra_body=fields)
        assert await refusal(clash) == ("INVALID_ARGUMENT", "field_not_extra")
        if owner == "someone":
            other = server.generate(ask("x"), response_format=LETTERS)
            assert await refusal(other) == ("UNIMPLEMENTED", "no_response_format")


async def test_a_stop_string_does_not_end_the_reasoning(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"

    def answer(body: dict[str, Any]) -> Any:
        message = {"role": "assistant", "reasoning": "First.\n\nSecond.", "content": "\n\nB\n\nBecause."}
        if "stop" in body:
            stopped = {"role": "assistant", "reasoning": "First.", "content": None}
            return completion(None, choice={"message": stopped, "stop_reason": "\n\n"})
        return completion("", choice={"message": message})

    endpoint.answer = answer
    async with served(backend(endpoint)) as server:
        for calls in (2, 3):  # the endpoint is tried with stop strings once
            got = await server.generate(ask("x"), stop=["\n\n"])
            assert (got.reasoning, [part.text for part in got.parts]) == ("First.\n\nSecond.", ["B"])
            assert got.finish_reason == model.FINISH_REASON_STOP_STRING
            assert got.effective_config.stop == ["\n\n"]
            assert len(endpoint.seen) == calls


async def test_a_reply_of_reasoning_alone_is_not_lost(endpoint: Endpoint, served: Any, ask: Any) -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 9}, "prompt_tokens_details": {"cached_tokens": 8}}
    spent = {"prompt_tokens": 11, "completion_tokens": 9, "total_tokens": 20, **details}
    beside = {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 24, **details}
    endpoint.replies = [
        completion(None, "length", usage=spent, choice={"message": {"role": "assistant", "reasoning": "half a tho"}}),
        completion("B", usage=beside),
    ]
    async with served(backend(endpoint)) as server:
        got = await server.generate(ask("x"))
        assert (got.reasoning, [part.text for part in got.parts]) == ("half a tho", [""])
        assert got.finish_reason == model.FINISH_REASON_MAX_TOKENS
        for tokens in (9, 13):  # the second endpoint counts reasoning beside the completion
            assert (got.usage.output_tokens, got.usage.reasoning_tokens, got.usage.cached_tokens) == (tokens, 9, 8)
            got = await server.generate(ask("x")) if tokens == 9 else got


LONG = "This model's maximum context length is 8192 tokens. However, you requested 9001 tokens."
ERRORS = [
    (error, (401, "Incorrect API key provided", "invalid_api_key"), "UNAUTHENTICATED", "endpoint_key", 1),
    (error, (403, "No access to model", None), "UNAUTHENTICATED", "endpoint_key", 1),
    (error, (403, "Moderation is required. Your input was flagged", None), "PERMISSION_DENIED", "content_policy", 1),
    (error, (403, "Your account was flagged for suspicious traffic", None), "UNAUTHENTICATED", "endpoint_key", 1),
    (error, (402, "Insufficient Balance", "invalid_request_error"), "UNAUTHENTICATED", "quota_exhausted", 1),
    (error, (400, "Hard limit reached", "billing_hard_limit_reached"), "UNAUTHENTICATED", "quota_exhausted", 1),
    (error, (400, "API key not valid. Please pass a valid one.", None), "UNAUTHENTICATED", "endpoint_key", 1),
    (error, (429, "Rate limit reached", "rate_limit_exceeded"), "RESOURCE_EXHAUSTED", "endpoint_busy", 3),
    (error, (429, "You exceeded your current quota", "insufficient_quota"), "UNAUTHENTICATED", "quota_exhausted", 3),
    (error, (500, "The server had an error", None), "UNAVAILABLE", "endpoint_failed", 3),
    (error, (503, "Loading", None), "UNAVAILABLE", "endpoint_failed", 3),
    (error, (400, LONG, "context_length_exceeded"), "OUT_OF_RANGE", "context_exceeded", 1),
    (error, (400, LONG, None), "OUT_OF_RANGE", "context_exceeded", 1),
    (error, (400, "Your request was rejected by our safety system", None), "PERMISSION_DENIED", "content_policy", 1),
    (error, (400, "no", "content_policy_violation"), "PERMISSION_DENIED", "content_policy", 1),
    (error, (400, "Invalid image data", "invalid_image"), "INVALID_ARGUMENT", "endpoint_refused", 1),
    (error, (413, "Too large", None), "INVALID_ARGUMENT", "request_too_large", 1),
    (error, (404, "The model does not exist", "model_not_found"), "UNIMPLEMENTED", "endpoint_not_found", 1),
]


@pytest.mark.parametrize(("make", "args", "code", "reason", "calls"), ERRORS)
async def test_errors(
    make: Any, args: Any, code: str, reason: str, calls: int, endpoint: Endpoint, served: Any, ask: Any
) -> None:
    endpoint.answer = lambda body: make(*args, **{"Retry-After": "0.01"})
    async with served(backend(endpoint)) as server:
        with pytest.raises(CallError) as caught:
            await call(server.stub.Generate, request(ask("x")), timeout=300)
        assert (caught.value.code.name, caught.value.reason) == (code, reason)
        assert len(endpoint.seen) == calls
        assert caught.value.retry_after == (0.01 if reason in ("endpoint_busy", "endpoint_failed") else 0)
        if reason == "context_exceeded":
            assert caught.value.metadata == {"limit": "8192", "value": "9001"}


async def test_retries_honour_retry_after(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.replies = [error(429, "slow down", **{"Retry-After": "0.3"}), error(502, "bad gateway")]
    loop = asyncio.get_running_loop()
    times: list[float] = []
    endpoint.answer = lambda body: (times.append(loop.time()), completion("at last"))[1]
    first = loop.time()
    async with served(backend(endpoint)) as server:
        reply = await call(server.stub.Generate, request(ask("x")), timeout=300)
        assert reply.parts[0].text == "at last"
        assert len(endpoint.seen) == 3
        assert times[0] - first >= 0.3  # never sooner than it was told


CHOICE = '{"choices": [{"index": 0, "finish_reason": "stop", "message": %s}], "usage": {"prompt_tokens": %s}}'


@pytest.mark.parametrize(
    "body",
    ["not json", "", '{"choices": []}', '{"id": 1}', "null", CHOICE % ("null", 1), CHOICE % ('{"content": ""}', -1)],
)
async def test_replies_that_are_none(body: str, endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.answer = lambda _: web.Response(text=body, content_type="application/json")
    async with served(backend(endpoint, retries=0)) as server:
        assert await refusal(server.generate(ask("x"))) == ("INTERNAL", "bad_reply")


@pytest.mark.parametrize(
    ("body", "begins"),
    [
        (
            "<!DOCTYPE html>\n<html>\x1b[2J" + "Log in " * 100,
            "a page in place of JSON: '<!DOCTYPE html> <html>.{,90}'; ",
        ),
        ("Wrong   key " + "sk" * 20, r"text in place of JSON: 'Wrong key \*\*\*'; is --base-url right"),
    ],
)
async def test_replies_that_are_no_json(body: str, begins: str, endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.answer = lambda _: web.Response(text=body, content_type="text/html")
    async with served(backend(endpoint, retries=0)) as server:
        with pytest.raises(CallError, match=f"the endpoint answered with {begins}") as caught:
            await server.generate(ask("x"))
    assert str(caught.value).isprintable()


async def test_what_was_withheld_or_empty_has_no_log_probabilities(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card |= {"owned_by": "vllm"}
    refused = completion(None, choice={"message": {"role": "assistant", "content": None, "refusal": "I cannot."}})
    endpoint.replies = [refused, completion(None, "content_filter"), completion("", "length"), completion("A")]
    async with served(backend(endpoint)) as server:
        sent = request(ask("x"), top_logprobs=2)
        reasons = [(await server.send(sent)).finish_reason for _ in range(3)]
        assert reasons[:2] == [model.FINISH_REASON_CONTENT_FILTER] * 2
        assert reasons[2] == model.FINISH_REASON_MAX_TOKENS
        assert (await refusal(server.send(sent)))[1] == "no_logprobs"


async def test_keys_and_passwords_are_told_to_nobody(
    endpoint: Endpoint, served: Any, ask: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    caplog.set_level(logging.INFO)
    endpoint.answer = lambda body: error(400, "what is sk-very-secret to do with this?")
    async with served(backend(endpoint)) as server:
        with pytest.raises(CallError) as caught:
            await server.generate(ask("x"))
        assert "what is *** to do" in str(caught.value)
    authenticated = endpoint.url.replace("://", "://user:hunter2@")
    async with served(backend(endpoint, base_url=authenticated)) as server:
        endpoint.answer = lambda body: completion("fine")
        await server.generate(ask("x"))
    for url in ("http://user:hunter2@127.0.0.1:1/v1", "ftp://user:hunter2@127.0.0.1:1/v1"):
        with pytest.raises(LoadError) as refused:
            await asyncio.to_thread(look, Settings(model="m", base_url=url, patience=0.0))
        assert "hunter2" not in str(refused.value)
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("body", ["<html>Log in</html>", '{"data', '["m"]', '{"data": ["m"]}'])
async def test_an_address_that_lists_no_models(body: str, endpoint: Endpoint) -> None:
    endpoint.listing = lambda: web.Response(text=body, content_type="text/html" if "<" in body else "application/json")
    with pytest.raises(LoadError, match=r"its list of models cannot be read; does --base-url end in /v1\?"):
        await asyncio.to_thread(look, Settings(model="m", base_url=endpoint.url, patience=0.0))


async def test_a_key_that_is_refused_with_another_status(endpoint: Endpoint) -> None:
    google = [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}]
    endpoint.listing = lambda: web.json_response(google, status=400)
    with pytest.raises(LoadError, match="refuses the key"):
        await asyncio.to_thread(look, Settings(model="m", base_url=endpoint.url, patience=0.0))


async def test_deadlines(endpoint: Endpoint, served: Any, ask: Any) -> None:
    async def hang(body: dict[str, Any]) -> Any:
        await asyncio.sleep(1)

    endpoint.answer = hang
    async with served(backend(endpoint, timeout=0.2, retries=0)) as server:
        assert (await refusal(call(server.stub.Generate, request(ask("x")), timeout=4)))[0] == "DEADLINE_EXCEEDED"


async def test_the_newer_name_of_the_output_limit(endpoint: Endpoint, served: Any, ask: Any) -> None:
    def picky(body: dict[str, Any]) -> Any:
        if "max_tokens" in body:
            return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return completion("ok")

    endpoint.answer = picky
    async with served(backend(endpoint)) as server:
        for _ in range(2):
            await server.generate(ask("x"), max_output_tokens=5)
        assert [sorted(b for b in body if b.startswith("max_")) for body in endpoint.seen] == [
            ["max_tokens"],
            ["max_completion_tokens"],
            ["max_completion_tokens"],
        ]
        assert endpoint.seen[-1]["max_completion_tokens"] == 5


async def test_many_calls_learn_the_newer_name_at_once(endpoint: Endpoint, served: Any, ask: Any) -> None:
    together = asyncio.Barrier(16)

    async def picky(body: dict[str, Any]) -> Any:
        if "max_completion_tokens" in body:
            return completion("ok")
        await together.wait()  # every call has been sent before the first is refused
        return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")

    endpoint.answer = picky
    async with served(backend(endpoint)) as server:
        sent = request(ask("x"), max_output_tokens=5)
        replies = await asyncio.gather(*(call(server.stub.Generate, sent, timeout=300) for _ in range(16)))
        assert [reply.parts[0].text for reply in replies] == ["ok"] * 16
        assert len(endpoint.seen) == 32
        await call(server.stub.Generate, sent, timeout=300)
        assert len(endpoint.seen) == 33, "and it stays learned"


async def test_an_endpoint_that_refuses_both_names_is_asked_twice(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.answer = lambda body: error(400, "max_completion_tokens is too large")
    async with served(backend(endpoint)) as server:
        assert await refusal(server.generate(ask("x"), max_output_tokens=5)) == ("INVALID_ARGUMENT", "endpoint_refused")
        assert len(endpoint.seen) == 2


async def test_what_an_unknown_endpoint_may_ignore_is_refused(endpoint: Endpoint, served: Any, ask: Any) -> None:
    async with served(backend(endpoint)) as server:
        for config in ({"top_k": 5}, {"seed": 1, "temperature": 1.0}, {"top_logprobs": 2}):
            assert (await refusal(server.generate(ask("x"), **config)))[0] == "UNIMPLEMENTED"
        assert not endpoint.seen


async def test_logprobs_of_an_engine_that_is_known(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card |= {"owned_by": "vllm", "max_model_len": 4096}
    top = [{"token": "A", "bytes": [65], "logprob": -0.5}, {"token": "B", "bytes": None, "logprob": -1.5}]
    endpoint.answer = lambda body: completion(
        "A", choice={"logprobs": {"content": [{**top[0], "top_logprobs": top}], "refusal": None}}
    )
    async with served(backend(endpoint)) as server:
        info = await server.info()
        assert info.max_context_tokens == 4096
        assert info.properties["endpoint"] == "vllm"
        reply = await server.generate(ask("x"), top_logprobs=2, top_k=5, seed=3, temperature=1)
        (body,) = endpoint.seen
        assert (body["logprobs"], body["top_logprobs"], body["top_k"], body["seed"]) == (True, 2, 5, 3)
        (token,) = reply.logprobs
        assert (token.token, token.logprob) == (b"A", -0.5)
        assert [(t.token, t.logprob) for t in token.top] == [(b"A", -0.5), (b"B", -1.5)]


async def test_bad_images_are_found_here(endpoint: Endpoint, served: Any, ask: Any) -> None:
    async with served(backend(endpoint)) as server:
        assert await refusal(server.generate(ask(b"junk", "x"))) == ("INVALID_ARGUMENT", "bad_image")
        assert not endpoint.seen


@pytest.mark.parametrize(
    "reply",
    [
        completion("H", "length"),
        error(400, "'max_tokens' is not supported: use 'max_completion_tokens'"),
        error(503, ""),
    ],
    ids=["answers", "knows another limit", "is busy"],
)
async def test_a_model_that_the_list_names_otherwise(
    reply: Any, endpoint: Endpoint, served: Any, ask: Any, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.card["id"] = "models/m\x1b[2J"
    endpoint.replies = [reply]
    async with served(backend(endpoint, retries=0)) as server:
        assert [(body["model"], body["max_tokens"]) for body in endpoint.seen] == [("m", 1)]
        assert (await server.generate(ask("Q?"))).parts[0].text == "fine"
    warning = [
        record.getMessage() for record in caplog.records if "does not list 'm', only models/m" in record.getMessage()
    ]
    assert len(warning) == 1
    assert warning[0].isprintable()


async def test_loading_mistakes(endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(**kwargs: Any) -> None:
        look(Settings(**({"model": "m", "base_url": endpoint.url, "patience": 0.0} | kwargs)))

    endpoint.answer = lambda body: error(404, f"The model `{body['model']}` does not exist.")
    key = tmp_path / "key"
    for text, kwargs, message in (
        ("wrong", {"key_file": key}, "refuses the key"),
        ("  ", {"key_file": key}, "empty"),
        ("x", {"base_url": "http://[::1/v1"}, "is not a URL"),
        ("x", {"base_url": "http://host:99999/v1"}, "is not a URL"),
        ("x", {"base_url": "host:8000/v1"}, "is not a URL"),
        ("s\u00e9same", {"key_file": key}, "holds no key"),
        ("open\nsesame", {"key_file": key}, "holds no key"),
        ("x", {"model": "other"}, "does not serve 'other'; it has m"),
        ("x", {"base_url": "http://127.0.0.1:1/v1"}, "cannot reach"),
    ):
        key.write_text(text)
        with pytest.raises(LoadError, match=message) as caught:
            await asyncio.to_thread(load, **kwargs)
        assert "\n" not in str(caught.value)
        assert "wrong" not in str(caught.value), "a key is never told"
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(LoadError, match="no key"):
        await asyncio.to_thread(load, base_url=None)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
async def test_a_checkpoints_sampling_defaults_do_not_apply(
    engine: str, endpoint: Endpoint, served: Any, ask: Any
) -> None:
    """Both engines take what a request leaves open from generation_config.json: Qwen's has a repetition penalty."""
    endpoint.card |= {"owned_by": engine}
    async with served(backend(endpoint)) as server:
        greedy = await server.generate(ask("x"))
        drawn = await server.generate(ask("x"), temperature=1, top_k=5, top_p=0.5)
    first, second = endpoint.seen
    assert (first["temperature"], first["top_p"], first["top_k"]) == (0, 1, -1)
    assert (second["temperature"], second["top_p"], second["top_k"]) == (1, 0.5, 5)
    for body in endpoint.seen:
        assert (body["repetition_penalty"], body["min_p"]) == (1, 0)
    config = greedy.effective_config
    assert [config.HasField(name) for name in ("temperature", "top_p", "top_k")] == [True] * 3
    assert (config.temperature, config.top_p, config.top_k) == (0, 1, 0)
    assert drawn.effective_config.top_k == 5


async def test_outputs_of_one_prompt_are_asked_for_at_once(endpoint: Endpoint, served: Any, ask: Any) -> None:
    """vLLM draws choice i with seed + i; an older one, which does not tell their tokens, is asked for one at a time."""
    endpoint.card["owned_by"] = "vllm"
    tells = True

    def answer(body: dict[str, Any]) -> Any:
        count = body.get("n", 1)
        reply = completion(
            "", usage={"prompt_tokens": 9, "completion_tokens": 3 * count, "total_tokens": 9 + 3 * count}
        )
        reply["choices"] = [
            {"index": number, "finish_reason": "stop", "message": {"role": "assistant", "content": "x" * size}}
            | ({"token_ids": list(range(size + 1))} if tells and body.get("return_token_ids") else {})
            for number, size in enumerate(range(body["seed"] % 10, body["seed"] % 10 + count))
        ]
        reply["choices"].reverse()  # in any order
        return reply

    endpoint.answer = answer
    config = model.GenerationConfig(temperature=0.5, seed=11)
    async with served(backend(endpoint)) as server:
        assert (await server.info()).max_samples == 64
        sent = model.GenerateRequest(messages=[ask("x?")], config=config, samples=3)
        outputs = [result.output for result in (await server.send(sent)).samples]
        assert [(body["n"], body["seed"]) for body in endpoint.seen] == [(3, 11)]
        assert [output.parts[0].text for output in outputs] == ["x", "xx", "xxx"]
        assert [output.effective_config.seed for output in outputs] == [11, 12, 13]
        # The end token, which vLLM counts, is none of ours.
        assert [output.usage.output_tokens for output in outputs] == [1, 2, 3]
        assert [output.usage.cached_tokens for output in outputs] == [0, 9, 9]
        tells, endpoint.seen = False, []
        again = [result.output for result in (await server.send(sent)).samples]
        assert [output.parts for output in again] == [output.parts for output in outputs]
        assert sorted((body.get("n", 1), body["seed"]) for body in endpoint.seen) == [
            (1, 11),
            (1, 12),
            (1, 13),
            (3, 11),
        ]
        await server.send(sent)
        assert len(endpoint.seen) == 7, "it is known by then"
