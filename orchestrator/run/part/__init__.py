"""The part of a plan's samples that a run asks: all, a shard, a random share, or as many as a decision needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.run_folder.notes import Note

if TYPE_CHECKING:
    from orchestrator.run.part.part import Part
    from orchestrator.run.plan import Plan


def part_of(plan: Plan) -> Part:
    """Returns the part of a plan's samples that its request asks.

    Raises:
        ConfigError: If the request contradicts itself, or a task or another run does not fit it.
        DataError: If a row cannot be used.
    """
    request = plan.request
    if request.share is not None or request.items is not None:
        from orchestrator.run.part.share import RandomShare

        return RandomShare(plan)
    if request.until is not None or request.against is not None:
        from orchestrator.run.part.sequential import Sequential

        return Sequential(plan)
    from orchestrator.run.part.part import Part

    return Part(plan)


def notes(run: Path, manifest: Mapping[str, Any], tasks: Mapping[str, dict[str, Any]]) -> list[Note]:
    """Returns the notes of a complete run; removes details from its results by task that do not hold for a part.

    Raises:
        EngineError: If the folder lacks a file that the run wrote.
    """
    if "sequential" in manifest:
        from orchestrator.run.part import sequential

        return sequential.notes(run, manifest, tasks)
    if "sampled" in manifest:
        from orchestrator.run.part import share

        return share.notes(run, manifest)
    return []
