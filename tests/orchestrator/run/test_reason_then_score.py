"""`--answer likelihood-after-reasoning` end to end: what is asked, scored, kept, and never taken for a wrong answer."""

from __future__ import annotations

import asyncio
import contextlib
import io
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from helpers.engine_cluster import Server
from helpers.model_serving import served
from helpers.same_results import results_of
from rich.console import Console

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest
from model_server.kit import Model, Output, Request, Score
from model_server.kit.backend import KitBackend
from model_server.metrics import Metrics
from orchestrator.api import evaluate
from orchestrator.cli import main
from orchestrator.errors import ConfigError
from orchestrator.report.terminal import print_results
from orchestrator.run import reason_then_score
from orchestrator.run.plan import make
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.lines import sealed
from orchestrator.run_folder.manifest import ManifestError
from orchestrator.run_folder.reader import Item, open_run

__all__ = ["served"]
ANSWER = "likelihood-after-reasoning"
TASK = """data: puzzles.csv
id: id
question: question
options: [A, B, C]
answer: answer
"""
ROWS = [(f"puzzle {number}", "ABC"[number % 3]) for number in range(9)]
ROWS += [("cut", "A"), ("broken", "A"), ("unscored", "A"), ("secret", "B")]


class Toy(Model):
    """Reasons its way to the letter of the puzzle's number; what it says and thinks alone decides its scores."""

    name = "toy"
    reasoning = answer_prefix = True
    pause = 0.0

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def generate(self, request: Request) -> Output:
        question = request.text.splitlines()[0]
        self.calls[question] += 1
        time.sleep(self.pause)
        assert "Answer with the option's letter" in request.text
        if question == "broken":
            raise InvalidRequest("too_hard", "I will not think about that")
        if question == "cut":
            return Output("", model.FINISH_REASON_MAX_TOKENS, reasoning="It is A, or")
        letter = "ABC"[int(question.split()[-1]) % 3] if question.startswith("puzzle") else "B"
        if question == "secret":
            return Output(f"I say {letter}.")
        return Output("Well, that is easy.", reasoning=f"It is {letter}")

    def likelihood(self, request: Request, continuations: Sequence[str]) -> Sequence[Score]:
        question, last = request.text.splitlines()[0], request.messages[-1]
        self.calls[question] += 1
        if question == "unscored":
            raise InvalidRequest("too_hard", "I will not score that")
        assert list(continuations) == [" A", " B", " C"]
        assert request.answer_prefix.endswith("The answer is")
        prompt = last.reasoning + request.answer_prefix
        chosen = next(letter for letter in "ABC" if f"is {letter}" in prompt or f"say {letter}" in prompt)
        return [Score(value, [(text, value)]) for text in continuations for value in [-(1.0 + (chosen not in text))]]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    lines = [f"{n},{question},cat,dog,cow,{answer}" for n, (question, answer) in enumerate(ROWS)]
    (tmp_path / "puzzles.csv").write_text("\n".join(["id,question,A,B,C,answer", *lines]))
    (tmp_path / "puzzles.yaml").write_text(TASK)
    return tmp_path / "puzzles.yaml"


async def run(task: Path, port: int, scorer: Server, name: str, **more: Any) -> Path:
    folder = task.parent / name
    options = {"endpoint": f"127.0.0.1:{port}", "scorer": scorer.address, "run": folder, "answer": ANSWER, **more}
    await asyncio.to_thread(lambda: evaluate(str(task), **options))
    return folder


def results(folder: Path) -> bytes:
    return results_of(folder)


async def test_reasons_then_scores(task: Path, served: Any, shared_scorer: Server) -> None:
    """The first step's words and thoughts decide the second's scores; a failure of either is not a wrong answer."""
    toy = Toy()
    async with served(KitBackend(toy, Metrics())) as server:
        folder = await run(task, server.port, shared_scorer, "run")
        assert set(toy.calls.values()) == {1, 2}
        serial = await run(task, server.port, shared_scorer, "serial", concurrency=1)
        with pytest.raises(ManifestError, match=f'deviations.answer is "{ANSWER}" there and null here'):
            await run(task, server.port, shared_scorer, "run", answer="free")
    assert results(folder) == results(serial)

    items: dict[str, Item] = {item.key: item for item in open_run(folder)}
    scored = {item.key: (item.outcome, item.score) for item in items.values() if item.scoring}
    puzzles = {f"puzzles/{number}": ("scored", 1.0) for number in range(9)}
    assert scored == puzzles | {
        "puzzles/9": ("scored", 1.0),  # cut inside its reasoning, and scored after that
        "puzzles/10": ("rejected", None),
        "puzzles/11": ("rejected", None),
        "puzzles/12": ("scored", 1.0),
    }
    assert items["puzzles/10"].verdict["reason"] == "earlier_turn"
    assert items["puzzles/11"].verdict["reason"] == "too_hard"

    first, last = items["puzzles/3:reasoning"].response, items["puzzles/3"].response
    assert first["response"]["reasoning"] == "It is A"
    assert first["request"]["config"]["max_output_tokens"] == reason_then_score.OUTPUT_TOKENS
    user_message, begun = last["request"]["messages"]
    assert user_message == first["request"]["messages"][0]
    begun_text = "Well, that is easy.\n\nThe answer is"
    assert begun == {"role": "ROLE_ASSISTANT", "parts": [{"text": begun_text}], "reasoning": "It is A"}
    assert items["puzzles/9"].response["request"]["messages"][1]["parts"] == [{"text": "The answer is"}]
    assert items["puzzles/3"].scoring["rule"] == "likelihood"
    assert items["puzzles/3"].verdict["extracted"] == "A"

    loaded = orjson.loads(results(folder))
    assert loaded["deviations"] == {"answer": ANSWER}
    assert loaded["tasks"]["puzzles"]["cut"] == {"items": 1, "share": 0.076923}
    shown = Console(record=True, width=200, file=io.StringIO())
    print_results(folder, shown)
    text = shown.export_text()
    assert f"not the benchmark's own decoding: answer {ANSWER}" in text
    assert "the output limit cut the answers of 1 of 13 items (7.7%)" in text
    assert "the output limit cut the answers of 1 of 13 items (7.7%)" in (folder / "report.html").read_text()

    # A run of before its lines said what follows a cut output, scored again.
    lines = [orjson.loads(line) for line in (folder / "responses.jsonl").read_bytes().splitlines()]
    assert [line.pop("after_cut", False) for line in lines].count(True) == 1
    kept = [orjson.dumps({name: value for name, value in line.items() if name != "crc32"}) for line in lines]
    (folder / "responses.jsonl").write_bytes(b"".join(sealed(line) + b"\n" for line in kept))
    before = results(folder)
    arguments = ["score", str(folder), "--scorer", shared_scorer.address]
    assert (await asyncio.to_thread(CliRunner().invoke, main, arguments)).exit_code == 0
    assert results(folder) == before


