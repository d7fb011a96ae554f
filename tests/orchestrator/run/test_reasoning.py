"""Models that reason, evaluated end to end: what is scored, what is counted, and what is kept of the reasoning."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Server
from helpers.model_serving import ask, checkpoint_folder, endpoint, hf, served
from helpers.openai_endpoint import Endpoint, backend, completion
from helpers.same_results import results_of
from markupsafe import escape
from rich.console import Console

from lyncean.model.v1 import model_pb2 as model
from orchestrator.api import evaluate
from orchestrator.compare.result import compare
from orchestrator.errors import ConfigError
from orchestrator.report.terminal import print_results
from orchestrator.run_folder.manifest import ManifestError
from orchestrator.run_folder.reader import Item, open_run

__all__ = ["ask", "checkpoint_folder", "endpoint", "hf", "served"]
TASK = """data: animals.csv
question: question
options: [A, B, C, D]
answer: answer
prompt: "{question}"
decoding: {max_output_tokens: 40}
"""
ROWS = [("What barks?", "B"), ("What purrs?", "A"), ("What gives milk?", "C"), ("What lays eggs?", "D")]
ROWS += [("What flies?", "D"), ("What swims?", "D"), ("What is it?", "A")]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    lines = [f"{n},{question},cat,dog,cow,hen,{answer}" for n, (question, answer) in enumerate(ROWS)]
    (tmp_path / "animals.csv").write_text("\n".join(["id,question,A,B,C,D,answer", *lines]))
    (tmp_path / "animals.yaml").write_text(TASK)
    return tmp_path / "animals.yaml"


async def run(task: Path, port: int, scorer: Server, name: str = "run", **more: Any) -> Path:
    """Evaluates the task and returns the run folder."""
    folder = task.parent / name
    options = {"endpoint": f"127.0.0.1:{port}", "scorer": scorer.address, "run": folder, "max_unparsed": 1, **more}
    await asyncio.to_thread(lambda: evaluate(str(task), **options))
    return folder


def items(folder: Path) -> list[Item]:
    return list(open_run(folder))


async def test_an_endpoint_that_reasons(
    endpoint: Endpoint, task: Path, served: Any, shared_scorer: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Right, right with other letters in its thoughts, cut in its thoughts, and cut with its thoughts kept secret."""

    def answer(body: dict[str, Any]) -> Any:
        content = body["messages"][0]["content"]
        usage: dict[str, Any] = {"prompt_tokens": 20, "completion_tokens": 40, "total_tokens": 60}
        if "barks" in content or "purrs" in content:
            thoughts = "The answer is C. No, the answer is D."
            message = {"content": "The answer is B.", "reasoning_content": thoughts}
            usage["completion_tokens_details"] = {"reasoning_tokens": 30}
            return completion("", usage=usage, choice={"message": {"role": "assistant", **message}})
        message = {"content": None, "reasoning": "The answer is C."} if "milk" in content else {"content": ""}
        usage["completion_tokens_details"] = {"reasoning_tokens": 40}
        return completion("", "length", usage=usage, choice={"message": {"role": "assistant", **message}})

    endpoint.answer = answer
    async with served(backend(endpoint)) as server:
        folder = await run(task, server.port, shared_scorer, progress=True)
    warning = "warning: the output limit cut 5 answers: raise --generation max_output_tokens"
    assert capsys.readouterr().out.count(warning) == 1
    run_items = items(folder)
    ends = [(item.outcome, item.verdict["reason"]) for item in run_items]
    assert ends[:2] == [("scored", "stated")] * 2
    assert ends[2:] == [("unparsed", "cut_reasoning")] * 5
    assert [item.score for item in run_items] == [1, 0, 0, 0, 0, 0, 0]
    first, third = (run_items[index].response["response"] for index in (0, 2))
    assert first["reasoning"] == "The answer is C. No, the answer is D."
    assert first["parts"] == [{"text": "The answer is B."}]
    assert (first["usage"]["output_tokens"], first["usage"]["reasoning_tokens"]) == (40, 30)
    assert (third["reasoning"], third["parts"]) == ("The answer is C.", [{"text": ""}])
    results = orjson.loads((folder / "results.json").read_bytes())["tasks"]["animals"]["counts"]
    assert (results["planned"], results["scored"], results["unparsed"]) == (7, 2, 5)

    # It is so after a resume and after scoring again as well: the thoughts are never read.
    before = (folder / "results.json").read_bytes()
    assert len(endpoint.seen) == 7
    command = [sys.executable, "-m", "orchestrator", "score", str(folder), "--scorer", shared_scorer.address]
    scoring = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    assert await scoring.wait() == 4, "five of seven are no answer"
    assert (folder / "results.json").read_bytes() == before


SETTINGS: dict[str, Any] = {
    "generation": "max_output_tokens=8192,temperature=0.6,top_p=0.95",
    "thinking": "off",
    "chat_template": ["style=short", "depth=2"],
    "extra_body": '{"min_p": 0.1}',
}
RECORDED = {
    "generation": {"max_output_tokens": 8192, "temperature": 0.6, "top_p": 0.95},
    "thinking": "off",
    "chat_template": {"style": "short", "depth": 2},
    "extra_body": {"min_p": 0.1},
}
DEVIATIONS = (
    "max_output_tokens=8192, temperature=0.6, top_p=0.95, thinking off, "
    'chat template {"depth":2,"style":"short"}, extra body {"min_p":0.1}'
)


