"""Serving and dialling over real sockets."""

from __future__ import annotations

import asyncio
import math
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import grpc
import pytest
from click.testing import CliRunner
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from helpers.engine_cluster import free_port
from helpers.loopback import SERVICE, Authority, Obedient, generate, say
from helpers.port_signal import SIGNALLED

from lyncean import rpc
from lyncean.cli import Command
from lyncean.cli.options import client_options, server_options
from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc
from lyncean.rpc.serve import StatusInterceptor
from lyncean.vocabulary.outcomes import Outcome


@asynccontextmanager
async def foreign(servicer: Any, *interceptors: grpc.aio.ServerInterceptor) -> AsyncIterator[str]:
    """Serves with gRPC's own bounds, as a server of somebody else's does; gives the address."""
    server = grpc.aio.server(interceptors=interceptors)
    model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


def address(server: rpc.Server) -> str:
    return f"127.0.0.1:{server.port}"


async def test_round_trip_of_sixty_megabytes(served: Any) -> None:
    text = "x" * (60 * 1024 * 1024)
    async with served() as (server, _), rpc.dial(address(server)) as channel:
        response = await rpc.call(generate(channel), say(text), timeout=300)
    assert len(response.parts[0].text) == len(text)


async def test_request_that_is_serialized_already(served: Any) -> None:
    async with served() as (server, servicer), rpc.dial(address(server)) as channel:
        method = channel.unary_unary(f"/{SERVICE}/Generate", response_deserializer=model.GenerateResponse.FromString)
        data = say("hello").SerializeToString()
        assert await rpc.call(method, data, timeout=300) == await rpc.call(generate(channel), say("hello"), timeout=5)
        with pytest.raises(rpc.CallError, match=f"has {len(data)} bytes, the limit is {len(data) - 1}"):
            await rpc.call(method, data, timeout=300, max_bytes=len(data) - 1)
    assert servicer.calls == 2


async def test_oversize_request_is_refused_before_it_is_sent(served: Any) -> None:
    async with served() as (server, servicer), rpc.dial(address(server)) as channel:
        with pytest.raises(rpc.CallError) as caught:
            await rpc.call(generate(channel), say("x" * rpc.MAX_MESSAGE_BYTES), timeout=300)
        with pytest.raises(rpc.CallError, match="limit is 100"):
            await rpc.call(generate(channel), say("x" * 101), timeout=300, max_bytes=100)
    assert caught.value.reason == "request_too_large"
    assert caught.value.consequence.outcome is Outcome.REJECTED
    assert caught.value.consequence.retries == 0
    assert servicer.calls == 0


@pytest.mark.parametrize("letter", ["x", "很", "\ud800", "😀"])
@pytest.mark.parametrize("count", [1000, 5000, 8500, 100_000])
async def test_a_failure_that_is_said_at_length_stays_what_it_is(letter: str, count: int) -> None:
    refusal = rpc.InvalidRequest("asked_for", letter * count, **{f"fact{n}": letter * count for n in range(20)})

    class Refusing(model_pb2_grpc.ModelServiceServicer):
        async def Generate(self, request: Any, context: Any) -> Any:  # noqa: N802
            raise refusal

    # With gRPC's own bounds, as a client in another language has them.
    async with foreign(Refusing(), StatusInterceptor()) as where, grpc.aio.insecure_channel(where) as channel:
        with pytest.raises(rpc.CallError) as caught:
            await rpc.call(generate(channel), say("hello"), timeout=300)
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "asked_for")
    assert str(caught.value) == str(refusal)
    assert 300 < len(str(refusal).encode()) <= 1503
    assert caught.value.metadata == refusal.metadata


@pytest.mark.parametrize(("pause", "kept"), [(None, 0), (2.5, 2.5), (-1.0, 0), (math.inf, 300), (86_400.0, 300)])
async def test_a_pause_reaches_the_caller(pause: float | None, kept: float) -> None:
    class Full(model_pb2_grpc.ModelServiceServicer):
        async def Generate(self, request: Any, context: Any) -> Any:  # noqa: N802
            raise rpc.Overloaded("queue_full", "full", retry_after=pause)

    async with foreign(Full(), StatusInterceptor()) as where, rpc.dial(where) as channel:
        with pytest.raises(rpc.CallError) as caught:
            await rpc.call(generate(channel), say("hello"), timeout=300)
    assert (caught.value.reason, caught.value.retry_after) == ("queue_full", kept)


