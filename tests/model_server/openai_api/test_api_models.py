"""A model behind an API by one command: the vendor's SDK is answered with replies of its own types."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from helpers.model_serving import refusal
from helpers.page_commands import ROOT, commands
from helpers.report_runs import puzzle

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError

pytest.importorskip("openai")
from helpers.openai_endpoint import Endpoint, backend, completion, endpoint_thread, request
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

REFUSED = (
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
)


def responded(text: str, **changes: Any) -> dict[str, Any]:
    """A reply of the Responses API, held against the SDK's own type."""
    output_text = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    thought = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Looked."}]}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [output_text]}
    reply = {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": False,
        "temperature": 1.0,
        "top_p": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "output": [thought, message],
        "usage": {
            "input_tokens": 21,
            "output_tokens": 9,
            "total_tokens": 30,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 6},
        },
    } | changes
    Response.model_validate(reply)
    return reply


async def test_the_responses_api_gets_the_conversation_and_gives_text_reasoning_and_usage(
    endpoint: Endpoint, served: Any, ask: Any, picture: Any
) -> None:
    endpoint.answer = lambda body: responded('{"a": "fine"}')
    image = picture(1)
    async with served(backend(endpoint, api="responses")) as server:
        schema = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
        sent = request(ask(image, "What?"), max_output_tokens=20)
        sent.config.response_format.json_schema = schema
        reply = await server.send(sent)
    assert [part.text for part in reply.parts] == ['{"a": "fine"}']
    assert reply.reasoning == "Looked."
    usage = reply.usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cached_tokens) == (21, 9, 6, 4)
    (body,) = endpoint.seen
    assert endpoint.paths == ["/v1/responses"]
    assert body["text"]["format"]["type"] == "json_schema"
    assert {name: value for name, value in body.items() if name != "text"} == {
        "model": "m",
        "max_output_tokens": 20,
        "store": False,
        "input": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "input_image",
                        "image_url": f"data:image/png;base64,{base64.b64encode(image).decode()}",
                        "detail": "auto",
                    },
                    {"type": "input_text", "text": "What?"},
                ],
            }
        ],
    }


