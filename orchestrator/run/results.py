"""From verdicts to metrics: one pass over the log, in an order that depends on the keys alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from google.protobuf import json_format
from msgspec import to_builtins

from lyncean.arrays import np
from lyncean.rpc.waits import in_thread
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.ledger import Ledger
from orchestrator.engine.scoring import ScorerClient
from orchestrator.errors import EngineError
from orchestrator.run import cut_answers, doubts, part
from orchestrator.run.cut_answers import CutAnswers
from orchestrator.run.doubts import Answers
from orchestrator.run.foreign import CELL, TRUSTED
from orchestrator.run.reading import Readings
from orchestrator.run_folder import finished, manifest as run_manifest, origins, tools_used, usage, validity
from orchestrator.run_folder.cut import FINISH_CUT
from orchestrator.run_folder.files import MANIFEST, RESULTS, VERDICTS
from orchestrator.run_folder.index import Index, Offsets
from orchestrator.run_folder.lines import Origin, VerdictLine
from orchestrator.run_folder.metrics import CHANCE
from orchestrator.run_folder.notes import metric_notes
from orchestrator.run_folder.reader import Run
from orchestrator.run_folder.records import pass_through
from orchestrator.run_folder.scanning import lines_at

OnDisk = Callable[[Callable[[], None]], Awaitable[None]]
"""Does work on the disk, and waits for it."""


async def _in_thread(work: Callable[[], None]) -> None:
    await in_thread(work, "disk")


async def keep_or_write(
    run: Path,
    manifest: Mapping[str, Any],
    client: ScorerClient,
    ledger: Ledger,
    rules: scorer.ListRulesResponse | None,
) -> dict[str, Any]:
    """Returns the results of a complete run: those of an earlier call where they stand, else as `write` makes them.

    Args:
        run: As of `write`, `manifest` and `client` too.
        manifest: See above.
        client: See above.
        ledger: The run's state.
        rules: What the scorer lists, if it is of this installation and has nothing of others.
    """
    specs = [*manifest["metrics"].values(), *(group["metrics"] for group in (manifest.get("groups") or {}).values())]
    foreign = {spec["metric"] for of_one in specs for spec in of_one} & run_manifest.FOREIGN_METRICS
    listed = rules.SerializeToString(deterministic=True) if rules and not foreign else b""
    source = await ledger.reading(partial(finished.source_of, run, manifest, listed))
    results = await ledger.reading(partial(finished.taken_back, run, source))
    if results is None:
        results = await write(run, manifest, client, ledger.on_disk)
        await ledger.reading(partial(finished.note_results, run, source))
    return results


async def write(
    run: Path, manifest: Mapping[str, Any], client: ScorerClient, on_disk: OnDisk = _in_thread
) -> dict[str, Any]:
    """Writes `results.json` and returns it: the same bytes for the same verdicts in any order.

    Args:
        run: The run folder, every item settled.
        manifest: Its manifest, `planned` among it.
        client: The scorer.
        on_disk: Does work on the disk.

    Raises:
        EngineError: If an item is missing, or the scorer finds one at fault.
        IncompleteError: If the scorer goes away.
        RunLogError: If a verdict's line is damaged.
        RunWriteError: If the file cannot be written.
    """
    index = Index(run, (VERDICTS,))
    offsets = index.by_task(index.verdicts)
    del index  # of millions of items every column counts
    for task, planned in manifest["planned"].items():
        settled = len(offsets.get(task, ()))
        if settled != planned:
            raise EngineError(
                f"{run / VERDICTS} settles {settled:,} items of {task}, {planned:,} were planned: a defect"
            )
    rules: set[str] = set()
    constrained = (manifest["identity"].get("deviations") or {}).get("answer") == "constrained"
    tasks, answers = {}, dict[str, Answers]()
    for task, specs in sorted(run_manifest.specs_of(manifest).items()):
        readings = Readings(constrained=constrained)
        cut, answers[task] = CutAnswers(), Answers()
        counted = (readings, cut, answers[task])
        items = partial(_items, run, offsets.get(task, np.zeros(0, np.int64)), rules, counted)
        tasks[task] = summary_json(await client.summarize(items, specs))
        tasks[task]["cut"] = cut.summary()
        if (chance := answers[task].chance) is not None:
            tasks[task][CHANCE] = round(chance, 6)
        if reading := readings.summary():
            tasks[task]["reading"] = reading
    origin_counts, tool_counts = Counter[Origin](), Counter[str]()
    usages = usage.of_answers(run, origin_counts, tool_counts)
    endpoint = origins.summary(origin_counts)
    all_notes = [*origins.notes(endpoint), *part.notes(run, manifest, tasks), *cut_answers.notes(tasks)]
    all_notes += [*tools_used.notes(tool_counts), *metric_notes(tasks)]
    groups = await _groups(run, manifest, offsets, client)
    _add_doubts(run, manifest, tasks, groups, answers)
    results = {
        "tasks": tasks,
        **({"groups": groups} if groups else {}),
        **({"notes": to_builtins(all_notes)} if all_notes else {}),
        "model": {name: manifest["identity"]["model"][name] for name in ("model_name", "model_revision")},
        "rules": {name: sha256 for name, sha256 in manifest["rules"].items() if name in rules},
        "manifest_sha256": manifest["identity_sha256"],
    }
    if manifest.get(TRUSTED):
        results[TRUSTED] = True
    if manifest.get(CELL):
        results[CELL] = manifest[CELL]
    finish = {FINISH_CUT: manifest[FINISH_CUT]} if FINISH_CUT in manifest else {}
    if deviations := {**(manifest["identity"].get("deviations") or {}), **finish}:
        results["deviations"] = deviations
    if used_tools := manifest["identity"].get(tools_used.FIELD):
        results[tools_used.FIELD] = tools_used.summary(used_tools, usage.total(usages).requests, tool_counts)
    if doubt := origins.doubt(manifest.get("model") or {}):
        results["model"]["doubt"] = doubt
    if used := usage.summary(usages, manifest.get(usage.PRICES)):
        results[usage.USAGE] = used
        complete = {**manifest, **usage.seconds(usages), **endpoint}
        await on_disk(partial(run_manifest.write, run / MANIFEST, complete))
    await on_disk(partial(run_manifest.write, run / RESULTS, results))
    return results


def _add_doubts(
    run: Path,
    manifest: Mapping[str, Any],
    tasks: Mapping[str, dict[str, Any]],
    groups: Mapping[str, dict[str, Any]],
    answers: Mapping[str, Answers],
) -> None:
    """Adds to the results of tasks and groups why they may not be results, nothing where nothing speaks against it."""
    doubts_found = doubts.of_run(Run(run, manifest, {"tasks": tasks}), answers)
    for task, of_task in doubts_found.items():
        tasks[task][validity.FIELD] = to_builtins(of_task)
    for group in groups.values():
        of_group = validity.of_group({task: doubts_found[task] for task in group["tasks"]})
        group[validity.FIELD] = to_builtins(of_group)


async def _groups(
    run: Path, manifest: Mapping[str, Any], offsets: Mapping[str, Offsets], client: ScorerClient
) -> dict[str, Any]:
    """Returns the results of the groups with metrics over their tasks; each group has a summary of its own."""
    metrics = {}
    for name, (tasks, specs) in sorted(run_manifest.group_specs_of(manifest).items()):
        lines = np.concatenate([offsets.get(task, np.zeros(0, np.int64)) for task in tasks])
        summary = await client.summarize(partial(_items_of_group, run, lines), specs)
        metrics[name] = {"tasks": tasks, **summary_json(summary)}
    return metrics


def _items_of_group(run: Path, offsets: Offsets) -> Iterator[scorer.ScoreRequest]:
    for line in lines_at(run / VERDICTS, offsets, VerdictLine):
        item = pass_through(line)
        item.labels["task"] = line.task
        yield item


def read(run: Path) -> dict[str, Any]:
    """Returns the results of a complete run."""
    results: dict[str, Any] = orjson.loads((run / RESULTS).read_bytes())
    return results


def failed(results: Mapping[str, Any]) -> int:
    """Returns how many items of all tasks failed; another try may answer them."""
    return sum(task["counts"]["failed"] for task in results["tasks"].values())


def summary_json(summary: scorer.Summary) -> dict[str, Any]:
    """Returns a summary as JSON: the proto's field names, every field present, counts as numbers."""
    return {"counts": _counts(summary.counts), "metrics": [_metric(metric) for metric in summary.metrics]}


