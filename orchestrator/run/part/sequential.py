"""Runs that stop as soon as they know enough: order of the samples, stopping rule, and results after a stop.

A task's samples are asked in an order that follows from the seed and their keys alone. Samples that share a group are
one unit. The rule looks at the longest prefix of units whose items all have a verdict, so that the stop is the same at
any concurrency, number of replicas and after any resume.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import orjson
from google.protobuf import json_format

from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.statistics.sequential import ConfidenceSequence
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.errors import ConfigError, IncompleteError
from orchestrator.run.part.part import Part
from orchestrator.run.part.rule import CHANGED, LEVEL, Rule, Sequences, rule_of
from orchestrator.run.part.units import NO_RESULT, Unit, logged_units, rank, score_fields, specs_of, units_of, value_of
from orchestrator.run.plan import Plan
from orchestrator.run_folder import manifest as run_manifest, part
from orchestrator.run_folder.files import AGAINST, BEYOND, RESPONSES, VERDICTS
from orchestrator.run_folder.lines import Head, SampleLine, VerdictLine
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.notes import Note, sequence_note
from orchestrator.run_folder.reader import open_run
from orchestrator.run_folder.scanning import lines_at, scan
from orchestrator.samples import Sample


class TaskSequence:
    """One task of a sequential run.

    Args:
        task: The task.
        spec: The metric of the sequence.
        units: All units by name.
        rule: The stopping rule.
        seed: Seed of the order.

    Attributes:
        units: The units in the order in which they are asked.
        position: Units of the longest prefix whose items all have a verdict, up to the stop.
        stopped: Whether the rule was met before the last unit.
        waiting: Item key -> outcome of items that have no result and that the prefix may wait for.
    """

    def __init__(self, task: str, spec: scorer.MetricSpec, units: Mapping[str, Unit], rule: Rule, seed: int) -> None:
        self.task, self.spec, self.rule = task, spec, rule
        names = sorted(units, key=lambda name: rank(seed, task, name))
        self.units = [units[name] for name in names]
        self.position, self.stopped = 0, False
        self.waiting: dict[str, Outcome] = {}
        self._index = {key: index for index, unit in enumerate(self.units) for key in unit.items}
        self._samples = {sample.key: index for index, unit in enumerate(self.units) for sample in unit.samples}
        self._left = [len(unit.items) for unit in self.units]
        sizes = [unit.sums(spec)[2] for unit in self.units]
        self.totals = {
            "units": len(self.units),
            "items": sum(sizes),
            "largest": max(sizes),
            "samples": sum(len(unit.samples) for unit in self.units),
        }
        self._sequences = Sequences(self.totals, rule)

    @property
    def end(self) -> int:
        """Number of units to ask: those up to the stop, or to the first one that waits."""
        if self.stopped:
            return self.position
        return min((self._index[key] + 1 for key in self.waiting), default=len(self.units))

    def wanted(self, sample: str) -> bool:
        """Returns whether a sample is to be asked."""
        return self._samples[sample] < self.end

    def settle(self, key: str, outcome: Outcome, score: float) -> bool:
        """Takes an item's verdict; returns whether it leaves less to ask."""
        index = self._index.get(key)
        if index is None:
            return False
        if outcome in NO_RESULT:
            self.waiting[key] = outcome
            return True
        self.waiting.pop(key, None)
        unit = self.units[index]
        self._left[index] -= unit.items[key].score is None
        unit.items[key].score = score
        return self._advance()

    def _advance(self) -> bool:
        while not self.stopped and self.position < len(self.units) and not self._left[self.position]:
            unit = self.units[self.position]
            self.position += 1
            met = self._sequences.add(*unit.sums(self.spec))
            self.stopped = met and self.position < len(self.units)
        return self.stopped


