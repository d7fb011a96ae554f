"""Answers of other tools as a run folder, to be scored by our rules beside the tool's own verdicts."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import orjson

from lyncean.media import media_type
from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.data import DataError, digest_files
from orchestrator.run_folder import (
    IMAGES,
    MANIFEST,
    RESPONSES,
    Appender,
    ImageStore,
    RunLogError,
    make_manifest,
    model_identity,
    write_error,
    write_json,
)
from orchestrator.samples import metric

T = TypeVar("T")

LETTERS = "ABCDEFGHIJ"
_OPTION = re.compile(r"^\s*\(?([A-J])[.):]\s+(.+?)\s*$", re.MULTILINE)
NOT_ANSWERED = "the file has no answer"
"""Reason of a failed item that the file lists without an answer."""
_MOST_SLICES = 48
"""Maximum number of values of another tool's label; labels with more are not slices."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    Attributes:
        key: Name of the document within the task.
        prompt: The text of the request.
        text: The answer; "" if options were scored or the request failed.
        targets: The right answers: letters, or texts.
        options: The options' texts in their order, empty for an open question or if the file has none.
        labels: Labels for slices.
        failed: The tool's error of a failed request, "" if there is an answer.
        score: The tool's own score from 0 to 1, None without one.
        extracted: The text that the tool extracted from the answer, "" if unknown.
        likelihoods: Log-probability of each option and whether it is greedy, if options were scored.
        images: The images of the request, if the tool keeps them.
        config: The requested decoding, by the contract's names; None if unknown.
        tokens: Tokens of the answer, 0 if unknown; an answer with as many as the limit counts as cut.
        responses: All answers to the document, in the tool's nested lists, if they are not a single text.
    """

    key: str
    prompt: str
    text: str
    targets: tuple[str, ...]
    options: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    failed: str = ""
    score: float | None = None
    extracted: str = ""
    likelihoods: tuple[tuple[float, bool], ...] = ()
    images: tuple[bytes, ...] = ()
    config: Mapping[str, Any] | None = None
    tokens: int = 0
    responses: Any = None


@dataclass(frozen=True, slots=True)
class ToolAnswers:
    """A tool's answers to one task.

    Attributes:
        task: The task's name in the tool.
        model: The model's name in the tool.
        answers: In the tool's order.
        path: The file that was read, if a folder was named.
        metric: The tool's name of the scores.
        created: Start of the tool's run in ISO 8601; "" if unknown.
        complete: Whether the tool's run is finished; True if unknown.
    """

    tool: str
    task: str
    model: str
    answers: Sequence[Answer]
    path: Path | None = None
    metric: str = "score"
    created: str = ""
    complete: bool = True


Reader = Callable[..., ToolAnswers]
"""Reads a file; takes the user's names of task and model, and further options of its command."""