async def test_settings_of_a_run_reach_the_model_and_are_told_everywhere(
    endpoint: Endpoint, task: Path, served: Any, shared_scorer: Server
) -> None:
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = lambda body: completion("The answer is B.")
    async with served(backend(endpoint)) as server:
        plain = await run(task, server.port, shared_scorer, "plain")
        as_before, endpoint.seen = endpoint.seen, []
        folder = await run(task, server.port, shared_scorer, "set", **SETTINGS)
        sent = {body["messages"][0]["content"]: body for body in endpoint.seen}
        endpoint.seen = []
        again = await run(task, server.port, shared_scorer, "again", **SETTINGS)
        with pytest.raises(ManifestError, match=r'deviations.thinking is "off" there and "on" here'):
            await run(task, server.port, shared_scorer, "set", **SETTINGS | {"thinking": True})
        with pytest.raises(ManifestError, match=r"deviations.thinking is null there"):
            await run(task, server.port, shared_scorer, "plain", thinking=True)
        with pytest.raises(ConfigError, match="does not claim THINKING_BUDGET, which --thinking BUDGET needs"):
            await run(task, server.port, shared_scorer, "other", thinking=512)
    assert not any("chat_template_kwargs" in body or body["max_tokens"] != 40 for body in as_before)
    assert "deviations" not in orjson.loads((plain / "results.json").read_bytes())
    for body in sent.values():
        assert (body["max_tokens"], body["temperature"], body["top_p"], body["min_p"]) == (8192, 0.6, 0.95, 0.1)
        arguments = {"enable_thinking": False, "thinking": False, "style": "short", "depth": 2}
        assert body["chat_template_kwargs"] == arguments
    # A sampled call has a seed of its own, the same each time.
    assert len({body["seed"] for body in sent.values()}) == len(ROWS)
    assert {body["messages"][0]["content"]: body["seed"] for body in endpoint.seen} == {
        question: body["seed"] for question, body in sent.items()
    }

    assert orjson.loads((folder / "manifest.json").read_bytes())["identity"]["deviations"] == RECORDED
    assert orjson.loads((folder / "results.json").read_bytes())["deviations"] == RECORDED
    assert results_of(folder) == results_of(again)
    assert open_run(folder).deviations == DEVIATIONS
    shown = Console(record=True, width=200, file=io.StringIO())
    print_results(folder, shown)
    sentence = f"not the benchmark's own decoding: {DEVIATIONS}"
    assert sentence in shown.export_text()
    assert f"Not the benchmark's own decoding: {escape(DEVIATIONS)}." in (folder / "report.html").read_text()
    (pairing,) = compare([plain, folder]).pairings
    assert "deviations.thinking differs: none and off" in [caution.text for caution in pairing.cautions]
    assert not compare([folder, again]).pairings[0].cautions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"generation": "max_tokens=9"},
            "--generation max_tokens=9: known settings are max_output_tokens, temperature",
        ),
        ({"generation": "top_p=0"}, "--generation top_p=0: give a number above 0 and at most 1"),
        ({"generation": {"top_k": 2.5}}, "--generation top_k=2.5: give a whole number from 0"),
        ({"generation": "temperature=nan"}, "--generation temperature=nan: give a number from 0"),
        ({"generation": ["top_k=1", "top_k=2"]}, "top_k is set already"),
        ({"generation": "temperature"}, "--generation temperature: give NAME=VALUE"),
        ({"thinking": "maybe"}, "--thinking maybe: give on, off, or the most tokens"),
        ({"thinking": 0}, "--thinking 0: give on, off, or the most tokens"),
        ({"chat_template": ["style"]}, "--chat-template style: give KEY=VALUE"),
        ({"extra_body": "[1]"}, r"--extra-body \[1\]: give a JSON object"),
        ({"extra_body": {"a": object()}}, "--chat-template and --extra-body take what JSON has"),
        ({"thinking": True, "method": "likelihood"}, "--thinking is for --method generate"),
    ],
)
def test_a_setting_that_is_none_is_one_line(options: dict[str, Any], message: str, task: Path) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        evaluate(str(task), endpoint="127.0.0.1:1", run=task.parent / "run", **options)
    assert "\n" not in str(caught.value)
    assert not (task.parent / "run").exists()


async def test_a_checkpoint_that_reasons(
    task: Path, served: Any, hf: Callable[..., Any], shared_scorer: Server, ask: Any
) -> None:
    """Each item of the run is what the model says of its prompt, thoughts apart, and what it cost."""
    async with served(hf("thinking")) as server:
        folder = await run(task, server.port, shared_scorer)
        ends: Counter[str] = Counter()
        for item in items(folder):
            message = item.response["request"]["messages"][0]
            sent = model.Message(
                role=model.ROLE_USER, parts=[model.Part(text=part["text"]) for part in message["parts"]]
            )
            reply = await server.generate(sent, max_output_tokens=40, temperature=0)
            response = item.response["response"]
            assert response.get("reasoning", "") == reply.reasoning
            assert response["parts"] == [{"text": part.text} for part in reply.parts]
            assert response["usage"]["reasoning_tokens"] == reply.usage.reasoning_tokens > 0
            cut = not reply.parts[0].text
            assert (item.verdict["reason"] == "cut_reasoning") is cut
            ends["cut" if cut else "answered"] += 1
        assert set(ends) == {"cut", "answered"}, "the checkpoint closes some of its thoughts and not others"

        # With a budget every thought is closed, and none is left cut.
        bounded = items(await run(task, server.port, shared_scorer, "bounded", thinking=3))
        assert [item.response["response"]["usage"]["reasoning_tokens"] for item in bounded] == [4] * len(ROWS)
        assert not [item.key for item in bounded if item.verdict["reason"] == "cut_reasoning"]
        with pytest.raises(ConfigError, match=r"--chat-template style: the template of .* has no such variable"):
            await run(task, server.port, shared_scorer, "style", chat_template={"style": "short"})
        assert "</think>" not in json.dumps([item.response["response"] for item in items(folder)])
