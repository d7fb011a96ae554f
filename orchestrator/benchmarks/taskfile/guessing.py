"""Guesses a task file from a table by looking at it."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.benchmarks.taskfile.options import meaning
from orchestrator.data.arrow import is_saved
from orchestrator.data.opening import open_rows
from orchestrator.data.rows import DataError
from orchestrator.data.table import Table

_LOOKED_AT = 2000
_SHOWN = 40
_MOST_WORDS = 4
_PICTURE = re.compile(r".*\.(png|jpe?g|webp|gif|bmp|tiff?)$", re.IGNORECASE)
_PEOPLE = 3
"""Answers to one question beyond which they are those of several people, if some are equal."""
_BRIEFLY = "Answer with a single word or phrase."
_NUMBER = re.compile(r"[-\u2212+]?[$\u20ac\u00a3]?\.?\d[\d,.]*\s?(%|[A-Za-z\u00b0/]{1,8})?")
_OPTION = re.compile(r"(?:(option|choice|opt|answer)[_ -]?)?([a-jA-J]|\d)")
_NAMES = {
    role: names.split()
    for role, names in {
        "answer": "answer correct_answer answer_key correct answers target targets gold gold_answer ground_truth "
        "groundtruth gt reference references solution label",
        "question": "question query prompt instruction text problem input",
        "id": "id question_id qid uid sample_id idx index pid",
        "options": "options choices candidates endings multiple_choices",
        "images": "image images image_path img picture photo file_name",
        "labels": "category subject topic type subset domain task difficulty level split",
    }.items()
}
"""Role of a column -> usual names, the likeliest first."""


@dataclass(slots=True)
class Guess:
    """Keys and values of a guessed task file, and a line for each guess and each open decision."""

    values: dict[str, Any]
    reasons: list[str] = field(default_factory=list)


def guess(data: str) -> Guess:
    """Looks at the first rows of a table.

    Raises:
        DataError: It cannot be read, or nothing in it looks like a question and its answer.
    """
    source = open_rows(data, Table(hub=data, split="test", columns={}, images=()))
    rows = [row.fields for row in itertools.islice(source, _LOOKED_AT)]
    if not rows:
        raise DataError(f"{data} has no rows")
    names = list(rows[0])
    guess = Guess({"data": data})
    images = _images(Path(data), rows)
    if images:
        guess.values["image"] = images if len(images) > 1 else images[0]
        guess.reasons.append(f"image: {', '.join(images)}")
    guess.reasons += _doubts(rows, images)
    free = [name for name in names if name not in images]
    options = _options(free, rows)
    identifier = _named("id", [name for name in free if _unique(rows, name)])
    answer = _named("answer", [name for name in free if name not in options])
    question = _named("question", [name for name in free if name not in (*options, answer)])
    if not answer or not question:
        role = "answer" if not answer else "question"
        raise DataError(
            f"{data}: no column looks like the {role}; it has {', '.join(names)}. "
            f"Rename one to `{role}`, or write the task file by hand"
        )
    if identifier:
        guess.values["id"] = identifier
        guess.reasons.append(f"id: {identifier}, different in every row looked at")
    elif repeated := _named("id", free):
        counted = Counter(str(row.get(repeated)) for row in rows)
        value, times = counted.most_common(1)[0]
        guess.reasons.append(f"CHECK THIS: {repeated} is not the id: {value} is in {times} rows, so rows are numbered")
    guess.values["question"] = question
    if options:
        guess.values["options"] = options if len(options) > 1 else options[0]
        guess.reasons.append(f"options: {', '.join(options)}")
    guess.values["answer"] = answer
    if options:
        _form(guess, rows, options, answer)
    else:
        _open(guess, rows, answer)
    used = {*images, *options, answer, question, identifier}
    labels = [name for name in free if name not in used and _sorts(rows, name)]
    if labels:
        guess.values["labels"] = labels if len(labels) > 1 else labels[0]
        guess.reasons.append(f"labels: {', '.join(labels)}, with few values each")
    return guess


def _named(role: str, names: Sequence[str]) -> str:
    lowered = {name.lower().replace(" ", "_"): name for name in reversed(names)}
    return next((lowered[name] for name in _NAMES[role] if name in lowered), "")


def _images(path: Path, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns of encoded files, which rows leave out, and of paths to files or lists of one path."""
    names: list[str] = list(rows[0])
    if path.suffix == ".parquet" or (path.is_dir() and any(path.rglob("*.parquet"))):
        import pyarrow.parquet as pq

        file = path if path.is_file() else next(iter(sorted(path.rglob("*.parquet"))))
        names = pq.read_schema(file).names
    elif is_saved(path):
        import datasets

        loaded = datasets.load_from_disk(str(path))
        columns = loaded.column_names
        names = columns if isinstance(columns, list) else next(iter(columns.values()))
    columns_of_images = [name for name in names if name not in rows[0]]
    for name in rows[0]:
        cells = [cell if isinstance(cell := row.get(name), list) else [cell] for row in rows[:_SHOWN]]
        values = [value for cell in cells for value in cell if value not in (None, "")]
        if values and all(isinstance(value, str) and _PICTURE.match(value) for value in values):
            if max(map(len, cells)) > 1:
                raise DataError(f"{path}: column {name} holds several images a row: give each a column of its own")
            columns_of_images.append(name)
    return columns_of_images