SAID = [
    (grpc.StatusCode.INVALID_ARGUMENT, "很" * 1900, b"", grpc.StatusCode.INVALID_ARGUMENT),
    (grpc.StatusCode.INVALID_ARGUMENT, "no", b"\xff\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full", b"", grpc.StatusCode.RESOURCE_EXHAUSTED),
    (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "gRPC message exceeds maximum size 4194304: 5000000",
        b"",
        grpc.StatusCode.OUT_OF_RANGE,
    ),
    (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "Received message exceeds the maximum configured message size.",
        b"",
        grpc.StatusCode.OUT_OF_RANGE,
    ),
    (grpc.StatusCode.INVALID_ARGUMENT, "x" * 200_000, b"", grpc.StatusCode.INTERNAL),
]


@pytest.mark.parametrize(("code", "message", "details", "taken_for"), SAID)
async def test_what_other_servers_say(
    code: grpc.StatusCode, message: str, details: bytes, taken_for: grpc.StatusCode
) -> None:
    class Foreign(model_pb2_grpc.ModelServiceServicer):
        async def Generate(self, request: Any, context: Any) -> Any:  # noqa: N802
            await context.abort(code, message, trailing_metadata=(("grpc-status-details-bin", details),))

    async with foreign(Foreign()) as where, rpc.dial(where) as channel:
        with pytest.raises(rpc.CallError) as caught:
            await rpc.call(generate(channel), say("hello"), timeout=300)
    assert caught.value.code is taken_for
    if taken_for is code:
        assert (str(caught.value), caught.value.reason) == (message, code.name.lower())


async def test_a_message_that_the_other_end_does_not_take_is_not_a_full_queue() -> None:
    async with foreign(Obedient()) as where:  # takes 4 MiB, gRPC's own bound, and does not say so
        async with rpc.dial(where) as channel:
            with pytest.raises(rpc.CallError, match="larger than max") as sent:
                await rpc.call(generate(channel), say("x" * 5_000_000), timeout=300)
        async with grpc.aio.insecure_channel(where, [("grpc.max_receive_message_length", 1000)]) as channel:
            with pytest.raises(rpc.CallError, match="larger than max") as received:
                await rpc.call(generate(channel), say("x" * 2000), timeout=300)
    for caught in (sent, received):
        assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.OUT_OF_RANGE, "message_too_large")
        assert (caught.value.consequence.retries, caught.value.consequence.outcome) == (0, Outcome.REJECTED)


@pytest.mark.parametrize(
    ("error", "outcome", "retries"),
    [
        (rpc.InvalidRequest, Outcome.REJECTED, 0),
        (rpc.OutOfRange, Outcome.REJECTED, 0),
        (rpc.Unsupported, Outcome.REJECTED, 0),
        (rpc.Denied, Outcome.REFUSED, 0),
        (rpc.Overloaded, Outcome.FAILED, None),
    ],
)
async def test_exception_to_status_to_consequence(
    served: Any, error: type[rpc.StatusError], outcome: Outcome, retries: int | None
) -> None:
    async with served() as (server, _), rpc.dial(address(server)) as channel:
        with pytest.raises(rpc.CallError) as caught:
            await rpc.call(generate(channel), say(error.__name__), timeout=300)
    assert caught.value.code is error.code
    assert caught.value.reason == "asked_for"
    assert caught.value.metadata == {"limit": "7"}
    assert str(caught.value) == f"{error.__name__} was asked for"
    assert caught.value.consequence.outcome is outcome
    assert caught.value.consequence.retries == retries


async def test_a_defect_is_internal_and_tells_no_secret(served: Any) -> None:
    async with served() as (server, _), rpc.dial(address(server)) as channel:
        with pytest.raises(rpc.CallError) as caught:
            await rpc.call(generate(channel), say("defect"), timeout=300)
    assert caught.value.code is grpc.StatusCode.INTERNAL
    assert caught.value.reason == "internal_error"
    assert "ZeroDivisionError" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_every_status_has_a_consequence() -> None:
    missing = set(grpc.StatusCode) - {grpc.StatusCode.OK} - set(rpc.CONSEQUENCES)
    assert not missing
    assert all(c.outcome in (Outcome.REJECTED, Outcome.FAILED, Outcome.REFUSED) for c in rpc.CONSEQUENCES.values())


async def test_health_has_two_names(served: Any) -> None:
    async with served() as (server, _), rpc.dial(address(server)) as channel:
        assert await rpc.is_serving(channel)
        assert await rpc.is_serving(channel, SERVICE)
        await server.set_serving(False)
        assert await rpc.is_serving(channel)
        assert not await rpc.is_serving(channel, SERVICE)
        assert not await rpc.is_serving(channel, "no.such.Service")


