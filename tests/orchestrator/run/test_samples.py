"""Repeats of a prompt in one request: the same answers as one by one, also after failures."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Server
from helpers.model_serving import ask, checkpoint_folder, hf, served
from helpers.same_results import results_of

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, InvalidRequest
from model_server.demo.hash_model import HashModel
from model_server.kit.backend import KitBackend
from model_server.kit.model import Output, Request
from model_server.metrics import Metrics
from orchestrator.api import evaluate
from orchestrator.errors import IncompleteError
from orchestrator.run_folder.reader import open_run

__all__ = ["ask", "checkpoint_folder", "hf", "served"]
TASK = """data: rows.jsonl
question: question
options: options
answer: answer
prompt: "{question}\\n{options}\\nAnswer with a letter."
decoding: {max_output_tokens: 8}
"""


FIRST_SEED = int.from_bytes(hashlib.sha256(b"0|few/2|generation").digest()[:8]) >> 1
"""Of the first repeat of row 2; the others follow it."""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    rows = [{"id": n, "question": f"Which is {n}?", "options": ["p", "q", "r"], "answer": "A"} for n in range(1, 5)]
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (tmp_path / "few.yaml").write_text(TASK)
    return tmp_path / "few.yaml"


class Counting(HashModel):
    """The demo without weights; counts what it is asked, and fails for some seeds of some prompts."""

    max_samples = 4

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[tuple[str, int]] = Counter()
        self.broken: dict[int, Exception] = {}

    def generate(self, request: Request) -> str:
        """Fails for seeds whose place among the repeats is broken."""
        self.calls[(request.text, request.config.seed)] += 1
        if "Which is 2?" in request.text and (error := self.broken.get(request.config.seed - FIRST_SEED)):
            raise error
        return super().generate(request)


class Sampling(KitBackend):
    """Keeps how many outputs each request wanted."""

    def __init__(self, kit: Counting, *, claims: bool = True) -> None:
        super().__init__(kit, Metrics())
        self.sizes: list[int] = []
        self.claims = claims

    def info(self) -> model.GetModelInfoResponse:
        info = super().info()
        if not self.claims:
            info.capabilities.remove(model.CAPABILITY_SAMPLES)
        return info

    async def generate_samples(self, requests: Any, call: Any) -> Any:
        self.sizes.append(len(requests))
        return await super().generate_samples(requests, call)


async def run(task: Path, port: int, scorer: Server, name: str, **more: Any) -> Path:
    folder = task.parent / name
    options = {"endpoint": f"127.0.0.1:{port}", "scorer": scorer.address, "run": folder, "repeats": 6}
    await asyncio.to_thread(lambda: evaluate(str(task), generation="temperature=1.0", **options | more))
    return folder


def answers(folder: Path) -> dict[str, tuple[str, Any, Any]]:
    """Returns of each item its outcome, its answer and how it was decoded."""
    by_key = {}
    for item in open_run(folder):
        line = item.response
        response = line.get("response", {})
        by_key[item.key] = (item.outcome, response.get("parts"), response.get("effective_config"), line["request"])
    return by_key


async def test_repeats_are_those_of_separate_calls(task: Path, served: Any, shared_scorer: Server) -> None:
    together, apart = Sampling(Counting()), Sampling(Counting(), claims=False)
    async with served(together) as server:
        one = await run(task, server.port, shared_scorer, "together")
    async with served(apart) as server:
        other = await run(task, server.port, shared_scorer, "apart")
    assert answers(one) == answers(other)
    assert results_of(one) == results_of(other)
    assert len({text["text"] for _, [text], *_ in answers(one).values()}) > 1
    # Six repeats of four prompts: four and two outputs of each, for the server has four at most.
    assert sorted(together.sizes) == [2] * 4 + [4] * 4
    assert not apart.sizes
    assert together.kit.calls == apart.kit.calls
    assert set(together.kit.calls.values()) == {1}


async def test_an_output_that_fails_takes_no_other_with_it(task: Path, served: Any, shared_scorer: Server) -> None:
    """One is refused for good, one fails twice: both by themselves, and the others are asked once."""
    backend = Sampling(kit := Counting())
    kit.broken = {1: InvalidRequest("no", "not this one"), 3: InternalFailure("broken", "it broke")}
    async with served(backend) as server:
        with pytest.raises(IncompleteError, match="1 items failed"):
            await run(task, server.port, shared_scorer, "run")
        outcomes = {key: outcome for key, (outcome, *_) in answers(task.parent / "run").items()}
        assert outcomes.pop("few/2#1") == "rejected"
        assert outcomes.pop("few/2#3") == "failed"
        assert set(outcomes.values()) <= {"scored", "unparsed"}
        counts = Counter({key[0][:11]: sum(n for k, n in kit.calls.items() if k[0] == key[0]) for key in kit.calls})
        assert counts == {"Which is 1?": 6, "Which is 2?": 7, "Which is 3?": 6, "Which is 4?": 6}
        # What failed is asked again, alone, and nothing else.
        kit.broken, before = {}, kit.calls.copy()
        await run(task, server.port, shared_scorer, "run")
        assert sum((kit.calls - before).values()) == 1


async def test_a_resume_asks_for_the_outputs_that_are_missing(task: Path, served: Any, shared_scorer: Server) -> None:
    backend = Sampling(kit := Counting())
    async with served(backend) as server:
        folder = await run(task, server.port, shared_scorer, "run")
        whole = answers(folder)
        # As after a kill between the repeats: some lines are there, the last one torn.
        log = (folder / "responses.jsonl").read_bytes().splitlines(keepends=True)
        some = (b'"few/1#2"', b'"few/1#4"', b'"few/3')
        gone = [line for line in log if any(key in line[:20] for key in some)]
        kept = [line for line in log if line not in gone]
        (folder / "responses.jsonl").write_bytes(b"".join(kept) + gone[0][:50])
        (folder / "verdicts.jsonl").write_bytes(b"")
        for name in ("results.json", "planned"):
            (folder / name).unlink(missing_ok=True)
        before, backend.sizes = kit.calls.copy(), []
        await run(task, server.port, shared_scorer, "run")
        assert answers(folder) == whole
        assert sum((kit.calls - before).values()) == len(gone) == 8
        assert sorted(backend.sizes) == [2, 4]


async def test_a_server_that_forgets_an_output_is_asked_one_by_one(
    task: Path, served: Any, shared_scorer: Server
) -> None:
    class Short(Sampling):
        async def generate_samples(self, requests: Any, call: Any) -> Any:
            return (await super().generate_samples(requests, call))[:-1]

    async with served(Short(Counting())) as server:
        folder = await run(task, server.port, shared_scorer, "run", repeats=3)
    assert {outcome for outcome, *_ in answers(folder).values()} == {"scored"}


async def test_greedy_repeats_are_asked_one_by_one(task: Path, served: Any, shared_scorer: Server) -> None:
    """They show whether the server repeats itself."""
    backend = Sampling(Counting())
    async with served(backend) as server:
        await asyncio.to_thread(
            lambda: evaluate(
                str(task),
                endpoint=f"127.0.0.1:{server.port}",
                scorer=shared_scorer.address,
                run=task.parent / "greedy",
                repeats=3,
            )
        )
    assert not backend.sizes


class Reads(Counting):
    """Reads a prompt once for all outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[int] = []

    def generate_samples(self, requests: list[Request]) -> list[str | Output]:
        """Answers all."""
        self.prompts.append(len(requests))
        return [self.generate(request) for request in requests]


