"""Runs a suite: one cell after the other, each an ordinary run that is resumed by the same command."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from lyncean.errors import UserError, printable
from lyncean.model.v1 import model_pb2 as model
from orchestrator.compare import gate
from orchestrator.errors import ConfigError, EngineError, IncompleteError, LimitError, UnreachableError
from orchestrator.report import Reports
from orchestrator.run import checks, evaluate, resume
from orchestrator.run.local_server import LocalServers
from orchestrator.run.plan import Plan
from orchestrator.run.servers import Targets, connect_scorer
from orchestrator.run_folder import manifest as run_manifest
from orchestrator.run_folder.files import has_results
from orchestrator.run_folder.metrics import OUTCOMES, counts, unasked
from orchestrator.run_folder.reader import open_run
from orchestrator.run_folder.remote import grace
from orchestrator.suite import record as records
from orchestrator.suite.file import CLUSTER, Cell, Suite
from orchestrator.suite.record import Record, RecordedCell
from orchestrator.suite.terminal import show_headlines

_DEFECT = EngineError.exit_code
_MISTAKE = ConfigError.exit_code
_NO_MODEL = "give `model`, a checkpoint, or `endpoint`, H:P of a server"
_NO_MODEL_HERE = f"`{CLUSTER}` alone is for `orchestrator submit --suite`: to evaluate it from here {_NO_MODEL}"


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell and the plan of its run."""

    cell: Cell
    plan: Plan

    @property
    def path(self) -> Path:
        """Its run folder."""
        return Path(str(self.plan.request.run))


@dataclass
class Session:
    """State that outlasts one pass over a suite whose checkpoints are watched.

    Attributes:
        local: Servers that are started here.
        plans: Plans by their inputs except the model: the data of a task are opened once.
        settled: Cells that this process ran or passed over, and that the same command would not go on with.
        stopped: Whether a signal ended the last pass.
    """

    local: LocalServers
    plans: dict[str, Plan] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    stopped: bool = False


def plan(suite: Suite, folder: Path, known: dict[str, Plan] | None = None) -> list[PlannedCell]:
    """Plans every cell, so that a mistake ends the suite before a cell is run.

    Args:
        suite: The suite.
        folder: Its folder.
        known: Earlier plans, to which new ones are added.

    Raises:
        SuiteError: A cell cannot be run as it is written; names file, line and cell.
        EngineError: A benchmark fails.
    """
    known = {} if known is None else known
    planned = []
    for cell in suite.cells:
        request = replace(cell.request, run=str(folder / cell.name))
        if not {"model", "endpoint"} & cell.places.keys():
            raise suite.error(cell, _NO_MODEL_HERE if cell.cluster else _NO_MODEL, cell.model_place)
        if request.endpoint and {"model", "model_options"} & cell.places.keys():
            raise suite.error(cell, "it has an endpoint and a model to serve: leave one out", cell.model_place)
        try:
            Targets.of(request)
        except UserError as error:
            raise suite.error(cell, error, cell.model_place) from error
        # The data of a task are opened once, not for every model.
        word = repr(replace(request, run=None, model="", model_options=(), endpoint=()))
        if word not in known:
            try:
                known[word] = evaluate.planned(request)
            except UserError as error:
                if error.exit_code != _MISTAKE:
                    raise
                raise suite.error(cell, error, cell.task_place) from error
        planned.append(PlannedCell(cell, replace(known[word], request=request)))
    _check_tasks(suite, planned)
    return planned


def _check_tasks(suite: Suite, planned: Sequence[PlannedCell]) -> None:
    """Raises if a task is in two cells of one model, or a condition is about a task or metric that no cell has."""
    seen: dict[tuple[str, str, str], Cell] = {}
    for planned_cell in planned:
        cell = planned_cell.cell
        for name in planned_cell.plan.names:
            other = seen.setdefault((cell.model, cell.variant, name), cell)
            if other is not cell:
                raise suite.error(cell, f"{name} is in {other.task} already: leave one out", cell.task_place)
    names = {name for _, _, name in seen}
    for condition in suite.conditions:
        if condition.task and condition.task not in names:
            known = ", ".join(sorted(names))
            raise suite.file.error(
                f"{condition.text!r} is about a task that is not here: {known}", "gate", "conditions"
            )
    metrics = [spec for planned_cell in planned for specs in planned_cell.plan.metrics().values() for spec in specs]
    known_names = {word.casefold() for spec in metrics for word in (spec.name, spec.metric)}
    for condition in suite.conditions:
        name = condition.name.casefold()
        of_gate = gate.compares(condition) or condition.name in OUTCOMES
        if not of_gate and not any(word.startswith(name) for word in known_names):
            known = ", ".join(dict.fromkeys(spec.name for spec in metrics))
            raise suite.file.error(f"no task has the metric of {condition.text!r}: {known}", "gate", "conditions")


