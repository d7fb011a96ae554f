"""A judge behind lyncean.model.v1: a real server."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.loopback import Authority

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc
from lyncean.rpc import Server, ServerConfig, Tls, Unavailable
from lyncean.rpc.budget import Budget
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import Outcome
from scorer.cli import main
from scorer.judges import model_service
from scorer.judges.options import Judging
from scorer.rules import rules
from scorer.scoring import Scorer


class Model(model_pb2_grpc.ModelServiceServicer):
    def __init__(self) -> None:
        self.revision = "1"
        self.introduced = 0
        self.loading = 0
        self.calls = 0
        self.reply = json.dumps({"explanation": "because", "correct": True})

    async def GetModelInfo(self, request: Any, context: Any) -> model.GetModelInfoResponse:  # noqa: N802
        if self.loading:
            self.loading -= 1
            raise Unavailable("loading", "the weights are being loaded")
        self.introduced += 1
        return model.GetModelInfoResponse(model_name="judge", model_revision=self.revision)

    async def Generate(self, request: Any, context: Any) -> model.GenerateResponse:  # noqa: N802
        self.calls += 1
        return model.GenerateResponse(
            parts=[model.Part(text=self.reply)],
            finish_reason=model.FINISH_REASON_END_OF_SEQUENCE,
            usage=model.Usage(input_tokens=90, output_tokens=10),
        )


@asynccontextmanager
async def serving(config: ServerConfig) -> AsyncIterator[tuple[Model, int]]:
    servicer = Model()
    server = Server(
        config,
        "lyncean.model.v1.ModelService",
        lambda to: model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, to),
    )
    port = await server.start()
    yield servicer, port
    await server.stop()


@pytest.fixture
async def served() -> AsyncIterator[tuple[Model, int]]:
    async with serving(ServerConfig(grace=1.0)) as (servicer, port):
        yield servicer, port


async def verdicts(port: int, cache: Path, number: int = 4, patience: float = 20.0, **more: Any) -> list[pb.Verdict]:
    spec = f"grpc:127.0.0.1:{port}"
    judges = Judging(**{"specs": (spec,), "cache": str(cache), "timeout": 10.0, "patience": patience} | more).open()
    assert judges
    scorer = Scorer(rules(), judges.judge)
    requests = [
        pb.ScoreRequest(key=str(n), rule="judge_answer", text=f"blue {n}", targets=["blue"]) for n in range(number)
    ]
    try:
        return list(await asyncio.gather(*(scorer.verdict(request) for request in requests)))
    finally:
        await judges.close()


async def test_what_a_model_was_asked_before_a_restart_is_not_asked_again(
    served: tuple[Model, int], tmp_path: Path
) -> None:
    servicer, port = served
    cache = tmp_path / "judge.sqlite"
    first = await verdicts(port, cache)
    assert [verdict.outcome for verdict in first] == ["scored"] * 4
    assert (servicer.calls, servicer.introduced) == (4, 1)
    again = await verdicts(port, cache)
    assert all(verdict.judge.cached for verdict in again)
    assert servicer.calls == 4
    servicer.revision = "2"  # other weights make another judge
    await verdicts(port, cache)
    assert servicer.calls == 8


async def test_a_reply_of_no_use_was_paid_for_all_the_same(served: tuple[Model, int], tmp_path: Path) -> None:
    servicer, port = served
    servicer.reply = "Sure! It is correct."
    done = await verdicts(port, tmp_path / "judge.sqlite", 5, budget=Budget(max_tokens=150), concurrency=1)
    assert sorted(verdict.reason for verdict in done) == ["judge_bad_json"] * 2 + ["judge_budget"] * 3
    assert servicer.calls == 2


async def test_a_model_that_still_loads_is_waited_for(
    served: tuple[Model, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_service, "REACH_SECONDS", 0.0)
    servicer, port = served
    servicer.loading = 2
    done = await verdicts(port, tmp_path / "judge.sqlite")
    assert [verdict.outcome for verdict in done] == ["scored"] * 4
    servicer.loading = 1_000
    late = await verdicts(port, tmp_path / "other.sqlite", patience=1.0)
    assert {verdict.reason for verdict in late} == {"judge_unreachable"}
    assert "the weights are being loaded" in late[0].detail


async def test_a_model_that_is_not_there_leaves_items_unjudged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_service, "REACH_SECONDS", 1.0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        done = await verdicts(port, tmp_path / "judge.sqlite")
    assert {(verdict.outcome, verdict.reason) for verdict in done} == {(Outcome.UNJUDGED, "judge_unreachable")}
    assert f"127.0.0.1:{port}" in done[0].detail


async def test_a_judge_over_tls_with_a_token_and_a_certificate_of_ones_own(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_service, "REACH_SECONDS", 1.0)
    config = ServerConfig(grace=1.0, tls=Tls(*authority.issue("server"), authority.path), token="t0ken")
    client = Tls(*authority.issue("client"), authority.path)

    async def outcomes(port: int, scheme: str = "grpcs", **settings: Any) -> set[str]:
        specs = (f"{scheme}:127.0.0.1:{port}",)
        cache = tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite"
        done = await verdicts(port, cache, 2, patience=3.0, specs=specs, **settings)
        return {verdict.reason or str(verdict.outcome) for verdict in done}

    async with serving(config) as (servicer, port):
        assert await outcomes(port, token="t0ken", tls=client) == {"scored"}
        assert servicer.calls == 2
        assert await outcomes(port, token="wrong", tls=client) == {"judge_unreachable"}
        assert await outcomes(port, token="t0ken", tls=Tls(ca=authority.path)) == {"judge_unreachable"}
        assert await outcomes(port, token="t0ken") == {"judge_unreachable"}
        assert await outcomes(port, "grpc", token="t0ken", tls=client) == {"judge_unreachable"}
        assert servicer.calls == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["grpc:h:1", "--judge-tls-ca", "CA"], "--judge grpcs:HOST:PORT"),
        (["grpcs:h:1", "--judge-tls-cert", "CA"], "--judge-tls-key"),
        (["grpcs:h:1", "--judge-tls-ca", "NONE"], "no certificate in PEM"),
        (["grpcs:h"], "grpcs:HOST:PORT"),
    ],
)
def test_mistakes_about_tls_are_reported_before_a_question_is_sent(
    authority: Authority, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "none").write_text("nothing")
    path_of = {"CA": str(authority.path), "NONE": str(tmp_path / "none")}
    done = CliRunner().invoke(main, ["calibrate", "--judge", *(path_of.get(option, option) for option in options)])
    assert done.exit_code == 2
    assert message in done.output


def test_a_certificate_is_read_from_the_command_line(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("server")
    client = [str(path) for path in authority.issue("client")]
    (tmp_path / "token").write_text("t0ken")
    item = {"key": "a", "rule": "judge_answer", "text": "blue", "targets": ["blue"]}
    (tmp_path / "items.jsonl").write_text(json.dumps(item) + "\n")
    command = ["score", str(tmp_path / "items.jsonl"), "--judge-cache", str(tmp_path / "judge.sqlite")]
    command += ["--judge-token-file", str(tmp_path / "token"), "--judge-tls-ca", str(authority.path)]
    command += ["--judge-tls-cert", client[0], "--judge-tls-key", client[1], "--judge"]

    async def score() -> tuple[int, str]:
        config = ServerConfig(grace=1.0, tls=Tls(certificate, key, authority.path), token="t0ken")
        async with serving(config) as (_, port):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "scorer", *command, f"grpcs:localhost:{port}", stdout=asyncio.subprocess.PIPE
            )
            output, _ = await process.communicate()
            return process.returncode or 0, output.decode()

    code, output = asyncio.run(score())
    assert (code, json.loads(output)["score"]) == (0, 1.0)
