"""Failures of real endpoints, each with its source, over real HTTP: what each of them means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")
from aiohttp import web
from helpers.openai_endpoint import Endpoint, backend, completion, request

from lyncean.rpc import CallError
from lyncean.vocabulary.outcomes import Outcome
from model_server.openai_api.client import Settings

TABLE = json.loads((Path(__file__).parents[2] / "fixtures" / "endpoint_errors.json").read_text())
OUTCOMES = {
    "PERMISSION_DENIED": Outcome.REFUSED,
    "OUT_OF_RANGE": Outcome.REJECTED,
    "INVALID_ARGUMENT": Outcome.REJECTED,
    "UNIMPLEMENTED": Outcome.REJECTED,
}


def replied(entry: dict[str, Any]) -> web.Response:
    """Returns the response of an endpoint as it came."""
    if isinstance(entry["body"], str):
        return web.Response(text=entry["body"], status=entry["status"], headers=entry.get("headers"))
    return web.json_response(entry["body"], status=entry["status"], headers=entry.get("headers"))


async def test_each_failure_means_what_the_table_says(endpoint: Endpoint, served: Any, ask: Any) -> None:
    wrong = []
    async with served(backend(endpoint, retries=0)) as server:
        for entry in TABLE:
            endpoint.replies = [replied(entry)]
            with pytest.raises(CallError) as caught:
                await server.send(request(ask("?")))
            error = caught.value
            actual = {"code": error.code.name, "reason": error.reason}
            due = {name: entry[name] for name in actual}
            if error.reason == "context_exceeded":
                actual |= {name: error.metadata.get(name) for name in ("limit", "value")}
                due |= {name: entry.get(name) for name in ("limit", "value")}
            if "pause" in entry:
                actual["pause"], due["pause"] = round(error.retry_after, 3), entry["pause"]
            outcome = OUTCOMES.get(error.code.name, Outcome.FAILED)
            if actual != due or error.consequence.outcome is not outcome or "\n" in str(error):
                wrong.append((entry["source"], actual, due, str(error)))
    assert not wrong


def test_the_table_has_the_failures_of_many_endpoints() -> None:
    assert len(TABLE) >= 60
    assert {entry["from"] for entry in TABLE} >= {
        "OpenAI", "Azure", "Anthropic", "Gemini", "Alibaba", "vLLM", "SGLang", "llama.cpp", "OpenRouter"
    }  # fmt: skip
    assert all(entry["source"].startswith("https://") for entry in TABLE)


async def test_a_choice_that_is_a_failure_is_no_answer(endpoint: Endpoint, served: Any, ask: Any) -> None:
    """OpenRouter ends a choice so where its provider breaks off: https://openrouter.ai/docs/errors."""
    failure = {"code": 502, "message": "Provider disconnected"}
    endpoint.replies = [completion("half an ans", finish="error", choice={"error": failure})]
    async with served(backend(endpoint, retries=0)) as server:
        with pytest.raises(CallError, match="the endpoint says 502: Provider disconnected") as caught:
            await server.send(request(ask("?")))
    assert caught.value.reason == "endpoint_failed"


async def test_a_long_pause_is_told_at_once(endpoint: Endpoint, served: Any, ask: Any) -> None:
    """The client does not wait by itself: nobody would know why."""
    body = {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
    endpoint.answer = lambda _: web.json_response(body, status=429, headers={"Retry-After": "3600"})
    async with served(backend(endpoint, retries=Settings("m").retries)) as server:
        with pytest.raises(CallError, match=r"Rate limit reached; it asks to wait for 3,600 s") as caught:
            await server.send(request(ask("?")))
    assert caught.value.retry_after == 300.0
    assert len(endpoint.seen) == 1
