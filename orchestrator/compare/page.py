"""A comparison as a page: one file, no script; images are read from the runs beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from orchestrator.compare.flips import Flip, words
from orchestrator.compare.result import Comparison
from orchestrator.compare.terminal import p_value
from orchestrator.report.page import document
from orchestrator.run_folder.reader import Item, Run


def render(comparison: Comparison, beside: Path, most_flips: int) -> str:
    """Returns the page.

    Args:
        comparison: What to show.
        beside: The folder that the page is to lie in; images are addressed from there.
        most_flips: How many items that became worse to show, and as many that became better.
    """
    blocks = []
    for pairing in comparison.pairings:
        run = comparison.runs[0]
        lost = [flip for flip in pairing.flips if not flip.gained][:most_flips]
        gained = [flip for flip in pairing.flips if flip.gained][:most_flips]
        shown = [[_flip(flip, run, beside) for flip in flips] for flips in (lost, gained)]
        blocks.append({"pairing": pairing, "lost": shown[0], "gained": shown[1]})
    rows = comparison.dimension_rows
    return document("compare.html", comparison=comparison, blocks=blocks, p_value=p_value, standing_rows=rows)


def _flip(flip: Flip, run: Run, beside: Path) -> dict[str, Any]:
    messages = (flip.first.response.get("request") or {}).get("messages", ())
    parts = [part for message in messages for part in message.get("parts", ())]
    return {
        "key": flip.first.key,
        "labels": flip.first.labels,
        "target": " | ".join(flip.first.scoring.get("targets", ())),
        "prompt": "\n".join(part["text"] for part in parts if "text" in part),
        "images": [address for part in parts if (address := _address(part, run, beside))],
        "sides": [_side(flip.first), _side(flip.second)],
    }


def _address(part: Mapping[str, Any], run: Run, beside: Path) -> str:
    path = run.image(str((part.get("image") or {}).get("sha256", "")))
    if path is None:
        return ""
    return quote(Path(os.path.relpath(path.resolve(), beside.resolve())).as_posix())


def _side(item: Item) -> dict[str, str]:
    text, span = words(item), item.verdict.get("span")
    start, end = (int(span.get("start", 0)), int(span.get("end", 0))) if span else (0, 0)
    return {
        "outcome": item.outcome,
        "extracted": str(item.verdict.get("extracted", "")),
        "score": "" if item.score is None else f"{item.score:g}",
        "before": text[:start],
        "marked": text[start:end],
        "after": text[end:],
    }
