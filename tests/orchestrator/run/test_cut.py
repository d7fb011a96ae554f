"""Answers that the output limit ended: every place that counts them says the same number."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Server
from helpers.model_serving import served

from lyncean.scorer.v1 import scorer_pb2 as scorer
from model_server.kit import Model, Output, Request
from model_server.kit.backend import KitBackend
from model_server.metrics import Metrics
from orchestrator.api import evaluate
from orchestrator.run_folder.reader import open_run
from scorer.registry import Registry
from scorer.rule import Rule, unparsed
from scorer.scoring import Scorer

__all__ = ["served"]
TASK = """data: rows.csv
id: id
question: question
options: [A, B]
answer: answer
decoding: {max_output_tokens: 20}
"""
ROWS, CUT = 40, 14


class Long(Model):
    """Thinks in so many words as the row's number asks for, then answers rightly: 14 of 40 rows pass 20 words."""

    name = "long"
    answer_choices = True

    def generate(self, request: Request) -> str | Output:
        row = int(request.text.split()[1])
        letter = "AB"[row % 2]
        if request.config.response_format.choices.texts:
            return letter
        words = 30 if row < CUT else 5
        return " ".join([*["hmm"] * words, f"\nThe answer is {letter}."])


@pytest.fixture
def task(tmp_path: Path) -> Path:
    lines = [f"{row},row {row} ?,cat,dog,{'AB'[row % 2]}" for row in range(ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,question,A,B,answer", *lines]))
    (tmp_path / "rows.yaml").write_text(TASK)
    return tmp_path / "rows.yaml"


async def run(task: Path, port: int, shared: Server, name: str = "run", **more: Any) -> Path:
    folder = task.parent / name
    given = {"endpoint": f"127.0.0.1:{port}", "scorer": shared.address, "run": folder, **more}
    await asyncio.to_thread(lambda: evaluate(str(task), **given))
    return folder


def cut_lines(folder: Path) -> set[str]:
    lines = map(orjson.loads, (folder / "verdicts.jsonl").read_bytes().splitlines())
    return {line["key"] for line in lines if line.get("cut")}


async def test_the_lines_of_cut_answers_say_so(task: Path, served: Any, shared_scorer: Server) -> None:
    wanted = {f"rows/{row}" for row in range(CUT)}
    async with served(KitBackend(Long(), Metrics())) as server:
        folder = await run(task, server.port, shared_scorer)
        assert cut_lines(folder) == wanted == {item.key for item in open_run(folder) if item.cut}
        held = await run(
            task, server.port, shared_scorer, "held", answer="constrained", generation="max_output_tokens=1"
        )
    assert not cut_lines(held), "an answer that is one of its choices is whole"


async def test_a_rule_is_told_that_the_answer_is_cut() -> None:
    seen: list[bool] = []

    def read(request: scorer.ScoreRequest) -> scorer.Verdict:
        seen.append(request.cut)
        return unparsed("no_choice")

    registry: Registry[Any] = Registry("rule", {}, (Rule,), [Rule(name="seeing", description="Looks.", read=read)])
    scoring = Scorer(registry)
    for cut in (True, False):
        for text in ("It is", "<think>I see</think>It is"):
            await scoring.verdict(scorer.ScoreRequest(key="t/1", rule="seeing", text=text, cut=cut))
    assert seen == [True, True, False, False]
