"""The samples that a run asks. Ways of asking fewer of them derive from `Part`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.engine.accounting import Accounting
from orchestrator.engine.ledger import Stopping
from orchestrator.run.arguments import shard_of
from orchestrator.run.plan import Plan
from orchestrator.run_folder import key_table
from orchestrator.run_folder.cut import FINISH_CUT
from orchestrator.run_folder.files import MANIFEST
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.manifest import read
from orchestrator.run_folder.planned_rows import PlannedRows
from orchestrator.samples import Sample


class Part:
    """All samples of a plan, or those of its shard."""

    _planned: PlannedRows | None = None

    def __init__(self, plan: Plan) -> None:
        self._plan, self._shard = plan, shard_of(plan.request.shard)

    @property
    def expected(self) -> int | None:
        """Number of items if all rows are like the first ones; None if unknown."""
        total = 0
        for task in self._plan.tasks:
            rows = self._plan.rows_of(task)
            if rows is None:
                return None
            items = sum(bool(turn.scoring) for sample in self._plan.first_samples(task) for turn in sample.turns)
            total += items * rows * self._plan.request.repeats
        return round(total / self._shard[1]) if self._shard else total

    @property
    def identity(self) -> dict[str, Any]:
        """Fields that it adds to the identity of a run."""
        return {}

    @property
    def stopping(self) -> Stopping | None:
        """Tells the engine to stop; None if every sample is asked."""
        return None

    def outlook(self) -> list[str]:
        """Returns lines on the precision or the stop to expect, for `--dry-run`."""
        return []

    def wanted(self, sample: str) -> bool:
        """Returns whether a sample that is not sent yet is to be sent."""
        return not self._shard or key_table.shard_of(sample, self._shard[1]) == self._shard[0]

    def begin(self, run: Path) -> None:
        """Writes further inputs of the results into the run folder; none if every sample is asked."""

    def load(self, log: RunLog, identity: Mapping[str, Any], accounting: Accounting) -> None:
        """Takes the state of the run folder, before anything is asked; counts the items that are passed over."""
        if (log.path / MANIFEST).exists() and FINISH_CUT in read(log.path):
            return  # an answer that has a verdict may be left to finish
        name = self._plan.name_of_samples(identity)
        self._planned = PlannedRows(log, name, self._plan.names, accounting.pass_over, self._shard)

    def samples(self) -> Iterator[Sample]:
        """Yields the remaining samples."""
        return self._plan.samples(self._planned)

    def close(self) -> None:
        """Closes its files; no samples follow."""
        if self._planned:
            self._planned.close()

    def finish(self, run: Path, planned: Mapping[str, int]) -> dict[str, Any]:
        """Returns fields of the manifest, once all items `planned` by task are settled.

        Raises:
            IncompleteError: If an item that it needs has no result.
        """
        return {"planned": dict(planned)}
