"""Evaluates the checkpoints of transformers' Trainer while it trains.

    trainer = Trainer(..., callbacks=[EvaluateCheckpoints("night.yaml")])

The result is the folder that `orchestrator eval --suite night.yaml --checkpoints 'output/checkpoint-*'` makes.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import transformers

from orchestrator import Series, UserError

_LOG = logging.getLogger(__name__)
_PREFIX = "checkpoint-"
PATIENCE = 300.0
"""Maximum seconds that a training waits before it removes a checkpoint; its other processes time out after 600."""


class EvaluateCheckpoints(transformers.TrainerCallback):
    """Evaluates each saved checkpoint on the tasks of a suite, in a thread beside the training.

    The training waits only in two cases: some minutes before it removes an unevaluated checkpoint (`save_total_limit`),
    and at its end for the remaining ones. A checkpoint that cannot be evaluated causes a warning; the training goes on.
    A resumed training first continues the interrupted evaluations, and repeats no request.

    The model is served on the device that the suite's `checkpoints` names.

    Args:
        suite: The suite's file.
        run: The suite's folder or URL; default: runs/NAME.

    Raises:
        SuiteError: The file is wrong.
    """

    def __init__(self, suite: str | Path, run: str | Path | None = None) -> None:
        self.series = Series(suite, run)
        self._suite, self._run = suite, run or self.series.run
        self._waiting: list[tuple[int, Path]] = []
        self._changed = threading.Condition()
        self._closed = False
        self._failed = 0
        self._worker: threading.Thread | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Starts with the existing checkpoints."""
        if not state.is_world_process_zero:
            return
        self._failed = 0
        if self._worker is None:  # else the worker of an interrupted training is still running
            self._closed = False
            self._worker = threading.Thread(target=self._work, name="lyncean-checkpoints", daemon=True)
            self._worker.start()
        checkpoints = ((_step(path), path) for path in Path(args.output_dir).glob(f"{_PREFIX}*"))
        for step, path in sorted((step, path) for step, path in checkpoints if step is not None):
            if step <= state.global_step:  # the training writes the others again
                self._add(step, path)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Queues the saved checkpoint."""
        if self._worker is None:
            return
        self._add(state.global_step, Path(args.output_dir) / f"{_PREFIX}{state.global_step}")
        if args.save_total_limit:
            # The next save removes the oldest checkpoint.
            with self._changed:
                if not self._changed.wait_for(lambda: len(self._waiting) < args.save_total_limit, PATIENCE):
                    _LOG.warning(
                        f"{self._waiting[0][1]} is not evaluated after {PATIENCE:.0f} s and will be removed: raise "
                        f"save_total_limit={args.save_total_limit}, or save less often"
                    )

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Waits for the remaining checkpoints."""
        if self._worker is None:
            return
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._worker.join()
        self._worker = None
        if self._failed:
            _LOG.warning(
                f"{self._failed} checkpoints are not evaluated; goes on with them: orchestrator eval --suite "
                f"{self._suite} --checkpoints '{args.output_dir}/{_PREFIX}*' --run {self._run} --until now"
            )

    def _add(self, step: int, path: Path) -> None:
        with self._changed:
            self._waiting.append((step, path))
            self._changed.notify_all()

    def _work(self) -> None:
        with self.series:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._closed)
                    if not self._waiting:
                        return
                    step, path = self._waiting[0]
                self._evaluate(path, step)
                with self._changed:
                    self._waiting.pop(0)
                    self._changed.notify_all()

    def _evaluate(self, path: Path, step: int) -> None:
        try:
            done = self.series.evaluate(path, step)
            if done.alarm:
                _LOG.warning(f"{path}: {done.alarm}")
        except Exception as error:  # a failed evaluation must not end the training
            if not path.exists():  # no later command can continue it
                _LOG.warning(f"{path} was removed before it was looked at; answers that it has given stay")
                return
            self._failed += 1
            message = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            _LOG.warning(f"{path} is not evaluated: {message}")


def _step(path: Path) -> int | None:
    number = path.name.removeprefix(_PREFIX)
    return int(number) if number.isdecimal() else None
