"""Seeded worlds keep every promise of a run; and each repair, taken out, is missed by one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from lyncean.rpc import errors as errors_module
from orchestrator.engine import check as check_module
from orchestrator.engine import episode as episode_module
from orchestrator.engine import pool as pool_module
from orchestrator.engine.check import checked
from orchestrator.engine.pool import Pool
from orchestrator.engine.replica import Replica
from orchestrator.engine.wire import Request
from orchestrator.run_folder import lines as lines_module
from orchestrator.run_folder.log import Appender
from simulation import network
from simulation.network import ModelServer, mutations
from simulation.world import Violation, play

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_every_promise_is_kept(first: int) -> None:
    for seed in range(first, first + 50):
        play(seed)


def test_a_seed_is_the_same_world_in_every_process() -> None:
    told = []
    for hash_seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        }
        command = [
            sys.executable,
            "-c",
            "from simulation.world import play\nfor seed in (3, 8, 21, 34): play(seed, print)",
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
        told.append([line.partition("/world-")[0] for line in done.stdout.splitlines()])
    assert len(told[0]) > 10
    assert told[0] == told[1]


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


def _folders_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Appender, "check_there", _nothing)


@pytest.mark.parametrize(
    "mutant",
    [
        _no_identity,
        _no_second_look,
        _no_last_look,
        _verdicts_are_believed,
        _summaries_are_believed,
        _capabilities_once,
        _every_status_is_the_models,
        _responses_are_believed,
        _images_are_believed,
        _lines_are_believed,
        _folders_stay,
    ],
)
def test_each_repair_is_missed(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)

    def search() -> None:
        for seed in range(1000):
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
