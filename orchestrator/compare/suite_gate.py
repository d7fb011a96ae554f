"""The gate of a suite: tests each model against a baseline, which may be a model before it, over all tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from orchestrator.compare import gate, statistics
from orchestrator.compare.scores import Scores
from orchestrator.compare.series import BEST, PREVIOUS, Change, baselines, changes
from orchestrator.errors import ConfigError


class Rule(NamedTuple):
    """The demands of a suite's gate.

    Attributes:
        conditions: Its conditions.
        baseline: The model that the others are compared with, `PREVIOUS`, `BEST`, or "" for none.
        variants: Variants of the suite, which share the errors of `no_fall`.
        noise: Change that the server itself causes, None if it was not measured.
    """

    conditions: Sequence[gate.Condition]
    baseline: str
    variants: int
    noise: float | None

    def moves(self, models: Mapping[str, object]) -> bool:
        """Returns True if the baseline is a model before each one; a model of that name takes precedence."""
        return self.baseline in (PREVIOUS, BEST) and self.baseline not in models


class Judged(NamedTuple):
    """Findings of the gate, reasons why it did not judge a model, and the change of each model."""

    findings: Sequence[gate.Finding]
    unjudged: Sequence[str]
    changes: Sequence[Change]

    def with_(self, other: Judged) -> Judged:
        """Returns these findings together with those of a further variant."""
        return Judged(
            [*self.findings, *other.findings], [*self.unjudged, *other.unjudged], [*self.changes, *other.changes]
        )


def judge(variant: str, models: Mapping[str, Scores | None], steps: Mapping[str, int | None], rule: Rule) -> Judged:
    """Tests the models of a variant against the gate.

    Args:
        variant: The variant, "" if there is none.
        models: The tasks of each model merged into one run, in the suite's order; None if they are not complete.
        steps: Training step of each model. If any model has one, models without one are not part of the series.
        rule: The gate.
    """
    series = any(step is not None for step in steps.values())
    row = [model for model in models if not series or steps[model] is not None]
    compared: list[Change] = []
    if series or rule.moves(models) or any(one.name == gate.NO_FALL for one in rule.conditions):
        against = rule.baseline or PREVIOUS if rule.moves(models) or not rule.baseline else models.get(rule.baseline)
        if against is not None:
            runs = [run for model in row if (run := models[model])]
            compared = changes(runs, against, variant, trainings=rule.variants, noise=rule.noise)
    if not rule.conditions:
        return Judged([], [], compared)
    suffix = f" in {variant}" if variant else ""
    if rule.baseline and not rule.moves(models) and models.get(rule.baseline) is None:
        return Judged([], [f"the baseline {rule.baseline} is not complete{suffix}: no model is judged"], compared)
    findings: list[gate.Finding] = []
    unjudged: list[str] = []
    conditions = [one for one in rule.conditions if one.name != gate.NO_FALL]
    moving: Iterator[Scores | None] = iter(())
    if conditions and rule.moves(models):
        moving = iter(baselines([run for model in row if (run := models[model])], rule.baseline))
    for model, run in models.items():
        if (model not in row and rule.moves(models)) or model == rule.baseline:
            continue
        if run is None:
            unjudged.append(f"{model} is not complete{suffix}: it is not judged")
            continue
        if not conditions:  # `compared` has the findings of the other conditions
            continue
        first = next(moving) if rule.moves(models) else models.get(rule.baseline)
        applicable = [one for one in conditions if first or not rule.moves(models) or not gate.compares(one)]
        try:
            findings += _findings(applicable, run, first)
        except ConfigError as error:
            unjudged.append(f"{model} cannot be judged: {error}".replace("--gate: ", ""))
    findings += [finding for one in rule.conditions if one.name == gate.NO_FALL for finding in _no_fall(one, compared)]
    return Judged(findings, unjudged, compared)


def _findings(conditions: Sequence[gate.Condition], run: Scores, first: Scores | None) -> list[gate.Finding]:
    units = statistics.shared(first, run) if first else {}
    pairs = statistics.compare_units(units) if units else None
    steps = first.steps if first else ()
    return gate.judge(conditions, run.run, pairs, steps, statistics.pool(units), first.run if first else None)


def _no_fall(condition: gate.Condition, compared: Sequence[Change]) -> list[gate.Finding]:
    """Returns the findings of the rule over a whole training: its alarms, or the fall that it could have found."""
    if fell := [
        gate.Finding(condition.text, change.model, change.why, gate.FAIL) for change in compared if change.alarm
    ]:
        return fell
    if not compared:
        return []
    last = compared[-1]
    power = f"; a fall of {100 * last.detectable:.1f} points is found within two in 9 of 10" if last.detectable else ""
    text = f"{len(compared):,} {'changes' if len(compared) > 1 else 'change'}, no fall beyond chance{power}"
    return [gate.Finding(condition.text, last.model, text, gate.PASS)]
