"""Runs of a random share of their samples: choice of the samples, and estimate of the metric of all.

Each task's units are put into an order drawn from the seed, and the first ones are asked: a simple random sample
without replacement. The plain metric of the asked items estimates that of all; scores of other runs may narrow it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.statistics.survey import Estimate, estimate
from lyncean.vocabulary.keys import split_repeat
from orchestrator.errors import ConfigError, EngineError
from orchestrator.run.part import item_scores
from orchestrator.run.part.part import Part
from orchestrator.run.part.units import Unit, logged_units, rank, specs_of, units_of
from orchestrator.run.plan import Plan
from orchestrator.run_folder import manifest as run_manifest, part
from orchestrator.run_folder.files import SHARE
from orchestrator.run_folder.notes import Note, share_note
from orchestrator.samples import Sample

LEVEL = 0.95
"""Coverage of the intervals."""
_FEWEST = 2
"""Units that an interval needs."""


class RandomShare(Part):
    """A random share of a plan's samples.

    Attributes:
        planned: Task -> items that are asked.
        totals: Task -> units and samples, asked and in all.

    Raises:
        ConfigError: If the request contradicts itself, a task has no metric for it, or the scores of other runs do not
            fit.
        DataError: If a row cannot be used.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        request = plan.request
        if request.share is None:
            raise ConfigError("--items FILE sharpens the estimate of --share: give --share, or leave it out")
        if request.until is not None:
            raise ConfigError(
                "--share fixes the number of samples, and --until stops when enough is known: leave one out"
            )
        if self._shard:
            raise ConfigError("--share draws among all samples, and --shard runs a part of them: leave one out")
        self._share = request.share
        self._table = item_scores.read(Path(request.items)) if request.items is not None else None
        if self._table:
            _check_data(self._table, plan, str(request.items))
        specs = specs_of(plan, "--share")
        self._tasks: dict[str, dict[str, Any]] = {}
        self.totals: dict[str, dict[str, int]] = {}
        self._samples: set[str] = set()
        self.planned: dict[str, int] = {}
        for task, units in units_of(plan, specs, "--share").items():
            names = sorted(units, key=lambda name: rank(request.seed, task, name))
            count = min(max(math.ceil(self._share * len(names) - 1e-9), _FEWEST), len(names))
            self._tasks[task] = {
                "metric": json_format.MessageToDict(specs[task]),
                "asked": count,
                "units": [self._line(name, units[name], specs[task]) for name in names],
            }
            drawn = {sample.key for name in names[:count] for sample in units[name].samples}
            self._samples |= drawn
            self.planned[task] = sum(len(units[name].items) for name in names[:count])
            every = sum(len(unit.samples) for unit in units.values())
            self.totals[task] = {"samples": len(drawn), "of_samples": every, "units": count, "of_units": len(names)}

    def _line(self, name: str, unit: Unit, spec: scorer.MetricSpec) -> list[Any]:
        """Returns a unit as `share.json` has it: name, size, and its score in each of the other runs."""
        size = unit.sums(spec)[2]
        if self._table is None:
            return [name, size]
        keys = dict.fromkeys(split_repeat(key)[0] for key, item in unit.items.items() if item.counts)
        rows = [row for key in keys if (row := self._table.scores.get(key)) is not None]
        all_right = spec.metric == "group_all"
        return [name, size, [_together(scores, all_right) for scores in zip(*rows, strict=True)]]

    @property
    def expected(self) -> int:
        """Items of the share."""
        return sum(self.planned.values())

    @property
    def identity(self) -> dict[str, Any]:
        """The share, and a hash of the other runs' scores."""
        return {"share": self._share, **({"items": {"sha256": self._table.sha256}} if self._table else {})}

    def outlook(self) -> list[str]:
        """Returns the expected precision of each task's metric of all samples."""
        return [_known_to(task, totals) for task, totals in self.totals.items()]

    def wanted(self, sample: str) -> bool:
        """Returns whether a sample is of the share."""
        return sample in self._samples

    def begin(self, run: Path) -> None:
        """Writes the inputs of the estimate."""
        runs = list(self._table.runs) if self._table else []
        run_manifest.write(run / SHARE, {"runs": runs, "tasks": self._tasks}, indent=False)

    def load(self, *_: object) -> None:
        """Takes nothing from the run folder: every sample of the share is looked at."""

    def samples(self) -> Iterator[Sample]:
        """Yields the samples of the share, in the order of the rows."""
        return (sample for sample in self._plan.samples() if self.wanted(sample.key))

    def finish(self, *_: object) -> dict[str, Any]:
        """Returns fields of the manifest."""
        return {"planned": self.planned, "sampled": self.totals}


