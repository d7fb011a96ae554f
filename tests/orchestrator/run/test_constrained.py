"""`--answer constrained`, end to end: each choice is a label, the deviation is recorded, and nothing else changes."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Server
from helpers.model_serving import ask, checkpoint_folder, endpoint, hf, served
from helpers.openai_endpoint import Endpoint, backend, completion
from helpers.same_results import results_of

from lyncean.model.v1 import model_pb2 as model
from orchestrator.api import evaluate
from orchestrator.compare.result import compare
from orchestrator.engine.deviations import Deviations, choices_of
from orchestrator.errors import ConfigError
from orchestrator.run_folder.manifest import ManifestError
from orchestrator.run_folder.reader import open_run
from orchestrator.samples import Call, Scoring

__all__ = ["ask", "checkpoint_folder", "endpoint", "hf", "served"]
TASK = """data: rows.csv
question: question
options: [A, B, C]
answer: answer
prompt: "{question}"
decoding: {max_output_tokens: 1, stop: ["."]}
"""
OPEN = 'data: rows.csv\nquestion: question\nanswer: answer\nprompt: "{question}"\nrule: contains_word\n'


@pytest.fixture
def task(tmp_path: Path) -> Path:
    lines = [f"{n},What is {n}?,cat,dog,cow,{'ABC'[n % 3]}" for n in range(9)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,question,A,B,C,answer", *lines]))
    for name, text in (("animals", TASK), ("open", OPEN)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path / "animals.yaml"


async def run(task: Path, address: str, scorer: Server, name: str, **more: Any) -> Path:
    folder = task.parent / name
    options = {"endpoint": address, "scorer": scorer.address, "run": folder, "max_unparsed": 1, **more}
    await asyncio.to_thread(lambda: evaluate(str(task), **options))
    return folder


async def test_the_bundled_model_answers_every_choice_by_its_label(tmp_path: Path, shared_scorer: Server) -> None:
    """Also where the benchmark allows one token: the limit is raised to what a label takes."""
    tasks = ["vstar_bench", "VisualPuzzles_cot", "marvel"]
    more: dict[str, Any] = {"synthetic": True, "limit": 4, "answer": "constrained", "scorer": shared_scorer.address}
    await asyncio.to_thread(lambda: evaluate(tasks, run=tmp_path / "run", **more))
    opened = open_run(tmp_path / "run")
    by_key = {item.key: item for item in opened}
    held = [item for item in by_key.values() if "response_format" in item.response["request"]["config"]]
    assert len(held) == 4 + 4 + 2 * 4  # of MARVEL's five questions the choice and the detail; the others are counts
    for item in held:
        choices = item.response["request"]["config"]["response_format"]["choices"]["texts"]
        (part,) = item.response["response"]["parts"]
        assert part["text"] in choices
        assert (item.outcome, item.verdict["extracted"]) == ("scored", part["text"])
    assert opened.deviations == "answer constrained"


async def test_the_deviation_is_recorded_resumed_rescored_and_compared(
    task: Path, demo: Server, shared_scorer: Server
) -> None:
    free = await run(task, demo.address, shared_scorer, "free")
    folder = await run(task, demo.address, shared_scorer, "held", answer="constrained")
    assert orjson.loads((folder / "manifest.json").read_bytes())["identity"]["deviations"] == {"answer": "constrained"}
    assert orjson.loads((folder / "results.json").read_bytes())["deviations"] == {"answer": "constrained"}
    assert "deviations" not in orjson.loads((free / "results.json").read_bytes())
    assert "decoding: answer constrained" in (folder / "report.html").read_text()
    for item in open_run(folder):
        config = item.response["request"]["config"]
        assert config["response_format"] == {"choices": {"texts": ["A", "B", "C"]}}
        assert (config["max_output_tokens"], "stop" in config) == (9, False)
        assert item.outcome == "scored"
    (pairing,) = compare([free, folder]).pairings
    assert "deviations.answer differs: none and constrained" in [caution.text for caution in pairing.cautions]

    with pytest.raises(ManifestError, match=r'deviations.answer is "constrained" there and null here'):
        await run(task, demo.address, shared_scorer, "held")
    before, log = results_of(folder), (folder / "responses.jsonl").read_bytes()
    cut = task.parent / "cut"
    shutil.copytree(folder, cut)
    (cut / "responses.jsonl").write_bytes(b"".join(log.splitlines(keepends=True)[:4]))
    await run(task, demo.address, shared_scorer, "cut", answer="constrained")
    command = [sys.executable, "-m", "orchestrator", "score", str(folder), "--scorer", shared_scorer.address]
    scoring = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    assert await scoring.wait() == 0
    assert results_of(folder) == results_of(cut) == before


async def test_an_answer_that_is_none_of_the_choices_is_no_answer(
    endpoint: Endpoint, task: Path, served: Any, shared_scorer: Server
) -> None:
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = lambda body: completion("A" if "What is 4" in body["messages"][0]["content"] else "A.")
    async with served(backend(endpoint)) as server:
        address = f"127.0.0.1:{server.port}"
        with pytest.raises(Exception, match="8 items failed"):
            await run(task, address, shared_scorer, "run", answer="constrained")
    outcomes = {item.key: item.outcome for item in open_run(task.parent / "run")}
    assert [key for key, outcome in outcomes.items() if outcome != "failed"] == ["animals/5"]  # rows count from 1


async def test_what_cannot_be_constrained_is_refused_before_the_run(
    endpoint: Endpoint, task: Path, served: Any, shared_scorer: Server
) -> None:
    async with served(backend(endpoint)) as server:
        address = f"127.0.0.1:{server.port}"
        with pytest.raises(ConfigError, match="does not claim ANSWER_CHOICES, which --answer constrained needs"):
            await run(task, address, shared_scorer, "run", answer="constrained")
        with pytest.raises(ConfigError, match=r"open has no choices to answer with \(.* read by contains_word\)"):
            await run(task.parent / "open.yaml", address, shared_scorer, "run", answer="constrained")
        with pytest.raises(ConfigError, match="--answer is for --method generate"):
            await run(task, address, shared_scorer, "run", answer="constrained", method="likelihood")
    assert not endpoint.seen
    assert not (task.parent / "run").exists()


@pytest.mark.parametrize(
    ("scoring", "choices"),
    [
        (Scoring("choice", options=("red", "blue", "green")), ("A", "B", "C")),
        (Scoring("choice", params={"count": 5}), ("A", "B", "C", "D", "E")),
        (Scoring("choice", options=("red", "blue"), params={"labels": ["(i)", "(ii)"]}), ("(i)", "(ii)")),
        (Scoring("choice_number"), ("1", "2", "3", "4")),
        (Scoring("two_way", options=("yes", "no ")), ("yes", "no")),
        (Scoring("count"), ()),
    ],
)
def test_the_choices_are_those_that_the_rule_tells_apart(scoring: Scoring, choices: tuple[str, ...]) -> None:
    assert choices_of(scoring) == choices
    config = model.GenerationConfig(max_output_tokens=1)
    call = Deviations(constrained=True).decoded(Call((), config), "k", scoring)
    assert tuple(call.config.response_format.choices.texts) == choices
    assert (call.config.max_output_tokens > 1) is bool(choices)
    images = Call((), config, modality=model.MODALITY_IMAGE)
    assert Deviations(constrained=True).decoded(images, "k", scoring) == images
