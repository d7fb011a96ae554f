"""Training data and the training on them, in small: what comes out is an ordinary checkpoint."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.page_commands import blocks
from helpers.python_path import python_path

from demo_model.dataset import NONE
from demo_model.train import Work
from demo_model.training_data import EASY, MIXED, SIDE, examples
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import call

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(400)  # The training's twelve processes take two minutes where the machine is busy.


def test_a_lesson_depends_on_seed_and_number_alone() -> None:
    whole = list(itertools.islice(examples(7), 6))
    again, other = next(examples(7, start=5)), next(examples(8, start=5))
    assert (again.questions, again.marks) == (whole[5].questions, whole[5].marks)
    assert [draw().tobytes() for draw in again.images] == [draw().tobytes() for draw in whole[5].images]
    assert other.questions != whole[5].questions


@pytest.mark.parametrize("start", [0, MIXED, MIXED + EASY])
def test_examples_are_whole(start: int) -> None:
    seen = set()
    for example in itertools.islice(examples(3, start=start), 60):
        seen.add(example.kind)
        images = [draw() for draw in example.images]
        assert {image.size for image in images} == {(SIDE, SIDE)}
        assert {image.mode for image in images} == {"RGB"}
        assert example.questions
        assert all(question.strip() and answer.strip() for question, answer in example.questions)
        for mark in example.marks:
            assert 0 <= mark.x <= 1
            assert 0 <= mark.y <= 1
            assert 0 <= mark.image < len(example.images)
            assert mark.words
    assert seen == {"vstar", "marvel", "visualpuzzles", "voila", "figures"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training's folder, made as docs/demo-model.md says, each command with few examples and one step."""
    folder = tmp_path_factory.mktemp("trained")
    *_, text = blocks(ROOT / "docs/demo-model.md")
    few = re.sub(r"--steps \d+", "--steps 1 --size 2", text)
    few = re.sub(r"\$draw \d+(?=[^|]*\|\s*\$train vision)", "$draw 24", few)
    few = re.sub(r"\$draw \d{3,}", "$draw 120", few)
    assert (few.count("$draw 24 "), few.count("$draw 120 "), few.count("--steps 1 --size 2")) == (3, 3, 5)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": python_path(ROOT)}
    done = subprocess.run(["sh", "-euc", few], cwd=folder, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return folder / "work"


@pytest.mark.weekly
def test_history(trained: Path) -> None:
    def lines(part: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (trained / f"{part}.jsonl").read_text().splitlines()]

    assert [line["naming"] > 0 and line["distance"] > 0 for line in lines("vision")] == [True] * 3
    (line,) = lines("language")
    assert line["looking"] > 0
    (last,) = lines("answers")
    assert set(last["exam"]) >= {"vstar short", "marvel short"}


@pytest.mark.weekly
def test_a_word_is_known_by_its_last_token(trained: Path) -> None:
    work = Work(trained)
    row = {
        "kind": "vstar",
        "images": [b""],
        "questions": [{"question": "What is in context panel 3? Is the red ball a kite?", "answer": "a star."}],
        "marks": [],
    }
    (block,) = work.reader(row).blocks
    spelled = [work.names[number] for number in block.spelled if number != NONE]
    assert spelled == ["context panel 3", "red", "ball", "kite", "star"]


@pytest.mark.weekly
async def test_the_ordinary_backend_serves_it(trained: Path, served: Any, ask: Any, picture: Any) -> None:
    pytest.importorskip("transformers")
    from model_server.hf.backend import HfBackend
    from model_server.hf.settings import Settings
    from model_server.metrics import Metrics

    weights = trained / "checkpoint" / "model.safetensors"
    assert weights.stat().st_size < 12_000_000
    backend = HfBackend(Settings(model=str(trained / "checkpoint")), Metrics())
    async with served(backend) as server:
        info = await call(server.stub.GetModelInfo, model.GetModelInfoRequest(), timeout=300)
        assert info.properties["likelihood_method"] == "packed"
        assert info.properties["vision_cache"] == "on"
        message = ask(picture(1), picture(2), "What is the color of the ball?")
        config = model.GenerationConfig(max_output_tokens=4)
        reply = await call(server.stub.Generate, model.GenerateRequest(messages=[message], config=config), timeout=300)
        assert reply.usage.output_tokens <= 4
        request = model.LikelihoodRequest(messages=[message], continuations=["red", "blue"])
        scores = (await call(server.stub.Likelihood, request, timeout=300)).scores
        assert all(score.logprob < 0 for score in scores)
