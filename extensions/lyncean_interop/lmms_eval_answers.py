"""lmms-eval's files of samples (`--log_samples`) of any task, with the scores that lmms-eval gave."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from lyncean_interop.answers import NOT_ANSWERED, Answer, ToolAnswers, decoding, samples, with_slices
from lyncean_interop.lmms_eval_samples import FAILED, SAMPLES_FILE, is_text
from lyncean_interop.responses import pairs_of, texts_of
from orchestrator.data import DataError

_FILE_NAME = re.compile(r"(?:(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)_|.*?_)?samples_(.+)\.jsonl")
_NO_METRICS = frozenset(
    (
        "doc_id", "doc", "target", "arguments", "input", "resps", "filtered_resps", "doc_hash", "prompt_hash",
        "target_hash", "submission", "token_counts", "outcome", "key",
    )
)  # fmt: skip
_QUESTION = re.compile(r"\[GEN_PROMPT\].*\[QUESTION\](.*?)\[/QUESTION\]", re.DOTALL)
_CHAT = "generate_until"
_SCORES = ("score", "correct", "accuracy", "acc", "exact_match")


def read(path: Path, task: str | None, model: str | None) -> ToolAnswers:
    """Reads a file of samples; the first metric of a line is its score, of several filters the first.

    Raises:
        DataError: It cannot be read, or is no such file.
    """
    found = _FILE_NAME.fullmatch(path.name)
    name = task or (found[7] if found else "")
    if not name:
        raise DataError(f"{path.name} does not say its task (DATE_samples_TASK.jsonl): give --task")
    found_answers: dict[str, Answer] = {}
    metric = ""
    for name_of_metric, answer in samples(path, SAMPLES_FILE, _read):
        metric = metric or name_of_metric
        found_answers.setdefault(answer.key, answer)  # of several filters the first
    answers = list(found_answers.values())
    year, month, day, hour, minute, second = found.groups("")[:6] if found else ("",) * 6
    created = f"{year}-{month}-{day}T{hour}:{minute}:{second}Z" if year else ""
    model = model or path.resolve().parent.name
    config = _config(path, name)
    if config is not None:
        answers = [replace(answer, config=config) for answer in answers]
    return ToolAnswers("lmms-eval", name, model, with_slices(answers), metric=metric or "score", created=created)


def _config(path: Path, task: str) -> dict[str, Any] | None:
    """Returns a task's decoding by the file of results beside the samples; None where there is none."""
    try:
        results = orjson.loads(path.with_name(path.name.partition("samples_")[0] + "results.json").read_bytes())
        config = results["configs"][task]
        kwargs, kind = config["generation_kwargs"], config.get("output_type", _CHAT)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Its chat models do not know stop strings; other kinds of tasks are asked by its simple models alone.
    return decoding(kwargs, "max_new_tokens", stops=kind != _CHAT) if isinstance(kwargs, dict) else None


def _read(_: str, fields: Mapping[str, Any]) -> tuple[str, Answer]:
    """Returns the name of a line's first metric, and its answer."""
    metric, score = _score(fields)
    raw, read = _text(fields.get("resps")), _text(fields["filtered_resps"])
    if not is_text(fields.get("resps")) and not is_text(fields["filtered_resps"]):
        raw = NOT_ANSWERED
    failed = raw == NOT_ANSWERED or raw.startswith(FAILED) or read.startswith(FAILED)
    targets = fields["target"] if isinstance(fields["target"], list) else [fields["target"]]
    responses = fields.get("resps", fields["filtered_resps"])
    # Its models return the loss of an option, the mean over its tokens.
    scored = tuple((-loss, greedy) for loss, greedy in pairs_of(responses))
    doc = fields.get("doc")
    known = {**(doc if isinstance(doc, dict) else {}), **fields}
    answer = Answer(
        key=str(int(fields["doc_id"])),
        prompt=_asked(_text(fields.get("input", fields.get("arguments", "")))),
        text="" if failed or scored else raw or read,
        targets=tuple(map(str, targets)),
        likelihoods=scored,
        labels={
            str(name): str(value)
            for name, value in known.items()
            if isinstance(value, str) and name not in _NO_METRICS and name not in ("question", "answer")
        },
        failed=(read if read.startswith(FAILED) else raw) if failed else "",
        score=None if failed else score,
        extracted=read if read != raw and not scored else "",
        tokens=_tokens(fields.get("token_counts")),
        responses=responses if not scored and len(texts_of(responses)) > 1 else None,
    )
    return metric, answer


def _asked(prompt: str) -> str:
    """Returns the words to which the answer was given: of those for a drawing and for the question, the latter."""
    found = _QUESTION.search(prompt)
    return found[1].strip() if found else prompt


def _tokens(counts: Any) -> int:
    """Returns how many tokens an answer has, 0 where that is not recorded."""
    first = counts[0] if isinstance(counts, list) and counts else counts
    found = first.get("output_tokens") if isinstance(first, dict) else None
    return found if isinstance(found, int) else 0


def _text(value: Any) -> str:
    """Returns a text, the first of nested lists of them, or what stands in its place as JSON."""
    while isinstance(value, list) and value and isinstance(value[0], list | str):
        value = value[0]
    if value is None or value == [] or value == [None]:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _score(fields: Mapping[str, Any]) -> tuple[str, float | None]:
    """Returns the first metric's name and value: a number, or one within an object, as many tasks have it."""
    others = [name for name in fields if name not in _NO_METRICS and name not in _SCORES]
    for name in (*(name for name in _SCORES if name in fields), *others):
        value = fields[name]
        if isinstance(value, dict):
            value = next((value[inner] for inner in _SCORES if inner in value), None)
        if isinstance(value, int | float):
            return name, float(value)
    return "", None
