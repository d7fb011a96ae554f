"""The scores of several runs, paired by the key of the item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson

from lynceus.outcomes import Outcome
from orchestrator.report.run import STEP, Item, Run, natural


@dataclass(frozen=True, slots=True)
class Scored:
    """One planned item of one run.

    Attributes:
        score: The verdict's score; 0 where the item was not answered, as over planned.
        outcome: What became of it.
        group: What its interval is clustered by.
        asked: Hash of the question; None where it holds the model's own earlier answers.
        target: Hash of targets and options.
    """

    score: float
    outcome: str
    group: str
    asked: bytes | None
    target: bytes


@dataclass(frozen=True, slots=True)
class Step:
    """What is compared: a task, and in an episode one of its turns.

    Attributes:
        task: The task.
        turn: The turn, "" where a sample is one call.
    """

    task: str
    turn: str

    def __str__(self) -> str:
        return f"{self.task}:{self.turn}" if self.turn else self.task


@dataclass(frozen=True, slots=True)
class Scores:
    """All planned items of a run, by step and key."""

    run: Run
    steps: Mapping[Step, Mapping[str, Scored]] = field(default_factory=dict)


def read(run: Run) -> Scores:
    """Reads the scores of a run; items that are not scored yet are left out."""
    steps: dict[Step, dict[str, Scored]] = {}
    for item in run:
        if item.outcome and item.outcome != STEP:
            steps.setdefault(step_of(item), {})[item.key] = _scored(item)
    return Scores(run, steps)


def step_of(item: Item) -> Step:
    """Returns the step that an item belongs to."""
    return Step(item.task, str(item.response.get("turn") or item.key.partition(":")[2]))


def _scored(item: Item) -> Scored:
    request = item.response.get("request") or {}
    messages: Sequence[Mapping[str, Any]] = request.get("messages", ())
    own = any(message.get("role") == "ROLE_ASSISTANT" for message in messages)
    return Scored(
        score=item.score or 0.0,
        outcome=item.outcome,
        # Repeats of an item are no new evidence: they belong to one cluster.
        group=item.group or item.sample.partition("#")[0],
        asked=None if own else _hash([messages, request.get("continuations", ())]),
        target=_hash([item.scoring.get("targets", ()), item.scoring.get("options", ())]),
    )


def _hash(value: Any) -> bytes:
    return blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=8).digest()


def common(runs: Sequence[Scores], step: Step) -> list[str]:
    """Returns the keys that every run has in a step, sorted."""
    keys = set(runs[0].steps.get(step, ()))
    for other in runs[1:]:
        keys &= other.steps.get(step, {}).keys()
    return sorted(keys, key=natural)


_EXPECTED_TO_DIFFER = frozenset({"model_name", "model_revision", "chat_template_sha256", "model", "run", "replicas"})


def warnings(first: Scores, second: Scores) -> list[str]:
    """Returns why two runs are not comparable, one sentence each; empty where nothing speaks against it."""
    found = []
    one, other = _flat(first.run.identity), _flat(second.run.identity)
    one |= _flat({"rules": first.run.manifest.get("rules", {})})
    other |= _flat({"rules": second.run.manifest.get("rules", {})})
    for name in sorted(one.keys() | other.keys()):
        if name.split(".")[0] not in _EXPECTED_TO_DIFFER and one.get(name) != other.get(name):
            found.append(f"{name} differs: {_short(one.get(name))} and {_short(other.get(name))}")
    for step in sorted(first.steps.keys() | second.steps.keys(), key=str):
        mine, theirs = first.steps.get(step, {}), second.steps.get(step, {})
        keys = mine.keys() & theirs.keys()
        if len(keys) < max(len(mine), len(theirs)):
            found.append(
                f"{step}: {len(keys):,} items in both, {len(mine) - len(keys):,} only in {first.run.name}, "
                f"{len(theirs) - len(keys):,} only in {second.run.name}"
            )
        asked = sum(mine[key].asked != theirs[key].asked for key in keys if mine[key].asked and theirs[key].asked)
        if asked:
            found.append(f"{step}: the prompt differs in {asked:,} of {len(keys):,} items")
        targets = sum(mine[key].target != theirs[key].target for key in keys)
        if targets:
            found.append(f"{step}: targets or options differ in {targets:,} of {len(keys):,} items")
    return found


def blind(run: Run) -> bool:
    """Returns whether a run was asked without its images."""
    return bool(run.identity.get("blind"))


def answered(scored: Scored) -> bool:
    """Returns whether an item counts over answered."""
    return scored.outcome in (Outcome.SCORED, Outcome.UNPARSED)


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
