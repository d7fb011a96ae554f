"""Inspect AI's logs, read by its own library."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.data.rows import DataError
from orchestrator.errors import ConfigError
from orchestrator.interop.answers import Answer, ToolAnswers, with_slices

try:
    from inspect_ai.log import EvalSample, read_eval_log
    from inspect_ai.scorer import Score, value_to_float
except ImportError as error:
    raise ConfigError("import inspect needs Inspect: pip install 'lyncean[inspect]'") from error


def read(path: Path, task: str | None, model: str | None) -> ToolAnswers:
    """Reads a log (`.eval` or `.json`); a sample's further epochs are its repeats.

    Raises:
        DataError: It cannot be read, or has no samples.
    """
    try:
        log = read_eval_log(str(path), resolve_attachments=True)
    except Exception as error:
        line = " ".join(str(error).split())[:200]
        raise DataError(f"{path} cannot be read as a log of Inspect: {type(error).__name__}: {line}") from None
    name = task or log.eval.task
    answers = with_slices(_answer(sample, name) for sample in log.samples or ())
    scorers = [name for sample in log.samples or () for name in sample.scores or ()]
    return ToolAnswers(
        "Inspect",
        name,
        model or log.eval.model,
        answers,
        metric=scorers[0] if scorers else "score",
        created=log.eval.created,
        complete=log.status == "success",
    )


def _answer(sample: EvalSample, task: str) -> Answer:
    targets = [sample.target] if isinstance(sample.target, str) else sample.target
    score = next(iter((sample.scores or {}).values()), None)
    repeat = f"#{sample.epoch - 1}" if sample.epoch > 1 else ""
    return Answer(
        key=f"{str(sample.id).removeprefix(f'{task}/')}{repeat}",  # an export of ours has the task in it
        prompt=_prompt(sample.input),
        text=sample.output.completion,
        targets=tuple(target for target in targets if target),
        options=tuple(sample.choices or ()),
        failed=" ".join(sample.error.message.split()) if sample.error else "",
        score=_number(score),
        extracted=str(score.answer or "") if score else "",
        labels=_labels(sample.metadata),
        images=tuple(_images(sample.input)),
    )


def _labels(metadata: Any) -> dict[str, str]:
    """Returns the words and flags of a sample's metadata; `labels` is where an export of ours has them."""
    known = metadata["labels"] if isinstance(metadata.get("labels"), dict) else metadata
    return {str(name): str(value) for name, value in known.items() if isinstance(value, str | bool)}


def _images(given: Any) -> Iterator[bytes]:
    """Yields the images that the log itself holds; files and addresses that it names are not looked at."""
    for message in () if isinstance(given, str) else given:
        for part in () if isinstance(message.content, str) else message.content:
            head, comma, data = part.image.partition(",") if part.type == "image" else ("", "", "")
            if comma and head.startswith("data:image/") and head.endswith(";base64"):
                try:
                    yield base64.b64decode(data, validate=True)
                except binascii.Error:
                    continue


def _prompt(given: Any) -> str:
    if isinstance(given, str):
        return given
    return "\n".join(message.text for message in given if message.role != "assistant")


def _number(score: Score | None) -> float | None:
    """Returns a score as a number; None for one of several values, which accuracy cannot be compared with."""
    if score is None or isinstance(score.value, (list, dict)):
        return None
    return float(value_to_float()(score.value))
