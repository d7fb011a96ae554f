"""`--tools`: what is asked, what tools give back, what is judged, and how a trajectory ends."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from click.testing import CliRunner
from helpers.engine_cluster import Server
from helpers.page_commands import ROOT, commands
from PIL import Image

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from orchestrator.api import evaluate
from orchestrator.cli import main
from orchestrator.errors import ConfigError
from orchestrator.run.plan import make
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.manifest import ManifestError
from orchestrator.run_folder.tools_used import words

TASK = "data: rows.jsonl\nid: id\nimage: image\nquestion: question\noptions: [A, B, C, D]\nanswer: answer\n"
ROWS = ("twice", "stubborn", "parallel", "unknown", "at once", "withheld", "silent", "native tool")
CLAIMS = ("GENERATE", "IMAGE_INPUT", "MULTI_IMAGE", "TOOLS", "SEED", "SAMPLES", "MEDIA_BY_HASH")


class Native(model_grpc.ModelServiceServicer):
    """A model that calls the contract's own tools, as its question says."""

    def __init__(self) -> None:
        self.requests: list[model.GenerateRequest] = []
        self.images = model.TOOL_IMAGES_IN_RESULT
        self.context = 0
        self.fixed_answer = ""
        self.shown: Sequence[tuple[int, int]] = ()
        self.look: Callable[[], None] = lambda: None

    async def GetModelInfo(self, request: Any, context: Any) -> model.GetModelInfoResponse:  # noqa: N802
        claims = [model.Capability.Value(f"CAPABILITY_{name}") for name in CLAIMS]
        return model.GetModelInfoResponse(
            model_name="native",
            model_revision="1",
            boot_id="b",
            capabilities=claims,
            max_concurrency=4,
            max_held_bytes=1 << 24,
            max_samples=4,
            tool_rendering=model.ToolRendering(images=self.images, reasoning_kept=True),
        )

    async def Generate(self, request: model.GenerateRequest, context: Any) -> model.GenerateResponse:  # noqa: N802
        self.requests.append(request)
        if self.context and len(request.messages) > self.context:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, "9,001 tokens, the context is 9,000")
        self.look()
        response = self._answer(request)
        if request.samples > 1:
            for _ in range(request.samples):
                output = model.Sample.FromString(response.SerializeToString())
                response.samples.add(output=output)
        response.served_by.model_revision, response.served_by.boot_id = "1", "b"
        return response

    def _answer(self, request: model.GenerateRequest) -> model.GenerateResponse:
        if self.fixed_answer:
            response = model.GenerateResponse(finish_reason=model.FINISH_REASON_END_OF_SEQUENCE)
            response.parts.add(text=self.fixed_answer)
            images = sum(part.HasField("image") for message in request.messages for part in message.parts)
            response.usage.images.extend(model.ImageUsage(width=w, height=h) for w, h in self.shown[:images])
            return response
        question = request.messages[0].parts[-1].text.splitlines()[0]
        turn = sum(message.role == model.ROLE_ASSISTANT for message in request.messages)
        zoom = model.ToolCall(id=f"call_{turn}", name="zoom", arguments='{"box": [0, 0, 500, 500], "image": 1}')
        calls: Sequence[model.ToolCall] = ()
        match question:
            case "twice" | "withheld" if turn < 2:
                calls = [zoom]
            case "stubborn":
                calls = [zoom]
            case "parallel" if not turn:
                calls = [zoom, model.ToolCall(id="other", name="zoom", arguments="not JSON")]
            case "unknown" if not turn:
                calls = [model.ToolCall(id="a", name="shell", arguments="{}")]
            case "withheld":
                return model.GenerateResponse(finish_reason=model.FINISH_REASON_CONTENT_FILTER)
            case "silent":
                return model.GenerateResponse(
                    parts=[model.Part(text="")],
                    finish_reason=model.FINISH_REASON_MAX_TOKENS,
                    reasoning="Well",
                    usage=model.Usage(input_tokens=5, output_tokens=9, reasoning_tokens=9),
                )
            case "native tool":
                return model.GenerateResponse(parts=[model.Part(text="")], finish_reason=model.FINISH_REASON_TOOL_CALLS)
        calls = calls if request.tools else ()
        usage = model.Usage(input_tokens=100, output_tokens=10)
        if not calls:
            parts = [model.Part(text="The answer is B.")]
            return model.GenerateResponse(parts=parts, finish_reason=model.FINISH_REASON_END_OF_SEQUENCE, usage=usage)
        parts = [model.Part(text="Closer."), *(model.Part(tool_call=call) for call in calls)]
        return model.GenerateResponse(
            parts=parts,
            finish_reason=model.FINISH_REASON_TOOL_CALLS,
            reasoning="I look.",
            opaque=b"signed",
            usage=usage,
        )


