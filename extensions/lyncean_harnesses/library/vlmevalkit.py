"""VLMEvalKit's own scoring: the `evaluate` of its data sets, unchanged, in a process of its own.

Its code starts pools of processes, writes files beside its input and prints; none of that is for a server. Without a
judge: `exact_matching`, as VLMEvalKit has it. Run as a module this is that process: a JSON line in, one out.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lyncean_harnesses.library import CLOSED, HarnessError

PACKAGE = "vlmeval"
INSTALL = f"install VLMEvalKit, the module {PACKAGE}, beside orchestrator and scorer"
PREDICTION = "prediction"
"""Column of the answers."""

_SCORES = ("hit", "eval_score", "score")
"""Columns of the tables that it writes beside its input, for the score of an item."""

_SECONDS = 900
"""How long one evaluation may take."""


class Evaluated(NamedTuple):
    """What an evaluation came to.

    Attributes:
        metrics: Its metrics: "Overall", or "SPLIT Overall" where a table has several splits.
        scores: Index -> score of the item, where it writes one.
    """

    metrics: Mapping[str, float]
    scores: Mapping[str, float]


def evaluate(dataset: str, rows: Sequence[Mapping[str, str]]) -> Evaluated:
    """Evaluates answers to rows of a data set.

    Args:
        dataset: VLMEvalKit's name of it.
        rows: The rows as its table has them, without images, each with the column `prediction`.

    Raises:
        HarnessError: It is not installed, or its code raises.
    """
    found = _process().ask({"dataset": dataset, "rows": list(rows)})
    if "error" in found:
        raise HarnessError(f"VLMEvalKit cannot evaluate {dataset} without a judge: {found['error']}")
    return Evaluated(found["metrics"], found["scores"])


@cache
def runs_text() -> str:
    """Returns where the code of its data sets runs text as Python, "FILE:LINE calls NAME"; "" where it does not.

    Its data sets are one package, all of which is imported for any of them.
    """
    from lyncean_harnesses.library import task_code  # it reads YAML, which a scorer without such tasks never does

    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return ""
    folder = Path(spec.origin).parent
    return task_code.place_in([folder / "dataset" / "__init__.py"], [folder])


class _Process:
    """The process, which ends with this one."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lyncean-")
        judge = dict.fromkeys(("OPENAI_API_BASE", "OPENAI_BASE_URL"), CLOSED) | {"OPENAI_API_KEY": ""}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self._folder.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **judge, "LMUData": self._folder.name}, cwd=self._folder.name,
        )  # fmt: skip
        self._lock = threading.Lock()
        atexit.register(self.close)

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer to a question."""
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            late = threading.Timer(_SECONDS, self._process.kill)
            late.start()
            try:
                self._process.stdin.write(json.dumps(question) + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except OSError:
                line = ""
            finally:
                late.cancel()
        if not line:
            _process.cache_clear()
            self.close()
            return {"error": f"its process ended, or took more than {_SECONDS} s"}
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._folder.cleanup()


@cache
def _process() -> _Process:
    if importlib.util.find_spec(PACKAGE) is None:
        raise HarnessError("VLMEvalKit is not installed, whose own code is to score", fix=INSTALL)
    return _Process()


def _evaluate(folder: Path, name: str, rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    import pandas as pd
    from vlmeval import dataset as datasets
    from vlmeval.smp import dump, load

    table = pd.DataFrame(list(rows))
    predictions = table.pop(PREDICTION).tolist()
    table.to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    for kind in datasets.DATASET_CLASSES:
        if name in getattr(kind, "DATASET_MD5", {}):  # the table is the user's, whose digest the run records
            kind.DATASET_MD5 = {**kind.DATASET_MD5, name: None}
    dataset = datasets.build_dataset(name)
    answers = dataset.data.copy()
    if len(answers) != len(predictions):
        raise ValueError(f"it keeps {len(answers)} of {len(predictions)} rows")
    answers[PREDICTION] = predictions
    with tempfile.TemporaryDirectory(dir=folder) as place:
        file = str(Path(place) / f"model_{name}.xlsx")
        dump(answers, file)
        metrics = dict(_metrics(dataset.evaluate(file, model="exact_matching", nproc=1)))
        scores: dict[str, float] = {}
        for written in sorted(Path(place).iterdir()):
            with contextlib.suppress(Exception):  # not all that it writes is a table
                found = load(str(written))
                for column in _SCORES:
                    if "index" in found and column in found and len(found) <= len(answers):
                        scores |= {
                            str(index): float(score) for index, score in zip(found["index"], found[column], strict=True)
                        }
    if not metrics:
        raise ValueError("its evaluation returns no numbers")
    return {"metrics": metrics, "scores": scores}


def _metrics(found: Any, before: str = "") -> list[tuple[str, float]]:
    """Returns the numbers of what an evaluation returns: a table, whose words name its rows, or a dictionary."""
    if hasattr(found, "to_dict"):
        records = found.to_dict("records")
        named = []
        for record in records:
            words = [str(value) for value in record.values() if isinstance(value, str)]
            name = " ".join(words) if len(records) > 1 else ""
            named += _metrics({k: v for k, v in record.items() if not isinstance(v, str)}, name)
        return named
    flat = []
    for key, value in found.items() if isinstance(found, Mapping) else ():
        name = f"{before} {key}".strip()
        if isinstance(value, Mapping):
            flat += _metrics(value, name)
        elif hasattr(value, "__float__") and not isinstance(value, (str, bool)) and math.isfinite(float(value)):
            flat.append((name, float(value)))
    return flat


def main() -> None:
    """Answers questions until its input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import multiprocessing
    import multiprocessing.dummy

    # The same work in threads: its pools fork 16 processes for a single row.
    multiprocessing.Pool = lambda *_, **__: multiprocessing.dummy.Pool(1)
    for line in sys.stdin:
        question = json.loads(line)
        try:
            found = _evaluate(Path(sys.argv[1]), question["dataset"], question["rows"])
        except (Exception, SystemExit) as error:
            found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
