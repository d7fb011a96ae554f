"""The page of a comparison: one file that opens offline, with both answers to each item that changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator.compare.flips import Flip
from orchestrator.compare.result import Comparison
from orchestrator.compare.terminal import p_value
from orchestrator.report.blind import is_blind
from orchestrator.report.packing import SNIPPET, Packing, question, snippet
from orchestrator.report.page import SAMPLES, document, embedded, relative_address
from orchestrator.run_folder.reader import Item

SCRIPTS = (*SAMPLES, "compare.js")
"""Scripts of the page."""

MOST = 1000
"""Items that became worse shown of each pair of runs if nothing else is said, and as many that became better."""

_PLAIN = ("key", "before", "after", "scores", "target", "sides")
_CODED = ("change", "run", "task", "outcome", "question", "image")


def render(
    comparison: Comparison, folders: Sequence[str], most: int = MOST, *, embed: bool = False, home: str = ""
) -> str:
    """Returns the page.

    Args:
        comparison: What to show.
        folders: Address of each run's folder, seen from the page, with a slash at its end.
        most: How many items that became worse to show of each pair of runs, and as many that became better.
        embed: Whether images are put into the page.
        home: Address of the list of runs, "" for none.
    """
    packing = Packing(_PLAIN, _CODED, change=("worse", "better"))
    several = len(comparison.pairings) > 1
    for number, pairing in enumerate(comparison.pairings, 1):
        for flip in pairing.flips.read(most):
            seen = flip.second if is_blind(comparison.runs[0]) and not is_blind(pairing.second) else flip.first
            _add(packing, flip, seen, [0, number], pairing.second.name, several=several)
    sighted = next((number for number, run in enumerate(comparison.runs) if not is_blind(run)), 0)
    return document(
        "compare.html",
        scripts=SCRIPTS,
        comparison=comparison,
        p_value=p_value,
        standing_rows=comparison.dimension_rows,
        changed=sum(pairing.flips.lost + pairing.flips.gained for pairing in comparison.pairings),
        shown=packing.size,
        index=packing.index(folders=folders, runs=[run.name for run in comparison.runs], image_run=sighted),
        chunks=packing.chunks(),
        images=embedded(comparison.runs, packing.media.items()) if embed else {},
        home=home,
    )


def beside(comparison: Comparison, folder: Path) -> list[str]:
    """Returns the address of each run's folder from a page that lies in a folder."""
    return [relative_address(run.path, folder) for run in comparison.runs]


def _add(packing: Packing, flip: Flip, seen: Item, sides: list[int], second: str, *, several: bool) -> None:
    """Adds an item; the list shows the image of `seen`, the one that was asked with images."""
    text, image = question(flip.first)[0], question(seen)[1]
    outcomes = [flip.first.outcome, flip.second.outcome]
    packing.add(
        {"a": packing.show(flip.first), "b": packing.show(flip.second)}, flip.first.labels or flip.second.labels,
        key=f"{flip.first.key} → {second}" if several else flip.first.key,
        before=_reading(flip.first), after=_reading(flip.second), scores=[flip.first.score, flip.second.score],
        target=flip.target[:SNIPPET], sides=sides,
        change="better" if flip.gained else "worse", run=second, task=flip.first.task,
        outcome=" → ".join(dict.fromkeys(outcomes)), question=text, image=image,
    )  # fmt: skip


def _reading(item: Item) -> str:
    """Returns what an answer was taken for, in a few words."""
    extracted: Any = item.verdict.get("extracted")
    return snippet(str(extracted)) if extracted else item.outcome if item.outcome != "scored" else ""
