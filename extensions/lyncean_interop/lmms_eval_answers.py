"""lmms-eval's files of samples (`--log_samples`) of any task, with lmms-eval's own scores."""

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
    """Reads a file of samples; takes the first metric of a line as its score, and the first of several filters.

    Raises:
        DataError: It cannot be read, or is not such a file.
    """
    match = _FILE_NAME.fullmatch(path.name)
    name = task or (match[7] if match else "")
    if not name:
        raise DataError(f"{path.name} does not say its task (DATE_samples_TASK.jsonl): give --task")
    by_key: dict[str, Answer] = {}
    metric = ""
    for name_of_metric, answer in samples(path, SAMPLES_FILE, _read):
        metric = metric or name_of_metric
        by_key.setdefault(answer.key, answer)  # the first of several filters
    answers = list(by_key.values())
    year, month, day, hour, minute, second = match.groups("")[:6] if match else ("",) * 6
    created = f"{year}-{month}-{day}T{hour}:{minute}:{second}Z" if year else ""
    model = model or path.resolve().parent.name
    config = _config(path, name)
    if config is not None:
        answers = [replace(answer, config=config) for answer in answers]
    return ToolAnswers("lmms-eval", name, model, with_slices(answers), metric=metric or "score", created=created)


def _config(path: Path, task: str) -> dict[str, Any] | None:
    """Returns a task's decoding from the file of results beside the samples; None without the file."""
    try:
        results = orjson.loads(path.with_name(path.name.partition("samples_")[0] + "results.json").read_bytes())
        config = results["configs"][task]
        kwargs, kind = config["generation_kwargs"], config.get("output_type", _CHAT)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Its chat models ignore stop strings; only its simple models run other kinds of tasks.
    return decoding(kwargs, "max_new_tokens", stops=kind != _CHAT) if isinstance(kwargs, dict) else None


def _read(where: str, fields: Mapping[str, Any]) -> tuple[str, Answer]:
    """Returns the name of a line's first metric, and its answer."""
    if isinstance(arguments := fields.get("arguments"), dict) and "gen_args_0" in arguments:
        raise DataError(f"{where}, is of lm-evaluation-harness: give the file to orchestrator import lm-eval")
    metric, score = _score(fields)
    raw, read = _text(fields.get("resps")), _text(fields["filtered_resps"])
    if not is_text(fields.get("resps")) and not is_text(fields["filtered_resps"]):
        raw = NOT_ANSWERED
    failed = raw == NOT_ANSWERED or raw.startswith(FAILED) or read.startswith(FAILED)
    targets = fields["target"] if isinstance(fields["target"], list) else [fields["target"]]
    responses = fields.get("resps", fields["filtered_resps"])
    # Its models return an option's mean loss per token.
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
    """Returns the question that the answer belongs to, without the drawing instruction."""
    match = _QUESTION.search(prompt)
    return match[1].strip() if match else prompt


def _tokens(counts: Any) -> int:
    """Returns the number of tokens of an answer, 0 if it is not recorded."""
    first = counts[0] if isinstance(counts, list) and counts else counts
    tokens = first.get("output_tokens") if isinstance(first, dict) else None
    return tokens if isinstance(tokens, int) else 0


def _text(value: Any) -> str:
    """Returns a text, the first text of nested lists, or another value as JSON."""
    while isinstance(value, list) and value and isinstance(value[0], list | str):
        value = value[0]
    if value is None or value == [] or value == [None]:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _score(fields: Mapping[str, Any]) -> tuple[str, float | None]:
    """Returns the first metric's name and value: a number, or a number within an object, as in many tasks."""
    others = [name for name in fields if name not in _NO_METRICS and name not in _SCORES]
    for name in (*(name for name in _SCORES if name in fields), *others):
        value = fields[name]
        if isinstance(value, dict):
            value = next((value[inner] for inner in _SCORES if inner in value), None)
        if isinstance(value, int | float):
            return name, float(value)
    return "", None
