"""lmms-eval's own command line over stored rows: `python tests/helpers/lmms_command.py JUDGE`, the base URL of a judge.

Each line of standard input is a job in JSON: `folders`, the name of a task -> its stored splits, which stand in for
what its configuration names, `name`, `model` (its option --model), `endpoint`, `options`, `plant` ("image" shrinks what
is sent, "reading" has the task's code read other answers), and `out`, the folder of the results and samples that the
command writes; `out`.log is what it prints, `out`.done is written at its end. Each job
runs in a process of its own, forked of one that has imported lmms-eval.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

SECONDS = 900
"""Time limit of one command, in seconds."""

FOLDERS: dict[str, str] = {}
"""Name of a task -> its stored splits."""


class Sound(dict[str, Any]):
    """Decoded audio, as datasets hands it over with torchcodec and without."""

    def get_all_samples(self) -> SimpleNamespace:
        import torch

        return SimpleNamespace(data=torch.tensor(self["array"])[None], sample_rate=self["sampling_rate"])


def prepare(judge: str) -> None:
    """Imports lmms-eval and has it read stored rows and ask our models; mends what 0.7.3 cannot load."""
    import datasets

    from lyncean.media.clips import read_samples
    from lyncean_harnesses.library import use_judge
    from lyncean_harnesses.library.lmms_eval import LIBRARY

    use_judge(judge)
    _ = LIBRARY.modules
    from lmms_eval import models
    from lmms_eval.api import samplers, task as tasks

    from helpers.lmms_models import Chat, Simple

    original = tasks.ConfigurableTask.__init__

    def make(task: Any, *more: Any, **named: Any) -> None:
        name = inspect.signature(original).bind(task, *more, **named).arguments["config"]["task"]
        splits = datasets.load_from_disk(FOLDERS[name])
        with mock.patch.object(datasets, "load_dataset", side_effect=lambda *_, **__: datasets.DatasetDict(splits)):
            original(task, *more, **named)
        if task.config.num_fewshot and not hasattr(task, "sampler"):  # 0.7.3 fails on these
            task.sampler = samplers.get_sampler("default")(list(task.fewshot_docs()), task, rnd=random.Random(1234))

    def decode(_: Any, value: dict[str, Any], *__: Any, **___: Any) -> dict[str, Any]:
        """Decodes audio without torchcodec, which needs FFmpeg's libraries on the machine."""
        samples, rate = read_samples(value["bytes"], 10**9)
        return Sound(array=samples, sampling_rate=rate, path=value["path"])

    snapshot = Path(os.environ["HF_HOME"]) / "snapshot"
    snapshot.mkdir(parents=True, exist_ok=True)
    tasks.snapshot_download = lambda *_, **__: str(snapshot)  # of films, which lie where the task's code looks
    tasks.ConfigurableTask.__init__ = make
    datasets.Audio.decode_example = decode
    models.get_model = lambda _, force_simple=False: Simple if force_simple else Chat
    time.sleep = lambda _: None  # some code waits before it asks a judge again


def plant(kind: str) -> None:
    """Changes how models ask or how answers are read, in this process."""
    from lmms_eval.api import task as tasks

    from helpers import harness_theirs

    if kind == "image":
        harness_theirs.SHRINK = 2
    elif kind == "reading":
        real = tasks.ConfigurableTask.process_results
        tasks.ConfigurableTask.process_results = lambda task, doc, results, *more: real(
            task, doc, [_misread(result) for result in results], *more
        )


def _misread(answer: Any) -> Any:
    """Returns what another reader makes of an answer: the last sign of a text, the least likely of options."""
    if isinstance(answer, tuple):
        return (-answer[0], answer[1])
    return answer.strip(")}. ")[-1:] if isinstance(answer, str) else answer


def run(job: dict[str, Any]) -> None:
    """Runs one command to its end, in a process of its own."""
    out = Path(job["out"])
    out.mkdir(parents=True)
    child = os.fork()
    if not child:
        with out.with_suffix(".log").open("w") as log, contextlib.suppress(BaseException):
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            from lmms_eval import __main__ as command

            plant(job.get("plant", ""))
            arguments = ["--model", job["model"], "--model_args", f"endpoint={job['endpoint']}", "--log_samples"]
            sys.argv = ["lmms_eval", *arguments, "--tasks", job["name"], "--output_path", str(out), *job["options"]]
            command.cli_evaluate()
        os._exit(0)
    timer = signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(SECONDS)
    os.waitpid(child, 0)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, timer)


if __name__ == "__main__":
    prepare(sys.argv[1])
    for line in sys.stdin:
        order = json.loads(line)
        FOLDERS.update(order["folders"])
        run(order)
        Path(order["out"]).with_suffix(".done").touch()