def _doubts(rows: Sequence[Mapping[str, Any]], images: Sequence[str]) -> list[str]:
    """Lines about rows without an image, and about columns that are named like images and hold none."""
    lines = []
    for name in rows[0]:
        filled = [value for row in rows if (value := row.get(name)) not in (None, "")]
        if name in images and len(filled) < len(rows):
            lines.append(
                f"CHECK THIS: {name} is empty in {len(rows) - len(filled)} of {len(rows)} rows, which will be rejected"
            )
        elif name not in images and name.lower() in _NAMES["images"] and filled:
            lines.append(f"CHECK THIS: column {name} is not used: {str(filled[0])[:60]!r} is not the path of an image")
    return lines


def _options(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One column of lists, or the longest series of columns like option_a, option_b."""
    # Several accepted answers are a list too.
    lists = [name for name in names if name.lower() not in _NAMES["answer"]]
    for name in sorted(lists, key=lambda name: name.lower() not in _NAMES["options"]):
        values = [_list(row.get(name)) for row in rows[:_SHOWN]]
        if all(value is not None and len(value) > 1 for value in values):
            return [name]
    series: dict[tuple[str, bool], list[str]] = {}
    for name in names:
        match = _OPTION.fullmatch(name.strip().lower())
        if match:
            series.setdefault((match[1] or "", match[2].isdecimal()), []).append(name)
    return max((match for match in series.values() if len(match) > 1), key=len, default=[])


def _form(guess: Guess, rows: Sequence[Mapping[str, Any]], options: Sequence[str], answer: str) -> None:
    """Sets `answer_is` by what every answer fits."""
    rows = [row for row in rows if row.get(answer) not in (None, "")]  # reading reports missing answers
    texts = [str(row[answer]).strip().removesuffix(".0") for row in rows]
    offers = [_list(row[options[0]]) or [] if len(options) == 1 else [row[name] for name in options] for row in rows]
    most = max(map(len, offers), default=0)
    if all(text in [str(option).strip() for option in offer] for text, offer in zip(texts, offers, strict=True)):
        form, why = "text", "every answer is the text of an option"
    elif all(re.fullmatch(r"\(?[A-Za-z]\)?\.?", text) for text in texts):
        form, why = "letter", "every answer is one letter"
    elif all(text.isdecimal() for text in texts):
        numbers = [int(text) for text in texts]
        if min(numbers) == 0:
            form, why = "index", f"answers run from 0 to {max(numbers)}"
        elif max(numbers) == most:
            form, why = "number", f"answers run from {min(numbers)} to {max(numbers)}"
        else:
            form = "number"
            why = f"CHECK THIS: answers run from {min(numbers)} to {max(numbers)} of {most} options; "
            why += "`index` if they count from 0"
    else:
        form, why = "text", f"CHECK THIS: answers like {texts[0]!r} are neither letter nor number nor always an option"
    guess.values["answer_is"] = form
    guess.reasons.append(f"answer: {answer}, as {form}: {why}")


def _open(guess: Guess, rows: Sequence[Mapping[str, Any]], answer: str) -> None:
    """Sets the rule of an open question by how long the right answers are."""
    lists = [_list(row.get(answer)) or [row.get(answer)] for row in rows if row.get(answer) not in (None, "")]
    texts = [str(one) for answers in lists for one in answers]
    counts = sorted(len(text.split()) for text in texts)
    typical = counts[len(counts) // 2] if counts else 0
    if texts and all(meaning(text) is not None for text in texts):
        guess.values["rule"] = "yes_no"
        guess.reasons.append(f"answer: {answer}; every answer is yes or no (yes_no)")
        return
    if min(map(len, lists), default=0) > _PEOPLE and any(len(set(map(str, texts))) < len(texts) for texts in lists):
        guess.values |= {"prompt": f"{{question}}\n{_BRIEFLY}", "rule": "vqa"}
        guess.reasons.append(f"answer: {answer}, the answers of several people: VQA accuracy (vqa)")
        return
    numbers = sum(_NUMBER.fullmatch(text.strip()) is not None for text in texts)
    if texts and 2 * numbers >= len(texts):
        guess.values["rule"] = "number"
        guess.reasons.append(
            f"answer: {answer}; {numbers:,} of {len(texts):,} answers are numbers (number); "
            "`params: {relative: 0.05}` accepts what is within 5%"
        )
        return
    if typical <= _MOST_WORDS:
        guess.values["rule"] = "contains_word"
        guess.reasons.append(
            f"answer: {answer}; no options were found: right if it stands in the reply (contains_word); "
            "`rule: anls` for texts read in pictures, where a letter may be misread"
        )
        return
    guess.values["rule"] = "judge_answer"
    guess.reasons.append(
        f"answer: {answer}; no options were found, and the answers have {typical} words: a judge says whether a reply "
        "means the same (judge_answer, needs --judge); `rule: caption` scores the overlap without one"
    )


def _list(value: Any) -> list[Any] | None:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None


def _unique(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return len({str(row.get(name)) for row in rows}) == len(rows)


def _sorts(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Returns True if a column is named like a label and has few values."""
    values = [row.get(name) for row in rows]
    few = len({str(value) for value in values}) <= max(2, min(50, len(rows) // 2))
    return name.lower() in _NAMES["labels"] and few and all(isinstance(value, str | int) for value in values)
