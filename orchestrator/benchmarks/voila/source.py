"""Opening VOILA's data: published tables with their images, the hub's rows, or questions generated on the fly."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from orchestrator.benchmarks.voila.generated import DRAWN, FORM, is_generated, open_generated, pictogram
from orchestrator.benchmarks.voila.generator import COLLAGES
from orchestrator.benchmarks.voila.rules import ALL, ND_RULES, WD_RULES, Question, Spec, recognise
from orchestrator.benchmarks.voila.texts import describe, read_combined, read_description, relations
from orchestrator.data.digest import digest_files
from orchestrator.data.opening import open_rows
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table

HUB = Table(hub="nlylmz/VOILA", split="train", columns={}, images=("image1", "image2", "image3"))
_NAMES = Table(hub=HUB.hub, split=HUB.split, columns={"img1": str, "img2": str, "img3": str}, images=())

FORMS = (
    "the published CSV, or a table that `orchestrator generate voila` wrote, its images beside it, in folders beside "
    "it or given as TABLE,images=DIR (images=drawn: pictograms); a folder of both; the hub's rows in any form of "
    f"datasets or parquet; or {FORM}"
)
"""Accepted values of `--data`, for messages."""

_COMBINED = ("combined_description", "combined_descriptions")
_ANSWER = ("desc_im4", "desc_img4")
_RELATIONS = ("Real_relations", "relations")
_NUMBERED = ("question", "image_question")
_NUMBER = re.compile(r"image_questions_(\d+)\.\w+")


@dataclass(frozen=True, slots=True)
class Identity:
    """The question of a row.

    Attributes:
        number: N of image_questions_N.png, else its place among all questions, from 1.
        question: The question that its descriptions pose; None if they pose none.
        problem: What is wrong with the row; "" if nothing.
    """

    number: str
    question: Question | None
    problem: str = ""


def identify(fields: Mapping[str, Any]) -> Identity:
    """Reads a row by its descriptions and checks what else it says against them.

    Both published headers are known; the hub's descriptions are found under any name.
    """
    named = _numbered(fields)
    specs = _described(fields)
    question = recognise(*specs) if specs else None
    number = named[1] if named else str(ALL.position(question) + 1) if question else "unknown"
    if question is None:
        error = "its descriptions follow none of the 19 rules" if specs else "it does not describe images 1 to 3"
        return Identity(number, None, error)
    checked = (
        ("rule", ("rule",), str(question.rule)),
        ("answer", _ANSWER, describe(question.answer)),
        ("relations", _RELATIONS, relations(question).strip()),
    )
    for part, names, true in checked:
        for name in names:
            if name in fields and str(fields[name]).strip() != true:
                return Identity(number, question, f"its {part} is {fields[name]!r}; its descriptions make it {true!r}")
    return Identity(number, question)


def _numbered(fields: Mapping[str, Any]) -> re.Match[str] | None:
    """Returns the name image_questions_N.png of a row."""
    return next((_NUMBER.search(str(fields[name])) for name in _NUMBERED if name in fields), None)


def _described(fields: Mapping[str, Any]) -> tuple[Spec, Spec, Spec] | None:
    if "desc_img1" in fields:
        first, second, third = (read_description(str(fields.get(f"desc_img{image}"))) for image in (1, 2, 3))
        return (first, second, third) if first and second and third else None
    texts = [fields[name] for name in _COMBINED if name in fields] or [
        value for value in fields.values() if isinstance(value, str)
    ]
    return next((specs for specs in map(read_combined, texts) if specs), None)


def open_voila(task: str, data: str | None) -> RowSource:
    """Opens the data of `voila_wd` (all rules) or `voila_nd` (the rows of its seven rules).

    Every row gets the field `id`. Raises DataError as `open_rows` does, and for a question number
    that stands twice.
    """
    rules = ND_RULES if task == "voila_nd" else WD_RULES
    if data and is_generated(data) and not Path(data).exists():
        return open_generated(data, rules)
    location, _, images = (data or "").partition(",images=")
    path = Path(location).expanduser() if location else None
    table = _table_of_names(path) if path else None
    if images and not table:
        raise DataError(f"{data}: only a table of image names takes images=, and {location} is not one")
    source = _open_names(table, images) if table else open_rows(data, HUB)
    count = source.count if rules == WD_RULES else sum(1 for _ in _chosen(source, rules)) if table else None
    return RowSource(source.origin, source.digest, count, lambda: _chosen(source, rules))


def _chosen(source: RowSource, rules: Sequence[int]) -> Iterator[Row]:
    """Yields the rows of some rules, and those whose rule cannot be read: they are rejected in sight."""
    seen: dict[str, int] = {}
    for row in source:
        identity = identify(row.fields)
        if identity.question and identity.question.rule not in rules:
            continue
        times = seen[identity.number] = seen.get(identity.number, 0) + 1
        name = identity.number
        if times > 1:
            if any(_NUMBER.search(str(row.fields.get(column, ""))) for column in _NUMBERED):
                raise DataError(f"{source.origin}: image_questions_{name}.png stands twice; a question has one row")
            name = f"{name}.{times}"
        yield Row({**row.fields, "id": name}, row.load)


def _table_of_names(path: Path) -> Path | None:
    """Returns the table at a path that names image files instead of holding them."""
    if path.is_dir():
        tables = sorted(path.glob("*.csv"))
        if len(tables) > 1:
            raise DataError(f"{path} holds {len(tables)} CSV files; name the one to use")
        return tables[0] if tables else None
    if path.suffix == ".parquet" and path.exists():
        names = pq.read_schema(path).names
        return path if "img1" in names and "image1" not in names else None
    return path if path.suffix in (".csv", ".tsv") and path.exists() else None


def _open_names(table: Path, images: str) -> RowSource:
    source = open_rows(table, _NAMES)
    if images == DRAWN:
        digest = hashlib.sha256(f"{source.digest}|{DRAWN}".encode()).hexdigest()
        return RowSource(f"{table.name}, drawn", digest, source.count, lambda: map(_pictured, source))
    root = Path(images).expanduser() if images else table.parent
    if not root.is_dir():
        raise DataError(f"{root} is not a folder of images")
    folders = [root, *sorted(entry for entry in root.iterdir() if entry.is_dir())]

    def find(name: str) -> Path | None:
        return next((folder / name for folder in folders if (folder / name).is_file()), None)

    wanted = sorted({Path(row[f"img{image}"]).name for row in source for image in (1, 2, 3)})
    paths = {name: path for name in wanted if (path := find(name))}
    if not paths:
        raise DataError(
            f"no image that {table} names, such as {wanted[0]}, is in {root} or a folder in it; "
            "name their folder as TABLE,images=DIR"
        )
    if len(paths) < len(wanted):
        missing = next(name for name in wanted if name not in paths)
        logging.getLogger(__name__).warning(
            "%d of %d images that %s names are not there, the first %s: their questions will be rejected",
            *(len(wanted) - len(paths), len(wanted), table, missing),
        )

    def load(row: Row, column: str) -> bytes | None:
        if column == "collage":
            match = _numbered(row.fields)
            drawn = table.parent / COLLAGES / match[0] if match else None
            return drawn.read_bytes() if drawn and drawn.is_file() else None
        name = Path(row[column.replace("image", "img")]).name
        if name not in paths:
            raise DataError(f"image {name} is neither in {root} nor in a folder in it")
        return paths[name].read_bytes()

    digest = hashlib.sha256(f"{source.digest}|{digest_files(paths.items())}".encode()).hexdigest()
    return RowSource(table.name, digest, source.count, lambda: (Row(row.fields, partial(load, row)) for row in source))


def _pictured(row: Row) -> Row:
    """Returns a row with pictograms of what it describes."""
    question = identify(row.fields).question

    def load(column: str) -> bytes | None:
        return None if column == "collage" or not question else pictogram(question.images[int(column[-1]) - 1])

    return Row(row.fields, load)