async def run(suite: Suite, folder: Path, console: Console) -> Record:
    """Runs every cell that is not complete and returns the ends of all; an error of one does not end the others.

    Raises:
        SuiteError: It cannot be run as it is written; nothing was run then.
        ConfigError: The folder is damaged.
        RunWriteError: It cannot be written.
    """
    grace.renew()
    async with LocalServers() as local:
        return await run_pass(suite, folder, console, Session(local))


async def run_pass(suite: Suite, folder: Path, console: Console, session: Session) -> Record:
    """Runs every cell that is not complete and not settled; otherwise as `run`."""
    planned = plan(suite, folder, session.plans)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise ConfigError(f"--run {folder} cannot be made: {failure.strerror}") from failure
    record = recorded(suite, planned, records.read(folder) if (folder / records.FILE).exists() else None, folder)
    record.save(folder)
    cells = {cell.name: cell for cell in record.cells}
    unusable: dict[str, tuple[int, str]] = {}
    last: dict[str, RecordedCell] = {}
    before = ""
    for number, planned_cell in enumerate(planned, 1):
        kept = cells[planned_cell.cell.name]
        if kept.name in session.settled:
            continue
        console.print(f"cell {number} of {len(planned)}: {kept.name}", style="bold", highlight=False)
        if (
            kept.model != before and planned_cell.cell.checkpoint is None
        ):  # a checkpoint may be loaded in place of another
            await session.local.stop("model_server")
        before = kept.model
        if kept.model in unusable:
            kept.exit_code, why = unusable[kept.model]
            kept.error = f"not tried: {why}"
            console.print(kept.error, style="red", highlight=False, soft_wrap=True)
            continue
        error = await _run_cell(planned_cell, kept, console, session.local, last)
        record.save(folder)
        if not isinstance(error, IncompleteError):
            session.settled.add(kept.name)
        if isinstance(error, UnreachableError) or (
            isinstance(error, EngineError)
            and not isinstance(error, IncompleteError)
            and session.local.broken("model_server")
        ):
            # The model's next cells would wait in vain for the same server.
            unusable[kept.model] = error.exit_code, kept.error
        if grace.ending():  # however the cell ended
            session.stopped = True
            break
    _check_models(planned, cells, last)
    record.save(folder)
    return record


async def _run_cell(
    planned_cell: PlannedCell, kept: RecordedCell, console: Console, local: LocalServers, last: dict[str, RecordedCell]
) -> BaseException | None:
    """Runs a cell, records its end and returns its error; `last` gets the cell run last of each model."""
    checkpoint = planned_cell.cell.checkpoint
    request = records.hash_of(planned_cell.plan.request, checkpoint.fingerprint if checkpoint else "")
    same, kept.request = kept.request == request, ""
    error: BaseException | None = None
    try:
        if same and await _is_complete(planned_cell, local):
            console.print("complete already", style="dim")
            checks.check(planned_cell.path, planned_cell.plan.request)
        else:
            last[kept.model] = kept
            await evaluate.run_plan(planned_cell.plan, console, Reports(show_headlines), local=local)
    except UserError as raised:
        error = raised
    except Exception as raised:
        # A defect of one cell; the others are still worth their hours.
        traceback.print_exc(file=sys.stderr)
        error = raised
    kept.exit_code = 0 if error is None else getattr(error, "exit_code", _DEFECT)
    kept.error = "" if error is None else _words(error)
    if has_results(planned_cell.path):
        kept.request = request
    if error is not None:
        console.print(f"{kept.name}: {kept.error}", style="red", highlight=False, soft_wrap=True)
    return error


def _words(error: BaseException) -> str:
    line = printable(" ".join(str(error).split()))
    return line if isinstance(error, UserError) else f"internal error: {type(error).__name__}: {line}"


