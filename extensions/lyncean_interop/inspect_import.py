"""Inspect AI's logs, read by its own library."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from lyncean_interop import archives
from lyncean_interop.answers import Answer, ToolAnswers, with_slices
from orchestrator import ConfigError
from orchestrator.data import DataError

try:
    from inspect_ai.log import EvalLog, EvalSample, read_eval_log
    from inspect_ai.scorer import Score, value_to_float
except ImportError as error:
    raise ConfigError("import inspect needs Inspect: pip install 'lyncean[inspect]'") from error

_UNUSED = ("messages", "events", "events_data", "timelines", "store", "error_retries")
"""Fields of a sample that are not read: most of a log, with references that multiply its size."""


def read(path: Path, task: str | None, model: str | None) -> ToolAnswers:
    """Reads a log (`.eval` or `.json`); further epochs of a sample are its repeats.

    Raises:
        DataError: It cannot be read, has no samples, or unpacks to more than the limit for its size.
    """
    try:
        log = _log(path)
    except DataError:
        raise
    except Exception as error:
        line = " ".join(str(error).split())[:200]
        raise DataError(f"{path} cannot be read as a log of Inspect: {type(error).__name__}: {line}") from None
    _check_texts(path, log.samples or ())
    name = task or log.eval.task
    config = _config(log)
    answers = with_slices(replace(_answer(sample, name), config=config) for sample in log.samples or ())
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


def _config(log: EvalLog) -> dict[str, Any]:
    """Returns the decoding of a log's plan."""
    config = log.plan.config.model_dump(exclude_none=True)
    names = {"max_output_tokens": "max_tokens", "stop": "stop_seqs"} | {
        name: name for name in ("temperature", "top_p", "top_k", "seed")
    }
    return {setting: config[name] for setting, name in names.items() if name in config}


def _log(path: Path) -> EvalLog:
    with archives.unpacked(path, _needed) if path.suffix == ".eval" else nullcontext(path) as plain:
        return read_eval_log(str(plain), resolve_attachments=True)


def _needed(name: str, content: bytes) -> bytes:
    """Returns a member without the fields that are not used."""
    if not (name.startswith("samples/") and name.endswith(".json")):
        return content
    sample = json.loads(content)
    return json.dumps({key: value for key, value in sample.items() if key not in _UNUSED}).encode()


def _check_texts(path: Path, samples: Sequence[EvalSample]) -> None:
    """Checks the size of prompts and answers with their attachments, since many parts may name the same one."""
    replies = ([choice.message for choice in sample.output.choices] for sample in samples)
    size = sum(_length(sample.input) + _length(messages) for sample, messages in zip(samples, replies, strict=True))
    if size > (most := archives.room(path)):
        raise DataError(f"{path}: its samples hold {size:,} characters, the limit for a file of its size is {most:,}")


def _length(content: Any) -> int:
    if isinstance(content, str):
        return len(content)
    parts = [
        part for message in content for part in ([message] if isinstance(message.content, str) else message.content)
    ]
    return sum(len(getattr(part, "text", "") or "") + len(getattr(part, "image", "") or "") for part in parts)


def _answer(sample: EvalSample, task: str) -> Answer:
    targets = [sample.target] if isinstance(sample.target, str) else sample.target
    score = next(iter((sample.scores or {}).values()), None)
    repeat = f"#{sample.epoch - 1}" if sample.epoch > 1 else ""
    return Answer(
        key=f"{str(sample.id).removeprefix(f'{task}/')}{repeat}",  # our own exports include the task
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
    """Returns the texts and flags of a sample's metadata; our own exports have them in `labels`."""
    known = metadata["labels"] if isinstance(metadata.get("labels"), dict) else metadata
    return {str(name): str(value) for name, value in known.items() if isinstance(value, str | bool)}


def _images(content: Any) -> Iterator[bytes]:
    """Yields the images within the log; ignores files and addresses that it names."""
    for message in () if isinstance(content, str) else content:
        for part in () if isinstance(message.content, str) else message.content:
            head, comma, data = part.image.partition(",") if part.type == "image" else ("", "", "")
            if comma and head.startswith("data:image/") and head.endswith(";base64"):
                try:
                    yield base64.b64decode(data, validate=True)
                except binascii.Error:
                    continue


def _prompt(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(message.text for message in content if message.role != "assistant")


def _number(score: Score | None) -> float | None:
    """Returns a score as a number; None for a score of several values, which is not comparable with accuracy."""
    if score is None or isinstance(score.value, (list, dict)):
        return None
    return float(value_to_float()(score.value))