def samples(path: Path, kind: str, read: Callable[[str, dict[str, Any]], T]) -> Iterator[T]:
    """Yields the samples of a file with one JSON object per line.

    Args:
        path: The file.
        kind: What the file should be, for messages: "samples file of lmms-eval (--log_samples)".
        read: Reads one object; gets its location for messages.

    Raises:
        DataError: The file or a line cannot be read, or is not the tool's; the message names the line.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                where = f"{path}, line {number}"
                try:
                    fields = orjson.loads(line)
                    if not isinstance(fields, dict):
                        raise TypeError("it is not an object")
                    yield read(where, fields)
                except orjson.JSONDecodeError as error:
                    raise DataError(f"{where}, is not JSON: {error}") from None
                except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
                    raise DataError(f"{where}: {type(error).__name__}: {error}: is it a {kind}?") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def take(imported: ToolAnswers, path: Path, run: Path) -> None:
    """Writes an unscored run folder.

    Raises:
        DataError: There are no answers, or two have the same key.
        RunLogError: The folder holds a run, or cannot be made.
    """
    path = imported.path or path
    check_keys(imported, path)
    task = task_name(imported)
    images = ImageStore(run / IMAGES)
    labels = [[name] for name in dict.fromkeys(name for answer in imported.answers for name in answer.labels)]
    write_run(
        run,
        path,
        tool=imported.tool,
        task=task,
        info=model.GetModelInfoResponse(model_name=imported.model, server_version=imported.tool),
        method="likelihood" if any(answer.likelihoods for answer in imported.answers) else "generate",
        lines=(
            answer_line(
                f"{task}/{answer.key}", task, answer, _scoring(answer), [_image(data, images) for data in answer.images]
            )
            for answer in imported.answers
        ),
        count=len(imported.answers),
        metrics=[metric("accuracy", "accuracy", by=labels, params={"unit": "percent"})],
        created=imported.created,
    )


def check_keys(imported: ToolAnswers, path: Path) -> None:
    """Makes sure that there are answers, each with a key of its own.

    Raises:
        DataError: There are none, or two have the same key.
    """
    if not imported.answers:
        raise DataError(f"{path} holds no answers")
    twice = [key for key, count in Counter(answer.key for answer in imported.answers).items() if count > 1]
    if twice:
        raise DataError(f"{path}: the key {twice[0]!r} stands twice")


def check_options(imported: ToolAnswers, path: Path) -> None:
    """Checks that our rule can identify the right one of the scored options.

    Raises:
        DataError: The file does not state the right option.
    """
    for answer in imported.answers:
        options = _scored_options(answer)
        names = {*options, *LETTERS[: len(options)], *map(str, range(len(options)))}
        if answer.likelihoods and (len({*options}) < len(options) or not names.issuperset(answer.targets)):
            raise DataError(
                f"{path} does not say which option of {answer.key} is {answer.targets[0][:60]!r}: give --data, so that "
                "the task's own code scores it"
            )


def _scored_options(answer: Answer) -> Sequence[str]:
    """Returns the scored options: their texts, or their letters or numbers if the file has none."""
    count = len(answer.likelihoods)
    return answer.options or (LETTERS[:count] if count <= len(LETTERS) else [str(number) for number in range(count)])


def with_slices(answers: Iterable[Answer]) -> list[Answer]:
    """Returns answers without labels of too many values, such as a row's address, which are useless for slices."""
    listed = list(answers)
    values: dict[str, set[str]] = {}
    for answer in listed:
        for name, value in answer.labels.items():
            if len(seen := values.setdefault(name, set())) <= _MOST_SLICES:
                seen.add(value)
    few = {name for name, seen in values.items() if len(seen) <= _MOST_SLICES}
    return [
        replace(answer, labels={name: value for name, value in answer.labels.items() if name in few})
        for answer in listed
    ]


def decoding(kwargs: Mapping[str, Any], limit: str, *, stops: bool) -> dict[str, Any]:
    """Returns the decoding of a harness's generation kwargs, as the bridge requests it.

    Args:
        kwargs: The kwargs as the harness records them.
        limit: The harness's name of the output limit.
        stops: Whether the harness ends answers at the strings of `until`.
    """
    settings: dict[str, Any] = {}
    if isinstance(kwargs.get(limit), int):
        settings["max_output_tokens"] = kwargs[limit]
    if kwargs.get("do_sample") is not False and kwargs.get("temperature"):
        names = ("temperature", "top_p")
        settings |= {name: float(kwargs[name]) for name in names if isinstance(kwargs.get(name), int | float)}
    until = kwargs.get("until") or ()
    if stops and until:
        settings["stop"] = [until] if isinstance(until, str) else [str(stop) for stop in until if stop]
    return settings


def task_name(imported: ToolAnswers) -> str:
    """Returns the task's name in a run folder, without slashes, since a key's first slash ends the name."""
    return imported.task.replace("/", "_")


def write_run(
    run: Path,
    path: Path,
    *,
    tool: str,
    task: str,
    info: model.GetModelInfoResponse,
    method: str,
    lines: Iterable[Mapping[str, Any]],
    count: int,
    metrics: Sequence[scorer.MetricSpec],
    created: str = "",
) -> None:
    """Writes the manifest and the answers of an imported run.

    Raises:
        RunLogError: The folder holds a run, or cannot be made.
    """
    if (run / RESPONSES).exists():
        raise RunLogError(f"{run} holds a run already: give --run another folder")
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(run, error) from error
    log = Appender(run / RESPONSES)
    try:
        for line in lines:
            log.add(orjson.dumps(line))
            log.flush()
    finally:
        log.close()
    identity = {
        "tasks": [task],
        "method": method,
        "imported": tool,
        "data": {task: {"origin": path.name, "sha256": digest_files([(path.name, path)])}},
        "model": model_identity(info),
        "stages": {},
    }
    manifest = make_manifest(
        identity,
        info=info,
        stages={},
        replicas=[],
        rules=scorer.ListRulesResponse(),
        metrics={task: list(metrics)},
        shard=None,
        code={},
    )
    known = {"created": created} if created else {}
    write_json(run / MANIFEST, manifest | known | {"planned": {task: count}})


