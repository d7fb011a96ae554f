"""Logs of other tools as run folders with the tools' own scores, for viewing; nothing is scored again."""

from __future__ import annotations

import codecs
import contextlib
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.statistics import SHARE, bounds, is_binary, mean_interval
from lyncean.vocabulary import Outcome
from lyncean_interop.answers import ToolAnswers, take, task_name
from lyncean_interop.own_scores import reported
from lyncean_interop.reading import read_answers
from lyncean_interop.vlmevalkit_import import NEEDED
from orchestrator.run_folder import (
    RESULTS,
    VERDICTS,
    Appender,
    Item,
    named_run,
    outcome_line,
    read_manifest,
    unanswered_line,
    verdict_line,
    write_json,
)

_INSPECT_JSON = re.compile(rb'\s*\{\s*"version":\s*\d+,\s*"status":\s*"')
_LM_EVAL_LINE = re.compile(rb'"(gen_args_0|filter)":')


@dataclass(frozen=True, slots=True)
class ToolLogs:
    """Converts logs of one tool to run folders with the tool's own scores.

    Attributes:
        name: The tool.
        is_log: Returns True if a file is one of its logs, by name and first bytes.
        module: Module of this package whose `read` reads one.
    """

    name: str
    is_log: Callable[[Path], bool]
    module: str

    def make_run(self, path: Path, folder: Path) -> None:
        """Writes a run folder of a log: its answers, the tool's own scores, and their mean with a 95% CI.

        Raises:
            DataError: The log cannot be read, or is empty.
            ConfigError: A package that reads it is missing.
            RunLogError: The folder cannot be written.
        """
        _make_run(read_answers(self.module, path), path, folder)


def _is_inspect(path: Path) -> bool:
    return path.suffix == ".eval" or (path.suffix == ".json" and bool(_INSPECT_JSON.match(_head(path, 256))))


def _is_lm_eval(path: Path) -> bool:
    return _is_samples(path) and bool(_LM_EVAL_LINE.search(_head(path, 1 << 16).partition(b"\n")[0]))


def _is_lmms_eval(path: Path) -> bool:
    return _is_samples(path) and not _is_lm_eval(path)


def _is_samples(path: Path) -> bool:
    return path.suffix == ".jsonl" and "samples_" in path.name


def _is_vlmevalkit(path: Path) -> bool:
    """Recognizes a table by its columns, since its suffix is ambiguous."""
    if path.suffix == ".tsv":
        header = _head(path, 1 << 16).removeprefix(codecs.BOM_UTF8).partition(b"\n")[0].strip()
        return {name.encode() for name in NEEDED} <= set(header.split(b"\t"))
    return path.suffix == ".xlsx" and all(f">{name}<".encode() in _first_cells(path) for name in NEEDED)


def _first_cells(path: Path) -> bytes:
    """Returns the content with the first cells of a workbook."""
    content = b""
    with contextlib.suppress(OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error):
        with zipfile.ZipFile(path) as packed:
            for name in {"xl/sharedStrings.xml", "xl/worksheets/sheet1.xml"} & {*packed.namelist()}:
                with packed.open(name) as member:
                    content += member.read(1 << 16)
    return content


def _head(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


INSPECT = ToolLogs("inspect", _is_inspect, "inspect_import")
LM_EVAL = ToolLogs("lm-eval", _is_lm_eval, "lm_eval_import")
LMMS_EVAL = ToolLogs("lmms-eval", _is_lmms_eval, "lmms_eval_answers")
VLMEVALKIT = ToolLogs("vlmevalkit", _is_vlmevalkit, "vlmevalkit_import")


def _make_run(imported: ToolAnswers, path: Path, folder: Path) -> None:
    take(imported, path, folder)
    scores = reported(imported)
    scored: list[_Scored] = []
    verdicts = Appender(folder / VERDICTS)
    try:
        for item in named_run(folder, folder.name):
            score, extracted = scores.get(item.key, (math.nan, ""))
            scored.append(_Scored(_outcome(item, score), score if math.isfinite(score) else 0.0, item.labels))
            verdicts.add(_verdict(item, scored[-1], extracted, imported.tool))
            verdicts.flush()
    finally:
        verdicts.close()
    if imported.complete:
        manifest = read_manifest(folder)
        metrics = [_metric(imported.metric, scored), *_slices(imported.metric, scored)]
        results = {
            "tasks": {task_name(imported): {"counts": _counts(scored), "metrics": metrics}},
            "model": {"model_name": imported.model, "model_revision": ""},
            "manifest_sha256": manifest["identity_sha256"],
        }
        write_json(folder / RESULTS, results)


class _Scored(NamedTuple):
    outcome: Outcome
    score: float
    labels: Mapping[str, str]


def _outcome(item: Item, score: float) -> Outcome:
    if "outcome" in item.response:
        return Outcome(item.response["outcome"])
    return Outcome.SCORED if math.isfinite(score) else Outcome.UNJUDGED


def _verdict(item: Item, scored: _Scored, extracted: str, tool: str) -> bytes:
    scoring = {**item.scoring, "rule": tool}
    if scored.outcome is Outcome.SCORED:
        verdict = scorer.Verdict(key=item.key, outcome=scored.outcome, extracted=extracted, score=scored.score)
        return verdict_line(verdict, item.task, scoring, cut=item.cut)
    if scored.outcome is Outcome.UNJUDGED:
        return outcome_line(item.key, scored.outcome, "no_score", "the log has no number for it", item.task, scoring)
    return unanswered_line(item.response)


def _counts(items: Sequence[_Scored]) -> dict[str, int]:
    outcomes = Counter(item.outcome for item in items)
    return {"planned": len(items), **{outcome.value: outcomes[outcome] for outcome in Outcome}}


def _metric(name: str, items: Sequence[_Scored], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the mean of the tool's scores: over all samples, 0 for missing scores, and over scored samples."""
    counts = _counts(items)
    scores, answered = np.array([item.score for item in items]), counts[Outcome.SCORED]
    within = bounds(scores)
    metric: dict[str, Any] = {
        "name": name, "metric": "mean", "labels": dict(labels or {}),
        "value": float(scores.mean()) if answered else None,
        "value_answered": float(scores.sum() / answered) if answered else None,
        "denominator": len(items), "denominator_answered": answered,
        "unit": "fraction" if within == SHARE else "", "counts": counts, "details": {},
    }  # fmt: skip
    interval = mean_interval(scores, np.ones(len(scores)), binary=is_binary(scores), within=within)
    if interval and answered:
        metric["interval"] = {"low": interval.low, "high": interval.high, "level": 0.95, "method": interval.method}
    return metric


def _slices(name: str, items: Sequence[_Scored]) -> Iterator[dict[str, Any]]:
    groups: dict[tuple[str, str], list[_Scored]] = {}
    for item in items:
        for label in item.labels.items():
            groups.setdefault(label, []).append(item)
    several = Counter(label for label, _ in groups)
    for label, members in groups.items():
        if several[label[0]] > 1:
            yield _metric(name, members, dict([label]))