async def test_reflection_lists_the_service(served: Any) -> None:
    async with served() as (server, _), rpc.dial(address(server)) as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        async for reply in stub.ServerReflectionInfo(iter([request])):
            names = {service.name for service in reply.list_services_response.service}
            break
    assert {SERVICE, "grpc.health.v1.Health"} <= names


async def test_token_is_asked_for_but_not_of_health(served: Any) -> None:
    config = rpc.ServerConfig(token="s3cret-token", grace=1.0)
    async with served(config) as (server, servicer), rpc.dial(address(server)) as channel:
        assert await rpc.is_serving(channel, SERVICE)
        for token in (None, "wrong", "s3cret-toke"):
            metadata = rpc.Credentials(token=token).metadata
            with pytest.raises(rpc.CallError) as caught:
                await rpc.call(generate(channel), say("hi"), timeout=300, metadata=metadata)
            assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED
            assert caught.value.consequence.abort
            assert "s3cret" not in str(caught.value)
        assert servicer.calls == 0
        credentials = rpc.Credentials(token="s3cret-token")
        assert "s3cret" not in repr(credentials)
        assert "s3cret" not in repr(config)
        response = await rpc.call(generate(channel), say("hi"), timeout=300, metadata=credentials.metadata)
    assert response.parts[0].text == "hi"


async def test_tls_and_mtls(served: Any, authority: Authority) -> None:
    cert, key = authority.issue("server")
    client_cert, client_key = authority.issue("client")
    config = rpc.ServerConfig(tls=rpc.Tls(cert, key, authority.path), health_port=free_port(), grace=1.0)
    async with served(config) as (server, _):
        with_certificate = rpc.Credentials(tls=rpc.Tls(client_cert, client_key, authority.path))
        async with rpc.dial(address(server), with_certificate) as channel:
            response = await rpc.call(generate(channel), say("hi"), timeout=300)
            assert response.parts[0].text == "hi"
        for credentials in (rpc.Credentials(tls=rpc.Tls(ca=authority.path)), rpc.PLAIN):
            async with rpc.dial(address(server), credentials) as channel:
                with pytest.raises(rpc.CallError) as caught:
                    await rpc.call(generate(channel), say("hi"), timeout=300)
                assert caught.value.code is grpc.StatusCode.UNAVAILABLE
        async with rpc.dial(f"127.0.0.1:{config.health_port}") as channel:
            assert await rpc.is_serving(channel, SERVICE)
            with pytest.raises(rpc.CallError) as caught:
                await rpc.call(generate(channel), say("hi"), timeout=300)
            assert caught.value.code is grpc.StatusCode.UNIMPLEMENTED


async def test_a_renewed_certificate_is_served_without_a_restart(served: Any, authority: Authority) -> None:
    cert, key = authority.issue("server")
    async with served(rpc.ServerConfig(tls=rpc.Tls(cert, key), grace=1.0)) as (server, _):
        successor = Authority(authority.folder, "next authority")
        trusting_next = rpc.Credentials(tls=rpc.Tls(ca=successor.path))
        async with rpc.dial(address(server), trusting_next) as channel:
            with pytest.raises(rpc.CallError):
                await rpc.call(generate(channel), say("hi"), timeout=300)
        successor.issue("server")
        async with rpc.dial(address(server), trusting_next) as channel:
            response = await rpc.call(generate(channel), say("renewed"), timeout=300)
    assert response.parts[0].text == "renewed"


async def test_calls_in_flight_finish_while_the_server_drains(served: Any) -> None:
    async with served(rpc.ServerConfig(grace=60.0)) as (server, servicer), rpc.dial(address(server)) as channel:
        slow = asyncio.ensure_future(rpc.call(generate(channel), say("hold"), timeout=300))
        await servicer.held.wait()
        stopping = asyncio.ensure_future(server.stop())
        async with rpc.dial(address(server)) as newcomer:
            while await rpc.is_serving(newcomer):
                await asyncio.sleep(0.01)
        servicer.released.set()
        response = await slow
        await stopping
        with pytest.raises(rpc.CallError) as caught:
            await rpc.call(generate(channel), say("late"), timeout=2)
    assert response.parts[0].text == "hold"
    assert caught.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@pytest.mark.weekly
async def test_a_call_of_a_minute_survives_the_keepalive(served: Any) -> None:
    async with served() as (server, _), rpc.dial(address(server)) as channel:
        response = await rpc.call(generate(channel), say("sleep 62"), timeout=90)
    assert response.parts[0].text == "sleep 62"