def answer_line(
    key: str,
    task: str,
    answer: Answer,
    scoring: Mapping[str, Any],
    images: Sequence[Mapping[str, Any]] = (),
    *,
    sample: str = "",
    turn: str = "",
) -> dict[str, Any]:
    """Returns an answer's line of responses.jsonl.

    Args:
        key: The item's key.
        task: The task's name in the run folder.
        answer: The answer.
        scoring: Rule, targets, options and parameters.
        images: The parts of the prompt before its text.
        sample: Key of its sample, if it is not the item's.
        turn: Name of its turn.
    """
    request: dict[str, Any] = {"messages": [{"role": "ROLE_USER", "parts": [*images, {"text": answer.prompt}]}]}
    if answer.likelihoods and answer.options:
        request["continuations"] = list(answer.options)
    if answer.config is not None:
        request["config"] = dict(answer.config)
    line: dict[str, Any] = {
        "key": key,
        **({"outcome": "failed"} if answer.failed else {}),
        "sample": sample or key,
        "turn": turn,
        "task": task,
        "method": "likelihood" if answer.likelihoods else "generate",
        "request": request,
        "scoring": {**scoring, "labels": dict(answer.labels), "group": ""},
        "attempts": 1,
    }
    if answer.failed:
        line["error"] = {"code": "", "reason": "request_failed", "message": answer.failed}
    elif answer.likelihoods:
        scores = [{"logprob": value, "token_count": 1, "is_greedy": greedy} for value, greedy in answer.likelihoods]
        line["response"] = {"scores": scores}
    else:
        cut = 0 < (answer.config or {}).get("max_output_tokens", math.inf) <= answer.tokens
        reason = "FINISH_REASON_MAX_TOKENS" if cut else "FINISH_REASON_UNSPECIFIED"
        line["response"] = {"parts": [{"text": answer.text}], "finish_reason": reason}
    return line


def _image(data: bytes, images: ImageStore) -> dict[str, Any]:
    return {"image": {"media_type": media_type(data), "sha256": images.put(data), "bytes_length": len(data)}}


def _scoring(answer: Answer) -> dict[str, Any]:
    """Returns the scoring of an answer: by its options, else as yes or no, else by the words of its targets."""
    targets, options = list(answer.targets), answer.options
    if answer.likelihoods:
        return {"rule": "likelihood", "targets": targets, "options": list(_scored_options(answer)), "params": {}}
    if not options:
        options = lettered(_OPTION.findall(answer.prompt))
        if len(options) < 2 or not all(target.upper() in LETTERS[: len(options)] for target in targets):
            options = ()
    letters = [_letter(target, options) for target in targets]
    if options and targets and all(letters):
        return {"rule": "choice", "targets": letters, "options": list(options), "params": {}}
    if len(targets) == 1 and targets[0].strip().lower() in ("yes", "no"):
        return {"rule": "two_way", "targets": [targets[0].strip().lower()], "options": ["yes", "no"], "params": {}}
    return {"rule": "contains_word", "targets": targets, "options": [], "params": {}}


def lettered(lines: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Returns the texts of a prompt's lines with letters A, B, C..., from the last A on."""
    options: list[str] = []
    for letter, text in lines:
        if letter == "A":
            options = []  # earlier letters belong to the question or to an example
        if letter == LETTERS[len(options) : len(options) + 1]:
            options.append(text.strip())
    return tuple(options)


def column_options(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the options of a row whose columns are named A, B, C..."""
    cells = (row.get(letter) for letter in LETTERS)
    return tuple(str(cell) for cell in takewhile(lambda cell: isinstance(cell, str) and cell.strip(), cells))


def _letter(target: str, options: Sequence[str]) -> str:
    """Returns the letter of a target, which is a letter or the text of an option; "" for others."""
    word = target.strip()
    if len(word) == 1 and word.upper() in LETTERS[: len(options)]:
        return word.upper()
    positions = [index for index, option in enumerate(options) if option.strip() == word]
    return LETTERS[positions[0]] if len(positions) == 1 else ""
