"""Tools of MCP servers: real ones, and one that does what no server should, over stdio and HTTP."""

from __future__ import annotations

import contextlib
import functools
import http.server
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="pip install 'lyncean[mcp]'")

import grpc
from click.testing import CliRunner
from helpers.mcp_peer import TOOLS
from PIL import Image

import lyncean_mcp.http
from lyncean.errors import UserError
from lyncean.rpc import InternalFailure, OtherState, Unavailable
from lyncean.tool.v1 import tool_pb2 as pb, tool_pb2_grpc
from lyncean.vocabulary.tool_results import result_sha256
from lyncean_mcp import stdio
from lyncean_mcp.http import remote
from lyncean_mcp.images import image_arguments
from lyncean_mcp.stdio import child
from lyncean_mcp.toolset import McpTools
from tool_server.cli import main
from tool_server.sessions import CallRecord, Sessions, Work

PEER = Path(__file__).parents[2] / "helpers" / "mcp_peer.py"
IMAGES = ["size.image=base64", "size_of_bytes.image=bytes", "size_of_file.image=path", "show.image=base64"]


def picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (20, 10), "red").save(buffer, "PNG")
    return buffer.getvalue()


def make(environment: dict[str, str] | None = None, *, seconds: float = 60, images: list[str] = IMAGES) -> McpTools:
    transport = functools.partial(child, (sys.executable, "-S", str(PEER)), environment or {})
    return McpTools(transport, image_arguments(images, 7), True, seconds)


@pytest.fixture(scope="module")
def tools() -> Iterator[McpTools]:
    toolset = make({"GIVEN": "here"})
    yield toolset
    toolset.images.clear()


@pytest.fixture
def session(tools: McpTools) -> Iterator[Any]:
    opened = tools.open()
    yield opened
    opened.close()


def test_tools_are_listed_with_numbers_of_images(tools: McpTools) -> None:
    listed = {tool.name: tool for tool in tools.tools()}
    assert list(listed) == list(TOOLS)
    schema = json.loads(listed["size"].input_schema)
    assert schema["required"] == ["image"]
    assert schema["properties"]["image"]["type"] == "integer"
    assert schema["properties"]["image"]["description"].startswith("An image. Number of the image, from 1")
    assert tools.stateful
    assert make().revision == tools.revision != make(images=[]).revision


def test_images_by_base64_bytes_and_path(session: Any) -> None:
    images = [b"first", picture()]
    for name in ("size", "size_of_bytes"):
        assert session.call(name, '{"image": 2}', images).content == (f"{len(images[1])} bytes",)
        assert session.call(name, '{"image": 1}', images).content == ("5 bytes",)
    (text,) = session.call("size_of_file", '{"image": 2}', images).content
    path = Path(text.partition(" in ")[2])
    assert (path.read_bytes(), path.suffix) == (images[1], ".png")
    assert path.parent.stat().st_mode & 0o077 == 0
    assert session.call("size_of_file", '{"image": 2}', images).content == (text,)
    for number in (0, 3):
        refused = session.call("size", json.dumps({"image": number}), images)
        assert (refused.is_error, refused.content) == (True, (f"There is no image {number}: the last one is 2.",))


def test_two_servers_at_any_port_have_folders_of_their_own() -> None:
    first, second = (image_arguments(["size_of_file.image=path"], 0) for _ in range(2))
    files = [arguments.filled("size_of_file", {"image": 1}, [b"x"])["image"] for arguments in (first, second)]
    first.clear()
    assert [Path(file).exists() for file in files] == [False, True]
    second.clear()
    fixed = [image_arguments(["size_of_file.image=path"], 50_063).folder for _ in range(2)]
    assert fixed[0] == fixed[1], "a call that is made again names the same file"


def test_results_are_texts_and_images(session: Any) -> None:
    shown = session.call("show", '{"image": 1}', [picture()]).content
    assert shown == (
        picture(),
        "inside",
        "file:///b",
        "[content of type audio]",
        "[an image in a format that is not read]",
    )
    assert session.call("structured", "{}", []).content == ('{"answer": 7}',)
    failed = session.call("fail", "{}", [])
    assert (failed.is_error, failed.content) == (True, ("no such thing",))
    refused = session.call("refuse", "{}", [])
    assert (refused.is_error, refused.content) == (True, ("refused",))
    with pytest.raises(InternalFailure, match="could not call break: breakd"):
        session.call("break", "{}", [])
    with pytest.raises(InternalFailure, match="not base64"):
        session.call("not_base64", "{}", [])


