"""The lines of a samples file of lmms-eval (`--log_samples`): requests, answers and scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lyncean_interop.answers import LETTERS, NOT_ANSWERED, Answer, lettered, samples
from orchestrator.data import DataError

TASKS = re.compile(r"(unig2u_)?(VisualPuzzles\w*|vstar_bench(_direct_attributes|_relative_position)?)")
"""Supported tasks; the prefix of one family is dropped."""

SAMPLES_FILE = "samples file of lmms-eval (--log_samples)"
"""Kind of file, for messages."""

FAILED = "[LMMS_EVAL_REQUEST_FAILED"
"""Beginning of the text that lmms-eval writes in place of a missing answer."""

_FILE_NAME = re.compile(r"samples_(\w+)\.jsonl")
_OPTION = {
    "vstar_bench": re.compile(r"^([A-D])\. (.*?)(?=\n[A-D]\. |\nAnswer with the option's letter|\Z)", re.M | re.S),
    "VisualPuzzles": re.compile(r"^\(([A-D])\) (.*?)(?=\n\([A-D]\) |\n|\Z)", re.M | re.S),
}


def is_ours(path: Path, task: str | None) -> bool:
    """Returns True if a samples file is of a task that Lyncean has, too, or of an unknown task."""
    match = re.search(r"samples_(.+)\.jsonl", path.name)
    name = task or (match[1] if match else "")
    return not name or TASKS.fullmatch(name) is not None


def task_of(path: Path, task: str | None) -> str:
    """Returns our name of a samples file's task.

    Raises:
        DataError: The file's name does not contain it, or its samples are not supported.
    """
    in_name = _FILE_NAME.search(path.name)
    name = task or (in_name[1] if in_name else "")
    if not name:
        raise DataError(f"{path.name} does not say its task (DATE_samples_TASK.jsonl): give --task")
    match = TASKS.fullmatch(name)
    if match is None:
        raise DataError(f"task {name} of lmms-eval is not understood: vstar_bench and VisualPuzzles and theirs are")
    return match[2]


def read(path: Path, task: str) -> Iterator[Answer]:
    """Reads a samples file; an answer's key is lmms-eval's doc_id, the row's number from 0.

    Raises:
        DataError: It cannot be read, or is not such a file.
    """
    seen: set[str] = set()
    for answer in samples(path, SAMPLES_FILE, partial(_answer, task)):
        if answer.key in seen:
            raise DataError(f"{path}, line {len(seen) + 1}: doc_id {answer.key} stands twice")
        seen.add(answer.key)
        yield answer
    if not seen:
        raise DataError(f"{path} holds no samples")


def _answer(task: str, where: str, fields: dict[str, Any]) -> Answer:
    missing = [name for name in ("doc_id", "target", "filtered_resps") if name not in fields]
    if missing:
        raise DataError(f"{where}, has no {', '.join(missing)}: is it a {SAMPLES_FILE}?")
    try:
        number = int(fields["doc_id"])
    except (TypeError, ValueError):
        raise DataError(f"{where}: doc_id {fields['doc_id']!r} is not a number") from None
    target = str(fields["target"]).strip().upper()
    if target not in {*LETTERS[:4]}:
        raise DataError(f"{where}: target {fields['target']!r} is not a letter from A to D: is it of {task}?")
    text = _first(fields["filtered_resps"])
    prompt = _prompt(fields)
    failed = text if text.startswith(FAILED) else "" if is_text(fields["filtered_resps"]) else NOT_ANSWERED
    pattern = next(pattern for name, pattern in _OPTION.items() if task.startswith(name))
    return Answer(
        key=str(number),
        prompt=prompt,
        text="" if failed else text,
        failed=failed,
        targets=(target,),
        options=lettered(pattern.findall(prompt)),
        labels=_labels(task, fields),
        score=_score(fields),
    )


def _first(value: Any) -> str:
    """Returns the first response at any depth of nesting."""
    while isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, str) else ""


def is_text(value: Any) -> bool:
    """Returns True if there is a first response at any depth of nesting."""
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, str)


def _prompt(fields: Mapping[str, Any]) -> str:
    value = fields.get("input", fields.get("arguments", ""))
    return _first(value) if isinstance(value, list) else str(value)


def _metrics(fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields V*-Bench's per-sample metric, which lmms-eval writes up to twice."""
    yield from (value for name, value in fields.items() if name.startswith("vstar_") and isinstance(value, dict))


def _labels(task: str, fields: Mapping[str, Any]) -> dict[str, str]:
    stated: Sequence[Any] = [fields.get("category"), *(value.get("category") for value in _metrics(fields))]
    doc = fields.get("doc")
    if isinstance(doc, dict):
        stated = [*stated, doc.get("category")]
    match = re.search(
        r"_(algorithmic|analogical|deductive|inductive|spatial|direct_attributes|relative_position)", task
    )
    category = next((str(value) for value in stated if value), match[1] if match else "")
    return {"category": category.lower()} if category else {}


def _score(fields: Mapping[str, Any]) -> float | None:
    values = [value.get("score") for value in _metrics(fields)]
    values += [fields.get(name) for name in ("exact_match", "accuracy", "score")]
    return next((float(value) for value in values if isinstance(value, int | float)), None)
