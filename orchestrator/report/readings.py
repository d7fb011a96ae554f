"""The reference's reading of a run beside the default one, where both were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.report.readings_item import PARITY_FOLDER, Compared, compared
from orchestrator.run_folder.files import has_results
from orchestrator.run_folder.metrics import Figure, figures, overall
from orchestrator.run_folder.reader import Run, open_run

_MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Readings:
    """Both readings of a run.

    Attributes:
        pairs: Each overall figure by the default rule and by the reference's.
        compared: The items that the two read differently.
    """

    pairs: Sequence[tuple[Figure, Figure]]
    compared: Compared


def readings(run: Run) -> Readings | None:
    """Returns both readings; None where `orchestrator score RUN --parity` was not run."""
    folder = run.path / PARITY_FOLDER
    if not run.tasks or not has_results(folder):
        return None
    other = open_run(folder)
    theirs = {(figure.task, figure.name): figure for figure in overall(figures(other.tasks))}
    ours = overall(figures(run.tasks))
    pairs = [(figure, theirs[figure.task, figure.name]) for figure in ours if (figure.task, figure.name) in theirs]
    return Readings(pairs, compared(run.path, _MOST_SHOWN))
