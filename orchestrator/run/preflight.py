"""Checks a run's rules and metrics with the scorer before any model is called, so that a typo costs no calls."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import Any

import grpc

from lyncean.rpc import CallError
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.data.rows import DataError
from orchestrator.engine import ScorerClient
from orchestrator.errors import ConfigError, EngineError
from orchestrator.run.plan import Plan, Task
from orchestrator.run_folder.records import put_answer, score_request, scoring_json
from orchestrator.samples import Answer, BadRowError, NoAnswerError, Sample, Scoring

_PROBE = Answer(text="?")
"""An answer that any rule for texts must be able to read, and in which none finds anything."""
_NOTHING_SENT = "; no request was sent to the model"


async def check_scoring(plan: Plan, client: ScorerClient, rules: scorer.ListRulesResponse) -> None:
    """Makes sure that the scorer knows each task's metrics and rules, and takes their parameters.

    Rules are those of the task's first row, if it can be asked. No judge is asked.

    Raises:
        ConfigError: If it does not; names the task, and the metric or the rule.
        IncompleteError: If the scorer goes away.
    """
    known = {rule.name: rule for rule in rules.rules}
    fine: set[bytes] = set()
    of_tasks = plan.metrics()
    for task in plan.tasks:
        where, items = f"task {task.variant.task}", []
        for key, scoring in _first_items(plan, task):
            _check_rule(f"{where}, rule {scoring.rule!r}", scoring, known, judged=bool(rules.judges))
            if task.variant.method == "generate" and not rules.judges:
                items.append(put_answer(score_request(key, scoring_json(scoring) or {}), _PROBE))
        metrics = of_tasks[task.variant.task]
        content = b"".join(spec.SerializeToString(deterministic=True) for spec in metrics)
        if content not in fine:
            await check_metrics(where, client, metrics)
            fine.add(content)
        # Apart from the metrics: to compute some of them takes long, of one item as well.
        if items:
            await _try(where, client.try_out(items))
    for name, group in plan.groups().items():
        await check_metrics(f"group {name}", client, group["metrics"])


async def check_metrics(
    where: str, client: ScorerClient, metrics: Iterable[scorer.MetricSpec], after: str = _NOTHING_SENT
) -> None:
    """Makes sure that the scorer knows metrics and takes their parameters, by a summary of nothing.

    Args:
        where: Words before the message.
        client: The scorer.
        metrics: The results.
        after: Text after the message.

    Raises:
        ConfigError: If it does not; names `where` and the metric.
        IncompleteError: If the scorer goes away.
    """
    await _try(where, client.summarize(tuple, metrics), after)


def _first_items(plan: Plan, task: Task) -> Iterator[tuple[str, Scoring]]:
    """Yields key and scoring of what the first row is judged by, each rule with its parameters once."""
    seen = []
    for sample in plan.first_samples(task):
        # A row that cannot be asked is rejected as the run comes to it, and has nothing to be judged by.
        for turn in sample.turns if _can_be_asked(sample) else ():
            if turn.scoring and (word := (turn.scoring.rule, turn.scoring.params)) not in seen:
                seen.append(word)
                yield sample.item_key(turn), turn.scoring


def _can_be_asked(sample: Sample) -> bool:
    try:
        sample.turns[0].ask([])
    except (BadRowError, NoAnswerError, DataError, OSError):
        return False
    return True


def _check_rule(where: str, scoring: Scoring, known: Mapping[str, scorer.RuleInfo], *, judged: bool) -> None:
    rule = known.get(scoring.rule)
    if rule is None:
        raise ConfigError(f"{where}: the scorer has no such rule; it has {', '.join(sorted(known))}")
    for name in scoring.params:
        if name not in rule.params:
            raise ConfigError(
                f"{where}: it has no parameter {name!r}; it has {', '.join(sorted(rule.params)) or 'none'}"
            )
    if rule.judged and not judged:
        raise ConfigError(f"{where}: it asks a judge, and the scorer has none: give --judge")


async def _try(where: str, trial: Coroutine[Any, Any, object], after: str = _NOTHING_SENT) -> None:
    try:
        await trial
    except EngineError as error:
        cause = error.__cause__
        if not isinstance(cause, CallError) or cause.code is not grpc.StatusCode.INVALID_ARGUMENT:
            raise
        # An error of a rule for images comes from the trial answer, not from a mistake.
        if cause.reason != "wrong_answer":
            raise ConfigError(f"{where}: {cause}{after}") from error
