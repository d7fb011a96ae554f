"""A process that runs one command again and again, each time killed at a random call, and at last to its end.

`python tests/helpers/killed_runs.py RUN KILLS SEED OPTIONS`, the last as JSON: parameters of `orchestrator.evaluate`.
Each run is a child of its own that has only its imports from here.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import orchestrator.run.evaluate
import orchestrator.run.local_scorer
import orchestrator.run.results  # noqa: F401 - the children have it
from orchestrator.api import evaluate
from orchestrator.run_folder.files import RESPONSES

MOST_LINES = 24
"""Lines of the log after which a run is killed, at most."""


def main() -> None:
    run, kills, seed, options = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    numbers = random.Random(seed)
    killed = 0
    while killed < kills:
        child = _start(run, options)
        lines = _lines(run) + numbers.randint(1, MOST_LINES)
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if _lines(run) >= lines:
                time.sleep(numbers.random() * 0.01)
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                killed += 1
                break
            time.sleep(0.0005)
        else:
            break
    print(killed)
    _, status = os.waitpid(_start(run, options), 0)
    sys.exit(os.waitstatus_to_exitcode(status))


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
