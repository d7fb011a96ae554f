"""A tool that never returns: its server ends nevertheless."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from helpers.engine_cluster import Server

from lyncean.rpc import dial, is_serving
from lyncean.tool.v1 import tool_pb2 as pb, tool_pb2_grpc

HUNG = '''
import pathlib
import threading

from tool_server.kit import Tools


class Hung(Tools):
    def wait(self) -> str:
        """Wait."""
        pathlib.Path(__file__).with_name("entered").touch()
        threading.Event().wait()
        return ""
'''


@pytest.mark.skipif(sys.platform == "win32", reason="a process is ended by SIGTERM")
async def test_a_tool_that_never_returns_does_not_hold_up_the_end(tmp_path: Path) -> None:
    (tmp_path / "hung.py").write_text(HUNG)
    command = [sys.executable, "-m", "tool_server", "serve", str(tmp_path / "hung.py"), "--grace", "0"]
    server = Server(tmp_path / "server", command).start()
    try:
        async with dial(server.address) as channel:
            while not await is_serving(channel, "lyncean.tool.v1.ToolService"):
                await asyncio.sleep(0.05)
            call = tool_pb2_grpc.ToolServiceStub(channel).CallTool(pb.CallToolRequest(name="wait"))
            waiting = asyncio.ensure_future(call.code())
            while not (tmp_path / "entered").exists():
                await asyncio.sleep(0.02)
            server.signal(signal.SIGTERM)
            assert server.process
            assert await asyncio.to_thread(server.process.wait, 60) == 0
            await waiting
    finally:
        server.kill()