async def test_the_kit_lets_a_model_read_the_prompt_once(served: Any, ask: Any) -> None:
    async with served(KitBackend(kit := Reads(), Metrics())) as server:
        config = model.GenerationConfig(temperature=1.0, seed=2**64 - 1, max_output_tokens=9)
        request = model.GenerateRequest(messages=[ask("(A) yes (B) no (C) maybe")], config=config, samples=3)
        reply = await server.send(request)
        assert kit.prompts == [3]
        outputs = [result.output for result in reply.samples]
        assert [output.effective_config.seed for output in outputs] == [2**64 - 1, 0, 1]
        assert [output.usage.cached_tokens for output in outputs] == [0, *[outputs[0].usage.input_tokens] * 2]
        assert reply.served_by.boot_id
        for output in outputs:
            request.samples, request.config.seed = 1, output.effective_config.seed
            alone = await server.send(request)
            assert (alone.parts, alone.finish_reason) == (output.parts, output.finish_reason)
            assert alone.usage.output_tokens == output.usage.output_tokens


@pytest.mark.parametrize(("kind", "continuous"), [("qwen2_vl", True), ("jamba", True), ("mllama", False)])
async def test_a_checkpoint_reads_the_prompt_once(
    served: Any, hf: Any, ask: Any, picture: Any, kind: str, continuous: bool
) -> None:
    """Rows are those of separate calls, beside another request in the batch, with logprobs and stop strings."""
    pytest.importorskip("torch")
    backend, shown = hf(kind, max_batch=8, batch_wait=0.2), [] if kind == "jamba" else [picture(1)]
    async with served(backend) as server:
        info = await server.info()
        assert info.max_samples == 8
        config = model.GenerationConfig(temperature=1.0, seed=3, max_output_tokens=10, top_logprobs=1, stop=["e"])
        request = model.GenerateRequest(messages=[ask(*shown, "What is it?")], config=config, samples=3)
        other = model.GenerateRequest(messages=[ask(*shown, "What is this?")], config=config)
        read: list[int] = []
        counting = backend._loaded.checkpoint.model.register_forward_pre_hook(
            lambda _, args, kwargs: read.append(kwargs["input_ids"].shape[0]), with_kwargs=True
        )
        backend._batcher.wait = 5.0
        reply, beside = await asyncio.gather(server.send(request), server.send(other))
        backend._batcher.wait = 0.0
        counting.remove()
        # Each prompt once; the library's own loop asks for all rows, of which its model reads two.
        assert read[0] == (2 if continuous else 4) or read[:2] == [1, 1]
        outputs = [result.output for result in reply.samples]
        assert [bool(output.usage.cached_tokens) for output in outputs] == [False, True, True]
        request.samples = 0
        for number, output in enumerate(outputs):
            request.config.seed = 3 + number
            alone = await server.send(request)
            assert (alone.parts, alone.finish_reason) == (output.parts, output.finish_reason)
            assert [token.token_id for token in alone.logprobs] == [token.token_id for token in output.logprobs]
            for one, two in zip(alone.logprobs, output.logprobs, strict=True):
                assert one.logprob == pytest.approx(two.logprob, abs=1e-4)
        assert (await server.send(other)).parts == beside.parts
        request.samples = 9
        with pytest.raises(Exception, match="the limit is 8"):
            await server.send(request)


@pytest.fixture(scope="session", name="picture")
def _picture() -> Any:
    from helpers.model_serving import picture

    return picture
