"""Real processes for the engine's tests: model servers, a scorer, orchestrators."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from helpers import commands
from helpers.python_path import python_path
from helpers.same_results import results_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OUTCOMES = ("scored", "unparsed", "refused", "rejected", "unjudged", "failed")


def wait_for(condition: Callable[[], Any], seconds: float = 300.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.01)
    raise AssertionError("waited in vain")


class Server:
    """A process that writes its port to a file; `kill`, `stop`, `start` again on the same port."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.command = command
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, *flags: str) -> Server:
        file = self.folder / "port"
        file.unlink(missing_ok=True)
        ports = ["--port", str(self.port), "--port-file", str(file)]
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [*self.command, *ports, *flags], stdout=output, stderr=output, env=environment()
            )
        wait_for(lambda: file.exists() or self.process is None or self.process.poll() is not None)
        assert file.exists(), (self.folder / "output").read_text()
        self.port = int(file.read_text())
        return self

    def mend(self, *flags: str) -> None:
        """Starts it again without these flags."""
        self.kill()
        self.command = [word for word in self.command if word not in flags]
        self.start()

    def signal(self, number: int) -> None:
        assert self.process
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Cluster:
    """Everything that one test starts; `close` ends it.

    Attributes:
        before: Words before every command that is started from now on, for example a namespace to enter.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before: Sequence[str] = ()
        self.servers: list[Server] = []
        self.runs: list[subprocess.Popen[str]] = []

    def model(self, *flags: str, port: int = 0) -> Server:
        folder = self.folder / f"model{len(self.servers)}"
        command = [*self.before, sys.executable, str(HERE / "engine_server.py"), "--log", str(folder / "calls"), *flags]
        server = Server(folder, command)
        server.port = port
        self.servers.append(server.start())
        return server

    def scorer(self) -> Server:
        folder = self.folder / f"scorer{len(self.servers)}"
        server = Server(folder, [*self.before, sys.executable, "-m", "scorer", "serve"]).start()
        self.servers.append(server)
        return server

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [*self.before, sys.executable, "-m", "orchestrator", *arguments]
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.runs.append(process)
        return process

    def ended(self, process: subprocess.Popen[str], code: int = 0, timeout: float = 120.0) -> str:
        """Waits for the end and returns stderr and stdout; fails on another exit code."""
        out, err = process.communicate(timeout=timeout)
        assert process.returncode == code, f"exit {process.returncode}\n{err}\n{out}"
        return err + out

    def orchestrator(self, *arguments: str, code: int = 0) -> str:
        """Runs to the end in this process, which has loaded everything already; returns and fails as `ended` does."""
        if self.before or _in_a_loop():
            return self.ended(self.start(*arguments), code)
        return commands.orchestrator(*arguments, folder=self.folder, code=code)

    def under_way(self, servers: list[Server], scorer: Server, *arguments: str, answered: int) -> subprocess.Popen[str]:
        """Starts the run `run` and waits until so many calls are answered."""
        process = self.start(*self.words("run", servers, scorer, *arguments))
        wait_for(lambda: self.answered() >= answered)
        return process

    def eval(self, run: str, servers: list[Server], scorer: Server, *arguments: str, code: int = 0) -> str:
        return self.orchestrator(*self.words(run, servers, scorer, *arguments), code=code)

    def words(self, run: str, servers: list[Server], scorer: Server, *arguments: str) -> list[str]:
        endpoint = ",".join(server.address for server in servers)
        task = [] if "--task" in arguments else ["--task", "toy"]
        data = [] if "--data" in arguments else ["--synthetic"]
        return ["eval", *task, *data, "--endpoint", endpoint, "--scorer", scorer.address, "--run", run, *arguments]

    def calls(self) -> Counter[str]:
        """Every call that any model server has answered."""
        logs = [server.folder / "calls" for server in self.servers]
        return Counter(word for log in logs if log.exists() for word in log.read_text().split())

    def answered(self, run: str = "run") -> int:
        """Calls in a run's log."""
        path = self.folder / run / "responses.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def results(self, run: str) -> bytes:
        return results_of(self.folder / run)

    def counts(self, run: str, task: str = "toy") -> dict[str, int]:
        counts: dict[str, int] = json.loads(self.results(run))["tasks"][task]["counts"]
        assert counts["planned"] == sum(counts[name] for name in OUTCOMES)
        return counts

    def lines(self, run: str, name: str = "responses.jsonl") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / run / name).read_text().splitlines()]

    def whole(self, expected: bytes, rows: int = 120) -> None:
        """Fails unless `run` has these results, and one response and verdict for each row."""
        assert self.results("run") == expected
        for name in ("responses.jsonl", "verdicts.jsonl"):
            lines = self.lines("run", name)
            assert len({line["key"] for line in lines}) == len(lines) == rows, name

    def close(self) -> None:
        for process in self.runs:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for server in self.servers:
            if server.process and server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)
            server.kill()


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def environment() -> dict[str, str]:
    path = python_path(HERE.parent, HERE / "toy", ROOT)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
