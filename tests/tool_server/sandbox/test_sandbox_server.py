"""`tool-server sandbox` as a process: sessions over real gRPC, made anew by another process after its end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from helpers.engine_cluster import Server, environment
from helpers.trajectories import png

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, dial, is_serving
from lyncean.tool.v1 import tool_pb2 as pb, tool_pb2_grpc
from lyncean.vocabulary.tool_results import result_sha256

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="code is closed in by Linux: run the tests there")
WITHOUT_LANDLOCK = Path(__file__).parents[2] / "helpers" / "without_landlock.py"
COMMAND = [sys.executable, "-m", "tool_server", "sandbox"]
CODES = (
    "import time\nx = {str(n) for n in range(9)}\nprint(image_1.size, x, time.time())",
    "def more(n):\n    return Image.new('L', (n, n))\nmore(5)",
    "display(more(6)); print(sorted(x), undefined)",
)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "server", [*COMMAND, "--grace", "0"])
    server.start()
    yield server
    server.kill()


def _pieces(response: pb.CallToolResponse) -> list[str | bytes]:
    return [part.image.data if part.HasField("image") else part.text for part in response.content]


async def _ready(channel: grpc.aio.Channel) -> tool_pb2_grpc.ToolServiceAsyncStub:
    while not await is_serving(channel, "lyncean.tool.v1.ToolService"):
        await asyncio.sleep(0.05)
    return tool_pb2_grpc.ToolServiceStub(channel)  # type: ignore[no-any-return]


async def _called(
    stub: tool_pb2_grpc.ToolServiceAsyncStub, number: int, done: list[pb.CallToolResponse]
) -> pb.CallToolResponse:
    """Makes the call of a number after the earlier ones."""
    arguments = [json.dumps({"code": code}) for code in CODES]
    earlier = [
        pb.EarlierCall(
            name="python", arguments=argument, images=1, result_sha256=result_sha256(_pieces(result), result.is_error)
        )
        for argument, result in zip(arguments, done, strict=False)
    ]
    request = pb.CallToolRequest(
        name="python", arguments=arguments[number], images=[model.Image(data=png(8, 4))], history=earlier[:number]
    )
    return await stub.CallTool(request)


async def test_a_session_goes_on_in_another_process(sandbox: Server) -> None:
    done: list[pb.CallToolResponse] = []
    for number in range(len(CODES)):
        async with dial(sandbox.address) as channel:
            stub = await _ready(channel)
            done.append(await _called(stub, number, done))
            kept = await _called(stub, number, done)
        assert (done[-1].replayed, kept.replayed) == (number, number), "the process has ended in between"
        assert _pieces(kept) == _pieces(done[-1])
        sandbox.kill()
        sandbox.start()
    text, image, error = _pieces(done[2]) if len(done[2].content) == 3 else (*_pieces(done[2]), "")
    assert str(_pieces(done[0])[0]).startswith("(8, 4) {'")
    assert [done[number].is_error for number in range(3)] == [False, False, True]
    assert isinstance(text, bytes)
    assert "NameError: name 'undefined' is not defined" in str(image) + str(error)


async def test_a_result_that_cannot_be_made_again_is_told(sandbox: Server) -> None:
    async with dial(sandbox.address) as channel:
        stub = await _ready(channel)
        other = pb.CallToolResponse(content=[model.Part(text="another result")])
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _called(stub, 1, [other])
    error = CallError.from_rpc(caught.value)
    assert (error.code, error.reason) == (grpc.StatusCode.ABORTED, "replay_differs")


def test_where_code_cannot_be_closed_in_the_server_does_not_start() -> None:
    command = [sys.executable, str(WITHOUT_LANDLOCK), *COMMAND, "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 2
    assert "only seccomp, rlimits hold" in done.stderr
    assert "Traceback" not in done.stderr


def test_its_help_teaches() -> None:
    done = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True, env=environment())
    text = " ".join(done.stdout.split())
    for piece in ("variables are kept between calls", "--tools grpc:", "does not start", "no secret"):
        assert piece in text
