"""A task whose images are noise."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

TASK = "data: rows.jsonl\nid: id\nimage: image\nquestion: question\noptions: [A, B, C, D]\nanswer: answer\n"


def task(folder: Path, rows: int) -> str:
    """Writes a task whose images are noise, large enough to be sent by their hash."""
    numbers, lines = np.random.default_rng(7), []
    for row in range(rows):
        buffer = io.BytesIO()
        Image.fromarray(numbers.integers(0, 256, (64, 64, 3), np.uint8)).save(buffer, "PNG")
        (folder / f"{row}.png").write_bytes(buffer.getvalue())
        line = {"id": row, "image": f"{row}.png", "question": f"Which one is {row}?", "answer": "ABCD"[row % 4]}
        lines.append(json.dumps(line | {letter: f"number {letter}" for letter in "ABCD"}))
    (folder / "rows.jsonl").write_text("\n".join(lines))
    (folder / "noise.yaml").write_text(TASK)
    return str(folder / "noise.yaml")
