"""Models that reason, evaluated end to end: what is scored, what is counted, and what is kept of the reasoning."""

from __future__ import annotations

import asyncio
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

from lyncean.model.v1 import model_pb2 as model
from orchestrator.api import evaluate
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
ROWS += [("What flies?", "D"), ("What is it?", "A")]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    lines = [f"{n},{question},cat,dog,cow,hen,{answer}" for n, (question, answer) in enumerate(ROWS)]
    (tmp_path / "animals.csv").write_text("\n".join(["id,question,A,B,C,D,answer", *lines]))
    (tmp_path / "animals.yaml").write_text(TASK)
    return tmp_path / "animals.yaml"


async def run(task: Path, port: int, scorer: Server, name: str = "run", **more: Any) -> Path:
    """Evaluates the task and returns the run folder."""
    folder = task.parent / name
    given = {"endpoint": f"127.0.0.1:{port}", "scorer": scorer.address, "run": folder, **more}
    await asyncio.to_thread(lambda: evaluate(str(task), **given))
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
        folder = await run(task, server.port, shared_scorer)
    found = items(folder)
    ends = [(item.outcome, item.verdict["reason"]) for item in found]
    assert ends[:2] == [("scored", "stated")] * 2
    assert ends[2:] == [("unparsed", "cut_reasoning")] * 4
    assert [item.score for item in found] == [1, 0, 0, 0, 0, 0]
    first, third = (found[place].response["response"] for place in (0, 2))
    assert first["reasoning"] == "The answer is C. No, the answer is D."
    assert first["parts"] == [{"text": "The answer is B."}]
    assert (first["usage"]["output_tokens"], first["usage"]["reasoning_tokens"]) == (40, 30)
    assert (third["reasoning"], third["parts"]) == ("The answer is C.", [{"text": ""}])
    results = orjson.loads((folder / "results.json").read_bytes())["tasks"]["animals"]["counts"]
    assert (results["planned"], results["scored"], results["unparsed"]) == (6, 2, 4)

    # It is so after a resume and after scoring again as well: the thoughts are never read.
    before = (folder / "results.json").read_bytes()
    assert len(endpoint.seen) == 6
    command = [sys.executable, "-m", "orchestrator", "score", str(folder), "--scorer", shared_scorer.address]
    scoring = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    assert await scoring.wait() == 0
    assert (folder / "results.json").read_bytes() == before


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
            said = item.response["response"]
            assert said.get("reasoning", "") == reply.reasoning
            assert said["parts"] == [{"text": part.text} for part in reply.parts]
            assert said["usage"]["reasoning_tokens"] == reply.usage.reasoning_tokens > 0
            cut = not reply.parts[0].text
            assert (item.verdict["reason"] == "cut_reasoning") is cut
            ends["cut" if cut else "answered"] += 1
        assert set(ends) == {"cut", "answered"}, "the checkpoint closes some of its thoughts and not others"
        assert "</think>" not in json.dumps([item.response["response"] for item in items(folder)])