async def test_a_taken_port_is_a_clear_error(served: Any) -> None:
    async with served() as (server, _):
        with pytest.raises(rpc.BindError, match="cannot listen on"):
            async with served(rpc.ServerConfig(port=server.port)):
                pass
    # Linux lets two that allow it listen on one port, and sends each probe to either.
    config = rpc.ServerConfig(health_port=free_port())
    async with served(config):
        with pytest.raises(rpc.BindError, match="cannot listen on"):
            async with served(config):
                pass


async def test_a_port_file_that_cannot_be_written_is_a_clear_error(served: Any, tmp_path: Any) -> None:
    with pytest.raises(rpc.BindError, match="no/port: No such file"):
        async with served(rpc.ServerConfig(port_file=tmp_path / "no/port")):
            pass


_PROGRAM = """
import asyncio
from helpers.engine_cluster import free_port
from helpers.loopback import Obedient, SERVICE
from lyncean import rpc
from lyncean.model.v1 import model_pb2_grpc
from pathlib import Path
import sys

async def main():
    servicer = Obedient()
    held, released = (Path(sys.argv[1]).with_suffix(suffix) for suffix in (".held", ".released"))

    async def signs():
        await servicer.held.wait()
        held.touch()
        while not released.exists():
            await asyncio.sleep(0.02)
        servicer.released.set()

    task = asyncio.create_task(signs())
    add = lambda s: model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, s)
    server = rpc.Server(rpc.ServerConfig(port_file=Path(sys.argv[1])), SERVICE, add)
    await server.start()
    await server.set_serving()
    await server.run_until_signal()

asyncio.run(main())
"""


async def test_sigterm_drains_a_process(tmp_path: Any) -> None:
    port_file = tmp_path / "port"
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(port_file)], cwd=Path(__file__).parents[1])
    try:
        while not port_file.exists():
            assert process.poll() is None
            await asyncio.sleep(0.05)
        async with rpc.dial(f"127.0.0.1:{port_file.read_text().strip()}") as channel:
            slow = asyncio.ensure_future(rpc.call(generate(channel), say("hold"), timeout=300))
            while not port_file.with_suffix(".held").exists():
                await asyncio.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            async with rpc.dial(f"127.0.0.1:{port_file.read_text().strip()}") as newcomer:
                while await rpc.is_serving(newcomer):
                    await asyncio.sleep(0.02)
            port_file.with_suffix(".released").touch()
            assert (await slow).parts[0].text == "hold"
        assert await asyncio.to_thread(process.wait, 60) == 0
    finally:
        process.kill()


@click.command(cls=Command)
@server_options(50051)
def serve_command(config: rpc.ServerConfig) -> None:
    click.echo(repr(config))


@click.command(cls=Command)
@client_options
def client_command(credentials: rpc.Credentials) -> None:
    click.echo(repr(credentials))


def test_options_never_show_a_token_and_refuse_half_a_pair(tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    for command in (serve_command, client_command):
        done = CliRunner().invoke(command, ["--token-file", str(token)])
        assert done.exit_code == 0
        assert "s3cret" not in done.output
        token.write_text("s3cret\n")
    empty = tmp_path / "empty"
    empty.touch()
    done = CliRunner().invoke(client_command, ["--token-file", str(empty)])
    assert done.exit_code == 2
    assert "is empty" in done.output
    done = CliRunner().invoke(serve_command, ["--tls-cert", str(token)])
    assert done.exit_code == 2
    assert "--tls-key" in done.output


def test_token_from_the_environment() -> None:
    done = CliRunner().invoke(client_command, [], env={"LYNCEAN_TOKEN": "bad\x01token"})
    assert done.exit_code == 2
    assert "header" in done.output


async def test_a_stream_without_the_token_is_refused_before_it_says_anything(served: Any) -> None:
    async with served(rpc.ServerConfig(token="s3cret", grace=1.0)) as (server, _), rpc.dial(address(server)) as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        stream = stub.ServerReflectionInfo(timeout=300)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    "args",
    [
        ("scorer", "serve"),
        ("model-server", "serve", "--backend", "demo"),
        ("tool-server", "serve", "examples/counter_tools.py"),
    ],
)
def test_whoever_reads_the_port_may_send_a_signal(args: tuple[str, ...], tmp_path: Any) -> None:
    command = [sys.executable, "-c", SIGNALLED, *args, "--port", "0", "--port-file", str(tmp_path / "port")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "port").exists()
