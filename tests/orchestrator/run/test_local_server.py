"""Servers of our own: why one does not answer is said in its own words."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from helpers.engine_cluster import free_port, wait_for
from helpers.python_path import python_path

from lyncean.errors import UserError
from lyncean.rpc import PLAIN
from orchestrator.engine import Pool
from orchestrator.errors import ConfigError, EngineError, IncompleteError
from orchestrator.run import local_server
from orchestrator.run.arguments import model_arguments
from orchestrator.run.local_server import LocalServer, LocalServers

SERVER = """
import pathlib, sys, time
port = pathlib.Path(sys.argv[sys.argv.index("--port-file") + 1])
print("loading the weights", flush=True)
port.with_suffix(".partial").write_text("1")
port.with_suffix(".partial").replace(port)
{then}
"""

PARENT = """
import asyncio, pathlib, sys
from orchestrator.run.local_server import LocalServer

async def main():
    server = LocalServer("scorer")
    async with server:
        pathlib.Path(sys.argv[1]).write_text(str(server._process.pid))
        await asyncio.sleep(600)

asyncio.run(main())
"""


def alive(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> str:
    (folder / "late_server.py").write_text(SERVER.format(then=then))
    monkeypatch.setenv("PYTHONPATH", python_path(folder))
    return "late_server"


async def test_one_that_ends_after_its_port_is_bound_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    then = "from lyncean.rpc.parent import tell_parent; time.sleep(0.5); tell_parent('no such weights'); sys.exit(2)"
    name = module(tmp_path, monkeypatch, then)
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


async def test_one_that_aborts_repeats_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(
        tmp_path, monkeypatch, "time.sleep(0.5); print('out of threads', flush=True); __import__('os').abort()"
    )
    server = LocalServer(name)
    async with server:
        with pytest.raises(IncompleteError, match=r"has ended by SIGABRT \(out of threads\); every answer is safe"):
            await server.explain(IncompleteError("nobody answers at 127.0.0.1:1"))


NOISE = """
import atexit, os
os.write(2, b"loading\\n")
atexit.register(lambda: os.write(2, b"leaked 3 instances!\\nSee https://nowhere.example/en/latest/faq.html\\n"))
"""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--backend", "openai", "--model", "m", "--base-url", "nowhere"), "nowhere is not a URL: give --base-url"),
        (("--backend", "demo", "--max-bach", "1"), "No such option '--max-bach'"),
        (("--backend", "demo", "--tls-cert", __file__, "--tls-key", __file__), "PEM"),
    ],
)
async def test_a_library_that_prints_at_the_end_does_not_hide_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], reason: str
) -> None:
    if "openai" in arguments:
        pytest.importorskip("openai")
    (tmp_path / "sitecustomize.py").write_text(NOISE)
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path))
    server = LocalServer("model_server", arguments)

    async def served() -> None:
        async with server:  # the port may be bound before the mistake is found
            await server.watch()

    with pytest.raises(ConfigError, match="model-server has ended: .*" + reason) as caught:
        await served()
    assert "nowhere.example" not in str(caught.value)


async def test_one_that_gives_no_reason_is_named_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = LocalServer(module(tmp_path, monkeypatch, "time.sleep(0.3); print('bye', flush=True); sys.exit(5)"))
    async with server:
        with pytest.raises(EngineError, match="has ended: exit code 5; the last line of its log is 'bye'"):
            await server.explain(IncompleteError("nobody answers at 127.0.0.1:1"))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends a child with its parent")
def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "child")], stdout=subprocess.DEVNULL, start_new_session=True
    )
    child = int(wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text()))
    parent.kill()
    parent.wait()
    wait_for(lambda: not alive(child))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends a child with its parent")
def test_it_ends_if_the_parent_ended_before_it_asked() -> None:
    left = subprocess.Popen(
        [sys.executable, "-m", "scorer", "serve", "--port", "0"], env=os.environ | {"LYNCEAN_PARENT": "1"}
    )
    assert left.wait(60) == -signal.SIGTERM


CHECKPOINTS = """
import pathlib, sys
from model_server.backend import LoadError
from model_server.kit import Model, main

sys.argv.pop(1)
at = sys.argv.index("--model")
link = pathlib.Path(sys.argv.pop(at + 1))
sys.argv.pop(at)

class Loaded(Model):
    name = "loaded"
    def load(self):
        if not (link / "config.json").exists():
            raise LoadError(f"cannot load {link}: config.json is missing")
        self.revision = link.resolve().name
    def generate(self, request):
        return ""

main(Loaded)
"""


async def test_another_checkpoint_is_loaded_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loading_server.py").write_text(CHECKPOINTS)
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path))
    for name in ("step_1", "step_2", "step_3"):
        (tmp_path / name).mkdir()
    for name in ("step_1", "step_2"):
        (tmp_path / name / "config.json").touch()
    servers, identities = [], []
    async with LocalServers(reloads=True) as local:
        for name in ("step_1", "step_1", "step_2"):
            server, endpoint = await local.get("loading_server", ["--model", str(tmp_path / name)])
            pool = Pool([endpoint], PLAIN, concurrency=1, patience=60, notify=print)
            await pool.connect()
            servers.append(server)
            identities.append((pool.info.model_revision, pool.info.boot_id))
            await pool.close()
        assert servers[0] is servers[1] is servers[2]
        assert [revision for revision, _ in identities] == ["step_1", "step_1", "step_2"]
        assert identities[0] == identities[1]
        assert identities[2][1] != identities[0][1]
        # Other options need another process, and what cannot be loaded is named by its own path.
        server, _ = await local.get("loading_server", ["--model", str(tmp_path / "step_2"), "--grace", "3"])
        assert server is not servers[0]
        with pytest.raises(UserError, match=f"cannot load {tmp_path / 'step_3'}: config"):  # noqa: PT012
            server, _ = await local.get("loading_server", ["--model", str(tmp_path / "step_3"), "--grace", "3"])
            await server.watch()


async def test_a_server_inside_a_run_has_metrics_where_its_options_name_a_port() -> None:
    port = free_port()
    arguments = model_arguments("demo:hash", [f"metrics-port={port}"])
    async with LocalServer("model_server", arguments) as endpoint:
        await asyncio.to_thread(wait_for, lambda: serving(f"http://127.0.0.1:{port}/metrics"))
        assert endpoint.port != port


def serving(url: str) -> bool:
    try:
        return "lyncean_token_budget" in httpx.get(url, timeout=5).text
    except httpx.HTTPError:
        return False
