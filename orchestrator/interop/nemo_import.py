"""NeMo Evaluator's outputs: predictions of its own benchmarks (BYOB, `--save-predictions`), and those of harnesses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml

from orchestrator.data.rows import DataError
from orchestrator.interop import lm_eval_import, vlmevalkit_import
from orchestrator.interop.answers import Answer, ToolAnswers, column_options, samples

PREDICTIONS = "byob_predictions.jsonl"
_CONFIGS = ("run_config.yml", "results.yml")
_KINDS: tuple[tuple[str, Callable[..., ToolAnswers] | None], ...] = (
    (PREDICTIONS, None),
    ("samples_*.jsonl", lm_eval_import.read),
    ("*_*.xlsx", vlmevalkit_import.read),
    ("*_*.tsv", vlmevalkit_import.read),
)
"""Files with answers in an output folder, and what reads those that a harness inside it wrote."""


def read(path: Path, task: str | None, model: str | None) -> ToolAnswers:
    """Reads a file of predictions, or an output folder with one file of answers.

    Raises:
        DataError: It cannot be read, is no such file, or holds several.
        ConfigError: What it needs is not installed.
    """
    if not path.is_dir():
        return _predictions(path, task, model)
    found = [(file, reader) for pattern, reader in _KINDS for file in sorted(path.rglob(pattern))]
    if not found:
        raise DataError(
            f"{path} holds no answers of single samples: run NeMo Evaluator with --save-predictions (BYOB), or its "
            "harness with the samples logged (log_samples)"
        )
    if len(found) > 1:
        names = ", ".join(str(file.relative_to(path)) for file, _ in found[:4])
        raise DataError(f"{path} holds {len(found)} files of answers ({names}): name one of them")
    file, reader = found[0]
    if reader is None:
        return dataclasses.replace(_predictions(file, task, model), path=file)
    return dataclasses.replace(reader(file, task, model or _model(file)), tool="NeMo Evaluator", path=file)


def _predictions(path: Path, task: str | None, model: str | None) -> ToolAnswers:
    answers = list(samples(path, f"{PREDICTIONS} of NeMo Evaluator", _answer))
    return ToolAnswers("NeMo Evaluator", task or _task(path), model or _model(path) or "unknown", answers)


def _answer(_: str, fields: Mapping[str, Any]) -> Answer:
    scores, response, options = fields["scores"], fields["response"], column_options(fields["metadata"])
    return Answer(
        key=str(int(fields["sample_id"])),
        prompt=str(fields["prompt"]),
        text=str(response or ""),
        targets=(str(fields["target"]).strip(),),
        options=options if len(options) > 1 else (),
        failed="" if response is not None else str(fields.get("error") or fields["status"]),
        score=_score(scores) if fields["status"] == "scored" else None,
        extracted=next((str(scores[name]) for name in ("extracted", "parsed") if (scores or {}).get(name)), ""),
    )


def _score(scores: Mapping[str, Any]) -> float | None:
    """Returns the scorer's main number from 0 to 1: `correct` where it is there, else the first such number."""
    first = [scores["correct"]] if "correct" in scores else list(scores.values())
    return next((float(value) for value in first if isinstance(value, int | float) and 0 <= value <= 1), None)


def _task(path: Path) -> str:
    try:
        (name,) = orjson.loads(path.with_name("byob_results.json").read_bytes())["tasks"]
        return str(name)
    except (OSError, ValueError, KeyError, TypeError):
        return path.resolve().parent.name


def _model(path: Path) -> str | None:
    """Returns the model's name in the configuration beside a file or above it."""
    for folder in list(path.resolve().parents)[:3]:
        for name in _CONFIGS:
            try:
                held = yaml.safe_load((folder / name).read_text(encoding="utf-8"))
                return str(held["target"]["api_endpoint"]["model_id"])
            except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError):
                continue
    return None
