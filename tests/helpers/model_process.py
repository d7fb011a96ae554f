"""A model server as a process of its own, and what is asked of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import is_serving
from model_server.service import NAME

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def process(*command: str, port_file: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Starts a server and waits for its port."""
    started = subprocess.Popen(
        [sys.executable, *command, "--port", "0", "--port-file", str(port_file)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        until = time.monotonic() + 300
        while not port_file.exists():
            assert started.poll() is None, started.communicate()[1]
            assert time.monotonic() < until
            time.sleep(0.02)
        yield started, int(port_file.read_text())
    finally:
        started.kill()
        started.communicate()


def request(text: str) -> model.GenerateRequest:
    message = model.Message(role=model.ROLE_USER, parts=[model.Part(text=text)])
    return model.GenerateRequest(messages=[message])


async def serving(channel: Any) -> None:
    until = time.monotonic() + 300
    while not await is_serving(channel, NAME):
        assert time.monotonic() < until
        await asyncio.sleep(0.02)