def _check_data(table: item_scores.ItemScores, plan: Plan, path: str) -> None:
    for task in plan.tasks:
        name, source = task.variant.task, task.source
        if table.data.get(name, source.digest) != source.digest:
            raise ConfigError(f"--items {path} is of other data of {name} than {source.origin}: name one of this data")
    if not any(key.partition("/")[0] in plan.names for key in table.scores):
        raise ConfigError(f"--items {path} has no item of {', '.join(plan.names)}: leave it out")


def _together(scores: Sequence[float | None], all_right: bool) -> float | None:
    known = [score for score in scores if score is not None]
    if not known:
        return None
    return float(min(known) == 1) if all_right else round(sum(known) / len(known), 6)


def _known_to(task: str, totals: Mapping[str, int]) -> str:
    count, every = totals["units"], totals["of_units"]
    half = 196 * 0.5 * math.sqrt((1 - count / every) / count)
    return (
        f"{task}: a random {totals['samples']:,} of {totals['of_samples']:,} samples; the metric of all to about "
        f"±{half:.1f} points at 50%"
    )


def notes(run: Path, manifest: Mapping[str, Any]) -> list[Note]:
    """Returns a note on the metric of all samples of each task."""
    result = []
    runs, tasks = part.read(run / SHARE, "runs", list), part.read(run / SHARE, "tasks", dict)
    sampled, items = manifest["sampled"], manifest["identity"].get("items") or {}
    if missing := [task for task in sampled if task not in tasks]:
        raise EngineError(f"{run} has no share.json with {missing[0]}: restore it, or run the command of the run again")
    for task, spec, units, _ in logged_units(run, {task: tasks[task]["metric"] for task in sampled}):
        about: dict[str, Any] = {"metric": spec.name, "share": manifest["identity"]["share"], **sampled[task]}
        sums = {name: unit.sums(spec)[0] for name, unit in units.items()}
        left = sum(unit.without_result for unit in units.values())
        if left:
            about["no_estimate"] = f"{left:,} items asked have no result"
        else:
            about |= _estimates(sums, tasks[task]["units"], tasks[task]["asked"], runs)
        if "with_items" in about:
            about["with_items"] |= items
        result.append(share_note(task, about))
    return result


def _estimates(
    totals: Mapping[str, float], lines: Sequence[Sequence[Any]], count: int, runs: Sequence[str]
) -> dict[str, Any]:
    """Returns the estimate from the first units, and that with other runs' scores, or the reason for no estimate."""
    first = np.arange(count)
    sizes = np.array([line[1] for line in lines], np.float64)
    if count < _FEWEST or not sizes[first].sum():
        return {"no_estimate": "too few items were asked"}
    sums = np.array([totals[line[0]] for line in lines[:count]], np.float64)
    if ((sums < 0) | (sums > sizes[first])).any():
        return {"no_estimate": "the scores are not between 0 and 1"}
    alone = {"level": LEVEL, **_ends(estimate(sums, first, sizes, np.zeros((len(lines), 0)), LEVEL))}
    if not runs:
        return alone
    others = np.array([line[2] if line[2:] and line[2] else [None] * len(runs) for line in lines], np.float64)
    sharper = estimate(sums, first, sizes, others, LEVEL)
    explained = round(sharper.explained, 6)
    return {**alone, "with_items": {**_ends(sharper), "explained": explained, "runs": len(runs)}}


def _ends(interval: Estimate) -> dict[str, float]:
    return {name: round(getattr(interval, name), 10) for name in ("value", "low", "high")}
