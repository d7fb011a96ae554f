"""The scores of several runs, paired by the key of the item."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson

from orchestrator.report.index import sortable
from orchestrator.report.run import STEP, Item, Run


@dataclass(frozen=True, slots=True)
class Scored:
    """One planned item of one run.

    Attributes:
        score: The verdict's score; 0 where the item was not answered, as over planned.
        parts: The named parts of the score.
        labels: What the item can be sliced by.
        group: What its interval is clustered by.
        repeat: Which repeat it is, "" for the first.
        asked: Hash of the question; None where it may hold the model's own earlier answers.
        target: Hash of targets and options.
    """

    score: float
    parts: Mapping[str, float]
    labels: Mapping[str, str]
    group: str
    repeat: str
    asked: bytes | None
    target: bytes


@dataclass(frozen=True, slots=True)
class Step:
    """What is compared: a figure of a task."""

    task: str
    figure: str

    def __str__(self) -> str:
        return f"{self.task}: {self.figure}" if self.figure else self.task


@dataclass(frozen=True, slots=True)
class Unit:
    """What a figure is the mean of: an item, or for an all-or-nothing figure a group of items."""

    score: float
    cluster: str


@dataclass(frozen=True, slots=True)
class Scores:
    """All planned items of a run by task and key, the units of its figures by step and key, and its rules."""

    run: Run
    items: Mapping[str, Mapping[str, Scored]] = field(default_factory=dict)
    steps: Mapping[Step, Mapping[str, Unit]] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)


def read(run: Run) -> Scores:
    """Reads the scores of a run; items that are not scored yet are left out."""
    items: dict[str, dict[str, Scored]] = {}
    same: dict[Any, Any] = {}
    known, rules = run.manifest.get("rules") or {}, {}
    for item in run:
        if item.outcome and item.outcome != STEP:
            rule = str(item.verdict.get("rule") or item.scoring.get("rule"))
            rules[rule] = str(known.get(rule, ""))
            items.setdefault(item.task, {})[item.key] = _scored(item, same)
    steps: dict[Step, Mapping[str, Unit]] = {}
    for task, found in items.items():
        specs = [spec for spec in run.specs(task) if spec.get("metric") in _PAIRED]
        for spec in specs or [{}]:
            if units := _units(found, spec):
                steps[Step(task, str(spec.get("name", "")))] = units
    return Scores(run, items, steps, rules)


_PAIRED = frozenset({"accuracy", "mean", "group_all"})
"""Metrics that are a mean over items or groups, and so can be paired."""


def _units(items: Mapping[str, Scored], spec: Mapping[str, Any]) -> dict[str, Unit]:
    where = {label: found.get("values", ()) for label, found in (spec.get("where") or {}).items()}
    part = str((spec.get("params") or {}).get("part", ""))
    units: dict[str, Unit] = {}
    for key, item in items.items():
        if any(values and item.labels.get(label) not in values for label, values in where.items()):
            continue
        if spec.get("metric") == "group_all":
            name = f"{item.group}#{item.repeat}"
            before = units[name].score if name in units else 1.0
            units[name] = Unit(min(before, float(item.score == 1.0)), item.group)
        else:
            units[key] = Unit(item.parts.get(part, 0.0) if part else item.score, item.group)
    return units


def _scored(item: Item, same: dict[Any, Any]) -> Scored:
    """Returns what is compared of an item; values that many items have are held once, in `same`."""
    request = item.response.get("request") or {}
    messages: Sequence[Mapping[str, Any]] = request.get("messages", ())
    # A later turn is asked with what the model said or drew before, whoever is made to say it.
    own = bool(item.response.get("turn")) or any(message.get("role") == "ROLE_ASSISTANT" for message in messages)
    first, repeat = _REPEAT.sub("", item.key), _REPEAT.search(item.key)
    target = _hash([item.scoring.get("targets", ()), item.scoring.get("options", ())])
    found = item.verdict.get("scores")
    return Scored(
        score=item.score or 0.0,
        parts={str(name): float(value) for name, value in found.items()} if found else _NO_PARTS,
        labels=same.setdefault(tuple(item.labels.items()), item.labels),
        # Repeats of an item are no new evidence: they belong to one cluster.
        group=sys.intern(item.group) if item.group else first,
        repeat=repeat[1] if repeat else "",
        asked=None if own or not messages else _hash([messages, request.get("continuations", ())]),
        target=same.setdefault(target, target),
    )


_NO_PARTS: Mapping[str, float] = {}
_REPEAT = re.compile(r"#(\d+)")


def _hash(value: Any) -> bytes:
    return blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=8).digest()


def common(runs: Sequence[Scores], step: Step) -> list[str]:
    """Returns the keys of the units that every run has in a step, in the order a person would put them."""
    keys = set(runs[0].steps.get(step, ()))
    for other in runs[1:]:
        keys &= other.steps.get(step, {}).keys()
    return sorted(keys, key=sortable)


_EXPECTED_TO_DIFFER = frozenset({"model_name", "model_revision", "chat_template_sha256", "model"})


def warnings(first: Scores, second: Scores) -> list[str]:
    """Returns why two runs are not comparable, one sentence each; empty where nothing speaks against it."""
    found = []
    one, other = _flat(first.run.identity), _flat(second.run.identity)
    one |= _flat({"rules": first.rules})
    other |= _flat({"rules": second.rules})
    for name in sorted(one.keys() | other.keys()):
        if name.split(".")[0] not in _EXPECTED_TO_DIFFER and one.get(name) != other.get(name):
            found.append(f"{name} differs: {_short(one.get(name))} and {_short(other.get(name))}")
    for task in sorted(first.items.keys() | second.items.keys()):
        mine, theirs = first.items.get(task, {}), second.items.get(task, {})
        keys = mine.keys() & theirs.keys()
        if len(keys) < max(len(mine), len(theirs)):
            found.append(
                f"{task}: {len(keys):,} items in both, {len(mine) - len(keys):,} only in {first.run.name}, "
                f"{len(theirs) - len(keys):,} only in {second.run.name}"
            )
        asked = sum(mine[key].asked != theirs[key].asked for key in keys if mine[key].asked and theirs[key].asked)
        if asked:
            found.append(f"{task}: the prompt differs in {asked:,} of {len(keys):,} items")
        targets = sum(mine[key].target != theirs[key].target for key in keys)
        if targets:
            found.append(f"{task}: targets or options differ in {targets:,} of {len(keys):,} items")
    return found


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            flat |= _flat(inner, f"{prefix}{name}.")
        elif inner is not None:
            flat[f"{prefix}{name}"] = inner
    return flat


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 24 else f"{text[:12]}…"
