"""Names of the files of a run folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

MANIFEST = "manifest.json"
RESPONSES = "responses.jsonl"
VERDICTS = "verdicts.jsonl"
LABELS = "labels.jsonl"
RESULTS = "results.json"
PLANNED = ".planned"
BEYOND = "beyond.json"
"""Keys of items that were answered beyond the stop of a sequential run."""
AGAINST = "against.json"
"""Scores of the run that a sequential run is compared with."""
SHARE = "share.json"
"""Units of a run of a random share of its samples, with the scores of the runs that it is estimated from."""
PART = (AGAINST, BEYOND, SHARE)
"""Files of a run of a part of its samples, each only if it is needed."""
IMAGES = "images"
PARITY_FOLDER = "parity"
"""Folder in a run with the reference's reading of its answers."""
REPORTED_FOLDER = "reported"
"""Folder in an imported run with the verdicts of its original tool."""


def has_results(run: Path) -> bool:
    """Returns whether a run is complete: its results are written last."""
    return (run / RESULTS).is_file()


def has_verdicts(run: Path) -> bool:
    """Returns whether any item of a run has a verdict."""
    return (run / VERDICTS).stat().st_size > 0


def log_bytes(run: Path, logs: Iterable[str] = (RESPONSES, VERDICTS)) -> int:
    """Returns the bytes of some logs of a run together; a missing one counts 0."""
    paths = (run / name for name in logs)
    return sum(path.stat().st_size for path in paths if path.exists())


def find_runs(folder: Path, depth: int = 1) -> list[Path]:
    """Returns the run folders at most `depth` levels below a folder, itself included, by level and name."""
    return [manifest.parent for level in range(depth + 1) for manifest in sorted(folder.glob("*/" * level + MANIFEST))]
