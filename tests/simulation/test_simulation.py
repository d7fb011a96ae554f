"""Seeded worlds keep every promise of a run; and each repair, taken out, is missed by one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, errors as errors_module
from lyncean.rpc.waits import Wait
from orchestrator.engine import (
    batch as batch_module,
    check as check_module,
    dispatch as dispatch_module,
    episode as episode_module,
    pool as pool_module,
    replica as replica_module,
)
from orchestrator.engine.check import checked
from orchestrator.engine.pool import Pool
from orchestrator.engine.replica import Replica
from orchestrator.engine.run import Engine
from orchestrator.engine.sent import SentFiles
from orchestrator.engine.wire import Request
from orchestrator.engine.worker import Worker
from orchestrator.run_folder import lines as lines_module, log as log_module
from orchestrator.run_folder.appender import Appender
from orchestrator.run_folder.lock import Lock
from orchestrator.run_folder.log import RunLog
from simulation import network
from simulation.loop import deterministic
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


def _nothing(*_: Any) -> None:
    return None


async def _soon(*_: Any) -> None:
    return None


def _no_identity(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "_identify", _nothing)


def _no_second_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pool, "_look_at_connections", _soon)


def _no_last_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "_wait_for_look", _soon)


def _verdicts_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(check_module, "_verdict", lambda *_: "")


def _summaries_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(check_module, "_counts", lambda *_: "")
    patch.setattr(check_module, "_metrics", lambda *_: "")


def _capabilities_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pool_module, "_ASKED_FOR", set())


def _every_status_is_the_models(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(errors_module, "_MODELS_OWN", frozenset())


def _responses_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(check_module, "_generate", lambda *_: "")
    patch.setattr(check_module, "_likelihood", lambda *_: "")


def _images_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(episode_module, "check_image", _nothing)


def _lines_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lines_module, "verify", _nothing)


def _misses_are_final(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica_module, "not_held", lambda error: False)


def _bytes_are_never_sent_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SentFiles, "refused", _nothing)
    patch.setattr(SentFiles, "sending", lambda files, request: {sha256 for sha256, _ in request.files})
    real = Replica._pieces
    patch.setattr(Replica, "_pieces", lambda replica, request, sent, whole=False: real(replica, request, sent))


def _hashes_are_of_other_files(patch: pytest.MonkeyPatch) -> None:
    real, last = episode_module.request_of, [b""]

    def request_of(call: Any, digests: Sequence[bytes]) -> Request:
        shifted = [last[0] or digest for digest in digests]
        last[:] = digests or last
        return real(call, shifted)

    patch.setattr(episode_module, "request_of", request_of)


def _any_repeats_go_together(patch: pytest.MonkeyPatch) -> None:
    for module in (episode_module, dispatch_module):
        patch.setattr(module, "is_repeat", lambda *_: True)


def _samples_are_counted_by_nobody(patch: pytest.MonkeyPatch) -> None:
    def outputs_of(response: Any, requests: Sequence[Request]) -> list[Any]:
        pairs = zip(response.samples, requests, strict=False)
        return [batch_module._output(result, response, request, checked) for result, request in pairs]

    patch.setattr(replica_module, "outputs_of", outputs_of)


def _folders_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Appender, "check_there", _nothing)
    patch.setattr(Lock, "check", _nothing)


def _silence_is_borne(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Wait, "left", property(lambda _: 1.0))


def _stops_are_as_long_as_calls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Engine, "stop_soon", Engine.drain)


def _verdicts_wait_for_no_answer(patch: pytest.MonkeyPatch) -> None:
    def flush(log: RunLog) -> None:
        log.responses.flush()
        log.verdicts.flush()

    patch.setattr(RunLog, "flush", flush)


def _verdicts_are_of_any_answer(patch: pytest.MonkeyPatch) -> None:
    real = log_module.answers_of
    patch.setattr(log_module, "answers_of", lambda lines: (np.zeros(len(lines), bool), real(lines)[1]))


@pytest.mark.parametrize(
    ("mutant", "first"),
    [
        (_no_identity, 0),
        (_no_second_look, 90),
        (_no_last_look, 90),
        (_verdicts_are_believed, 0),
        (_summaries_are_believed, 0),
        (_capabilities_once, 15),
        (_every_status_is_the_models, 0),
        (_responses_are_believed, 0),
        (_images_are_believed, 0),
        (_lines_are_believed, 0),
        (_folders_stay, 40),
        (_misses_are_final, 0),
        (_bytes_are_never_sent_again, 40),
        (_hashes_are_of_other_files, 0),
        pytest.param(_any_repeats_go_together, 60, marks=pytest.mark.weekly),
        (_samples_are_counted_by_nobody, 0),
        (_silence_is_borne, 0),
        (_stops_are_as_long_as_calls, 90),
        (_verdicts_wait_for_no_answer, 240),
        (_verdicts_are_of_any_answer, 60),
    ],
)
def test_each_repair_is_missed(
    mutant: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searched from `first` on, shortly before the world that missed it last."""
    mutant(monkeypatch)

    def search() -> None:
        for seed in range(first, first + 1000):
            play(seed)

    with pytest.raises(Violation, match=r"^seed \d+: "):
        search()


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
    """What the other tests would find is in the worlds: files that come by their hash, outputs that come together."""
    world = World(0, tmp_path / "run", lambda _: None)
    world.method, world.rows, world.repeats = "generate", 12, 3
    for address in world.addresses:
        server = ModelServer(1, "boot", samples=4, claimed=1_000_000, held=1_000_000)
        world.network.servers[address] = server
    assert world._session("undisturbed", disturbed=False)
    assert world.network.by_hash > 3
    assert world.network.together > 12
    assert world._account()
