"""Images are sent once and then by their hash: the results are those of bytes, also where servers lose them."""

from __future__ import annotations

import asyncio
import functools
import random
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Server
from helpers.model_serving import served
from helpers.same_results import results_of
from PIL import Image

from model_server.demo.hash_model import HashModel
from model_server.held import HeldFiles
from model_server.kit.backend import KitBackend
from model_server.kit.model import Request
from model_server.metrics import Metrics
from orchestrator.api import evaluate
from orchestrator.engine.replica import Replica
from orchestrator.run_folder.reader import open_run

__all__ = ["served"]
TASK = """data: rows.jsonl
question: question
image: image
options: options
answer: answer
prompt: "{question}\\n{options}\\nAnswer with a letter."
decoding: {max_output_tokens: 8}
"""
WAYS: dict[str, dict[str, Any]] = {
    "generate": {},
    "one by one": {"concurrency": 2},
    "likelihood": {"method": "likelihood"},
    "repeats": {"repeats": 3, "generation": "temperature=1.0"},
}


class Counting(HashModel):
    """The demo without weights; counts what it is asked."""

    def __init__(self, held: int | None = None) -> None:
        super().__init__()
        self.max_held_bytes = held
        self.calls: Counter[Any] = Counter()

    def generate(self, request: Request) -> str:
        self.calls[(request.text, request.config.seed, *map(len, request.image_bytes))] += 1
        return super().generate(request)


class Forgetful(HeldFiles):
    """Claims to hold files, and holds none."""

    def _put(self, digest: bytes, data: bytes) -> None:
        pass


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task of five questions about each of five images of 9 KB and more."""
    for number in range(5):
        noise = random.Random(number).randbytes(56 * (56 + number) * 3)
        Image.frombytes("RGB", (56, 56 + number), noise).save(tmp_path / f"{number}.png")
    pairs = [(image, question) for image in range(5) for question in range(5)]
    rows = [
        {"id": f"{i}-{q}", "question": f"{i} {q}?", "image": f"{i}.png", "options": ["p", "q", "r"], "answer": "A"}
        for i, q in pairs
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (tmp_path / "shown.yaml").write_text(TASK)
    return tmp_path / "shown.yaml"


@pytest.fixture
def run(tmp_path: Path, task: Path, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch, served: Any) -> Any:
    """Evaluates over kits with real servers; returns answers, results and the bytes of requests."""

    real = Replica._pieces

    async def evaluated(
        name: str, kits: list[Counting], kind: type[HeldFiles] = HeldFiles, **more: Any
    ) -> tuple[dict[str, Any], bytes, int]:
        monkeypatch.setattr("model_server.core.HeldFiles", kind)
        sizes = []

        def counted(*args: Any) -> Any:
            sizes.append(sum(map(len, pieces := real(*args))))
            return pieces

        monkeypatch.setattr(Replica, "_pieces", counted)
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(served(KitBackend(kit, Metrics()))) for kit in kits]
            endpoint = ",".join(f"127.0.0.1:{server.port}" for server in servers)
            options = {"endpoint": endpoint, "scorer": shared_scorer.address, "run": tmp_path / name}
            await asyncio.to_thread(functools.partial(evaluate, str(task), **options | more))
        lines = [(item.key, item.outcome, item.response) for item in open_run(tmp_path / name)]
        answers = {key: (outcome, _answer(line), line["request"]) for key, outcome, line in lines}
        return answers, results_of(tmp_path / name), sum(sizes)

    return evaluated


def _answer(line: dict[str, Any]) -> Any:
    return [line["response"].get(name) for name in ("parts", "scores", "effective_config")]


@pytest.mark.parametrize("way", WAYS)
async def test_results_are_those_of_bytes(run: Any, way: str) -> None:
    how = WAYS[way]
    plain = Counting(0)
    answers, results, brought = await run("bytes", [plain], **how)
    cases: list[tuple[str, int | None, type[HeldFiles]]] = [("held", None, HeldFiles), ("none", None, Forgetful)]
    for name, capacity, kind in [*cases, ("one file", 12_000, HeldFiles)][: 3 if way == "generate" else 2]:
        kit = Counting(capacity)
        again, same, sent = await run(name, [kit], kind, **how)
        assert (again, same) == (answers, results), name
        assert kit.calls == plain.calls, name  # nothing is answered twice
        if name == "held" and way in ("generate", "likelihood"):  # in a Batch for sure, else once a file has arrived
            assert sent < brought / 2


async def test_each_replica_gets_the_bytes(run: Any) -> None:
    answers, results, *_ = await run("bytes", [Counting(0)])
    kits = [Counting(), Counting(0), Counting(12_000)]
    again, same, *_ = await run("several", kits)
    assert (again, same) == (answers, results)
    calls = sum((kit.calls for kit in kits), Counter[Any]())
    assert set(calls.values()) == {1}
    assert len(calls) == 25


@pytest.mark.weekly
async def test_a_server_that_is_killed_and_back_holds_nothing(
    tmp_path: Path, task: Path, shared_scorer: Server, demo: Server
) -> None:
    server = Server(tmp_path / "server", [*demo.command]).start()
    evaluated = functools.partial(evaluate, str(task), scorer=shared_scorer.address, repeats=20, concurrency=1)
    await asyncio.to_thread(evaluated, run=tmp_path / "calm", endpoint=demo.address)
    log = tmp_path / "killed" / "responses.jsonl"
    running = asyncio.create_task(asyncio.to_thread(evaluated, run=tmp_path / "killed", endpoint=server.address))
    try:
        while not running.done() and (not log.exists() or log.read_bytes().count(b"\n") < 60):
            await asyncio.sleep(0.002)
        server.kill()
        server.start()
        await running
    finally:
        server.kill()
    assert results_of(tmp_path / "killed") == results_of(tmp_path / "calm")
    assert len({item.response["boot_id"] for item in open_run(tmp_path / "killed")}) == 2
