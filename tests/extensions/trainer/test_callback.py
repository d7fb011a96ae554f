"""transformers' Trainer with our callback: each checkpoint is evaluated, and training is not held up or ended by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers import commands
from helpers.engine_cluster import Server, free_port
from helpers.python_path import python_path
from helpers.same_results import results_of

from orchestrator.run import servers
from orchestrator.suite import checkpoints

pytest.importorskip("torch", reason="pip install 'lyncean[transformers]'")
pytest.importorskip("accelerate", reason="pip install 'lyncean[transformers]'")

import lyncean.transformers_import  # noqa: F401  (before the callback: PEFT, if installed, imports torchvision)
import lyncean_trainer
from lyncean.transformers_import import torch, transformers
from lyncean_trainer import EvaluateCheckpoints

tf: Any = transformers

ROWS = 20
TASK = "task: letters\ndata: rows.csv\nid: id\nquestion: question\noptions: [A, B]\nanswer: answer\nanswer_is: letter\n"
SUITE = 'tasks: [letters.yaml]\noptions: {{scorer: "{scorer}"}}\ngate: {{baseline: previous, conditions: [no_fall]}}\n'


class Tiny(torch.nn.Module):
    """A line through some points."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.line(x) - labels).square().mean()}


class Configured(tf.TrainerCallback):  # type: ignore[misc]
    """Writes the config.json that a model of transformers writes, before others see the checkpoint."""

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        (Path(args.output_dir) / f"checkpoint-{state.global_step}" / "config.json").write_text("{}")


def train(folder: Path, steps: int, *more: Any, resume: bool = False, **options: Any) -> Any:
    """Trains as long, with a checkpoint at each second step."""
    arguments = tf.TrainingArguments(
        str(folder / "out"), max_steps=steps, save_steps=2, report_to="none", use_cpu=True, disable_tqdm=True,
        logging_strategy="no", dataloader_pin_memory=False, per_device_train_batch_size=1, **options,
    )  # fmt: skip
    points = [{"x": torch.tensor([float(n)]), "labels": torch.tensor([2.0 * n])} for n in range(8)]
    trainer = tf.Trainer(Tiny(), arguments, train_dataset=points, callbacks=[Configured(), *more])
    trainer.train(resume_from_checkpoint=resume)
    return trainer


