"""A run folder from a samples file of lmms-eval."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean_interop import lmms_eval_samples
from lyncean_interop.answers import Answer, answer_line, write_run
from orchestrator.benchmarks import UnknownTaskError, find_tasks
from orchestrator.data import DataError
from orchestrator.samples import Sample, Scoring, Variant


def take(
    path: Path, run: Path, *, task: str | None, data: str | None, model_name: str | None
) -> tuple[int, dict[str, float]]:
    """Writes an unscored run folder of a samples file's answers.

    Returns:
        The number of samples, and lmms-eval's own scores by the item's key, if the file has them.

    Raises:
        DataError: The file or the data cannot be used, or do not belong together.
        RunLogError: The run folder is in use, or cannot be created.
    """
    name = lmms_eval_samples.task_of(path, task)
    try:
        benchmark = find_tasks([name])[name]
    except (UnknownTaskError, KeyError) as error:
        raise DataError(f"{path.name} is of {name}, which is none of our tasks: give --task") from error
    variant = Variant(name, settings=benchmark.settings())
    samples: dict[str, Sample] = {}
    if data:
        # doc_id is the row's number.
        rows = (benchmark.samples(row, variant) for row in benchmark.rows(name, data))
        samples = {str(number): sample for number, sample in enumerate(itertools.chain.from_iterable(rows))}
    answers = list(lmms_eval_samples.read(path, name))
    if data:
        _check_fits(path, data, samples, answers)
    model_name = model_name or path.resolve().parent.name
    write_run(
        run,
        path,
        tool="lmms-eval",
        task=name,
        info=model.GetModelInfoResponse(model_name=model_name, server_version="lmms-eval"),
        method="generate",
        lines=(_line(name, answer, samples.get(answer.key)) for answer in answers),
        count=len(answers),
        metrics=list(benchmark.metrics(variant)),
    )
    scores = {
        _key(name, answer, samples.get(answer.key)): answer.score for answer in answers if answer.score is not None
    }
    return len(answers), scores


def _scoring(sample: Sample | None) -> Scoring | None:
    return sample.turns[-1].scoring if sample else None


def _check_fits(path: Path, data: str, samples: Mapping[str, Sample], answers: Sequence[Answer]) -> None:
    """Checks that the answers belong to these rows, so that options of other rows are not read into them.

    Raises:
        DataError: An answer has no row, or the row has another target.
    """
    for answer in answers:
        scoring = _scoring(samples.get(answer.key))
        if scoring is None or scoring.targets != answer.targets:
            there = "there is no such row" if scoring is None else f"that row's is {' or '.join(scoring.targets)}"
            raise DataError(
                f"--data {data} is not what {path.name} was asked from: the right answer to doc_id {answer.key} is "
                f"{answer.targets[0] or 'empty'}, {there}; give the same data in its own order, or leave --data out"
            )


def _key(task: str, answer: Answer, sample: Sample | None) -> str:
    """Returns an item's key as in our own runs, so that the two compare; without data it is the row's number."""
    return sample.item_key(sample.turns[-1]) if sample else f"{task}/{answer.key}"


def _line(task: str, answer: Answer, sample: Sample | None) -> dict[str, Any]:
    known = _scoring(sample)
    options = known.options if known else answer.options
    # The reference drops options with parentheses, so that the remaining letters differ from the data's.
    if answer.targets[0] not in "ABCD"[: len(options)]:
        options = ()
    scoring = {
        "rule": "choice",
        "targets": list(answer.targets),
        "options": list(options),
        "params": {} if options else {"count": 4},
    }
    return answer_line(
        _key(task, answer, sample),
        task,
        replace(answer, labels=known.labels) if known else answer,
        scoring,
        sample=sample.key if sample else "",
        turn=sample.turns[-1].name if sample else "",
    )
