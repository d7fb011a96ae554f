"""lm-evaluation-harness' files of samples (`--log_samples`): generated answers and scored options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lyncean_interop.answers import NOT_ANSWERED, Answer, ToolAnswers, decoding, samples
from lyncean_interop.responses import pairs_of, texts_of
from orchestrator.data import DataError

_SAMPLES_FILE = "samples file of lm-evaluation-harness (--log_samples)"
_FILE_NAME = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)[\d.]*\.jsonl")


def read(path: Path, task: str | None, model: str | None) -> ToolAnswers:
    """Reads a file of samples; takes the verdicts of a task's first filter.

    Raises:
        DataError: It cannot be read, is not such a file, or repeats a document.
    """
    match = _FILE_NAME.fullmatch(path.name)
    name = task or (match[1] if match else "")
    if not name:
        raise DataError(f"{path.name} does not say its task (samples_TASK_DATE.jsonl): give --task")
    answers: dict[str, Answer] = {}
    metric, filters = "score", set[tuple[str, str]]()
    for name_of_metric, of_filter, answer in samples(path, _SAMPLES_FILE, _answer):
        if (answer.key, of_filter) in filters:
            raise DataError(f"{path}: doc_id {answer.key} stands twice: is it two files in one?")
        filters.add((answer.key, of_filter))
        metric = name_of_metric or metric
        answers.setdefault(answer.key, answer)
    created = f"{match[2]}T{match[3]}:{match[4]}:{match[5]}Z" if match else ""
    model = model or path.resolve().parent.name
    return ToolAnswers("lm-evaluation-harness", name, model, list(answers.values()), metric=metric, created=created)


def _answer(_: str, fields: Mapping[str, Any]) -> tuple[str, str, Answer]:
    """Returns the names of a line's first metric and of its filter, and its answer."""
    metric = str(next(iter(fields.get("metrics", ())), ""))
    return metric, str(fields.get("filter", "")), _answer_of(fields, metric)


def _answer_of(fields: Mapping[str, Any], metric: str) -> Answer:
    groups = sorted(fields["arguments"].items(), key=lambda entry: int(entry[0].rpartition("_")[2]))
    arguments = [[group[name] for name in sorted(group)] for _, group in groups]
    score = float(fields[metric]) if isinstance(fields.get(metric), int | float) else None
    common: dict[str, Any] = {"key": str(int(fields["doc_id"])), "score": score}
    responses = fields["resps"]
    if not responses or responses in ([[]], [[None]]):
        prompt, right = str(arguments[0][0]), str(fields["target"])
        return Answer(prompt=prompt, text="", targets=(right,), failed=NOT_ANSWERED, **common)
    if not (pairs := pairs_of(responses)):
        (context, *more), texts = arguments[0], texts_of(responses)
        if more and isinstance(more[0], dict):
            common["config"] = decoding(more[0], "max_gen_toks", stops=True)
        filtered = fields["filtered_resps"][0]
        read = filtered if isinstance(filtered, str) and filtered != texts[0] else ""
        target = fields["target"]
        common["targets"] = tuple(map(str, target)) if isinstance(target, list) else (str(target),)
        common["responses"] = responses if len(texts) > 1 else None
        return Answer(prompt=str(context), text=texts[0], extracted=read, **common)
    # The file repeats the options without a context for mutual information.
    scored = [(request, pair) for request, pair in zip(arguments, pairs, strict=True) if request[0]]
    inputs = len({request[0] for request, _ in scored}) > 1  # one continuation after several contexts
    options = tuple(str(request[0 if inputs else 1]) for request, _ in scored)
    return Answer(
        prompt="" if inputs else str(scored[0][0][0]),
        text="",
        targets=(_target(str(fields["target"]), options),),
        options=options,
        likelihoods=tuple(pair for _, pair in scored),
        responses=responses if len(pairs) > len(scored) else None,
        **common,
    )


def _target(target: str, options: tuple[str, ...]) -> str:
    """Returns the text of the right option, which the file names by its text or its number."""
    for option in options:
        if option.strip() == target.strip():
            return option
    return options[int(target)] if target.isdecimal() and int(target) < len(options) else target