class Sequential(Part):
    """The sequential tasks of a run, live.

    Raises:
        ConfigError: If the request contradicts itself, a task has no metric for it, or the other run does not fit.
        DataError: If a row cannot be used.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        request = plan.request
        rule = rule_of(request.until, request.against)
        if self._shard:
            raise ConfigError(
                "--until looks at all samples in one order, and --shard runs a part of them: leave one out; a run with "
                "several --endpoint addresses stops by itself"
            )
        against = None if request.against is None else Path(request.against)
        self._specs = specs_of(plan, "--until")
        units_by_task = units_of(plan, self._specs, "--until")
        items = {
            key: item for units in units_by_task.values() for unit in units.values() for key, item in unit.items.items()
        }
        data = {task.variant.task: task.source.digest for task in plan.tasks}
        first = plan.tasks[0].variant
        identity = {"repeats": request.repeats, "seed": first.seed, "shuffle_options": first.shuffle_options}
        self.base = base_of(against, items, data, identity) if against else {}
        for key, verdict in self.base.items():
            items[key].base = value_of(self._specs[key.split("/", 1)[0]], verdict)
        self._against = against.resolve().name if against else ""
        self.tasks = {
            task: TaskSequence(task, self._specs[task], units, rule, request.seed)
            for task, units in units_by_task.items()
        }

    @property
    def stopping(self) -> Sequential:
        """The part itself: it stops the engine."""
        return self

    @property
    def expected(self) -> None:
        """None: unknown before the stop."""
        return None

    @property
    def identity(self) -> dict[str, Any]:
        """The rule, and a hash of the other run's scores."""
        scores = hashlib.sha256(orjson.dumps(self.base, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return {"until": self._plan.request.until, **({"against": {"scores_sha256": scores}} if self.base else {})}

    def outlook(self) -> list[str]:
        """Returns the number of samples after which each task is expected to stop."""
        return [expected(task) for task in self.tasks.values()]

    def begin(self, run: Path) -> None:
        """Writes the other run's scores."""
        if self.base:
            run_manifest.write(run / AGAINST, {"run": self._against, "scores": self.base})

    def load(self, log: RunLog, *_: object) -> None:
        """Takes the verdicts that a run folder holds, of each item the last."""
        run = log.path
        last = {head.key: (offset, head.outcome) for offset, head in scan(run / VERDICTS, Head)}
        offsets = [
            offset for key, (offset, outcome) in last.items() if outcome not in NO_RESULT and log.entry(key).settled
        ]
        for line in lines_at(run / VERDICTS, offsets, VerdictLine) if offsets else ():
            self.settled(line.key, line.outcome, score_fields(line))

    def settled(self, key: str, outcome: Outcome, verdict: Mapping[str, Any]) -> bool:
        """Takes an item's verdict; returns whether it leaves less to ask."""
        task = self.tasks.get(key.split("/", 1)[0])
        return task is not None and task.settle(key, outcome, value_of(task.spec, verdict))

    def wanted(self, sample: str) -> bool:
        """Returns whether a sample that is not sent yet is to be sent."""
        return self.tasks[sample.split("/", 1)[0]].wanted(sample)

    def samples(self) -> Iterator[Sample]:
        """Yields the samples task by task in their order, up to where each stops."""
        for task in self.tasks.values():
            for index, unit in enumerate(task.units):
                if index >= task.end:
                    break
                yield from unit.samples

    def finish(self, run: Path, _: Mapping[str, int]) -> dict[str, Any]:
        """Writes the keys of items answered beyond the stops, and returns fields of the manifest.

        Raises:
            IncompleteError: If a task waits for an item that has no result.
        """
        for task in self.tasks.values():
            if not task.stopped and task.position < len(task.units):
                waiting = next(iter(task.waiting.items()), ("an item", "missing"))
                raise IncompleteError(
                    f"{task.task}: {waiting[0]} is {waiting[1]}, and the sequence waits for it after "
                    f"{task.position:,} of {len(task.units):,} units; run the same command again to ask again"
                )
        kept = {
            sample.key
            for task in self.tasks.values()
            for unit in task.units[: task.position]
            for sample in unit.samples
        }
        beyond = sorted({line.key for _, line in scan(run / RESPONSES, SampleLine) if line.sample not in kept})
        if beyond or (run / BEYOND).exists():
            run_manifest.write(run / BEYOND, {"keys": beyond})
        left = Counter(key.split("/", 1)[0] for key in beyond)
        planned = {
            name: sum(len(unit.items) for unit in task.units[: task.position]) for name, task in self.tasks.items()
        }
        sequences = {
            name: {**task.totals, "metric": json_format.MessageToDict(task.spec), "beyond": left[name]}
            for name, task in self.tasks.items()
        }
        return {"planned": planned, "sequential": sequences}


def expected(task: TaskSequence) -> str:
    """Returns the expected number of samples before a stop, as text: one simulated run for each assumption.

    The simulation assumes that the items of a group are right or wrong together.
    """
    cases = [(share, f"at {share:.0%}") for share in (0.5, 0.9)]
    if task.rule.decides:
        cases = [(points, f"where the runs differ by {100 * points:.0f} points") for points in (0.05, 0.02)]
    estimates = []
    for value, condition in cases:
        random = Random(0)
        sequences, samples = Sequences(task.totals, task.rule), 0
        for unit in task.units:
            _, _, size = unit.sums(task.spec)
            luck = random.random()
            total = size * (luck < value)
            base = 0.0
            if task.rule.decides:
                better = (CHANGED + value) / 2
                total, base = size * (luck < better), size * (better <= luck < CHANGED)
            samples += len(unit.samples)
            if sequences.add(total, base, size):
                break
        estimates.append(f"about {samples:,} {condition}")
    changed = f", if {CHANGED:.0%} of the answers change" if task.rule.decides else ""
    return f"{task.task}: stops after {', '.join(estimates)} of {task.totals['samples']:,} samples{changed}"


def notes(run: Path, manifest: Mapping[str, Any], tasks: Mapping[str, dict[str, Any]]) -> list[Note]:
    """Returns a note on each sequential task; removes details from the results that do not hold after a stop."""
    result = []
    identity = manifest["identity"]
    other, base = part.read(run / AGAINST, "run", str), part.read(run / AGAINST, "scores", dict)
    rule = rule_of(identity["until"], identity.get("against"))
    every = manifest["sequential"]
    for task, spec, units, samples in logged_units(run, {task: totals["metric"] for task, totals in every.items()}):
        totals = every[task]
        for unit in units.values():
            for key, item in unit.items.items():
                item.base = value_of(spec, base.get(key, {}))
        sequences = Sequences(totals, rule)
        for name in sorted(units, key=lambda name: rank(identity["seed"], task, name)):
            sequences.add(*units[name].sums(spec))
        accuracy, difference = sequences.own, sequences.difference
        about = {
            "until": identity["until"],
            "metric": spec.name,
            "level": LEVEL,
            "stopped": not accuracy.complete,
            "samples": samples,
            "of_samples": totals["samples"],
            "units": accuracy.count,
            "of_units": totals["units"],
            **_ends(accuracy),
            **({"difference": _ends(difference), "against": other} if difference else {}),
        }
        if about["stopped"]:
            _stopped_early(tasks[task], about)
        result.append(sequence_note(task, about))
    return result


def _ends(sequence: ConfidenceSequence) -> dict[str, float]:
    return {name: round(getattr(sequence, name), 10) for name in ("value", "low", "high", "width")}


def _stopped_early(summary: dict[str, Any], about: Mapping[str, Any]) -> None:
    """Removes details from a task's results that do not hold after a stop chosen by the results."""
    for metric in summary["metrics"]:
        details = metric["details"]
        for name in [name for name in details if name in _FIXED_SIZE or name.startswith("minimum_detectable")]:
            del details[name]
        metric.pop("interval", None)
        if metric["name"] == about["metric"] and not metric["labels"]:
            scale = 100 if metric["unit"] == "percent" else 1
            ends = {name: round(scale * about[name], 10) for name in ("low", "high")}
            metric["interval"] = {**ends, "level": about["level"], "method": "confidence sequence"}
        else:
            details["no_interval"] = "the run stopped early, and a plain interval does not hold after that"


_FIXED_SIZE = ("standard_error", "against_rest", "p_value", "p_holm", "comparisons")
"""Details whose inference assumes a number of items fixed beforehand."""


def base_of(
    path: Path, keys: Collection[str], data: Mapping[str, str], identity: Mapping[str, object]
) -> dict[str, dict[str, Any]]:
    """Returns the scores of the run that another is compared with, by item key.

    Args:
        path: Its folder.
        keys: The items that it must have.
        data: The sha256 of the data that it must have read, by task.
        identity: Parts of its identity that it must have: with others, the same key is another prompt.

    Raises:
        ConfigError: If it is not complete, stopped early, read other data, asked otherwise, lacks an item or has one
            without a result.
    """
    run = open_run(path)
    if not run.tasks:
        raise ConfigError(f"--against {path}: the run is not complete: run its command again first")
    if run.in_part:
        raise ConfigError(f"--against {path}: {run.in_part[0]}: it has no answers to the rest: name a full run")
    for name, value in identity.items():
        other = run.identity.get(name, value)
        if other != value:
            raise ConfigError(
                f"--against {path}: {name} is {other} there and {value} here, and items are compared one by one: "
                f"give both runs the same --{name.replace('_', '-')}"
            )
    for task, sha256 in data.items():
        other = (run.identity.get("data") or {}).get(task)
        if other and other.get("sha256") != sha256:
            raise ConfigError(f"--against {path}: that run read other data of {task} ({other.get('origin')}): name one")
    wanted, scores = set(keys), dict[str, dict[str, Any]]()
    for item in run:
        if item.key in wanted:
            if item.outcome in NO_RESULT:
                raise ConfigError(f"--against {path}: its item {item.key} is {item.outcome}: mend that run first")
            scores[item.key] = {"score": item.score, "scores": dict(item.verdict.get("scores") or {})}
    if lacking := wanted - scores.keys():
        raise ConfigError(
            f"--against {path}: the run has no answer to {len(lacking):,} of the {len(wanted):,} items, {min(lacking)} "
            "among them: give both runs the same tasks, data, --limit and --repeats"
        )
    return scores