@pytest.fixture
def task(tmp_path: Path) -> Path:
    lines = []
    for number, question in enumerate(ROWS):
        buffer = io.BytesIO()
        Image.new("RGB", (64, 48), (number, 9, 99)).save(buffer, "PNG")
        (tmp_path / f"{number}.png").write_bytes(buffer.getvalue())
        row = {"id": number, "image": f"{number}.png", "question": question, "answer": "B"}
        lines.append(orjson.dumps(row | {letter: f"number {letter}" for letter in "ABCD"}))
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines))
    (tmp_path / "looks.yaml").write_text(TASK)
    return tmp_path / "looks.yaml"


@pytest.fixture
async def native() -> AsyncIterator[tuple[Native, str]]:
    server, servicer = grpc.aio.server(), Native()
    model_grpc.add_ModelServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield servicer, f"127.0.0.1:{port}"
    await server.stop(None)


async def run(task: Path, endpoint: str, name: str, **more: Any) -> dict[str, Any]:
    options = {"endpoint": endpoint, "run": task.parent / name, "max_unparsed": 1, "tools": "zoom", **more}
    await asyncio.to_thread(lambda: evaluate(str(task), **options))
    results: dict[str, Any] = orjson.loads((task.parent / name / "results.json").read_bytes())
    return results


def lines(run: Path, file: str = "responses.jsonl") -> dict[str, dict[str, Any]]:
    parsed = map(orjson.loads, (run / file).read_bytes().splitlines())
    return {line["key"]: line for line in parsed}


async def test_a_model_calls_tools_and_each_call_has_a_line(task: Path, native: tuple[Native, str]) -> None:
    servicer, endpoint = native
    results = await run(task, endpoint, "run")
    logged, verdicts = lines(task.parent / "run"), lines(task.parent / "run", "verdicts.jsonl")
    outcomes = {
        ROWS[int(key.rpartition("/")[2])]: (line["outcome"], line.get("reason")) for key, line in verdicts.items()
    }
    assert outcomes == {
        **dict.fromkeys(("twice", "parallel", "unknown", "at once"), ("scored", "stated")),
        "stubborn": ("unparsed", "call_limit"),
        "withheld": ("refused", "content_filter"),
        "silent": ("unparsed", "cut_reasoning"),
        "native tool": ("unparsed", "tool_call"),
    }
    calls, tools = 3 + 12 + 2 + 2 + 1 + 3 + 1 + 1, 2 + 11 + 2 + 1 + 2
    assert results["tools"] == {
        "names": ["zoom"], "protocol": "native", "max_calls": 12,
        "calls": calls, "tool_calls": tools, "tool_errors": 2,
    }  # fmt: skip
    assert len(servicer.requests) == calls == results["usage"]["requests"]

    second = logged["looks/0:call2"]["request"]
    assert [message["role"] for message in second["messages"]] == ["ROLE_ASSISTANT", "ROLE_TOOL"]
    assert (second["messages"][0]["reasoning"], second["messages"][0]["opaque"]) == ("I look.", "c2lnbmVk")
    sent = next(
        request
        for request in servicer.requests
        if len(request.messages) == 5 and request.messages[0].parts[-1].text[:5] == "twice"
    )
    assert [message.role for message in sent.messages] == [2, 3, 4, 3, 4]
    assert sent.messages[1].opaque == b"signed"
    assert sent.messages[2].parts[0].tool_result.content[-1].image.data
    assert sent.tools[0].name == "zoom"
    tool = logged["looks/0:call1-tool1"]
    assert (tool["request"], tool["tool"]["tool_call"]["name"]) == (None, "zoom")
    assert logged["looks/2:call1-tool2"]["tool"]["is_error"] is True
    judged = logged["looks/0"]
    assert judged["request"] == logged["looks/0:call1"]["request"]
    assert {"calls": 3, "tool_calls": 2, "tool_errors": 0}.items() <= judged["facts"].items()
    assert judged["response"]["parts"] == [{"text": "The answer is B."}]

    servicer.requests.clear()
    await run(task, endpoint, "run")
    assert not servicer.requests
    scored = await asyncio.to_thread(CliRunner().invoke, main, ["score", str(task.parent / "run")])
    assert scored.exit_code == 0, scored.output
    assert orjson.loads((task.parent / "run" / "results.json").read_bytes()) == results


