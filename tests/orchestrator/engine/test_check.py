"""Responses of real servers that are not answers, and their outcomes."""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from PIL import Image
from rich.console import Console
from simulation.world import plan_of

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator import api
from orchestrator.engine.check import called_tool, checked
from orchestrator.engine.wire import Request
from orchestrator.errors import EngineError, IncompleteError
from orchestrator.run.evaluate import evaluate

INFO = model.GetModelInfoResponse(
    model_name="m",
    model_revision="1",
    capabilities=[model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT],
    max_concurrency=2,
)
GOOD = model.GenerateResponse(parts=[model.Part(text="A")], finish_reason=model.FINISH_REASON_END_OF_SEQUENCE)


def spent(**tokens: int) -> bytes:
    return model.GenerateResponse.FromString(
        GOOD.SerializeToString() + model.GenerateResponse(usage=model.Usage(**tokens)).SerializeToString()
    ).SerializeToString()


class Raw(grpc.GenericRpcHandler):
    """Answers Generate with bytes as they are given, or a status without ErrorInfo."""

    def __init__(self, answer: bytes | grpc.StatusCode) -> None:
        self.answer, self.calls = answer, 0
        self.capability = model.CAPABILITY_GENERATE

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def reply(request: bytes, context: Any) -> bytes:
            if details.method.endswith("GetModelInfo"):
                info = model.GetModelInfoResponse(capabilities=[self.capability])
                info.MergeFrom(INFO)
                return info.SerializeToString()
            self.calls += 1
            if isinstance(self.answer, grpc.StatusCode):
                await context.abort(self.answer, "no route")
            return self.answer

        return grpc.unary_unary_rpc_method_handler(reply)


@pytest.fixture
async def server() -> AsyncIterator[tuple[Raw, str]]:
    handler = Raw(GOOD.SerializeToString())
    serving = grpc.aio.server()
    serving.add_generic_rpc_handlers([handler])
    port = serving.add_insecure_port("127.0.0.1:0")
    await serving.start()
    yield handler, f"127.0.0.1:{port}"
    await serving.stop(None)


