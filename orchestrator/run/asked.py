"""Tasks of which the model was asked nothing: the command that made them does not end as complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

from lyncean.errors import printable
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.errors import ConfigError, IncompleteError
from orchestrator.run import results
from orchestrator.run_folder.files import RESPONSES
from orchestrator.run_folder.lines import EndedLine, Failure
from orchestrator.run_folder.metrics import unasked
from orchestrator.run_folder.mistakes import OF_SETTINGS
from orchestrator.run_folder.scanning import scan

_EARLIER = "earlier_turn"
_FIXES = {
    "outside_data": "copy the files there, since a link does not do",
    "endpoint_not_found": "start the model server with what is right",
    "endpoint_refused": "change what is sent with --generation or --extra-body, or the endpoint",
}
_DATA = "mend the data, then run the command in another folder, since a run is of one state of its data"
_LONGEST = 400


def check_asked(run: Path, again: str = "run the command again", *, shard: bool = False) -> None:
    """Makes sure that the model was asked for some item of each task of a complete run.

    Args:
        run: The run folder.
        again: What asks again.
        shard: Whether the run is a shard. It may hold a single item of a task, so only a mistake that left the whole
            shard unasked counts; the merged run shows the rest.

    Raises:
        ConfigError: The model was not asked, by a mistake in the command, the data's place or the server.
        IncompleteError: It was not asked for another reason.
    """
    tasks = results.read(run)["tasks"]
    never = unasked(tasks)
    if not never:
        return
    error = _most_frequent(run, never)
    mistake = bool(error.code) or error.reason in OF_SETTINGS
    planned = [task for task, task_results in tasks.items() if task_results["counts"]["planned"]]
    if shard and (never != planned or not mistake):
        return
    items = sum(tasks[task]["counts"]["planned"] for task in never)
    fix = f"{_FIXES.get(error.reason, 'change the command or the server')}, then {again}" if mistake else _DATA
    names = never[0] if len(never) == 1 else f"{never[0]} and {len(never) - 1} more"
    raise (ConfigError if mistake else IncompleteError)(
        f"{names}: the model was never asked, all {items:,} items are rejected ({error.reason}): "
        f"{shortened(error.message)}; {fix}"
    )


def _most_frequent(run: Path, tasks: Collection[str]) -> Failure:
    """Returns why most requests of some tasks were rejected."""
    outcomes: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], Failure] = {}
    for _, line in scan(run / RESPONSES, EndedLine):
        error = line.error
        if line.task in tasks and line.outcome == Outcome.REJECTED and error.reason != _EARLIER:
            outcomes[error.code, error.reason] += 1
            examples.setdefault((error.code, error.reason), error)
    return examples[outcomes.most_common(1)[0][0]] if outcomes else Failure("", "unknown", "")


def shortened(message: str) -> str:
    """Returns a message of others as one line that is not too long."""
    line = printable(" ".join(message.split()))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
