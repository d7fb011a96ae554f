"""The conformance kit: whole servers pass it, and every check can fail."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from helpers.conformance_mutants import HONEST, MUTANTS, Whole, broken, either, served

from lyncean import rpc
from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc.serve import TokenInterceptor
from model_server.service import NAME
from orchestrator.cli.check import command
from orchestrator.conformance import CHECKS, Status, judge, runner

ROOT = Path(__file__).resolve().parents[3]
from helpers.loopback import Authority  # noqa: E402

ACCESS = {"tls_is_demanded", "token_is_demanded", "batch_token_is_demanded", "drains_on_sigterm"}
# Messages of 5 and 65 MB are sent where they are the point.
SLOW = {"accepts_large_requests", "refuses_oversize_messages", "batch_sizes_count_together"}
# It passes, or the demo model is too fast for it to say anything.
EITHER = {"batch_answers_do_not_wait"}
QUICK = CHECKS.keys() - SLOW
# Many calls each, three quarters of the kit's work: a broken server meets them where it breaks one of them.
BUSY = {"video_frames_are_those_asked_for", "json_schema_is_kept", "parallel_equals_serial", "batches_do_not_drift"}
BUSY |= {"batch_failures_stay_alone", "batch_answers_as_by_itself", "batch_gives_places_back"}
BUSY |= {"cancellation_frees_the_slot", "deadline_is_honoured", "refuses_over_long_input"}
BATCH = {name for name, check in CHECKS.items() if "BATCH" in check.needs}
NEEDS_GENERATE = {name for name in BATCH if "GENERATE" in CHECKS[name].needs}


async def failed(address: str, only: Collection[str] = (), **options: Any) -> dict[str, str]:
    results = [result async for result in judge(address, timeout=10.0, only=only, **options)]
    return {result.check.name: result.detail for result in results if result.status is Status.FAILED}


async def test_a_whole_server_fails_nothing() -> None:
    async with served(Whole) as address:
        results = {result.check.name: result async for result in judge(address, timeout=20)}
    assert results.keys() == CHECKS.keys()
    assert {name: r.detail for name, r in results.items() if r.status is Status.FAILED} == {}
    skipped = {name for name, result in results.items() if result.status is Status.SKIPPED}
    assert skipped - EITHER == ACCESS | {"refuses_what_it_does_not_claim"}
    assert all(results[name].detail for name in skipped)


@pytest.mark.parametrize("name", MUTANTS)
async def test_a_broken_server_fails_its_check_and_no_other(name: str) -> None:
    mutant = MUTANTS[name]
    async with served(mutant.server) as address:
        failures = await failed(address, mutant.only or (QUICK if BUSY & set(mutant.breaks) else QUICK - BUSY))
    assert set(failures) == set(mutant.breaks), failures


def test_every_check_has_a_server_that_fails_it() -> None:
    assert {name for mutant in MUTANTS.values() for name in mutant.breaks} | ACCESS == CHECKS.keys()


def test_every_check_quotes_the_contract() -> None:
    proto = (ROOT / "protos/lyncean/model/v1/model.proto").read_text()
    page = (ROOT / "docs/contract.md").read_text()
    text = " ".join(re.sub(r"^\s*(//)?", "", line) for line in proto.splitlines()) + page
    contract = re.sub(r"\s+", " ", text)
    for check in CHECKS.values():
        assert re.sub(r"\s+", " ", check.contract) in contract, check.name
        assert check.fix.endswith(".")


def rpc_server(config: rpc.ServerConfig) -> rpc.Server:
    return rpc.Server(config, NAME, lambda s: model_grpc.add_ModelServiceServicer_to_server(Whole(), s))


async def test_tls_and_token_are_judged_where_they_are_given(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = rpc.Tls(*authority.issue("server"))
    client = rpc.Credentials(rpc.Tls(ca=authority.path), "secret")
    checks = ["tls_is_demanded", "token_is_demanded", "batch_token_is_demanded"]
    guarded = rpc_server(rpc.ServerConfig(tls=tls, token="secret", grace=1))
    open_to_all = rpc_server(rpc.ServerConfig(tls=tls, grace=1))
    clear = rpc_server(rpc.ServerConfig(grace=1))
    for server in (guarded, open_to_all, clear):
        await server.start()
        await server.set_serving()
    try:
        where = [f"localhost:{server.port}" for server in (guarded, open_to_all, clear)]
        assert await failed(where[0], checks, credentials=client) == {}
        # The rest of the kit passes with TLS and a token as well.
        rest = QUICK - {"refuses_huge_images"} | {"accepts_large_requests"}
        assert await failed(where[0], rest, credentials=client) == {}
        assert set(await failed(where[1], checks, credentials=client)) == set(checks[1:])
        async with either(where[1], where[2]) as both:
            address = both.replace("127.0.0.1", "localhost")
            assert set(await failed(address, checks[:1], credentials=client)) == {"tls_is_demanded"}
    finally:
        for server in (guarded, open_to_all, clear):
            await server.stop()


class OfUnaryCalls(TokenInterceptor):
    """Lets calls through that are answered with a stream."""

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        if handler is not None and handler.unary_stream:
            return handler
        return await super().intercept_service(continuation, handler_call_details)


async def test_a_batch_that_needs_no_token_is_a_failure() -> None:
    async with served(broken(guards=[OfUnaryCalls("secret")])) as address:
        failures = await failed(address, BATCH | {"token_is_demanded"}, credentials=rpc.Credentials(token="secret"))
    assert failures == {"batch_token_is_demanded": "a Batch with no token: answered in place of UNAUTHENTICATED"}


@pytest.mark.parametrize("name", HONEST)
async def test_a_batch_may_be_answered_in_many_ways(name: str) -> None:
    async with served(HONEST[name]) as address:
        results = [result async for result in judge(address, timeout=20, only=BATCH - SLOW)]
    assert {r.check.name: r.detail for r in results if r.status is Status.FAILED} == {}
    skipped = {result.check.name for result in results if result.status is Status.SKIPPED}
    assert skipped - (EITHER if name != "slow" else set()) == ACCESS & BATCH


BOUNDS = ("batch_refuses_no_calls", "batch_refuses_too_many_calls")


def unclaimed(info: Any) -> None:
    info.capabilities.remove(model.CAPABILITY_BATCH)


def one_at_a_time(info: Any) -> None:
    info.max_concurrency = 1


def likelihood_alone(info: Any) -> None:
    info.capabilities.remove(model.CAPABILITY_GENERATE)


@pytest.mark.parametrize(
    ("change", "judged", "why"),
    [
        (unclaimed, set[str](), "the server does not claim BATCH"),
        (one_at_a_time, {*BOUNDS, "batch_answers_each_call_once", "batch_gives_places_back"}, "is 1"),
        (likelihood_alone, BATCH - ACCESS - SLOW - NEEDS_GENERATE, "does not claim GENERATE"),
    ],
)
async def test_what_cannot_be_judged_of_a_batch_is_skipped(change: Any, judged: set[str], why: str) -> None:
    async with served(broken(describe=change)) as address:
        results = {r.check.name: r async for r in judge(address, timeout=20, only=BATCH - SLOW - ACCESS)}
    assert {name for name, result in results.items() if result.status is Status.PASSED} == judged
    assert all(why in results[name].detail for name in results.keys() - judged)
    assert {result.status for result in results.values()} == {Status.PASSED, Status.SKIPPED} - (
        set() if judged else {Status.PASSED}
    )


async def test_a_limit_below_any_request_is_judged_like_others() -> None:
    def tiny(info: Any) -> None:
        info.max_request_bytes = 10

    async with served(broken(describe=tiny)) as address:
        results = [r async for r in judge(address, timeout=20, only={"accepts_large_requests"})]
    assert [result.status for result in results] == [Status.PASSED]


async def test_a_drain_that_never_comes_is_a_failure() -> None:
    deaf = subprocess.Popen(["sleep", "600"])
    try:
        async with served(Whole) as address:
            results = [r async for r in judge(address, timeout=1.0, pid=deaf.pid, only=["drains_on_sigterm"])]
        assert [result.status for result in results] == [Status.FAILED]
        assert "SERVING still" in results[0].detail
    finally:
        deaf.kill()
        deaf.wait()


@pytest.mark.parametrize(
    "server", [["-m", "model_server", "serve", "--backend", "demo"], ["examples/constant_server.py"]]
)
def test_our_own_servers_pass_and_drain(server: list[str], tmp_path: Path) -> None:
    port, junit = tmp_path / "port", tmp_path / "junit.xml"
    process = subprocess.Popen(
        [sys.executable, *server, "--port", "0", "--port-file", str(port)], cwd=ROOT, stderr=subprocess.PIPE
    )
    try:
        while not port.exists():
            assert process.poll() is None
            asyncio.run(asyncio.sleep(0.05))
        address = f"127.0.0.1:{port.read_text().strip()}"
        arguments = ["-e", address, "--drain-pid", str(process.pid), "--junit", str(junit), "--json"]
        done = CliRunner().invoke(command, arguments)
        assert done.exit_code == 0, done.stderr
        judged = json.loads(done.stdout)
        assert judged["passed"]
        assert {check["name"] for check in judged["checks"]} == CHECKS.keys()
        suite = ElementTree.parse(junit).getroot()  # noqa: S314
        assert int(suite.get("tests", "0")) == len(CHECKS)
        assert suite.get("failures") == "0"
        drain = next(check for check in judged["checks"] if check["name"] == "drains_on_sigterm")
        assert drain["status"] == "passed"
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


THINKING = {name for name, check in CHECKS.items() if {"REASONING", "THINKING", "THINKING_BUDGET"} & set(check.needs)}
MEDIA = {name for name, check in CHECKS.items() if {"AUDIO_INPUT", "VIDEO_INPUT"} & set(check.needs)}
MEDIA |= {"refuses_corrupt_audio_and_video"}
# The chat templates of these drop tools.
TOOLS = {name for name, check in CHECKS.items() if "TOOLS" in check.needs}
# A model of text that reasons for longer than these let it say anything.
THINKS = {name for name, check in CHECKS.items() if {"IMAGE_INPUT", "MULTI_IMAGE", "MEDIA_BY_HASH"} & set(check.needs)}
THINKS |= {"stop_strings_end_the_output", "agrees_with_greedy"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "skips"),
    [
        ("llava", THINKING | MEDIA),
        pytest.param("thinking", THINKS | MEDIA, marks=pytest.mark.weekly),
        pytest.param("gemma_channels", THINKS | MEDIA, marks=pytest.mark.weekly),
        pytest.param("qwen2_5_omni", THINKING, marks=pytest.mark.weekly),
    ],
)
async def test_our_transformers_backend_passes(kind: str, skips: Collection[str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    built = subprocess.run(
        [sys.executable, "-m", "helpers.tiny", kind, str(tmp_path / kind)],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    port = tmp_path / "port"
    arguments = ["serve", "--backend", "transformers", "--model", str(tmp_path / kind)]
    with subprocess.Popen(
        [sys.executable, "-m", "model_server", *arguments, "--port", "0", "--port-file", str(port)],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            while not port.exists():
                assert process.poll() is None
                await asyncio.sleep(0.05)
            address = f"127.0.0.1:{port.read_text().strip()}"
            results = [result async for result in judge(address, timeout=300, pid=process.pid)]
        finally:
            process.kill()
    assert {r.check.name: r.detail for r in results if r.status is Status.FAILED} == {}
    skipped = {result.check.name for result in results if result.status is Status.SKIPPED}
    assert skipped - EITHER == {"images_are_made", *skips} | TOOLS | ACCESS - {"drains_on_sigterm"}


async def test_a_failure_is_exit_code_4_with_contract_and_fix(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    async with served(MUTANTS["nameless"].server) as address:
        arguments = ["-e", address, "--only", "info_names_the_model", "--junit", str(junit)]
        done = await asyncio.to_thread(CliRunner().invoke, command, arguments)
    assert done.exit_code == 4
    assert "did: model_name is empty" in done.stdout
    assert "contract: Never empty." in done.stdout
    assert "fix: " in done.stdout
    failure = ElementTree.parse(junit).find("testcase/failure")  # noqa: S314
    assert failure is not None
    assert "model_name is empty" in failure.get("message", "")


async def test_a_crash_is_one_failure_and_what_matters_is_named() -> None:
    async with served(MUTANTS["crashing"].server) as address:
        done = await asyncio.to_thread(CliRunner().invoke, command, [address])
    assert done.exit_code == 4
    assert done.stdout.count("FAIL") == 1
    assert "FAIL answers_a_plain_question" in done.stdout
    assert "the server gives no answer: see answers_a_plain_question" in done.stdout
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("for an evaluation these matter most: answers_a_plain_question failed, finish_reason_is_set")


def test_mistakes_are_exit_code_2() -> None:
    for arguments, message in (
        ([], "--endpoint"),
        (["-e", "127.0.0.1:1", "--timeout", "0.5"], "does not answer GetModelInfo"),
        (["-e", "127.0.0.1:1", "--only", "no_such"], "unknown check 'no_such'"),
    ):
        done = CliRunner().invoke(command, arguments)
        assert done.exit_code == 2
        assert message in done.stderr


def test_list_names_every_check() -> None:
    listed = CliRunner().invoke(command, ["--list"]).stdout
    assert all(name in listed for name in CHECKS)


def test_an_address_where_nobody_listens_is_waited_for_aloud_and_not_for_long() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: refused
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        done = CliRunner().invoke(command, ["--endpoint", address, "--timeout", "1.5"])
    assert done.exit_code == 2, done.output
    assert f"waiting up to 1 s for {address}: UNAVAILABLE: Connection refused" in done.output.replace("2 s", "1 s")
    assert f"{address} does not answer GetModelInfo (UNAVAILABLE: Connection refused" in done.output


async def test_a_server_that_still_loads_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than one that is not there: its port is bound and says UNAVAILABLE until the model is loaded."""
    monkeypatch.setattr(runner, "REACH_SECONDS", 0.0)

    class Loading(Whole):
        calls = 0

        async def GetModelInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
            Loading.calls += 1
            if Loading.calls < 4:
                raise rpc.Unavailable("loading", "the model is being loaded")
            return await super().GetModelInfo(request, context)

    errors: list[str] = []
    async with served(Loading) as address:
        waiting = lambda error, _: errors.append(str(error))  # noqa: E731
        results = [r async for r in judge(address, timeout=20, only={"info_names_the_model"}, waiting=waiting)]
    assert errors == ["the model is being loaded"]
    assert results
