"""The command as users run it: a process, its port, its signals and its exit codes."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from helpers.model_process import process, request, serving
from helpers.refused_servers import refused

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc import CallError, call, dial, is_serving
from model_server.service import NAME

ROOT = Path(__file__).resolve().parents[2]
SLOW = """
import pathlib, sys, time
from model_server.kit import Model, main

class Slow(Model):
    name = "slow"
    def load(self):
        while not pathlib.Path(sys.argv[0]).with_suffix(".loaded").exists():
            time.sleep(0.02)
    def generate(self, request):
        pathlib.Path(sys.argv[0]).with_suffix(".asked").touch()
        while not pathlib.Path(sys.argv[0]).with_suffix(".answer").exists():
            time.sleep(0.02)
        return "done"

main(Slow)
"""
STUCK = """
import pathlib, sys, time
from model_server.kit import Model, main

class Stuck(Model):
    name = "stuck"
    def generate(self, request):
        pathlib.Path(sys.argv[0]).with_suffix(".asked").touch()
        while True:
            time.sleep(0.02)

main(Stuck)
"""
BUSY = """
import pathlib, sys
import re2
from model_server.kit import Model, main

class Busy(Model):
    name = "busy"
    def load(self):
        pattern = re2.compile("(a+)(b|c)?d")
        pathlib.Path(sys.argv[0]).with_suffix(".loading").touch()
        while True:
            pattern.search(20000 * "a")
    def generate(self, request):
        return ""

main(Busy)
"""
HOSTILE = """
from model_server.kit import Model, main

class Hostile(Model):
    name = "echo\\nserving x\\x1b]0;owned\\x07\\x9b31m\\u202eeman\\r"
    def generate(self, request):
        return ""

main(Hostile)
"""


async def test_binds_first_loads_then_drains(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    with process(str(script), port_file=tmp_path / "port") as (started, port):
        async with dial(f"127.0.0.1:{port}") as channel:
            stub: Any = model_grpc.ModelServiceStub(channel)
            assert await is_serving(channel)
            assert not await is_serving(channel, NAME)
            with pytest.raises(CallError, match="loading"):
                await call(stub.GetModelInfo, model.GetModelInfoRequest(), timeout=300)
            script.with_suffix(".loaded").touch()
            await serving(channel)
            running = asyncio.ensure_future(call(stub.Generate, request("x"), timeout=300))
            while not script.with_suffix(".asked").exists():
                await asyncio.sleep(0.02)
            started.send_signal(signal.SIGTERM)
            async with dial(f"127.0.0.1:{port}") as newcomer:
                while await is_serving(newcomer):
                    await asyncio.sleep(0.02)
            script.with_suffix(".answer").touch()
            assert (await running).parts[0].text == "done"  # what was in flight is answered
            assert await asyncio.to_thread(started.wait, 20) == 0


async def test_a_model_that_never_ends_does_not_keep_the_process(tmp_path: Path) -> None:
    script = tmp_path / "stuck.py"
    script.write_text(STUCK)
    with process(str(script), "--grace", "0.5", port_file=tmp_path / "port") as (started, port):
        async with dial(f"127.0.0.1:{port}") as channel:
            stub: Any = model_grpc.ModelServiceStub(channel)
            await serving(channel)
            stuck = asyncio.ensure_future(call(stub.Generate, request("x"), timeout=300))
            while not script.with_suffix(".asked").exists():
                await asyncio.sleep(0.02)
            started.send_signal(signal.SIGTERM)
            with pytest.raises(CallError):
                await stuck
            assert await asyncio.to_thread(started.wait, 40) == 0


async def test_a_signal_during_loading_ends_at_once(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    with process(str(script), port_file=tmp_path / "port") as (started, port):
        # Who answers looks out for signals; the port's file is written a moment before.
        async with dial(f"127.0.0.1:{port}") as channel:
            assert not await is_serving(channel, NAME)
        started.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(started.wait, 20) == 0


async def test_a_signal_in_the_midst_of_native_code_is_no_crash(tmp_path: Path) -> None:
    """Ending a thread inside C++ with the interpreter, as torch's while weights load, aborts the process."""
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    with process(str(script), port_file=tmp_path / "port") as (started, _):
        while not script.with_suffix(".loading").exists():
            assert started.poll() is None
            await asyncio.sleep(0.02)
        started.send_signal(signal.SIGTERM)
        _, stderr = await asyncio.to_thread(started.communicate, None, 60)
        assert (started.returncode, "terminate" in stderr) == (0, False), stderr