@pytest.mark.parametrize(
    ("answer", "code", "reason", "message"),
    [
        (b"\xff\xff", "INTERNAL", "bad_response", "no GenerateResponse"),
        (b"", "INTERNAL", "bad_response", "finish_reason is not set"),
        (GOOD.SerializeToString().replace(b"A", b"\xfe"), "INTERNAL", "bad_response", "no GenerateResponse"),
        (spent(output_tokens=3, reasoning_tokens=4), "INTERNAL", "bad_response", "4 reasoning tokens among 3"),
        (spent(input_tokens=3, cached_tokens=4), "INTERNAL", "bad_response", "4 cached tokens among 3"),
        (grpc.StatusCode.NOT_FOUND, "NOT_FOUND", "not_found", "without ErrorInfo"),
        (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", "permission_denied", "without ErrorInfo"),
    ],
)
async def test_what_is_no_answer_is_failed_and_asked_again(
    server: tuple[Raw, str],
    shared_scorer: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes | grpc.StatusCode,
    code: str,
    reason: str,
    message: str,
) -> None:
    handler, address = server
    plan = plan_of("generate", 2, 1, address, shared_scorer.address)
    handler.answer = answer
    with pytest.raises(IncompleteError, match="2 items failed after retries"):
        await evaluate(plan, Console(quiet=True), run=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "responses.jsonl").read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["failed", "failed"]
    for line in lines:
        assert (line["error"]["code"], line["error"]["reason"], line["replica"]) == (code, reason, address)
        assert message in line["error"]["message"]
    handler.answer = GOOD.SerializeToString()
    await evaluate(plan, Console(quiet=True), run=tmp_path / "run")
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["tasks"]["world"]["counts"]["scored"] == 2
    assert "Traceback" not in capsys.readouterr().err


async def test_a_continuation_may_be_impossible(server: tuple[Raw, str], shared_scorer: Any, tmp_path: Path) -> None:
    handler, address = server
    scores = [model.ContinuationScore(logprob=value, token_count=1) for value in (-2.0, -math.inf)]
    handler.answer = model.LikelihoodResponse(scores=scores).SerializeToString()
    handler.capability = model.CAPABILITY_LIKELIHOOD
    plan = plan_of("likelihood", 2, 1, address, shared_scorer.address)
    await evaluate(plan, Console(quiet=True), run=tmp_path / "run")
    line = json.loads((tmp_path / "run" / "responses.jsonl").read_text().splitlines()[0])
    assert [score["logprob"] for score in line["response"]["scores"]] == [-2.0, "-Infinity"]
    (tmp_path / "run" / "verdicts.jsonl").unlink()  # they are reached again from the log
    await evaluate(plan, Console(quiet=True), run=tmp_path / "run")
    verdict = json.loads((tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()[0])
    assert (verdict["extracted"], verdict["score"], verdict["scores"]) == ("A", 1.0, {"probability": 1.0})


def test_a_damaged_image_is_no_answer() -> None:
    drawn = io.BytesIO()
    Image.effect_noise((60, 40), 50).save(drawn, "PNG")
    request = Request("Generate", (), modality=model.MODALITY_IMAGE)

    def answer(data: bytes) -> model.GenerateResponse:
        return model.GenerateResponse(
            parts=[model.Part(image=model.Image(data=data))], finish_reason=GOOD.finish_reason
        )

    assert checked(answer(drawn.getvalue()), request)
    with pytest.raises(CallError, match="an image is damaged: it cannot be decoded"):
        checked(answer(drawn.getvalue()[:-300]), request)


PICTURES = """data: pictures.csv
image: image
question: question
options: [A, B]
answer: answer
prompt: "{question}"
"""


@pytest.mark.parametrize("blind", [False, True])
async def test_an_image_that_nobody_can_decode_is_held_back_from_every_server(
    server: tuple[Raw, str], shared_scorer: Any, tmp_path: Path, blind: bool
) -> None:
    handler, address = server
    for form in ("JPEG", "PNG"):
        file = io.BytesIO()
        Image.effect_noise((60, 40), 50).save(file, form)
        (tmp_path / f"whole.{form}").write_bytes(file.getvalue())
        (tmp_path / f"cut.{form}").write_bytes(file.getvalue()[:-200])
    (tmp_path / "page.PNG").write_bytes(b"<html>not found</html>")
    names = ("whole.JPEG", "whole.PNG", "cut.JPEG", "cut.PNG", "page.PNG")
    rows = [f"{name},What is it?,a,b,A,{name}" for name in names]
    (tmp_path / "pictures.csv").write_text("\n".join(["id,question,A,B,answer,image", *rows]))
    (tmp_path / "pictures.yaml").write_text(PICTURES)
    await asyncio.to_thread(
        lambda: api.evaluate(
            str(tmp_path / "pictures.yaml"),
            endpoint=address,
            scorer=shared_scorer.address,
            run=tmp_path / "run",
            blind=blind,
            max_rejected=1,
        )
    )
    assert handler.calls == 2
    lines = [json.loads(line) for line in (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()]
    ended = {line["key"].rpartition("/")[2]: (line["outcome"], line.get("reason")) for line in lines}
    unsent = {key: end for key, end in ended.items() if end[0] != "scored"}
    assert unsent == dict.fromkeys(("3", "4", "5"), ("rejected", "bad_image"))


class Together(grpc.GenericRpcHandler):
    """Answers Batches in one message each, a lone call by itself, and does not say who it is; counts both."""

    def __init__(self) -> None:
        self.looks = self.answers = 0

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def info(request: bytes, context: Any) -> bytes:
            self.looks += 1
            answer = model.GetModelInfoResponse()
            answer.CopyFrom(INFO)
            answer.capabilities.append(model.CAPABILITY_BATCH)
            answer.max_concurrency = 32
            return answer.SerializeToString()

        async def batch(request: bytes, context: Any) -> AsyncIterator[bytes]:
            calls = model.BatchRequest.FromString(request).calls
            self.answers += len(calls)
            results = [model.BatchResult(index=index, generate=GOOD) for index in range(len(calls))]
            yield model.BatchResponse(results=results).SerializeToString()

        async def generate(request: bytes, context: Any) -> bytes:
            self.answers += 1
            return GOOD.SerializeToString()

        if details.method.endswith("GetModelInfo"):
            return grpc.unary_unary_rpc_method_handler(info)
        if details.method.endswith("Generate"):
            return grpc.unary_unary_rpc_method_handler(generate)
        return grpc.unary_stream_rpc_method_handler(batch)


async def test_one_look_confirms_all_answers_of_a_batch(
    shared_scorer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, serving = Together(), grpc.aio.server()
    serving.add_generic_rpc_handlers([handler])
    port = serving.add_insecure_port("127.0.0.1:0")
    await serving.start()
    await evaluate(
        plan_of("generate", 32, 1, f"127.0.0.1:{port}", shared_scorer.address),
        Console(quiet=True),
        run=tmp_path / "run",
    )
    await serving.stop(None)
    assert handler.answers >= 32
    assert handler.looks < handler.answers / 4


Reply = scorer.ScorerServiceScoreResponse


class LyingScorer(grpc.GenericRpcHandler):
    """Hands calls on to a scorer, and changes one answer of each kind as it is told."""

    def __init__(self, address: str, lie: Callable[[Reply], bytes | None]) -> None:
        self.address, self.lie = address, lie

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        path = details.method

        async def list_rules(request: bytes, context: Any) -> bytes:
            async with grpc.aio.insecure_channel(self.address) as channel:
                return bytes(await channel.unary_unary(path)(request))

        async def score(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async with grpc.aio.insecure_channel(self.address) as channel:
                async for reply in channel.stream_stream(path)(requests):
                    altered = self.lie(Reply.FromString(reply))
                    if altered is not None:
                        yield altered

        if path.endswith("ListRules"):
            return grpc.unary_unary_rpc_method_handler(list_rules)
        return grpc.stream_stream_rpc_method_handler(score)


def _verdict(**fields: Any) -> Callable[[Reply], bytes]:
    def lie(reply: Reply) -> bytes:
        for verdict in reply.verdicts:
            verdict.MergeFrom(scorer.Verdict(**fields))
        return reply.SerializeToString()

    return lie


def _summary(**counts: int) -> Callable[[Reply], bytes]:
    def lie(reply: Reply) -> bytes:
        if reply.HasField("summary"):
            reply.summary.counts.CopyFrom(scorer.Counts(**counts))
        return reply.SerializeToString()

    return lie


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        (lambda reply: b"\xff\xff", "its bytes are no ScorerServiceScoreResponse"),
        (_verdict(outcome="right"), "its verdict of 'world/.': the outcome 'right' is none of scored, unparsed,"),
        (_verdict(outcome="failed"), "the outcome 'failed' is none of"),
        (_verdict(score=float("nan")), "a score is not finite"),
        (_verdict(details="x" * 1_048_577), "its details have 1,048,577 characters, the limit is 1,048,576"),
        (_verdict(key="world/7"), "its verdict of 'world/7': no item with this key waits for one"),
        (lambda reply: None if reply.verdicts else reply.SerializeToString(), "does not answer .*ended the stream"),
        (_summary(planned=2, failed=2), "its summary: it counts 0 items scored, 2 were sent"),
        (_summary(planned=3, scored=2, failed=1), "its summary: it counts 1 items failed, 0 were sent"),
    ],
)
async def test_what_is_no_verdict_is_not_counted(
    server: tuple[Raw, str],
    shared_scorer: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lie: Callable[[Reply], bytes | None],
    message: str,
) -> None:
    monkeypatch.setattr("orchestrator.run.evaluate.check_scoring", _soon)
    handler, address = server
    liar = grpc.aio.server()
    liar.add_generic_rpc_handlers([LyingScorer(shared_scorer.address, lie)])
    port = liar.add_insecure_port("127.0.0.1:0")
    await liar.start()
    plan = plan_of("generate", 2, 1, address, f"127.0.0.1:{port}")
    impatient = replace(plan, request=replace(plan.request, patience=1.0))
    with pytest.raises((EngineError, IncompleteError), match=message):
        await evaluate(impatient, Console(quiet=True), run=tmp_path / "run")
    await liar.stop(None)
    assert not (tmp_path / "run" / "results.json").exists()
    calls = handler.calls
    await evaluate(plan_of("generate", 2, 1, address, shared_scorer.address), Console(quiet=True), run=tmp_path / "run")
    assert handler.calls == calls == 2
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["tasks"]["world"]["counts"]["scored"] == 2


async def _soon(*_: Any) -> None:
    return None


def test_an_answer_beside_the_choices_breaks_the_contract_unless_the_limit_cut_it() -> None:
    request = Request("Generate", [], choices=("A", "B"))
    assert checked(GOOD, request) is GOOD
    for text in ("A.", "", "\x1b[31mC", "AB"):
        other = model.GenerateResponse(parts=[model.Part(text=text)], finish_reason=GOOD.finish_reason)
        with pytest.raises(CallError, match="one of 2 choices was asked for") as caught:
            checked(other, request)
        assert caught.value.reason == "bad_response"
        assert "\x1b" not in str(caught.value)
        other.finish_reason = model.FINISH_REASON_MAX_TOKENS
        assert checked(other, request) is other


def called(*calls: model.ToolCall) -> model.GenerateResponse:
    parts = [model.Part(text=""), *(model.Part(tool_call=call) for call in calls)]
    return model.GenerateResponse(parts=parts, finish_reason=model.FINISH_REASON_TOOL_CALLS)


def test_tool_calls_are_an_answer_where_tools_were_offered() -> None:
    offered, bare = Request("Generate", [], tools=True), Request("Generate", [])
    zoom = model.ToolCall(id="call_0", name="zoom", arguments="not JSON")
    answer = called(zoom, model.ToolCall(id="call_1"))
    assert checked(answer, offered) is answer
    assert not called_tool(answer)
    assert called_tool(called())  # the model's own tool: as without tools
    wrong = {
        "neither text nor image": (answer, bare),
        "two tool calls have one id": (called(zoom, zoom), offered),
        "a tool call has no id": (called(model.ToolCall(name="zoom")), offered),
        "more than 1,048,576 bytes": (called(model.ToolCall(id="a", arguments="é" * 600_000)), offered),
        "opaque has 4,194,305 bytes": (
            model.GenerateResponse(parts=GOOD.parts, finish_reason=GOOD.finish_reason, opaque=bytes((4 << 20) + 1)),
            bare,
        ),
    }
    for message, (response, request) in wrong.items():
        with pytest.raises(CallError, match=message):
            checked(response, request)
