"""A run folder from a samples file of lmms-eval."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.benchmarks.base import Benchmark
    from orchestrator.interop.lmms_eval_samples import LmmsSample
    from orchestrator.samples import Sample, Scoring, Variant


def take(
    path: Path, run: Path, *, task: str | None, data: str | None, model_name: str | None
) -> tuple[int, dict[str, float]]:
    """Writes a run folder of a samples file's answers, not scored yet.

    Returns:
        How many samples there are, and what lmms-eval scored them by the item's key, where it says.

    Raises:
        DataError: The file or the data cannot be used, or do not belong together.
        RunLogError: The run folder is in use, or cannot be made.
    """
    from lyncean.model.v1 import model_pb2 as model
    from orchestrator.benchmarks.registry import UnknownTaskError, find
    from orchestrator.data.rows import DataError
    from orchestrator.interop import lmms_eval_samples as samples
    from orchestrator.interop.answers import write_run
    from orchestrator.samples import Variant

    name = samples.task_of(path, task)
    try:
        benchmark = find([name])[name]
    except (UnknownTaskError, KeyError) as error:
        raise DataError(f"{path.name} is of {name}, which is none of our tasks: give --task") from error
    variant = Variant(name, settings=benchmark.settings())
    known = dict(enumerate(_samples(benchmark, variant, data))) if data else {}
    taken = list(samples.read(path, name))
    if data:
        _check_fits(data, known, taken)
    write_run(
        run,
        path,
        tool="lmms-eval",
        task=name,
        info=model.GetModelInfoResponse(
            model_name=model_name or path.resolve().parent.name, server_version="lmms-eval"
        ),
        method="generate",
        lines=(_line(name, one, known.get(one.number)) for one in taken),
        count=len(taken),
        metrics=list(benchmark.metrics(variant)),
    )
    scores = {_key(name, one, known.get(one.number)): one.score for one in taken if one.score is not None}
    return len(taken), scores


def _samples(benchmark: Benchmark, variant: Variant, data: str) -> Iterator[Sample]:
    """Yields each row's sample, in the order of the rows, which doc_id counts."""
    rows = benchmark.rows(variant.task, data)
    return itertools.chain.from_iterable(benchmark.samples(row, variant) for row in rows)


def _judged(sample: Sample | None) -> Scoring | None:
    return sample.turns[-1].scoring if sample else None


def _check_fits(data: str, known: Mapping[int, Sample], taken: Sequence[LmmsSample]) -> None:
    """Makes sure that the samples are of these rows: others' options would be read into the answers.

    Raises:
        DataError: A sample has no row, or the row's answer is not the sample's.
    """
    from orchestrator.data.rows import DataError

    for one in taken:
        found = _judged(known.get(one.number))
        if found is None or found.targets != (one.target,):
            there = "there is no such row" if found is None else f"that row's is {' or '.join(found.targets)}"
            raise DataError(
                f"--data {data} is not what these samples were asked from: the right answer to doc_id {one.number} is "
                f"{one.target or 'empty'}, {there}; give the same data in its own order, or leave --data out"
            )


def _key(task: str, taken: LmmsSample, sample: Sample | None) -> str:
    """Returns an item's key as a run of ours has it, so that the two compare; without the data by its row."""
    return sample.item_key(sample.turns[-1]) if sample else f"{task}/{taken.number}"


def _line(task: str, taken: LmmsSample, sample: Sample | None) -> dict[str, Any]:
    known = _judged(sample)
    options = known.options if known else taken.options
    # The reference drops options that hold parentheses; then the letters of the rest are not the data's.
    if taken.target not in "ABCD"[: len(options)]:
        options = ()
    labels: Mapping[str, str] = known.labels if known else taken.labels
    line: dict[str, Any] = {
        "key": _key(task, taken, sample),
        **({"outcome": "failed"} if taken.failed else {}),
        "sample": sample.key if sample else f"{task}/{taken.number}",
        "turn": sample.turns[-1].name if sample else "",
        "task": task,
        "method": "generate",
        "request": {"messages": [{"role": "ROLE_USER", "parts": [{"text": taken.prompt}]}]},
        "scoring": {
            "rule": "choice",
            "targets": [taken.target],
            "options": list(options),
            "params": {} if options else {"count": 4},
            "labels": dict(labels),
            "group": "",
        },
        "attempts": 1,
    }
    if taken.failed:
        line["error"] = {"code": "", "reason": "request_failed", "message": taken.failed}
    else:
        line["response"] = {"parts": [{"text": taken.text}], "finish_reason": "FINISH_REASON_UNSPECIFIED"}
    return line
