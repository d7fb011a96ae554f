"""Writing VOILA tables: drawn questions, their images, and CSV or parquet in the released form."""

from __future__ import annotations

import csv
import os
import random
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from orchestrator.benchmarks.voila.images import ImageFolder, collage
from orchestrator.benchmarks.voila.rules import ANY, Question, Spec, hidden_values
from orchestrator.benchmarks.voila.sampling import draw
from orchestrator.benchmarks.voila.texts import combined_description, describe, relations, wanted_image
from orchestrator.data.rows import DataError

COLUMNS = (
    *("img1", "img2", "img3", "img4", "desc_img1", "desc_img2", "desc_img3", "desc_im4"),
    *("combined_description", "question", "rule", "Real_relations"),
)
"""The header as released; the reference's code names four of them differently."""

COLLAGES = "Image_Questions"
"""Folder of collages, beside the table."""

Line = tuple[str, ...]
"""One row, in the order of COLUMNS."""

_BATCH = 4096
_COLLAGE = re.compile(r"image_questions_\d+\.png")


def lines(counts: Mapping[int, int], *, seed: int, pick: Callable[[Spec], str], training: bool) -> Iterator[Line]:
    """Yields rows, rule by rule, numbered from 1.

    Args:
        counts: Rule -> number of its questions.
        seed: Seed of the questions, and in training of the fourth image for an "any".
        pick: Returns the name of the image file of a spec.
        training: Whether the fourth image is a file; in testing it is the text of the answer.
    """
    number = 0
    hidden = random.Random(f"voila|{seed}|fourth images")
    for rule, count in counts.items():
        for question in draw(rule, count, seed):
            number += 1
            yield (
                *map(pick, question.images),
                pick(_realised(question, hidden)) if training else wanted_image(question.answer),
                *map(describe, question.images),
                describe(question.answer),
                combined_description(question),
                f"image_questions_{number}.png",
                str(rule),
                relations(question),
            )


def _realised(question: Question, rng: random.Random) -> Spec:
    """Returns the fourth image to train on: drawn where the answer says "any"."""
    if ANY not in question.answer:
        return question.answer
    values = (
        rng.choice(hidden_values(prop, shown)) if value == ANY else value
        for prop, shown, value in zip(Spec._fields, zip(*question.images, strict=True), question.answer, strict=True)
    )
    return Spec(*values)


def write_table(path: Path, rows: Iterable[Line]) -> None:
    """Writes a CSV or, where the name says so, a parquet file: whole or not at all."""
    with _replacing(path) as partial:
        if path.suffix == ".parquet":
            _write_parquet(partial, rows)
        else:
            with partial.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(COLUMNS)
                writer.writerows(rows)


def _write_parquet(path: Path, rows: Iterable[Line]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.int64() if name == "rule" else pa.string()) for name in COLUMNS])
    rest = iter(rows)
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(rest, _BATCH)):
            columns = dict(zip(COLUMNS, zip(*batch, strict=True), strict=True))
            arrays = [
                pa.array([int(value) for value in columns["rule"]] if name == "rule" else columns[name])
                for name in COLUMNS
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Gives a file beside `path` that takes its place when all went well."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def collages(table: Path, folder: ImageFolder) -> Iterator[Callable[[Iterable[Line]], Iterator[Line]]]:
    """Gives a pass-through of rows that draws each one's collage, into `COLLAGES` beside the table.

    The folder takes the place of an earlier run's when all went well.

    Raises:
        DataError: The folder holds something else than collages.
    """
    target = table.parent / COLLAGES
    if target.exists():
        foreign = sorted(entry.name for entry in target.iterdir() if not _COLLAGE.fullmatch(entry.name))
        if foreign:
            raise DataError(f"{target} would be replaced and holds {foreign[0]}, which is not a collage; move it")
    with tempfile.TemporaryDirectory(dir=table.parent, prefix=f".{COLLAGES}.", suffix=".partial") as scratch:
        fresh = Path(scratch) / "new"
        fresh.mkdir()

        def through(rows: Iterable[Line]) -> Iterator[Line]:
            waiting: deque[tuple[Future[None], Line]] = deque()
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                for row in rows:
                    waiting.append((pool.submit(_draw, folder.path, row[:3], fresh / row[9]), row))
                    if len(waiting) > 64:
                        yield _done(waiting)
                while waiting:
                    yield _done(waiting)

        yield through
        if target.exists():
            target.rename(Path(scratch) / "old")
        shutil.move(fresh, target)


def _done(waiting: deque[tuple[Future[None], Line]]) -> Line:
    future, row = waiting.popleft()
    future.result()
    return row


def _draw(folder: Path, names: Sequence[str], path: Path) -> None:
    try:
        path.write_bytes(collage([(folder / name).read_bytes() for name in names]))
    except OSError as error:
        raise DataError(f"a collage of {', '.join(names)} in {folder} cannot be made: {error}") from error
