"""Draws the plot of docs/demo-model.md: `python bench/demo_curves.py docs/demo-model docs/demo-model/loss.svg`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import vl_convert

LOSSES = {"vision": "naming", "language": "answering", "answers": "answering"}
"""Part of the training -> name of its loss."""


def points(folder: Path, part: str) -> list[dict[str, Any]]:
    """Returns a part's losses; the steps of a continued training count on from the earlier ones."""
    losses, before, last = [], 0, 0
    for line in map(json.loads, (folder / f"{part}.jsonl").read_text().splitlines()):
        if line["step"] < last:
            before += last
        last = line["step"]
        losses.append({"part": f"{part}: {LOSSES[part]}", "step": before + last, "loss": line[LOSSES[part]]})
    return losses


def main(folder: Path, path: Path) -> None:
    """Draws a line for each part."""
    spec = {
        "data": {"values": [point for part in LOSSES for point in points(folder, part)]},
        "width": 560,
        "height": 280,
        "background": "white",
        "mark": "line",
        "encoding": {
            "x": {"field": "step", "type": "quantitative", "title": "steps of sixteen images"},
            "y": {"field": "loss", "type": "quantitative", "scale": {"type": "log"}, "title": "loss"},
            "color": {"field": "part", "type": "nominal", "title": None, "sort": None},
        },
    }
    path.write_text(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