async def test_bounds_are_said(task: Path, native: tuple[Native, str]) -> None:
    results = await run(task, native[1], "run", max_calls=2, limit=2)
    assert results["tools"]["calls"] == 4
    details = [line["detail"] for line in lines(task.parent / "run", "verdicts.jsonl").values()]
    assert details == ["the trajectory met its limit of 2 calls before the model answered"] * 2
    with pytest.raises(ManifestError, match=r"tools"):
        await run(task, native[1], "run", max_calls=3, limit=2)
    # Its first answer has as many tokens.
    results = await run(task, native[1], "short", max_answer_tokens=1, limit=2)
    assert (results["tools"]["calls"], results["tools"]["max_answer_tokens"]) == (2, 1)
    details = [line["detail"] for line in lines(task.parent / "short", "verdicts.jsonl").values()]
    assert details == ["the trajectory met its limit of 1 output tokens before the model answered"] * 2


ZOOM = '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [0, 0, 30, 30]}}</tool_call>'


async def test_boxes_in_pixels_of_another_size_than_was_shown_are_counted(
    task: Path, native: tuple[Native, str]
) -> None:
    servicer, endpoint = native
    servicer.fixed_answer = ZOOM
    options = {"limit": 1, "protocol": "deepeyes", "max_calls": 3}
    for name, shown in {"small": (32, 24), "rounded": (66, 48), "silent": ()}.items():
        servicer.shown = [shown, (56, 56), (56, 56)] if shown else []
        await run(task, endpoint, name, **options)
    results = {name: orjson.loads(results_of(task.parent / name)) for name in ("small", "rounded", "silent")}
    (note,) = results["small"]["notes"]
    assert note["details"] == {"other_size": 2, "tool_calls": 2}
    assert note["sentence"].startswith("2 of 2 tool calls have a box in pixels of an image that the server showed")
    assert "notes" not in results["rounded"]
    assert "notes" not in results["silent"]


def results_of(run: Path) -> bytes:
    return (run / "results.json").read_bytes()