async def test_the_demo_and_its_metrics(tmp_path: Path) -> None:
    command = ["-m", "model_server", "serve", "--backend", "demo", "--model", "constant:1"]
    command += ["--metrics-port", "0"]
    with process(*command, port_file=tmp_path / "port") as (started, port):
        assert started.stderr
        (url,) = re.findall(r"metrics on (\S+)", started.stderr.readline())
        async with dial(f"127.0.0.1:{port}") as channel:
            await serving(channel)
            stub: Any = model_grpc.ModelServiceStub(channel)
            reply = await call(stub.Generate, request("what?"), timeout=300)
            assert reply.parts[0].text == "1"
            page = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())
            assert 'lyncean_calls_total{code="OK",method="Generate"} 1.0' in page


async def test_the_example_server(tmp_path: Path) -> None:
    script = ROOT / "examples/constant_server.py"
    assert len(script.read_text().splitlines()) < 60
    with process(str(script), port_file=tmp_path / "port") as (_, port):
        async with dial(f"127.0.0.1:{port}") as channel:
            await serving(channel)
            stub: Any = model_grpc.ModelServiceStub(channel)
            reply = await call(stub.Generate, request("what?"), timeout=300)
            assert reply.parts[0].text == "The answer is A."
            scores = await call(
                stub.Likelihood,
                model.LikelihoodRequest(
                    messages=request("what?").messages, continuations=["The answer is A.", "The answer is B."]
                ),
                timeout=300,
            )
            assert [score.is_greedy for score in scores.scores] == [True, False]
            assert scores.scores[0].logprob > scores.scores[1].logprob


def fails(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "model_server", "serve", "--port", "0", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("Error: ")
    return line


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert port in fails("--backend", "demo", "--port", port)
        assert port in fails("--backend", "demo", "--metrics-port", port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::", "[::]"])
async def test_addresses_of_ipv6(host: str, tmp_path: Path) -> None:
    command = ["-m", "model_server", "serve", "--backend", "demo", "--host", host]
    command += ["--health-port", "0", "--metrics-port", "0"]
    with process(*command, port_file=tmp_path / "port") as (_, port):
        async with dial(f"127.0.0.1:{port}") as channel:  # the unspecified address takes calls of both kinds
            await serving(channel)


def test_where_nothing_can_be_bound_or_written(tmp_path: Path) -> None:
    assert "metrics port 0.0.0.256:9433" in fails("--backend", "demo", "--host", "0.0.0.256", "--metrics-port", "9433")
    assert "no/port: No such file" in fails("--backend", "demo", "--port-file", str(tmp_path / "no/port"))


def test_templates_that_are_none(tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    for data, message in (
        (b"\xff\xfe", "cannot be read as text"),
        (b"{% for m in messages %}\n{{ oops", "template cannot be used, line 2"),
    ):
        template.write_bytes(data)
        assert message in refused("--backend", "transformers", "--model", "demo", "--chat-template", str(template))


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    assert "constant:TEXT" in fails("--backend", "demo", "--model", "qwen")
    assert "needs --model" in fails("--backend", "transformers")
    assert "config.json" in refused("--backend", "transformers", "--model", str(tmp_path))


def test_the_demo_model_without_torch_says_what_does_without() -> None:
    arguments = "['serve', '--backend', 'transformers', '--model', 'demo', '--port', '0']"
    code = f"import sys; sys.modules['torch'] = None; from model_server.cli import main; main({arguments})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1] == (
        "Error: torch is not installed: pip install 'lyncean[transformers]'; --model demo:hash does without"
    )


def test_the_start_line_holds_no_control_characters_of_a_models_name(tmp_path: Path) -> None:
    script = tmp_path / "hostile.py"
    script.write_text(HOSTILE)
    with process(str(script), port_file=tmp_path / "port") as (server, port):
        assert server.stderr
        lines = [server.stderr.readline() for _ in range(2)]
        server.send_signal(signal.SIGTERM)
        lines += server.stderr.readlines()
        assert server.wait(timeout=30) == 0
    assert (
        lines[1] == f"model-server: serving echo serving x\\x1b]0;owned\\x07\\x9b31m\\u202eeman on 127.0.0.1:{port}\n"
    )
    assert all(line.strip().isprintable() for line in lines)
