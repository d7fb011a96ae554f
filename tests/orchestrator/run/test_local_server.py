"""Servers of our own: why one does not answer is said in its own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import ConfigError, IncompleteError
from orchestrator.run import local_server
from orchestrator.run.local_server import LocalServer

SERVER = """
import pathlib, sys, time
port = pathlib.Path(sys.argv[sys.argv.index("--port-file") + 1])
print("loading the weights", flush=True)
port.write_text("1")
{then}
"""


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> str:
    (folder / "late_server.py").write_text(SERVER.format(then=then))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return "late_server"


async def test_one_that_ends_after_its_port_is_bound_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(tmp_path, monkeypatch, "time.sleep(0.5); sys.exit(print('Error: no such weights') or 2)")
    server = LocalServer(name)
    async with server:
        with pytest.raises(ConfigError, match="late-server has ended: no such weights"):
            await server.explain(IncompleteError("nobody answers at 127.0.0.1:1"))


async def test_one_that_is_still_at_it_is_given_more_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "_ENDS_WITHIN", 0.1)
    server = LocalServer(module(tmp_path, monkeypatch, "time.sleep(60)"))
    async with server:
        with pytest.raises(IncompleteError, match="does not answer yet: loading the weights; give it longer by --pat"):
            await server.explain(IncompleteError("nobody answers at 127.0.0.1:1"))
