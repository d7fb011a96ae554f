"""Clients without a token that send half a request, and bodies and uploads that are too much."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from helpers.engine_cluster import environment, wait_for

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from model_server.backend import Backend, describe

pytest.importorskip("uvicorn")

from helpers.http_front import front

from lyncean_openai_front import body, connections, files
from lyncean_openai_front.chat import MAX_PARTS

HALF = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"


class Plain(Backend):
    """A model that only describes itself."""

    def info(self) -> model.GetModelInfoResponse:
        return describe({model.CAPABILITY_GENERATE: True}, model_name="plain", max_concurrency=4)


@contextlib.contextmanager
def beside(folder: Path, limit: int) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """Runs a model server with its front, in a process that may open so many files; gives its ports."""
    args = ["serve", "--backend", "demo", "--model", "hash", "--port", "0", "--port-file", str(folder / "port")]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "model_server", *args, "--http-port", "0"],
            stderr=output,
            env=environment() | {"TMPDIR": str(folder)},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        )
    try:
        wait_for(lambda: "serving" in (folder / "output").read_text() or process.poll() is not None)
        text = (folder / "output").read_text()
        yield process, int((folder / "port").read_text()), int(text.split("HTTP on 127.0.0.1:")[1].split()[0])
    finally:
        process.kill()
        process.wait()


def test_half_sent_heads_leave_http_and_grpc_answering(tmp_path: Path) -> None:
    with beside(tmp_path, 256) as (_, port, http), contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", http))).sendall(HALF)
        assert httpx.get(f"http://127.0.0.1:{http}/health", timeout=60).status_code == 200
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            info = model_grpc.ModelServiceStub(channel).GetModelInfo(model.GetModelInfoRequest(), timeout=60)
        assert info.model_name
        assert "Too many open files" not in (tmp_path / "output").read_text()


async def test_a_connection_without_a_whole_head_ends(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_WITHIN", 0.2)
    async with served(Plain()) as server, front(server.channel) as port:
        for sent in (b"", HALF, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET "):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            with contextlib.suppress(ConnectionResetError):
                await asyncio.wait_for(reader.read(), 60)
            writer.close()
        async with httpx.AsyncClient() as client:  # a connection that goes on with whole requests stays
            assert [(await client.get(f"http://127.0.0.1:{port}/health")).status_code for _ in range(3)] == [200] * 3


async def test_a_body_that_does_not_arrive_is_refused(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_WITHIN", 0.2)

    async def slow() -> Any:
        yield b"{"
        await asyncio.sleep(5)

    async with served(Plain()) as server, front(server.channel) as port, httpx.AsyncClient(timeout=50) as client:
        reply = await client.post(f"http://127.0.0.1:{port}/v1/chat/completions", content=slow())
    assert (reply.status_code, reply.json()["error"]["code"]) == (408, "request_timeout")


async def test_a_request_of_too_many_messages_is_refused_by_its_number(served: Any) -> None:
    async with served(Plain()) as server, front(server.channel) as port, httpx.AsyncClient(timeout=60) as client:
        name = (await server.info()).model_name
        many = {"model": name, "messages": [{"role": "user", "content": "hi"}] * (MAX_PARTS + 1)}
        of_items = {
            "model": name,
            "input": [{"type": "reasoning"}] * (MAX_PARTS + 1) + [{"role": "user", "content": "hi"}],
        }
        for path, sent in (("chat/completions", many), ("responses", of_items)):
            reply = await client.post(f"http://127.0.0.1:{port}/v1/{path}", json=sent)
            assert (reply.status_code, reply.json()["error"]["code"]) == (400, "too_many_parts")


async def test_nested_settings_without_an_end_are_refused(served: Any) -> None:
    async with served(Plain()) as server, front(server.channel) as port, httpx.AsyncClient(timeout=60) as client:
        name, nested = (await server.info()).model_name, 900 * '{"a":' + "1" + 900 * "}"
        body = '{"model": "%s", "messages": [{"role": "user", "content": "hi"}], "chat_template_kwargs": %s}'
        reply = await client.post(f"http://127.0.0.1:{port}/v1/chat/completions", content=body % (name, nested))
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "bad_field")


async def test_an_upload_without_room_is_refused_before_it_reaches_the_disk(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spooled: list[int] = []
    monkeypatch.setattr(files, "MAX_STORED_BYTES", 50_000_000)
    monkeypatch.setattr(files, "MultiPartParser", lambda *arguments, **more: spooled.append(1))
    head = {"content-type": "multipart/form-data; boundary=b", "content-length": "60000000"}
    async with served(Plain()) as server, front(server.channel) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = ["POST /v1/files HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in head.items())]
        writer.write("\r\n".join([*lines, "", "--b"]).encode())
        reply = await asyncio.wait_for(reader.readuntil(b"\r\n"), 60)
        writer.close()
    assert b" 429 " in reply
    assert not spooled


def test_the_folder_of_a_killed_process_goes_with_the_next_one(tmp_path: Path) -> None:
    def upload(port: int) -> None:
        form: dict[str, Any] = {"data": {"purpose": "batch"}, "files": {"file": ("a", b"{}")}}
        assert httpx.post(f"http://127.0.0.1:{port}/v1/files", **form, timeout=60).status_code == 200

    def folders() -> set[Path]:
        return set(tmp_path.glob("lyncean-batch-*"))

    with beside(tmp_path, 1024) as (process, _, port):
        upload(port)
        process.send_signal(signal.SIGKILL)
        process.wait()
    (left,) = folders()
    with beside(tmp_path, 1024) as (process, _, port):
        upload(port)
        (folder,) = folders()
        assert folder != left
        process.terminate()
        process.wait()
    assert not folders()
