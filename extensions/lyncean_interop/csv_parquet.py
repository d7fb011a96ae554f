"""Items as a flat table, one row per item: CSV and parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.run_folder import STEP, Item, Run, reason

_TEXTS = (
    "run", "model", "task", "key", "sample", "turn", "outcome", "extracted", "target", "reason", "answer", "prompt",
    "group", "rule", "scores", "judge", "replica",
)  # fmt: skip
_COLUMNS = {
    **dict.fromkeys(_TEXTS, pa.string()),
    **dict.fromkeys(("score", "score_answered", "seconds"), pa.float64()),
    **dict.fromkeys(("input_tokens", "output_tokens", "reasoning_tokens"), pa.int64()),
    "cut": pa.bool_(),
}
_BATCH = 2000


def rows(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Yields a row for each planned item; labels are columns named `label_NAME`, facts of items `fact_NAME`.

    The mean of `score` is a metric's value over all samples, the mean of `score_answered` that over answered ones.
    """
    for run in runs:
        for item in run:
            if item.outcome != STEP:
                yield _row(run, item)


def _row(run: Run, item: Item) -> dict[str, Any]:
    response, verdict = item.response, item.verdict
    answer = response.get("response") or {}
    request = response.get("request") or {}
    usage = answer.get("usage") or {}
    answer_text = orjson.dumps(dict(item.continuations)).decode() if item.continuations else item.text
    prompt = [part["text"] for m in request.get("messages", ()) for part in m.get("parts", ()) if "text" in part]
    return {
        "run": run.name, "model": run.model_name, "task": item.task, "key": item.key, "sample": item.sample,
        "turn": response.get("turn", ""), "outcome": item.outcome, "score": item.score_all,
        "score_answered": item.score_answered, "extracted": verdict.get("extracted", ""),
        "target": " | ".join(item.scoring.get("targets", ())),
        "reason": reason(item), "answer": answer_text,
        "prompt": "\n".join(prompt), "group": item.group, "rule": verdict.get("rule") or item.scoring.get("rule", ""),
        "scores": orjson.dumps(verdict["scores"]).decode() if verdict.get("scores") else "",
        "judge": (verdict.get("judge") or {}).get("words", ""), "replica": response.get("replica", ""),
        "seconds": response.get("seconds"), "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"), "reasoning_tokens": usage.get("reasoning_tokens"),
        "cut": item.cut,
        **{f"label_{name}": value for name, value in item.labels.items()},
        **{f"fact_{name}": value for name, value in (verdict.get("facts") or {}).items()},
    }  # fmt: skip


def _further(runs: Sequence[Run]) -> dict[str, pa.DataType]:
    """Returns the columns of labels and facts."""
    labels, facts = set[str](), set[str]()
    for item in (item for run in runs for item in run):
        labels.update(item.labels)
        facts.update(item.verdict.get("facts") or ())
    columns = {f"label_{name}": pa.string() for name in sorted(labels)}
    return columns | {f"fact_{name}": pa.float64() for name in sorted(facts)}


def write_csv(runs: Sequence[Run], file: IO[str]) -> None:
    """Writes CSV with a header line; prefixes an apostrophe to cells that a spreadsheet would take for formulas."""
    writer = csv.DictWriter(file, [*_COLUMNS, *_further(runs)], restval="")
    writer.writeheader()
    for row in rows(runs):
        writer.writerow({name: _defused(value) for name, value in row.items()})


def _defused(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def write_parquet(runs: Sequence[Run], path: Path) -> None:
    """Writes a parquet file, a batch at a time."""
    schema = pa.schema([*_COLUMNS.items(), *_further(runs).items()])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        remaining = rows(runs)
        while batch := list(islice(remaining, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema))
