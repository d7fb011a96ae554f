"""V*-Bench as its authors annotated it: a folder for each category, an image and a JSON file of one stem each.

`craigwu/vstar_bench` has `direct_attributes`, `relative_position` and the two sets of the paper's appendix, `OCR` and
`GPT4V-hard`. An annotation has whole sentences as options, the right one first, and the boxes of what it asks about.
Here the options are in another order, the same for each reading: a tie goes to the first of them.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import orjson

from orchestrator.benchmarks.vstar.prompt import LETTERS
from orchestrator.data.digest import digest_files
from orchestrator.data.images import image_bytes
from orchestrator.data.rows import DataError, Row, RowSource

APPENDIX = ("OCR", "GPT4V-hard")
FOLDERS = ("direct_attributes", "relative_position", *APPENDIX)
QUESTIONS = "test_questions.jsonl"
"""The questions by letter, whose ids the rows have where the file lies beside the folders."""

_IMAGES = (".jpg", ".jpeg", ".png", ".webp")


def is_annotated(data: str | None) -> bool:
    """Returns whether data are a folder of annotations."""
    return bool(data) and any(next((Path(str(data)) / name).glob("*.json"), None) for name in FOLDERS)


def open_annotated(folder: Path) -> RowSource:
    """Opens all annotations of a folder, the paper's two categories and the appendix's.

    Raises:
        DataError: An annotation is damaged, or has no image beside it.
    """
    files = {file: _image(file) for name in FOLDERS for file in sorted((folder / name).glob("*.json"))}
    numbers = _ids(folder / QUESTIONS)
    rows = [_row(folder, file, image, numbers) for file, image in files.items()]
    named = [(str(file.relative_to(folder)), file) for pair in files.items() for file in pair]
    return RowSource(folder.name, digest_files(named), len(rows), lambda: iter(rows))


def _row(folder: Path, file: Path, image: Path, numbers: dict[str, str]) -> Row:
    name = f"{file.parent.name}/{file.stem}"
    try:
        annotation: dict[str, Any] = orjson.loads(file.read_bytes())
        question, options = str(annotation["question"]).strip(), [str(option) for option in annotation["options"]]
        targets, boxes = list(annotation.get("target_object") or ()), list(annotation.get("bbox") or ())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file} is not an annotation of V*-Bench: {error}") from error
    if not 2 <= len(options) <= len(LETTERS):
        raise DataError(f"{file} has {len(options)} options: 2 to {len(LETTERS)} are expected")
    right, order = options[0], list(options)
    random.Random(hashlib.sha256(name.encode()).digest()).shuffle(order)
    listed = "\n".join(f"({letter}) {option}" for letter, option in zip(LETTERS, order, strict=False))
    fields = {
        "question_id": numbers.get(name, name),
        "category": file.parent.name,
        "text": f"{question}\n{listed}",
        "label": LETTERS[order.index(right)],
        "targets": targets,
        "boxes": boxes,
    }
    return Row(fields, lambda _: image_bytes(str(image.relative_to(folder)), folder))


def _image(file: Path) -> Path:
    images = [other for other in file.parent.glob(f"{file.stem}.*") if other.suffix.lower() in _IMAGES]
    if len(images) != 1:
        raise DataError(f"{file} has {len(images)} images of its name beside it: one is expected")
    return images[0]


def _ids(file: Path) -> dict[str, str]:
    """Returns the ids of the questions by letter: folder and stem of the image -> id; empty without the file."""
    if not file.is_file():
        return {}
    ids = {}
    try:
        for line in filter(None, file.read_bytes().splitlines()):
            row = orjson.loads(line)
            ids[str(Path(row["image"]).with_suffix(""))] = str(row["question_id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file} is not the list of V*-Bench's questions: {error}") from error
    return ids


def labels_of(row: Row) -> dict[str, str]:
    """Returns what an annotation says of its targets: how many boxes, their names, and x, y, width and height."""
    if "boxes" not in row.fields:
        return {}
    return {
        "boxes": str(len(row["boxes"])),
        "targets": ", ".join(map(str, row["targets"])),
        "box": "; ".join(",".join(f"{number:g}" for number in box) for box in row["boxes"]),
    }


def of_task(row: Row, task: str) -> bool:
    """Returns whether a task has a row: a sub-task has those of its category, which its name ends with."""
    appendix = row["category"] in APPENDIX
    if task in ("vstar_bench", "vstar_bench_appendix"):
        return appendix == (task == "vstar_bench_appendix")
    return task == f"vstar_bench_{row['category']}"