async def _is_complete(planned_cell: PlannedCell, local: LocalServers) -> bool:
    """Returns whether a run is complete and would be the same now, as far as that is known without its model.

    Its model is the same by its request, which the caller compares, and by `_check_models`.
    """
    if not has_results(planned_cell.path):
        return False
    run = open_run(planned_cell.path)
    if counts(run.tasks)["failed"] or unasked(run.tasks) or resume.mistaken(planned_cell.path):
        return False
    manifest, request, targets = run.manifest, planned_cell.plan.request, Targets.of(planned_cell.plan.request)
    identity = planned_cell.plan.identity(model.GetModelInfoResponse(), {})
    there = manifest["identity"]
    if _json({**identity, "model": there["model"], "stages": there["stages"]}) != _json(there):
        return False
    if resume.code_of(manifest) != planned_cell.plan.code():
        return False
    async with connect_scorer(
        targets.scorer, request.credentials, request.patience, arguments=targets.scoring, local=local
    ) as (_, rules):
        now = {"rules": {rule.name: rule.sha256 for rule in rules.rules}, "judges": list(rules.judges)}
    return not resume.scored_otherwise(manifest, now)


def _json(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _check_models(
    planned: Sequence[PlannedCell], cells: Mapping[str, RecordedCell], last: Mapping[str, RecordedCell]
) -> None:
    """Refuses complete cells whose model is not the one that was asked last under that name."""
    complete = [
        (kept, run_manifest.read(planned_cell.path)["identity"]["model"])
        for planned_cell in planned
        if (kept := cells[planned_cell.cell.name]).exit_code in (0, LimitError.exit_code)
        and has_results(planned_cell.path)
    ]
    current: dict[str, Mapping[str, Any]] = {}
    for kept, identity in complete:
        if kept.model not in current or last.get(kept.model) is kept:
            current[kept.model] = identity
    for kept, identity in complete:
        if _json(identity) != _json(current[kept.model]):
            kept.exit_code, kept.request = _MISTAKE, ""
            kept.error = (
                f"its answers are of {_revision(identity)}, and {kept.model} is {_revision(current[kept.model])} now: "
                f"remove the folder {kept.name} to run it again"
            )


def _revision(identity: Mapping[str, Any]) -> str:
    return f"{identity.get('model_name')} {str(identity.get('model_revision') or 'without a revision')[:12]}"


def recorded(
    suite: Suite, planned: Sequence[PlannedCell], earlier: Record | None = None, folder: Path | None = None
) -> Record:
    """Returns the record of a suite's folder before its cells are run, from its earlier record if there is one.

    The end of a checkpoint's cell stays until the cell ends anew. Cells of checkpoints that are gone stay if they were
    begun.
    """
    before = {cell.name: cell for cell in earlier.cells} if earlier else {}
    cells = [_recorded(planned_cell, before.get(planned_cell.cell.name)) for planned_cell in planned]
    planned_names = {cell.name for cell in cells}
    for cell in before.values():
        if cell.step is None or cell.name in planned_names or folder is None or not (folder / cell.name).exists():
            continue
        if cell.exit_code not in (0, LimitError.exit_code) and not Path(cell.checkpoint).exists():
            cell.exit_code, cell.error = _MISTAKE, f"{cell.checkpoint} is gone before all of it was asked"
        cells.append(cell)
    steps = {cell.model: -1 if cell.step is None else cell.step for cell in cells}
    cells.sort(key=lambda cell: steps[cell.model])  # stable: a checkpoint's cells stay in the suite's order
    return Record(suite.name, suite.baseline, ",".join(one.text for one in suite.conditions), cells)


def _recorded(planned_cell: PlannedCell, before: RecordedCell | None) -> RecordedCell:
    cell, checkpoint = planned_cell.cell, planned_cell.cell.checkpoint
    kept = RecordedCell(cell.name, cell.model, cell.variant, planned_cell.plan.names, before.request if before else "")
    if checkpoint is not None:
        kept.step, kept.checkpoint, kept.fingerprint = checkpoint.step, str(checkpoint.path), checkpoint.fingerprint
        if before is not None:
            kept.exit_code, kept.error = before.exit_code, before.error
    return kept