def test_the_environment_is_what_was_named(session: Any) -> None:
    variables = json.loads(session.call("environment", "{}", []).content[0])
    assert {name: value for name, value in variables.items() if name != "LC_CTYPE"} == {"GIVEN": "here"}


def test_what_a_server_logs_does_not_reach_the_terminal_as_it_is(session: Any, caplog: Any) -> None:
    caplog.set_level("INFO")
    assert session.call("noise", "{}", []).content == ("quiet",)
    session.close()
    assert "MCP server: \\x1b[31mred" in caplog.text


def test_sessions_are_apart(tools: McpTools) -> None:
    one, other = tools.open(), tools.open()
    counts = [session.call("count", "{}", []).content[0] for session in (one, one, other, one)]
    one.close()
    other.close()
    assert counts == ["1", "2", "1", "3"]


def test_a_lost_session_is_made_anew(tools: McpTools) -> None:
    def work(*earlier: str) -> Work:
        history = [CallRecord("count", "{}", 0, result_sha256([text], False)) for text in earlier]
        return Work(CallRecord("count", "{}", 0), [], [], history, threading.Event())

    sessions = Sessions(tools, 2)
    first, replayed = sessions.call(work())
    assert (first.content, replayed) == (("1",), 0)
    second, replayed = sessions.call(work("1"))
    assert (second.content, replayed) == (("2",), 0)
    sessions.close_idle(0)
    third, replayed = sessions.call(work("1", "2"))
    assert (third.content, replayed) == (("3",), 2)
    with pytest.raises(Exception, match="gave another result"):
        sessions.call(work("1", "7"))
    sessions.close_idle(0)


def test_other_tools_than_at_the_start_end_the_run(tools: McpTools, session: Any) -> None:
    assert session.call("change", "{}", []).content == ("changed",)
    with pytest.raises(OtherState, match="lists other tools than at the start"):
        session.call("count", "{}", [])


@pytest.mark.parametrize("name", ["die", "hang", "flood"])
def test_a_server_that_ends_or_keeps_silent_fails_the_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE", 1 << 22)
    session = make(seconds=1 if name == "hang" else 60).open()
    with pytest.raises((InternalFailure, Unavailable)):
        session.call(name, "{}", [])
    session.close()


def test_no_process_is_left(tools: McpTools) -> None:
    def children() -> set[str]:
        mine = f"PPid:\t{os.getpid()}"
        return {
            file.parent.name
            for file in Path("/proc").glob("[0-9]*/status")
            if mine in file.read_text() and PEER.name in (file.parent / "cmdline").read_text()
        }

    before = children()
    session = tools.open()
    session.call("count", "{}", [])
    (started,) = children() - before
    session.close()
    assert started not in children()


@pytest.mark.parametrize(
    ("headers", "message"),
    [({}, "sent a message of more than"), ({"content-encoding": "gzip"}, "compresses its responses")],
)
def test_responses_at_a_url_are_bounded(headers: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(b" " * 100_000)

        def log_message(self, *args: Any) -> None:
            pass

    monkeypatch.setattr(lyncean_mcp.http, "MAX_MESSAGE", 1 << 20)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        with pytest.raises(UserError, match=message):
            McpTools(functools.partial(remote, url, 60), image_arguments([], 7), True, 60)
        server.shutdown()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--", "no-such-program"], "no-such-program is neither a program that can be run here nor the address"),
        (["--image", "size=base64", "--", "true"], "--image size=base64: write TOOL.ARGUMENT=FORM"),
        (["--image", "a.b=file", "--", "true"], "FORM is one of base64, bytes, path"),
        (["--image", "a.b=path", "http://127.0.0.1:1/mcp"], "--image with path is for a COMMAND"),
        (["--env", "A=1", "http://127.0.0.1:1/mcp"], "--env is for a COMMAND"),
        (["--env", "NO_SUCH_VARIABLE", "--", "true"], "--env NO_SUCH_VARIABLE: the variable is not set here"),
        (["--port", "0", "--", "true"], "the MCP server cannot be used"),
        (["--port", "0", "http://127.0.0.1:1/mcp"], "the MCP server cannot be used"),
        (["--port", "0", "--image", "nine.x=path", "--", sys.executable, "-S", str(PEER)], "there is no tool 'nine'"),
        (["--port", "0", "--image", "size.x=path", "--", sys.executable, "-S", str(PEER)], "size has no argument 'x'"),
    ],
)
def test_mistakes_are_one_line(args: list[str], message: str) -> None:
    done = CliRunner().invoke(main, ["mcp", *args])
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)