async def test_a_reply_of_the_responses_api_may_be_cut_or_declined(endpoint: Endpoint, served: Any, ask: Any) -> None:
    declined = {"type": "refusal", "refusal": "I cannot."}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [declined]}
    endpoint.replies = [
        responded("Yes, and", status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        responded("", output=[message]),
        responded("one STOP two"),
        responded("", status="failed", error={"code": "server_error", "message": "The GPU is gone."}),
    ]
    async with served(backend(endpoint, api="responses")) as server:
        assert (await server.send(request(ask("?")))).finish_reason == model.FINISH_REASON_MAX_TOKENS
        assert (await server.send(request(ask("?")))).finish_reason == model.FINISH_REASON_CONTENT_FILTER
        cut = await server.send(request(ask("?"), stop=["STOP"]))
        assert (cut.parts[0].text, cut.finish_reason) == ("one ", model.FINISH_REASON_STOP_STRING)
        assert await refusal(server.send(request(ask("?")))) == ("INTERNAL", "bad_reply")


async def test_what_is_left_out_is_not_sent_and_not_said_to_be_used(endpoint: Endpoint, served: Any, ask: Any) -> None:
    async with served(backend(endpoint, leave_out=("temperature", "stop"))) as server:
        reply = await server.send(request(ask("?"), temperature=0.0, top_p=1.0, stop=["x"]))
    assert not {"temperature", "stop"} & endpoint.seen[0].keys()
    assert endpoint.seen[0]["top_p"] == 1.0
    assert not reply.effective_config.HasField("temperature")
    assert reply.effective_config.top_p == 1.0


@pytest.mark.parametrize(
    ("message", "param", "name"),
    [
        (REFUSED, "temperature", "temperature"),
        ("Unsupported parameter: 'top_p' is not supported with this model.", "top_p", "top_p"),
        ("`temperature` is deprecated for this model.", None, "temperature"),
        ("`temperature` and `top_p` cannot both be specified for this model.", None, "temperature"),
        ("Unrecognized request argument supplied: 'seed'", None, "seed"),
        ("'stop' is not supported with this model", "stop", "stop"),
    ],
)
async def test_a_setting_that_is_refused_is_named(
    endpoint: Endpoint, served: Any, ask: Any, message: str, param: str | None, name: str
) -> None:
    endpoint.replies = [refusing(message, param)]
    async with served(backend(endpoint)) as server:
        with pytest.raises(CallError, match=f"--model-option leave-out={name} ") as caught:
            await server.send(request(ask("?"), temperature=0.0))
    assert caught.value.reason == "setting_refused"
    assert caught.value.consequence.abort


def refusing(message: str, param: str | None) -> web.Response:
    body = {"message": message, "type": "invalid_request_error", "param": param, "code": "unsupported_value"}
    return web.json_response({"error": body}, status=400)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.png").write_bytes(puzzle(1))
    rows = "".join(f"{number},one.png,Is it?,{word}\n" for number, word in enumerate(("yes", "no", "yes")))
    (tmp_path / "set.csv").write_text("id,image,question,answer\n" + rows)
    (tmp_path / "set.yaml").write_text(
        "data: set.csv\nid: id\nimage: image\nquestion: question\nanswer: answer\nrule: yes_no\n"
    )
    return tmp_path


def evaluated(folder: Path, model_name: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchestrator", "eval", "--task", "set.yaml", "--model", model_name]
    return subprocess.run(
        [*command, "--run", "run", *options],
        cwd=folder,
        env={**os.environ, "OPENAI_API_KEY": "sesame", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


REPLIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "openai": lambda body: ChatCompletion.model_validate(completion("Yes.")).model_dump(mode="json"),
    "responses": lambda body: responded("Yes."),
}


@pytest.mark.parametrize("kind", REPLIES)
def test_a_model_behind_an_api_is_evaluated_by_one_command(folder: Path, kind: str) -> None:
    with endpoint_thread() as endpoint:
        endpoint.answer = REPLIES[kind]
        done = evaluated(folder, f"{kind}:m@{endpoint.url}")
        assert done.returncode == 0, done.stderr
        paths = set(endpoint.paths)
    assert paths == {"/v1/responses" if kind == "responses" else "/v1/chat/completions"}
    results = json.loads((folder / "run" / "results.json").read_text())
    assert results["tasks"]["set"]["counts"]["scored"] == 3
    assert "3 planned = 3 scored" in done.stdout


def test_a_refused_setting_ends_the_run_before_an_answer_is_logged_and_its_way_out_works(folder: Path) -> None:
    def answer(body: dict[str, Any]) -> Any:
        if body.get("temperature") == 0:
            return refusing(REFUSED, "temperature")
        return completion("Yes.")

    with endpoint_thread() as endpoint:
        endpoint.answer = answer
        done = evaluated(folder, f"openai:m@{endpoint.url}")
        assert done.returncode == 2
        last = done.stderr.strip().splitlines()[-1]
        assert REFUSED in last
        assert "--model-option leave-out=temperature" in last
        log = folder / "run" / "responses.jsonl"
        assert not log.exists() or not log.read_text()
        done = evaluated(folder, f"openai:m@{endpoint.url}", "--model-option", "leave-out=temperature")
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_page(folder: Path) -> None:
    """docs/api-models.md, each model at an address of this machine."""
    (folder / "photos.yaml").write_text((folder / "set.yaml").read_text())
    lines = [line.partition(" #")[0] for line in commands(ROOT / "docs" / "api-models.md")]
    export, *evaluations = lines
    assert export == "export OPENAI_API_KEY=..."
    with endpoint_thread() as endpoint:
        endpoint.answer = lambda body: responded("Yes.") if "input" in body else completion("Yes.")
        for number, line in enumerate(evaluations):
            arguments = line.split()
            name = arguments[arguments.index("--model") + 1]
            if name.startswith("litellm:"):
                assert name.startswith("litellm:anthropic/")  # which test_other_vendors.py asks
                continue
            kind = name.partition(":")[0]
            more = arguments[arguments.index(name) + 1 :]
            done = evaluated(
                folder, f"{kind}:m@{endpoint.url}", "--run", f"run{number}", *more, "--task", "photos.yaml"
            )
            assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert set(endpoint.paths) == {"/v1/responses", "/v1/chat/completions"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("openai:", "names no model: give openai:NAME or openai:NAME@URL"),
        ("openai:m@ftp://host", "openai:m@ftp://host: give the URL with http:// or https://"),
    ],
)
def test_a_mistake_in_the_name_is_said(folder: Path, name: str, message: str) -> None:
    done = evaluated(folder, name)
    assert done.returncode == 2
    assert message in done.stderr


def test_no_key_is_said_at_once(folder: Path) -> None:
    done = evaluated(folder, "openai:gpt-4o", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    assert done.returncode == 2
    assert "no key: set OPENAI_API_KEY" in done.stderr
