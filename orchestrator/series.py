"""Evaluates the checkpoints of a training from Python: `from orchestrator import Series`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lyncean.errors import UserError
from orchestrator.api import Results, load, run_async
from orchestrator.compare.series import Change
from orchestrator.errors import ConfigError, EngineError, IncompleteError, LimitError
from orchestrator.run.console import Terminal
from orchestrator.run.local_server import LocalServers
from orchestrator.run.servers import raced
from orchestrator.suite import bucket, checkpoints, record as records, run as suites
from orchestrator.suite.checkpoints import Found
from orchestrator.suite.file import SuiteFile, of_file
from orchestrator.suite.outputs import board_of
from orchestrator.suite.record import Record
from orchestrator.suite.run import Session
from orchestrator.suite.watch import Pages, held

_KINDS: Mapping[int | None, type[UserError]] = {1: EngineError, 2: ConfigError}
"""Exit code of an incomplete cell -> error."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One checkpoint that was evaluated.

    Attributes:
        name: Its name in the series.
        step: Its training step.
        results: Its results by cell: the task, or task-variant.
        changes: Its comparison with the baseline, of each variant; empty for the first checkpoint.
    """

    name: str
    step: int
    results: Mapping[str, Results] = field(repr=False)
    changes: Sequence[Change]

    @property
    def alarm(self) -> str:
        """Reason why the gate's rule over the whole training reports a fall, "" if it does not."""
        return "; ".join(change.why for change in self.changes if change.alarm)


class Series:
    """A training whose checkpoints are evaluated on the tasks of a suite, as by `eval --suite --checkpoints`.

    As a context manager it keeps its scorer running from one checkpoint to the next.

    Args:
        suite: The suite's file.
        run: The suite's folder, or its URL, such as s3://bucket/night; default: runs/NAME.
        progress: True prints progress.

    Attributes:
        run: The suite's folder on this machine, uploaded to the URL if there is one.

    Raises:
        SuiteError: The file is wrong.
    """

    def __init__(self, suite: str | Path, run: str | Path | None = None, *, progress: bool = False) -> None:
        self._file = SuiteFile.read(Path(suite))
        self._place = str(run) if run is not None else str(Path("runs") / Path(suite).stem)
        self.run = bucket.folder_of(self._place)
        self._console = Terminal(quiet=not progress, markup=False)
        self._kept: LocalServers | None = None

    def __enter__(self) -> Series:
        self._kept = LocalServers()
        return self

    def __exit__(self, *_: object) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            run_async(kept.stop("scorer"))

    def evaluate(self, checkpoint: str | Path, step: int | None = None) -> Evaluated:
        """Evaluates a checkpoint to the end and writes the suite's page; the same call again resumes.

        Args:
            checkpoint: Its folder; nothing may write to it any more.
            step: Its training step; default: the number in the folder's name.

        Raises:
            ConfigError: It is not a checkpoint, another one of the series has its step, or its cells failed.
            IncompleteError: Not every item has an answer: the same call resumes.
            RunBusyError: Another process writes to the suite's folder.
            RemoteError: The bucket cannot be read, or at the end not be written.
        """
        with bucket.kept(self._place) as (_, guards), held(self.run):
            entry = _entry(Path(checkpoint), step, self.run)
            suite = of_file(self._file, checkpoints=[entry])

            async def work() -> Record:
                async with contextlib.AsyncExitStack() as stack:
                    local = self._kept
                    if local is None:
                        local = await stack.enter_async_context(LocalServers())
                    stack.push_async_callback(local.stop, "model_server")
                    return await suites.run_pass(suite, self.run, self._console, Session(local))

            async def guarded() -> Record:
                return await raced(work(), *(guard() for guard in guards))

            record = run_async(guarded())
            Pages(self.run, self._console)(record)
        cells = [cell for cell in record.cells if cell.step == entry.step]
        for cell in cells:
            if cell.exit_code not in (0, LimitError.exit_code):
                raise _KINDS.get(cell.exit_code, IncompleteError)(f"{cell.name}: {cell.error}")
        results = {cell.name.removeprefix(f"{entry.name}-"): load(self.run / cell.name) for cell in cells}
        changes = [one for one in board_of(record, self.run).changes if one.model == entry.name]
        return Evaluated(entry.name, entry.step, results, changes)


def _entry(path: Path, step: int | None, run: Path) -> Found:
    known = checkpoints.step_of(path.absolute())
    if not (path / "config.json").is_file():
        raise ConfigError(f"{path} is not a checkpoint: config.json is missing")
    if step is None and known is None:
        raise ConfigError(f"{path} has no step in its name, as step_100 has: give step=N")
    if known is not None and step in (None, known[1]):
        name, step = known
        checkpoints.check_name(path, name)
    else:
        name = f"step_{step}"
    entry = checkpoints.made(path, name, int(step or 0))
    if (run / records.FILE).exists():
        for cell in records.read(run).cells:
            if cell.step == entry.step and cell.model != name:
                raise ConfigError(f"{cell.model} of {run} is of step {step} too: give {path} another step")
            if cell.model == name and cell.step != entry.step:
                raise ConfigError(f"{name} of {run} is of step {cell.step}: rename the folder {path}")
    return entry
