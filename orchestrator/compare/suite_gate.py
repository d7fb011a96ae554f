"""The gate of a suite: each model held against a baseline, which may be one before it, over all of its tasks."""

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
        baseline: The model that the others are compared with, `PREVIOUS`, `BEST` or "".
        variants: Variants of the suite, which share the errors of `no_fall`.
        noise: Changes that the server itself makes, None where it was not measured.
    """

    conditions: Sequence[gate.Condition]
    baseline: str
    variants: int
    noise: float | None

    def moves(self, models: Mapping[str, object]) -> bool:
        """Returns whether the baseline is one of the models before each; a model of that name comes first."""
        return self.baseline in (PREVIOUS, BEST) and self.baseline not in models


class Judged(NamedTuple):
    """Findings of the gate, why it did not judge a model, and the change of each."""

    findings: Sequence[gate.Finding]
    unjudged: Sequence[str]
    changes: Sequence[Change]

    def with_(self, other: Judged) -> Judged:
        """Returns this and that of a further variant."""
        return Judged(
            [*self.findings, *other.findings], [*self.unjudged, *other.unjudged], [*self.changes, *other.changes]
        )


def judge(variant: str, models: Mapping[str, Scores | None], steps: Mapping[str, int | None], rule: Rule) -> Judged:
    """Holds the models of a variant against the gate.

    Args:
        variant: The variant, "" where there is none.
        models: The tasks of each model as those of one run, in the suite's order; None where they are not complete.
        steps: Training step of each model. Where any has one, models without one stand in no row.
        rule: The gate.
    """
    series = any(step is not None for step in steps.values())
    row = [model for model in models if not series or steps[model] is not None]
    found: list[Change] = []
    if series or rule.moves(models) or any(one.name == gate.NO_FALL for one in rule.conditions):
        against = rule.baseline or PREVIOUS if rule.moves(models) or not rule.baseline else models.get(rule.baseline)
        if against is not None:
            runs = [run for model in row if (run := models[model])]
            found = changes(runs, against, variant, trainings=rule.variants, noise=rule.noise)
    if not rule.conditions:
        return Judged([], [], found)
    words = f" in {variant}" if variant else ""
    if rule.baseline and not rule.moves(models) and models.get(rule.baseline) is None:
        return Judged([], [f"the baseline {rule.baseline} is not complete{words}: no model is judged"], found)
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
            unjudged.append(f"{model} is not complete{words}: it is not judged")
            continue
        if not conditions:  # `found` has what the others say
            continue
        first = next(moving) if rule.moves(models) else models.get(rule.baseline)
        own = [one for one in conditions if first or not rule.moves(models) or not gate.compares(one)]
        try:
            findings += _findings(own, run, first)
        except ConfigError as error:
            unjudged.append(f"{model} cannot be judged: {error}".replace("--gate: ", ""))
    findings += [each for one in rule.conditions if one.name == gate.NO_FALL for each in _no_fall(one, found)]
    return Judged(findings, unjudged, found)


def _findings(conditions: Sequence[gate.Condition], run: Scores, first: Scores | None) -> list[gate.Finding]:
    units = statistics.shared(first, run) if first else {}
    pairs = statistics.compare_units(units) if units else None
    steps = first.steps if first else ()
    return gate.judge(conditions, run.run, pairs, steps, statistics.pool(units), first.run if first else None)


def _no_fall(condition: gate.Condition, found: Sequence[Change]) -> list[gate.Finding]:
    """Returns what the rule over a whole training came to: its alarms, or what it could have found."""
    if fell := [gate.Finding(condition.text, each.model, each.why, gate.FAIL) for each in found if each.alarm]:
        return fell
    if not found:
        return []
    last = found[-1]
    words = f"; a fall of {100 * last.detectable:.1f} points is found within two in 9 of 10" if last.detectable else ""
    what = f"{len(found):,} {'changes' if len(found) > 1 else 'change'}, no fall beyond chance{words}"
    return [gate.Finding(condition.text, last.model, what, gate.PASS)]
