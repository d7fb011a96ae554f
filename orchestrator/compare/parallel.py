"""Large runs are read in parallel, by a process each: `python -m orchestrator.compare.parallel RUN` is one of them.

Such a process writes to its standard output a line of JSON with its rules and what `Gathering.fill` takes of each task,
then the columns of the tasks; its error, should it have one, is the last line of its standard error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson

from lyncean.errors import UserError
from lyncean.rpc.parent import end_with_parent, with_parent
from orchestrator.compare import scores
from orchestrator.errors import EngineError
from orchestrator.run_folder.files import log_bytes
from orchestrator.run_folder.reader import Run, open_run

_LARGE = 1 << 28
"""Bytes of logs from which on a process of its own pays for its start."""


def read(runs: Sequence[Run]) -> list[scores.Scores]:
    """Reads the scores of runs (`scores.read`), large ones in parallel where there are processors for that.

    Raises:
        UserError: As `scores.read` does.
        EngineError: A process was ended from outside.
    """
    large = [log_bytes(run.path) >= _LARGE for run in runs]
    at_once = min(sum(large), _processors())
    if at_once < 2:
        return [scores.read(run) for run in runs]
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda run, is_large: (_read if is_large else scores.read)(run), runs, large))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _read(run: Run) -> scores.Scores:
    # -P: a file of the working folder must not be run in place of ours.
    command = [sys.executable, "-P", "-m", "orchestrator.compare.parallel", str(run.path)]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=with_parent(dict(os.environ))) as process,
    ):
        assert process.stdout is not None
        try:
            head = orjson.loads(process.stdout.readline())
            found = {task: scores.gathering(run, task) for task in head["tasks"]}
            for task, gathering in found.items():
                gathering.fill(head["tasks"][task], process.stdout)
        except (orjson.JSONDecodeError, EOFError):  # it ended before all of it was there
            code = process.wait()
            log.seek(0)
            raise _failure(run.path, code, log.read().decode(errors="replace")) from None
        finally:
            process.kill()
    return scores.scores_of(run, found, head["rules"])


def _failure(run: Path, code: int, said: str) -> UserError:
    last = (said.strip().splitlines() or ["it said nothing"])[-1]
    if code <= 0:
        return EngineError(f"the process that reads {run} was ended by signal {-code}; run the command again: {last}")
    error = UserError(last)
    error.exit_code = code
    return error


def main() -> None:
    """Reads one run and writes it out."""
    end_with_parent()
    out = sys.stdout.buffer
    try:
        found, rules = scores.gather(open_run(Path(sys.argv[1])))
    except UserError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    tasks = {task: gathering.head for task, gathering in found.items()}
    out.write(orjson.dumps({"tasks": tasks, "rules": rules}) + b"\n")
    for gathering in found.values():
        gathering.write(out)
    out.flush()


if __name__ == "__main__":
    main()