def _items(
    run: Path, offsets: Offsets, rules: set[str], counted: Sequence[Readings | CutAnswers | Answers]
) -> Iterator[scorer.ScoreRequest]:
    for metric in counted:
        metric.restart()
    for line in lines_at(run / VERDICTS, offsets, VerdictLine):
        rules.add(line.rule)
        for metric in counted:
            metric.add(line)
        yield pass_through(line)


def _counts(counts: scorer.Counts) -> dict[str, int]:
    return {name: getattr(counts, name) for name in ("planned", *(outcome.value for outcome in Outcome))}


def _metric(metric: scorer.MetricResult) -> dict[str, Any]:
    line: dict[str, Any] = {
        "name": metric.name,
        "metric": metric.metric,
        "labels": dict(metric.labels),
        "value": _number(metric, "value"),
        "value_answered": _number(metric, "value_answered"),
        "denominator": metric.denominator,
        "denominator_answered": metric.denominator_answered,
        "unit": metric.unit,
        "counts": _counts(metric.counts),
        "details": json_format.MessageToDict(metric.details),
    }
    if metric.HasField("interval"):
        line["interval"] = {name: getattr(metric.interval, name) for name in ("low", "high", "level", "method")}
    if metric.HasField("cut"):
        cut = metric.cut
        ends = {"denominator": cut.denominator, "low": cut.low, "high": cut.high}
        line["cut"] = {"whole": _number(cut, "whole"), **ends}
    return line


def _number(metric: scorer.MetricResult | scorer.CutBand, field: str) -> float | None:
    value: float = getattr(metric, field)
    return value if metric.HasField(field) and math.isfinite(value) else None  # type: ignore[arg-type]
