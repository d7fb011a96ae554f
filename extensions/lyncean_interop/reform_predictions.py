"""Predictions of other programs in the reference's output format, as items to score."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.benchmarks.reform import DATASETS, FORMULATIONS, GENERATION, KIE, METHODS, OCR, SINGLE_CHOICE
from orchestrator.data import DataError
from orchestrator.samples import Scoring

UNNAMED = "reform_predictions"
"""Task of predictions whose file name has no task."""

_RULES = {SINGLE_CHOICE: "reform_choice", OCR: "reform_ocr", KIE: "reform_kie", GENERATION: "caption"}


@dataclass(frozen=True, slots=True)
class Prediction:
    """One record.

    Attributes:
        key: Last part of the item's key, with the test's number.
        text: The model's answer; an index in decimal for likelihood; None if the record's prediction is null.
        prompt: The prompt, "" if the record has none.
        scoring: How it is scored.
    """

    key: str
    text: str | None
    prompt: str
    scoring: Scoring


def read_file(path: Path) -> list[Mapping[str, Any]]:
    """Reads a prediction file.

    Raises:
        DataError: It cannot be read or is not an array of objects.
    """
    try:
        records = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise DataError(f"{path} should be a JSON array of objects, one a test")
    if not records:
        raise DataError(f"{path} has no predictions")
    return records


def named_by(path: Path) -> tuple[str, str]:
    """Returns task and model from a file name of the reference, `{dataset}_{formulation}_{method}_{model}`.

    Some names of datasets stand for several tasks (VQA, TDIUC); then the task is `reform_predictions`.
    """
    match = re.fullmatch(rf"(.+?)_({'|'.join(FORMULATIONS)})_({'|'.join(METHODS)})_(.+)", path.stem)
    if not match:
        return UNNAMED, path.stem
    dataset, formulation, _, model = match.groups()
    tasks = [
        task for task, entry in DATASETS.items() if entry.dataset_name == dataset and formulation in entry.formulations
    ]
    return tasks[0] if len(tasks) == 1 else UNNAMED, model


def predictions(
    records: Sequence[Mapping[str, Any]], formulation: str, method: str, *, rounds: bool = False
) -> Iterator[Prediction]:
    """Yields the records as items; the tests of one sample share its id and differ by their order.

    Raises:
        DataError: A record lacks something, or its prediction is of another type.
    """
    tests: Counter[str] = Counter()
    owners: dict[str, str] = {}
    for number, record in enumerate(records, 1):
        where = f"prediction {number}"
        wanted = ["sample_id", "prediction", "references" if formulation == GENERATION else "answer"]
        missing = [key for key in (*wanted, *["round_id"] * rounds) if key not in record]
        if missing:
            raise DataError(f"{where} lacks {', '.join(missing)}")
        options = record.get("answer_options") or ()
        if not isinstance(options, list | tuple):
            raise DataError(f"{where}: the options {options!r} are no list")
        sample_id = _named(record["sample_id"], owners)
        test = tests[sample_id]
        tests[sample_id] += 1
        labels = {"round": str(record["round_id"])} if "round_id" in record else {}
        yield Prediction(
            sample_id + (f"#{test}" if test else ""),
            _prediction_text(record["prediction"], where, formulation, method),
            str(record.get("text") or record.get("question", "")),
            Scoring(
                _RULES[formulation],
                targets=_targets(record, where, formulation),
                options=tuple(map(str, options)),
                params={"infer": method} if formulation == SINGLE_CHOICE else {},
                labels=labels,
                group=sample_id,
            ),
        )


def _named(sample_id: Any, owners: dict[str, str]) -> str:
    """Returns a name for keys of a sample's id; `owners` maps used names to their ids as JSON."""
    known, plain, twin = json.dumps(sample_id), re.sub(r"[#:\s]", "_", str(sample_id)), 0
    name = plain
    while owners.setdefault(name, known) != known:
        twin += 1
        name = f"{plain}~{twin}"
    return name


def _prediction_text(prediction: Any, where: str, formulation: str, method: str) -> str | None:
    if prediction is None:
        return None
    if method == "likelihood":
        # A bool is an int in Python; the reference fails on it later and less clearly.
        if not isinstance(prediction, int) or isinstance(prediction, bool):
            raise DataError(
                f"{where} is {prediction!r}: a likelihood prediction is the chosen option's index, an integer"
            )
        return str(prediction)
    if isinstance(prediction, list) and formulation == OCR:
        return " ".join(map(str, prediction))
    if not isinstance(prediction, str):
        raise DataError(f"{where} is {prediction!r}: a generated prediction is a string")
    return prediction


def _targets(record: Mapping[str, Any], where: str, formulation: str) -> tuple[str, ...]:
    if formulation == SINGLE_CHOICE:
        try:
            return (str(int(record["answer"])),)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{where}: the answer {record['answer']!r} is not an index") from None
    value = record["references"] if formulation == GENERATION else record["answer"]
    targets = tuple(map(str, value)) if isinstance(value, list) else (str(value),)
    if not targets:
        raise DataError(f"{where} has nothing to compare with")
    return targets
