"""Lessons and the training on them, in small: what comes out is an ordinary checkpoint."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lynceus.model.v1 import model_pb2 as model
from lynceus.rpc import call
from orchestrator.synthetic.lessons import EASY, MIXED, SIDE, lessons

ROOT = Path(__file__).parents[2]


def test_a_lesson_depends_on_seed_and_number_alone() -> None:
    whole = list(itertools.islice(lessons(7), 6))
    assert next(lessons(7, start=5)) == whole[5]
    assert next(lessons(8, start=5)) != whole[5]


@pytest.mark.parametrize("start", [0, MIXED, MIXED + EASY])
def test_lessons_are_whole(start: int) -> None:
    seen = set()
    for lesson in itertools.islice(lessons(3, start=start), 60):
        seen.add(lesson.kind)
        assert {image.size for image in lesson.images} == {(SIDE, SIDE)}
        assert {image.mode for image in lesson.images} == {"RGB"}
        assert lesson.questions
        assert all(question.strip() and answer.strip() for question, answer in lesson.questions)
        for mark in lesson.marks:
            assert 0 <= mark.x <= 1
            assert 0 <= mark.y <= 1
            assert 0 <= mark.image < len(lesson.images)
            assert mark.words
    assert seen == {"vstar", "marvel", "visualpuzzles", "voila", "figures"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint after a handful of lessons."""
    folder = tmp_path_factory.mktemp("trained")
    path = os.pathsep.join((str(ROOT), str(ROOT / "protos")))
    environment = {**os.environ, "PYTHONPATH": path}
    made = subprocess.run(
        [sys.executable, "-m", "orchestrator.synthetic.lessons", "170"],
        env=environment,
        capture_output=True,
        check=True,
    )
    words = ["--held", "120", "--sight", "32", "--lessons", "16", str(folder / "checkpoint")]
    command = [sys.executable, "-m", "model_server.demo.train", *words]
    done = subprocess.run(command, input=made.stdout, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return folder


def test_history(trained: Path) -> None:
    lines = [json.loads(line) for line in (trained / "history.jsonl").read_text().splitlines()]
    assert [line["part"] for line in lines] == ["sight", "answers"]
    assert lines[0]["naming"] > 0
    assert set(lines[1]["exam"]) >= {"vstar short", "marvel short"}


async def test_the_ordinary_backend_serves_it(trained: Path, served: Any, ask: Any, picture: Any) -> None:
    pytest.importorskip("transformers")
    from model_server.hf.backend import HfBackend
    from model_server.hf.settings import Settings
    from model_server.metrics import Metrics

    weights = trained / "checkpoint" / "model.safetensors"
    assert weights.stat().st_size < 12_000_000
    backend = HfBackend(Settings(model=str(trained / "checkpoint")), Metrics())
    async with served(backend) as server:
        info = await call(server.stub.GetModelInfo, model.GetModelInfoRequest(), timeout=30)
        assert info.properties["likelihood_method"] == "packed"
        assert info.properties["vision_cache"] == "on"
        message = ask(picture(1), picture(2), "What is the color of the ball?")
        config = model.GenerationConfig(max_output_tokens=4)
        reply = await call(server.stub.Generate, model.GenerateRequest(messages=[message], config=config), timeout=30)
        assert reply.usage.output_tokens <= 4
        request = model.LikelihoodRequest(messages=[message], continuations=["red", "blue"])
        scores = (await call(server.stub.Likelihood, request, timeout=30)).scores
        assert all(score.logprob < 0 for score in scores)