async def test_a_killed_run_goes_on_where_it_was(task: Path, served: Any, shared_scorer: Server) -> None:
    toy = Toy()
    async with served(KitBackend(toy, Metrics())) as server:
        whole = await run(task, server.port, shared_scorer, "whole")
        folder, toy.pause, toy.calls = task.parent / "killed", 0.05, Counter()
        command = [sys.executable, "-m", "orchestrator", "eval", "--task", str(task), "--answer", ANSWER, "--quiet"]
        command += ["--endpoint", f"127.0.0.1:{server.port}", "--scorer", shared_scorer.address, "--run", str(folder)]
        responses = folder / "responses.jsonl"
        for lines in (4, 15):  # one at a time, so that some samples are between their steps
            killed = await asyncio.create_subprocess_exec(*command, "--concurrency", "1")
            while not responses.exists() or responses.read_bytes().count(b"\n") < lines:
                assert killed.returncode is None
                await asyncio.sleep(0.01)
            with contextlib.suppress(ProcessLookupError):
                killed.send_signal(signal.SIGKILL)
            await killed.wait()
        before = sum(toy.calls.values())
        assert before < 2 * len(ROWS) - 1, "nothing was left to do"
        last = await asyncio.create_subprocess_exec(*command, "--concurrency", "1")
        assert await last.wait() == 0
    assert results(folder) == results(whole)
    # What was under way at each kill is sent again, and nothing else.
    assert sum(toy.calls.values()) <= 2 * len(ROWS) - 1 + 2


async def test_the_bundled_model_under_its_own_server(tmp_path: Path) -> None:
    """Transformers, two benchmarks, one command."""
    command = [sys.executable, "-m", "orchestrator", "eval", "--task", "marvel", "--task", "vstar_bench", "--synthetic"]
    command += ["--limit", "2", "--answer", ANSWER, "--generation", "max_output_tokens=4", "--run", str(tmp_path / "r")]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    assert await process.wait() == 0
    counts = Counter((item.task, item.outcome) for item in open_run(tmp_path / "r") if item.scoring)
    assert counts == {("marvel", "scored"): 10, ("vstar_bench", "scored"): 2}
    options = {
        item.key.rpartition(":")[2]: item.scoring["options"] for item in open_run(tmp_path / "r") if item.scoring
    }
    assert options["avr"] == ["1", "2", "3", "4"]
    assert len(options["fine"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": "voila"}, f"--answer {ANSWER}: voila_.* has several scored turns"),
        ({"tasks": "vstar_bench", "parity": True}, "--parity asks and scores as the reference does"),
        ({"tasks": "vstar_bench", "method": "likelihood"}, "--answer is for --method generate"),
    ],
)
def test_what_is_no_choice_is_refused_before_the_run(options: dict[str, Any], message: str) -> None:
    tasks = options.pop("tasks")
    with pytest.raises(ConfigError, match=message) as caught:
        make(RunRequest(tasks, synthetic=True, limit=1, answer=ANSWER, **options))
    assert "\n" not in str(caught.value)


def test_an_open_question_is_refused(task: Path) -> None:
    task.write_text("data: puzzles.csv\nquestion: question\nanswer: answer\n")
    with pytest.raises(ConfigError, match=r"puzzles/1 is not a choice \(rule contains_word\)"):
        make(RunRequest(str(task), answer=ANSWER))


async def test_a_server_that_cannot_continue_is_refused(task: Path, served: Any, shared_scorer: Server) -> None:
    toy = Toy()
    toy.answer_prefix = False
    async with served(KitBackend(toy, Metrics())) as server:
        with pytest.raises(ConfigError, match=f"does not claim ANSWER_PREFIX, which --answer {ANSWER} needs") as caught:
            await run(task, server.port, shared_scorer, "run")
    assert "\n" not in str(caught.value)
    assert not toy.calls
    assert not (task.parent / "run").exists()
