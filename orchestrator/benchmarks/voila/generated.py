"""VOILA questions generated on the fly, without a table: a balanced draw, or a slice of the whole enumeration."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from orchestrator.benchmarks.voila.images import ImageFolder
from orchestrator.benchmarks.voila.rules import ALL, Question, Space, Spec
from orchestrator.benchmarks.voila.sampling import SpaceError, draw_balanced, shares
from orchestrator.benchmarks.voila.texts import combined_description, describe, file_prefix, relations, wanted_image
from orchestrator.data.rows import DataError, Row, RowSource

GENERATED = "generated"
DRAWN = "drawn"
"""In place of a folder of images: pictograms."""
FORM = "generated[:count=N][,seed=N or ,start=N][,rules=1+5][,images=DIR], questions generated on the fly"
"""Accepted values of `--data`, for messages."""


def is_generated(data: str) -> bool:
    """Returns True if `--data` names questions generated on the fly."""
    return data.partition(":")[0] == GENERATED


def generated_rows(questions: Iterator[Question], picture: Callable[[Spec], bytes]) -> Iterator[Row]:
    """Yields rows of questions in the released schema, numbered by their index among all questions, from 1."""
    for question in questions:
        number = ALL.position(question) + 1

        def load(column: str, question: Question = question) -> bytes | None:
            return None if column == "collage" else picture(question.images[int(column[-1]) - 1])

        yield Row(
            {
                "id": str(number),
                **{f"img{image}": f"{file_prefix(spec)}0.png" for image, spec in enumerate(question.images, 1)},
                "img4": wanted_image(question.answer),
                **{f"desc_img{image}": describe(spec) for image, spec in enumerate(question.images, 1)},
                "desc_im4": describe(question.answer),
                "combined_description": combined_description(question),
                "question": f"image_questions_{number}.png",
                "rule": question.rule,
                "Real_relations": relations(question),
            },
            load,
        )


def pictogram(spec: Spec) -> bytes:
    """Returns the pictogram of a spec."""
    from orchestrator.benchmarks.voila.synthetic import draw

    return draw(spec)


def open_generated(location: str, rules: Sequence[int]) -> RowSource:
    """Opens questions of a task's rules generated on the fly: a balanced draw by seed, or a slice of all by start.

    Raises:
        DataError: `words` are not in `FORM`, or want more questions than the rules have.
    """
    options = _options(location)
    try:
        numbers = {name: int(options[name]) for name in ("count", "seed", "start") if name in options}
        chosen = tuple(map(int, options["rules"].split("+"))) if "rules" in options else tuple(rules)
    except ValueError as error:
        raise DataError(f"{location}: count, seed, start and rules are whole numbers") from error
    if not set(chosen) <= set(rules):
        raise DataError(f"{location}: this task has the rules {', '.join(map(str, rules))}")
    space = Space(chosen)
    count, start = numbers.get("count", 1000), numbers.get("start")
    if start is not None and "seed" in numbers:
        raise DataError(f"{location}: a slice (start) has no seed, a draw (seed) no start; give one of them")
    if count < 1 or (start is not None and not 0 <= start <= space.size - count):
        raise DataError(f"{location}: these rules have {space.size:,} questions, counted from 0; give a slice of them")

    if start is None:
        try:
            shares(space.rules, count)
        except SpaceError as error:
            raise DataError(f"{location}: {error}") from error
    where = options.get("images", DRAWN)
    folder = ImageFolder(Path(where).expanduser()) if where != DRAWN else None

    seed = numbers.get("seed", 0)

    def picture(spec: Spec) -> bytes:
        return (folder.path / folder.first(spec)).read_bytes() if folder else pictogram(spec)

    def iterate() -> Iterator[Row]:
        if start is None:
            return generated_rows(islice(draw_balanced(space.rules, seed), count), picture)
        return generated_rows(map(space.question, range(start, start + count)), picture)

    images = folder.digest() if folder else DRAWN
    canonical = f"{space.rules}|{count}|{seed}|{start}|{images}"
    return RowSource(location, hashlib.sha256(canonical.encode()).hexdigest(), count, iterate)


def _options(spec: str) -> dict[str, str]:
    known = ("count", "seed", "start", "rules", "images")
    options: dict[str, str] = {}
    for piece in filter(None, spec.partition(":")[2].split(",")):
        name, equals, value = piece.partition("=")
        if name not in known or not equals or name in options:
            raise DataError(f"{spec}: {piece!r} is none of {', '.join(known)} with its value, each once")
        options[name] = value
    return options
