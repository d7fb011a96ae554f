"""A process that runs one command again and again, each time killed at a random call, and at last to its end.

`python tests/helpers/killed_runs.py RUN KILLS SEED OPTIONS [COMMANDS]`, the last two as JSON: parameters of
`orchestrator.evaluate`, and the commands of servers of tools, each of which is killed once, too, while a run calls it.
Each run is a child of its own that has only its imports from here.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import orchestrator.run.evaluate
import orchestrator.run.local_scorer
import orchestrator.run.results  # noqa: F401 - the children have it
from helpers.engine_cluster import Server
from orchestrator.api import evaluate
from orchestrator.run_folder.files import RESPONSES

MOST_LINES = 24
"""Lines of the log after which a run is killed, at most."""


def main() -> None:
    run, kills, seed, options = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    commands = json.loads(sys.argv[5]) if len(sys.argv) > 5 else []
    servers = [Server(run.parent / f"tools{number}", command).start() for number, command in enumerate(commands)]
    options |= {"tools": [*options["tools"], *(f"grpc:{server.address}" for server in servers)]} if servers else {}
    try:
        sys.exit(_killed(run, kills, seed, options, servers))
    finally:
        for server in servers:
            server.kill()


def _killed(run: Path, kills: int, seed: int, options: dict[str, object], servers: Sequence[Server]) -> int:
    """Kills runs and servers, and prints how many runs; returns the exit status of the last one."""
    numbers = random.Random(seed)
    killed = 0
    left = list(servers)
    while killed < kills:
        child = _start(run, options)
        lines = _lines(run) + numbers.randint(1, MOST_LINES)
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if _lines(run) >= lines:
                time.sleep(numbers.random() * 0.01)
                if left and killed >= kills * (len(servers) - len(left) + 1) // (len(servers) + 1):
                    server = left.pop()
                    server.kill()
                    server.start()
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                killed += 1
                break
            time.sleep(0.0005)
        else:
            break
    print(killed)
    _, status = os.waitpid(_start(run, options), 0)
    return os.waitstatus_to_exitcode(status)


def _start(run: Path, options: dict[str, object]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        evaluate(**options, run=run)
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)


def _lines(run: Path) -> int:
    try:
        return (run / RESPONSES).read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    main()