@contextlib.contextmanager
def served(tmp_path: Path, *args: str) -> Iterator[tool_pb2_grpc.ToolServiceStub]:
    """Runs `tool-server mcp` as a user does."""
    file = tmp_path / "port"
    command = [sys.executable, "-m", "tool_server", "mcp", "--port", "0", "--port-file", str(file), *args]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        lines = []
        while "listens" not in (line := process.stderr.readline()):
            assert line, "".join(lines)
            lines.append(line)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        with grpc.insecure_channel(f"127.0.0.1:{file.read_text().strip()}") as channel:
            yield tool_pb2_grpc.ToolServiceStub(channel)
        process.terminate()


def ask(stub: tool_pb2_grpc.ToolServiceStub, name: str, *history: pb.EarlierCall, **arguments: Any) -> Any:
    return stub.CallTool(pb.CallToolRequest(name=name, arguments=json.dumps(arguments), history=history))


def earlier(name: str, response: Any, **arguments: Any) -> pb.EarlierCall:
    digest = result_sha256([part.text for part in response.content], response.is_error)
    return pb.EarlierCall(name=name, arguments=json.dumps(arguments), result_sha256=digest)


SERVER = '''
import sys
from mcp.server.mcpserver import Image, MCPServer

server, notes = MCPServer("notes"), []

@server.tool()
def note(text: str) -> str:
    """Keeps a note."""
    notes.append(text)
    return ", ".join(notes)

@server.tool()
def dot() -> Image:
    """Returns an image."""
    return Image(data=bytes.fromhex("89504e470d0a1a0a"), format="png")

if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run()
'''


@pytest.mark.full
def test_a_server_of_the_package_over_stdio_and_http(tmp_path: Path) -> None:
    script = tmp_path / "notes.py"
    script.write_text(SERVER)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    remote = subprocess.Popen([sys.executable, str(script), str(port)], stderr=subprocess.DEVNULL)
    try:
        for args in (("--", sys.executable, str(script)), (f"http://127.0.0.1:{port}/mcp",)):
            while args[0].startswith("http") and not _answers(port):
                assert remote.poll() is None
                time.sleep(0.05)
            with served(tmp_path, *args) as stub:
                listed = stub.ListTools(pb.ListToolsRequest())
                assert [tool.name for tool in listed.tools] == ["note", "dot"]
                assert listed.stateful
                first = ask(stub, "note", text="a")
                assert first.content[0].text.endswith("a")
                second = ask(stub, "note", earlier("note", first, text="a"), text="b")
                assert second.content[0].text == first.content[0].text + ", b"
                assert second.replayed == 0
                assert ask(stub, "dot").content[0].image.data == b"\x89PNG\r\n\x1a\n"
                wrong = ask(stub, "note", text=1)
                assert wrong.is_error
    finally:
        remote.kill()
        remote.wait()


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.full
def test_a_published_server(tmp_path: Path) -> None:
    program = os.environ.get("MCP_SERVER_GIT") or shutil.which("mcp-server-git", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("pip install mcp-server-git")
    subprocess.run(["git", "init", "-q", tmp_path / "work"], check=True)
    (tmp_path / "work" / "a.txt").write_text("a")
    folder = str(tmp_path / "work")
    with served(tmp_path, "--env", "PATH", "--", program, "--repository", folder) as stub:
        assert "git_status" in [tool.name for tool in stub.ListTools(pb.ListToolsRequest()).tools]
        first = ask(stub, "git_status", repo_path=folder)
        assert "a.txt" in first.content[0].text
        assert not first.is_error
        added = ask(stub, "git_add", earlier("git_status", first, repo_path=folder), repo_path=folder, files=["a.txt"])
        assert not added.is_error
        # The repository is another than at the first call: what cannot be replayed is said.
        lost = (earlier("git_status", first, repo_path=folder), earlier("git_status", added, repo_path=folder))
        with pytest.raises(grpc.RpcError) as caught:
            ask(stub, "git_status", *lost, repo_path=folder)
        assert caught.value.code() is grpc.StatusCode.ABORTED
