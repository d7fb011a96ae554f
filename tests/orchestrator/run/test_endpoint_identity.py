"""Runs over HTTP whose endpoint becomes another model, or does not say what it is, by real commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")
from helpers.commands import orchestrator
from helpers.openai_endpoint import Endpoint, completion, endpoint_thread, error
from helpers.openai_proxy import proxied

from orchestrator.run_folder.origins import UNVERIFIED


def arguments(address: str, run: Path) -> list[str]:
    task = ["eval", "--task", "vstar_bench", "--synthetic", "--limit", "4", "--patience", "2"]
    return [*task, "--endpoint", address, "--run", str(run)]


def broken_at(endpoint: Endpoint, number: int) -> None:
    """Has the endpoint fail from one answer on."""

    def answer(_: dict[str, Any]) -> Any:
        return completion("A") if len(endpoint.seen) < number else error(500, "worker died")

    endpoint.answer = answer


def test_a_checkpoint_swapped_behind_http_is_refused_at_the_resume(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with endpoint_thread() as endpoint:
        endpoint.card |= {"owned_by": "vllm", "root": "/models/first"}
        endpoint.version = "0.9.1"
        broken_at(endpoint, 3)
        with proxied(endpoint, tmp_path) as server:
            orchestrator(*arguments(server.address, run), code=3)
        endpoint.card["root"] = "/models/second"
        endpoint.version = "0.9.2"
        endpoint.answer = lambda _: completion("A")
        sent = len(endpoint.seen)
        with proxied(endpoint, tmp_path) as server:
            output = orchestrator(*arguments(server.address, run), code=2)
        assert 'model.model_revision is "/models/first, 0.9.1 (vllm)" there and "/models/second' in output
        assert len(endpoint.seen) == sent
        endpoint.card["root"] = "/models/first"
        endpoint.version = "0.9.1"
        with proxied(endpoint, tmp_path) as server:
            assert UNVERIFIED not in orchestrator(*arguments(server.address, run))


def test_a_name_that_turns_into_another_model_ends_the_run_and_its_resume(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with endpoint_thread() as endpoint, proxied(endpoint, tmp_path, "--max-concurrency", "1") as server:
        endpoint.answer = lambda _: completion("A", model=f"m-{2024 + (len(endpoint.seen) > 2)}")
        reason = "the endpoint answers as 'm-2025', and this run's answers are of 'm-2024': name one model"
        for _ in range(2):  # the log alone knows it at the resume
            assert reason in " ".join(orchestrator(*arguments(server.address, run), code=2).split())
        lines = [json.loads(line) for line in (run / "responses.jsonl").read_text().splitlines()]
        assert {line["endpoint"]["model"] for line in lines} == {"m-2024"}


def test_results_say_where_no_answer_says_who_gave_it(tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    with endpoint_thread() as endpoint, proxied(endpoint, tmp_path) as server:
        endpoint.answer = lambda _: completion("A", model="m-1", system_fingerprint=f"fp_{len(endpoint.seen) % 2}")
        output = orchestrator(*arguments(server.address, run))
        endpoint.answer = lambda _: completion("A", model="m-1")
        orchestrator(*arguments(server.address, other))
    changed = "the endpoint answered with 2 configurations (system_fingerprint: fp_0 2, fp_1 2)"
    assert UNVERIFIED in output
    assert changed in output
    results = json.loads((run / "results.json").read_text())
    assert results["model"]["doubt"] == UNVERIFIED
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["endpoint"] == {"models": {"m-1": 4}, "fingerprints": {"fp_0": 2, "fp_1": 2}}
    assert UNVERIFIED in (run / "report.html").read_text()
    compared = orchestrator("compare", str(run), str(other), "--html", str(tmp_path / "compare.html"))
    assert compared.count(UNVERIFIED) == 2
    assert changed in " ".join(compared.split())
    assert UNVERIFIED in (tmp_path / "compare.html").read_text()