async def test_a_trajectory_beyond_the_context_ends_as_its_protocol_says(
    task: Path, native: tuple[Native, str]
) -> None:
    servicer, endpoint = native
    servicer.context = 3
    await run(task, endpoint, "run", limit=2)
    logged, verdicts = lines(task.parent / "run"), lines(task.parent / "run", "verdicts.jsonl")
    for line in verdicts.values():
        assert (line["outcome"], line["reason"], line["score"]) == ("unparsed", "context_limit", 0)
        assert (line["facts"]["calls"], line["facts"]["tool_calls"]) == (2, 2)
        assert "the context is 9,000" in line["detail"]
    assert logged["looks/0:call3"]["error"]["reason"] == "context_limit"
    assert len(servicer.requests) == 6

    # A process that ended before it wrote the item's own line does not ask again.
    for name in ("responses.jsonl", "verdicts.jsonl"):
        file = task.parent / "run" / name
        kept = [entry for entry in file.read_bytes().splitlines(True) if b":call" in entry[:40]]
        file.write_bytes(b"".join(kept))
    before = results_of(task.parent / "run")
    (task.parent / "run" / "results.json").unlink()
    await run(task, endpoint, "run", limit=2)
    assert results_of(task.parent / "run") == before
    assert len(servicer.requests) == 6

    servicer.context = 2
    servicer.fixed_answer = (
        '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [0, 0, 30, 30]}}</tool_call> It is B.'
    )
    await run(task, endpoint, "judged", limit=1, protocol="deepeyes")
    (verdict,) = lines(task.parent / "judged", "verdicts.jsonl").values()
    assert (verdict["outcome"], verdict["score"], verdict["facts"]["calls"]) == ("scored", 1, 1)
    assert verdict["facts"]["at_limit"] == 1


async def test_answers_that_are_judged_at_the_limit_are_counted(task: Path, native: tuple[Native, str]) -> None:
    servicer, endpoint = native
    servicer.fixed_answer = f"{ZOOM} It is B."
    await run(task, endpoint, "judged", limit=2, protocol="deepeyes", max_calls=2)
    servicer.fixed_answer = "<answer>B</answer>"
    await run(task, endpoint, "answered", limit=2, protocol="deepeyes", max_calls=2)
    judged, answered = (orjson.loads(results_of(task.parent / name))["tools"] for name in ("judged", "answered"))
    assert (judged["at_limit"], answered["at_limit"]) == (2, 0)
    assert words({"tools": judged}).endswith("2 tool calls, 0 errors, 2 answers judged at the limit")
    assert words({"tools": answered}).endswith("0 tool calls, 0 errors")


