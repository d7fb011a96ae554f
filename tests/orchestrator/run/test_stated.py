"""Statements of a server about itself: limits obeyed before anything is sent, and replicas that must agree."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Server
from helpers.model_serving import picture, served

from lyncean.model.v1 import model_pb2 as model
from model_server.kit.backend import KitBackend
from model_server.kit.model import Model, Output, Request
from model_server.metrics import Metrics
from orchestrator.api import evaluate
from orchestrator.errors import ConfigError
from orchestrator.run_folder.reader import open_run

__all__ = ["served"]
TASK = """data: {data}
question: question
answer: answer
image: {images}
{system}
prompt: "{{question}}"
"""


class Strict(Model):
    """Says A, or calls a tool, and takes one small image and no system messages."""

    name = "strict"
    max_images = 1
    max_image_pixels = 1600
    system_messages = False

    def __init__(self) -> None:
        self.questions: list[str] = []

    def generate(self, request: Request) -> Output:
        """Answers."""
        self.questions.append(request.text)
        if "tool" in request.text:
            return Output("", model.FINISH_REASON_TOOL_CALLS)
        return Output("A")


async def outcomes(folder: Path, kit: Strict, served: Any, scorer: Server, system: str = "") -> list[tuple[str, str]]:
    """Evaluates rows with one image, a large image, one that calls for a tool, and two images: a task of their own."""
    for name, size in {"small.png": (40, 40), "large.png": (41, 40)}.items():
        (folder / name).write_bytes(picture(1, size))
    rows = [("What?", "small.png"), ("What?", "large.png"), ("A tool?", "small.png")]
    for name, images, some in (("one", "one", rows), ("two", "[one, two]", rows[:1])):
        lines = [
            {"id": n, "question": question, "answer": "A", "one": image, "two": image}
            for n, (question, image) in enumerate(some)
        ]
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
        (folder / f"{name}.yaml").write_text(TASK.format(data=f"{name}.jsonl", images=images, system=system))
    async with served(KitBackend(kit, Metrics())) as server:
        address, run = f"127.0.0.1:{server.port}", folder / "run"
        tasks = [str(folder / f"{name}.yaml") for name in ("one", "two")]
        options = {"endpoint": address, "scorer": scorer.address, "run": run}
        with pytest.raises(
            ConfigError, match=r"^(two|one and 1 more): the model was never asked, .* change the command"
        ):
            await asyncio.to_thread(lambda: evaluate(tasks, **options))
    return [(item.outcome, item.verdict.get("reason", "")) for item in sorted(open_run(run), key=lambda item: item.key)]


async def test_what_is_beyond_a_stated_limit_is_not_sent(tmp_path: Path, served: Any, shared_scorer: Server) -> None:
    kit = Strict()
    results = await outcomes(tmp_path, kit, served, shared_scorer)
    assert [outcome for outcome, _ in results] == ["scored", "rejected", "unparsed", "rejected"]
    assert [reason for _, reason in results[1:]] == ["image_too_large", "tool_call", "too_many_images"]
    assert sorted(kit.questions) == ["A tool?", "What?"]
    manifest = orjson.loads((tmp_path / "run" / "manifest.json").read_bytes())
    assert manifest["model"]["media_limits"]["max_images"] == 1
    assert manifest["model"]["system_messages"] == "SYSTEM_MESSAGES_REFUSED"


async def test_a_system_message_is_not_sent_to_a_server_that_refuses_it(
    tmp_path: Path, served: Any, shared_scorer: Server
) -> None:
    kit = Strict()
    results = await outcomes(tmp_path, kit, served, shared_scorer, system="system: Be brief.")
    assert {reason for _, reason in results} == {"no_system_messages"}
    assert not kit.questions


async def test_replicas_with_other_processors_are_refused(tmp_path: Path, served: Any, shared_scorer: Server) -> None:
    class Other(KitBackend):
        def info(self) -> model.GetModelInfoResponse:
            info = super().info()
            info.processor_sha256 = "ab" * 32
            return info

    async with served(KitBackend(Strict(), Metrics())) as one, served(Other(Strict(), Metrics())) as other:
        options = {
            "endpoint": f"127.0.0.1:{one.port},127.0.0.1:{other.port}",
            "scorer": shared_scorer.address,
            "run": tmp_path / "run",
        }
        with pytest.raises(ConfigError, match="processor_sha256 is"):
            await asyncio.to_thread(lambda: evaluate("marvel", synthetic=True, limit=1, **options))