@pytest.fixture
def folder(tmp_path: Path, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a suite; a checkpoint says A after steps 2 and 6, and B after 4: A is right in nine of ten."""

    def arguments(model: str, _: Sequence[str] | Mapping[str, object]) -> list[str]:
        letter = "B" if int(Path(model).name.partition("-")[2]) % 4 == 0 else "A"
        return ["--backend", "demo", "--model", f"constant:{letter}", "--name", Path(model).name]

    monkeypatch.setattr(servers, "model_arguments", arguments)
    rows = "".join(f"{n},row {n}: which?,red,green,{'A' if n % 10 else 'B'}\n" for n in range(ROWS))
    (tmp_path / "rows.csv").write_text("id,question,A,B,answer\n" + rows)
    (tmp_path / "letters.yaml").write_text(TASK)
    (tmp_path / "night.yaml").write_text(SUITE.format(scorer=shared_scorer.address))
    return tmp_path


def results(folder: Path, run: str) -> dict[str, bytes]:
    cells = json.loads((folder / run / "suite.json").read_text())["cells"]
    return {cell["name"]: results_of(folder / run / cell["name"]) for cell in cells}


def keys_of(folder: Path, run: str) -> list[str]:
    return sorted(
        f"{path.parent.name} {json.loads(line)['key']}"
        for path in (folder / run).glob("*/responses.jsonl")
        for line in path.read_text().splitlines()
    )


def test_callback_and_watcher_give_the_same_curve(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SETTLED", 0.0)
    callback = EvaluateCheckpoints(folder / "night.yaml", folder / "called")
    train(folder, 4, callback)
    # Resumed: what is evaluated is not asked again.
    before = keys_of(folder, "called")
    train(folder, 6, EvaluateCheckpoints(folder / "night.yaml", folder / "called"), resume=True)
    assert set(before) < set(keys_of(folder, "called"))
    assert len(keys_of(folder, "called")) == len(set(keys_of(folder, "called"))) == 3 * ROWS
    args = ["eval", "--suite", "night.yaml", "--checkpoints", "out/checkpoint-*", "--until", "now", "--run", "watched"]
    commands.orchestrator(*args, folder=folder, code=4)
    assert results(folder, "called") == results(folder, "watched")
    assert len(results(folder, "called")) == 3
    assert "fell from checkpoint-2" in caplog.text
    assert "checkpoint-6" in (folder / "called/series.html").read_text()


def test_each_checkpoint_is_evaluated_before_it_is_removed(folder: Path) -> None:
    train(folder, 6, EvaluateCheckpoints(folder / "night.yaml", folder / "run"), save_total_limit=1)
    assert [path.name for path in (folder / "out").glob("checkpoint-*")] == ["checkpoint-6"]
    assert len(results(folder, "run")) == 3


def test_a_checkpoint_that_takes_too_long_does_not_hold_the_training(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lyncean_trainer, "PATIENCE", 0.0)
    callback, trained = EvaluateCheckpoints(folder / "night.yaml", folder / "run"), threading.Event()
    monkeypatch.setattr(callback.series, "evaluate", lambda *_: trained.wait())
    monkeypatch.setattr(callback, "on_train_end", lambda *_, **__: trained.set())
    train(folder, 6, callback, save_total_limit=1)
    assert "checkpoint-2 is not evaluated after 0 s and will be removed: raise save_total_limit=1" in caplog.text


def test_training_goes_on_while_a_checkpoint_is_evaluated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    callback, trained = EvaluateCheckpoints(folder / "night.yaml", folder / "run"), threading.Event()
    evaluate, seen = callback.series.evaluate, []

    def waits(*args: Any) -> Any:
        assert trained.wait(60), "the training waits for its checkpoint"
        seen.append(args[1])
        return evaluate(*args)

    monkeypatch.setattr(callback.series, "evaluate", waits)

    class Last(tf.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == args.max_steps:
                trained.set()

    train(folder, 6, callback, Last())
    assert seen == [2, 4, 6]
    assert len(results(folder, "run")) == 3


def test_a_checkpoint_that_cannot_be_evaluated_is_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(servers, "model_arguments", lambda *_: ["--backend", "demo", "--no-such-option"])
    trainer = train(folder, 2, EvaluateCheckpoints(folder / "night.yaml", folder / "run"))
    assert trainer.state.global_step == 2
    assert "checkpoint-2 is not evaluated: " in caplog.text
    assert "1 checkpoints are not evaluated; goes on with them: orchestrator eval --suite" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_training_that_is_interrupted_and_begun_again_keeps_one_evaluator(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback, again = EvaluateCheckpoints(folder / "night.yaml", folder / "run"), threading.Event()
    evaluate, seen = callback.series.evaluate, []

    def waits(*args: Any) -> Any:
        assert again.wait(60), "the second training did not begin"
        seen.append(threading.current_thread().name)
        return evaluate(*args)

    class Interrupts(tf.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 3:
                raise KeyboardInterrupt

    class Begins(tf.TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            again.set()

    monkeypatch.setattr(callback.series, "evaluate", waits)
    with pytest.raises(KeyboardInterrupt):
        train(folder, 4, callback, Interrupts())
    before = callback._worker
    train(folder, 4, callback, Begins(), resume=True)
    assert callback._worker is None
    assert before is not None
    assert not before.is_alive()
    assert len(seen) == 3, "checkpoint-2 is looked at once more"
    assert len(keys_of(folder, "run")) == len(set(keys_of(folder, "run"))) == 2 * ROWS


def test_a_checkpoint_that_was_removed_meanwhile_is_not_an_error(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(folder, 4, EvaluateCheckpoints(folder / "night.yaml", folder / "run"))
    before = keys_of(folder, "run")

    class Removes(tf.TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            callback._add(2, folder / "out" / "checkpoint-2")

    callback = EvaluateCheckpoints(folder / "night.yaml", folder / "run")
    shutil.rmtree(folder / "out" / "checkpoint-2")
    train(folder, 6, Removes(), callback, resume=True)
    assert "checkpoint-2 was removed before it was looked at" in caplog.text
    assert "checkpoints are not evaluated" not in caplog.text
    assert set(before) < set(keys_of(folder, "run"))
    assert len(keys_of(folder, "run")) == len(set(keys_of(folder, "run"))) == 3 * ROWS
    assert len(results(folder, "run")) == 3


PROCESSES = """\
import sys
from pathlib import Path
import test_callback as tested
from lyncean_trainer import EvaluateCheckpoints
from orchestrator.run import servers
servers.model_arguments = lambda model, _: ["--backend", "demo", "--model", "constant:A", "--name", Path(model).name]
folder = Path(sys.argv[1])
tested.train(folder, 6, EvaluateCheckpoints(folder / "night.yaml", folder / "run"), save_total_limit=1)
"""


@pytest.mark.weekly
@pytest.mark.timeout(900)
def test_a_training_of_two_processes_evaluates_each_checkpoint_once_before_it_is_removed(folder: Path) -> None:
    (folder / "script.py").write_text(PROCESSES)
    here = Path(__file__)
    path = os.pathsep.join([python_path(here.parents[3]), str(here.parent), str(here.parents[2])])
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    subprocess.run(
        [sys.executable, *launcher, "script.py", "."],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=True, timeout=800,
    )  # fmt: skip
    assert [path.name for path in (folder / "out").glob("checkpoint-*")] == ["checkpoint-6"]
    assert len(keys_of(folder, "run")) == len(set(keys_of(folder, "run"))) == 3 * ROWS
    assert len(results(folder, "run")) == 3


def test_one_process_of_several_evaluates(folder: Path) -> None:
    callback = EvaluateCheckpoints(folder / "night.yaml", folder / "run")
    other = type("State", (), {"is_world_process_zero": False, "global_step": 2})
    for event in (callback.on_train_begin, callback.on_save, callback.on_train_end):
        event(type("Arguments", (), {"output_dir": str(folder), "save_total_limit": 1}), other, None)
    assert not (folder / "run").exists()