async def test_what_a_tool_gave_back_is_on_the_disk_before_the_next_call(
    task: Path, native: tuple[Native, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    servicer, endpoint = native
    log, synced, seen = task.parent / "run" / "responses.jsonl", [0], list[set[str]]()

    def counting(sync: Callable[[int], None], file: int) -> None:
        written = os.fstat(file)
        sync(file)
        if log.exists() and os.path.samestat(written, log.stat()):
            synced[0] = max(synced[0], written.st_size)  # what came after the call began may not be there

    def look() -> None:
        held = log.read_bytes()[: synced[0]] if log.exists() else b""
        seen.append({orjson.loads(line)["key"] for line in held.splitlines()})

    monkeypatch.setattr(os, "fsync", partial(counting, os.fsync))
    servicer.look = look
    await run(task, endpoint, "run", limit=1)
    first, second = ({f"looks/0:call{number}", f"looks/0:call{number}-tool1"} for number in (1, 2))
    assert seen == [set(), first, first | second]


async def test_seeds_are_of_the_call_and_blind_hides_from_tools_too(task: Path, native: tuple[Native, str]) -> None:
    servicer, endpoint = native
    options = {"limit": 1, "repeats": 2, "generation": "temperature=1", "blind": True}
    await run(task, endpoint, "run", **options)
    seeds = {
        key: line["request"]["config"]["seed"]
        for key, line in lines(task.parent / "run").items()
        if ":call" in key and "tool" not in key
    }
    assert len(set(seeds.values())) == 6
    assert int(seeds["looks/0#1:call1"]) == int(seeds["looks/0:call1"]) + 1
    assert int(seeds["looks/0#1:call3"]) == int(seeds["looks/0:call3"]) + 1
    assert sorted(sent.samples for sent in servicer.requests) == [0, 0, 0, 0, 2]  # the first call alone
    for request in servicer.requests:
        for message in request.messages:
            for part in message.parts:
                for piece in (part, *part.tool_result.content):
                    if piece.image.data:
                        with Image.open(io.BytesIO(piece.image.data)) as image:
                            assert image.convert("RGB").getextrema() == ((128, 128),) * 3
    again = await run(task, endpoint, "again", **options, concurrency=1)
    assert again == orjson.loads((task.parent / "run" / "results.json").read_bytes())


async def test_without_tools_it_is_the_baseline(task: Path, native: tuple[Native, str]) -> None:
    await run(task, native[1], "with", limit=1)
    await run(task, native[1], "without", limit=1, tools="none")
    runs = [str(task.parent / name) for name in ("without", "with")]
    compared = await asyncio.to_thread(CliRunner().invoke, main, ["compare", *runs])
    assert compared.exit_code == 0, compared.output
    assert "tools" not in compared.output, compared.output


async def test_the_commands_of_the_page(
    tmp_path: Path, native: tuple[Native, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of docs/tools.md, on synthetic rows."""
    monkeypatch.chdir(tmp_path)
    typed = [line for line in commands(ROOT / "docs" / "tools.md") if not line.startswith("docker ")]
    assert len(typed) == 6
    (serving,) = (line for line in typed if line.startswith("tool-server "))
    example = (ROOT / "examples" / "counter_tools.py").read_text()
    assert f"```python\n{example}```" in (ROOT / "docs" / "tools.md").read_text()
    assert len(example.splitlines()) <= 20
    (tmp_path / "counter_tools.py").write_text(example)
    tools = Server(tmp_path / "tools", [sys.executable, "-m", *serving.replace("-", "_", 1).split()]).start()
    addresses = {"127.0.0.1:50051": native[1], "127.0.0.1:50053": tools.address}
    try:
        for line in typed:
            if line != serving:
                await asyncio.to_thread(
                    type_in, reduce(lambda text, pair: text.replace(*pair), addresses.items(), line)
                )
    finally:
        tools.kill()


def type_in(line: str) -> None:
    arguments = line.split()[1:]
    arguments += ["--synthetic", "--limit", "2", "--max-unparsed", "1"] if arguments[0] == "eval" else []
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output


async def test_a_server_that_drops_images_of_results_is_refused(task: Path, native: tuple[Native, str]) -> None:
    native[0].images = model.TOOL_IMAGES_REFUSED
    with pytest.raises(ConfigError, match="no images in results of tools: give --protocol"):
        await run(task, native[1], "run")
    assert not native[0].requests


def test_contradictions_are_refused(task: Path) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "--protocol is for a run with tools": {"protocol": "deepeyes"},
        "--max-calls is for a run with tools": {"tools": "none", "max_calls": 3},
        "--max-answer-tokens is for a run with tools": {"tools": "none", "max_answer_tokens": 3},
        "--tools none takes all tools away": {"tools": ["none", "zoom"]},
        "there is no tool 'x'": {"tools": "x"},
        "--finish-cut is not for a run with tools": {"tools": "zoom", "finish_cut": 9},
        "--answer constrained is not for": {"tools": "zoom", "answer": "constrained"},
        "--method likelihood is not for": {"tools": "zoom", "method": "likelihood"},
    }
    for message, options in wrong.items():
        with pytest.raises(ConfigError, match=message):
            make(RunRequest(str(task), **options))


def test_a_dry_run_says_how_many_calls(task: Path) -> None:
    options = ["--task", str(task), "--tools", "zoom", "--protocol", "deepeyes"]
    shown = CliRunner().invoke(main, ["eval", *options, "--dry-run"])
    assert "8 to 88 calls for 8 scored items" in shown.output
    prompts = CliRunner().invoke(main, ["prompts", *options, "--limit", "1"])
    assert "image_zoom_in_tool" in prompts.output
