"""Seeded worlds keep every promise of a run; and each repair, taken out, is missed by one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from orchestrator.engine import (
    batch as batch_module,
)
from orchestrator.engine.check import checked
from orchestrator.engine.wire import Request
from orchestrator.engine.worker import Worker
from simulation import network
from simulation.loop import deterministic
from simulation.mutants import MUTANTS, Mutant
from simulation.network import ModelServer, mutations, mutations_of_samples
from simulation.world import Violation, World, play

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_every_promise_is_kept(first: int) -> None:
    for seed in range(first, first + 50):
        play(seed)


def told(hash_seed: str, seeds: Sequence[int]) -> list[str]:
    """Returns what happens in some worlds, played in a process of their own."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    script = f"from simulation.world import play\nfor seed in {list(seeds)}: play(seed, print)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return [line.partition("/world-")[0] for line in done.stdout.splitlines()]


def test_a_seed_is_the_same_world_in_every_process() -> None:
    first = told("1", (3, 8, 21, 34))
    assert len(first) > 10
    assert told("2", (3, 8, 21, 34)) == first


@pytest.mark.weekly
def test_a_seed_is_the_same_world_beside_busy_processes() -> None:
    alone = told("1", range(60))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        assert told("2", range(60)) == alone
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_work_takes_as_long_as_the_worlds_clock_says() -> None:
    with deterministic(1):
        worker = Worker(lambda: False)
        assert worker._clock() < 1.0
        worker.shutdown()


@pytest.mark.parametrize("name", [name for name, first in MUTANTS.items() if first.often])
def test_each_repair_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched from shortly before the world that missed it last."""
    _search(MUTANTS[name], monkeypatch)


@pytest.mark.weekly
@pytest.mark.parametrize("name", [name for name, first in MUTANTS.items() if not first.often])
def test_each_rare_repair_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _search(MUTANTS[name], monkeypatch)


def _search(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.patch(monkeypatch)

    def play_on() -> None:
        for seed in range(mutant.first, mutant.first + 1000):
            play(seed)

    with pytest.raises(Violation, match=r"^seed \d+: "):
        play_on()


@pytest.mark.parametrize(("method", "mutation"), list(mutations()))
def test_no_mutated_response_is_an_answer(method: str, mutation: network.Mutation) -> None:
    import random

    server, draw = ModelServer(1, "boot"), random.Random(7)
    messages = [model.Message(role=model.ROLE_USER, parts=[model.Part(text="1 plain 0")])]
    response: type[model.GenerateResponse] | type[model.LikelihoodResponse] = model.GenerateResponse
    request = Request("Generate", (), max_output_tokens=16)
    asked: Any = model.GenerateRequest(messages=messages)
    if method == "Likelihood":
        response, request = model.LikelihoodResponse, Request("Likelihood", (), continuations=2)
        asked = model.LikelihoodRequest(messages=messages, continuations=["A", "B"])
    _, data = server.answer(method, asked.SerializeToString())
    assert checked(response.FromString(data), request)
    for _ in range(5):
        with pytest.raises(CallError, match="breaks the contract") as caught:
            checked(network._parsed(response.FromString, mutation(draw, data)), request)
        assert caught.value.reason == "bad_response"


@pytest.mark.parametrize("mutation", list(mutations_of_samples()))
def test_no_mutated_sample_is_an_answer(mutation: network.Mutation) -> None:
    import random

    draw, requests = random.Random(7), [Request("Generate", (), max_output_tokens=16)] * 3
    messages = [model.Message(role=model.ROLE_USER, parts=[model.Part(text="1 plain 0")])]
    asked = model.GenerateRequest(messages=messages, samples=3).SerializeToString()
    _, data = ModelServer(1, "boot", samples=3).answer("Generate", asked)
    whole = batch_module.outputs_of(model.GenerateResponse.FromString(data), requests)
    assert not any(isinstance(output, CallError) for output in whole)
    lie = network._parsed(model.GenerateResponse.FromString, mutation(draw, data))
    try:
        outputs = batch_module.outputs_of(lie, requests)
    except CallError as error:
        outputs = [error]
    assert [error.reason for error in outputs if isinstance(error, CallError)] == ["bad_response"]


def test_worlds_send_hashes_and_samples(tmp_path: Path) -> None:
    """Worlds contain the features that other tests look for: files sent by hash, outputs sent together."""
    world = World(0, tmp_path / "run", lambda _: None)
    world.method, world.rows, world.repeats = "generate", 12, 3
    for address in world.addresses:
        server = ModelServer(1, "boot", samples=4, claimed=1_000_000, held=1_000_000)
        world.network.servers[address] = server
    assert world._session("undisturbed", disturbed=False)
    assert world.network.by_hash > 3
    assert world.network.together > 12
    assert world._account()
