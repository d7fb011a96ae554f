"""Quality gates: conditions that a run has to meet, such as `acc>=0.6,change.low>=-2%`.

    gate      := condition ("," condition)*
    condition := "no_regression" | "no_fall" | "worst_task" (">=" | ">") number ["%"] | change operator number ["%"]
               | metric operator number ["%"]
    change    := [task "/"] "change" ["." ("low" | "high")]
    metric    := [task "/"] name ["[" label "=" value ("," label "=" value)* "]"] ["." part]
    part      := "low" | "high" | "answered"
    operator  := ">=" | "<=" | ">" | "<"

Labels and parts belong to metrics; an outcome has neither.

`change` is the difference to the first run, over the primary metrics of all tasks or of one. `change.low>=-2%` is a
test of non-inferiority with three answers: pass if a fall of more than 2 points is excluded, fail if the run is worse
beyond chance, otherwise not shown. `no_regression` is `change.low>=-2%`, and also fails if one task fell beyond chance
(step-down max-T over all tasks). `worst_task>=-10%` is the same test for every task at once. `no_fall` applies to a
suite's models in their order: none fell from its baseline, at 5% over all of them (orchestrator/compare/series.py).

`name` is the name of a result in upper or lower case, a metric or the start of one (`acc`), an outcome
(`failed`, `unparsed`...: its share of the planned items) or `cut`, the share of items whose answer the
output limit ended. If it matches several results, all of them have to meet the condition.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from lyncean.statistics.intervals import REACH
from orchestrator.compare.scores import Step
from orchestrator.compare.statistics import Paired
from orchestrator.errors import ConfigError
from orchestrator.run_folder.cut import cut_counts, total as cut_total
from orchestrator.run_folder.metrics import OUTCOMES, MetricResult, counts, metric_results
from orchestrator.run_folder.reader import Run
from orchestrator.run_folder.validity import no_result

NO_REGRESSION = "no_regression"
NO_FALL = "no_fall"
WORST_TASK = "worst_task"
CHANGE = "change"
MARGIN = 0.02
"""Fall that `no_regression` has to exclude, as a fraction."""
PASS, FAIL, NOT_SHOWN = "pass", "FAIL", "not shown"
_MOST_NAMED = 5
_CUT = "cut"
_SHARES = (*OUTCOMES, _CUT)
"""Names of conditions on a share of the planned items."""
_QUANTILE = NormalDist().inv_cdf
_MOST_DIGITS = 13
"""Decimals up to which a double in percent is meaningful."""

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_CONDITION = re.compile(
    r"""\s*(?:(?P<task>[\w.:-]+)/)?
        (?P<name>[^\[\]<>=/]+?)
        (?:\[(?P<labels>[^\[\]]+)\])?
        (?:\.(?P<part>low|high|answered))?
        \s*(?P<operator>>=|<=|>|<)\s*
        (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?P<percent>\s*%)?\s*""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a gate; `text` is the user's spelling, `name` may be one of the names above."""

    text: str
    name: str
    task: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    part: str = ""
    operator: str = ">="
    number: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a condition for one metric; `verdict` is `PASS`, `FAIL` or `NOT_SHOWN`."""

    condition: str
    run: str
    what: str
    verdict: str


def worst(findings: Iterable[Finding]) -> str:
    """Returns the worst verdict of some findings, `PASS` without any."""
    verdicts = {finding.verdict for finding in findings}
    return next((verdict for verdict in (FAIL, NOT_SHOWN) if verdict in verdicts), PASS)


def parse(text: str) -> list[Condition]:
    """Parses a gate.

    Raises:
        ConfigError: The text is not a valid gate; the message names the offending condition.
    """
    # Commas inside brackets separate labels, not conditions.
    return [_condition(part.strip()) for part in re.split(r",(?![^\[]*\])", text)]


def _condition(text: str) -> Condition:
    if text in (NO_REGRESSION, NO_FALL):
        return Condition(text, text)
    match = _CONDITION.fullmatch(text)
    if not match or match["name"] in (NO_REGRESSION, NO_FALL):
        raise ConfigError(
            f"--gate: {text!r} is not a condition: write NAME>=NUMBER, for example acc>=0.6 or failed<=1%, "
            f"or {NO_REGRESSION}"
        )
    labels: dict[str, str] = {}
    for pair in (match["labels"] or "").split(",") if match["labels"] else ():
        name, equals, value = (word.strip() for word in pair.partition("="))
        if not equals or not name:
            raise ConfigError(f"--gate: {pair!r} in {text!r} is not a label: write [LABEL=VALUE]")
        if name in labels:
            raise ConfigError(f"--gate: {text!r} gives the label {name} twice: write a condition for each value")
        labels[name] = value
    number = float(match["number"]) / (100 if match["percent"] else 1)
    if not math.isfinite(number):
        raise ConfigError(f"--gate: {match['number']} in {text!r} is not a number that a metric could have")
    name = match["name"].strip()
    if name == CHANGE and (labels or match["part"] == "answered"):
        raise ConfigError(f"--gate: {text!r}: {CHANGE} has the parts low and high, and no slices")
    if name == WORST_TASK and (labels or match["task"] or match["part"] or match["operator"] not in (">=", ">")):
        raise ConfigError(
            f"--gate: {text!r}: write {WORST_TASK}>=-10%, a limit for all tasks, or TASK/{CHANGE}.low>=-10%"
        )
    if name in (CHANGE, WORST_TASK) and abs(number) >= 1 and not match["percent"]:
        raise ConfigError(f"--gate: {text!r}: a change is a share: write {number:g}% or {number / 100:g}")
    if name in _SHARES and (number > 1 or (number == 1 and match["operator"] != ">=")) and not match["percent"]:
        raise ConfigError(f"--gate: {text!r}: {name} is a share of the items: write {number:g}% or {number / 100:g}")
    if name in _SHARES and (labels or match["part"]):
        raise ConfigError(
            f"--gate: {text!r} asks for a part or slice of a count, which has neither: write {name} or TASK/{name}, "
            "its share of all planned items"
        )
    return Condition(
        text, name, match["task"] or "", tuple(labels.items()), match["part"] or "", match["operator"], number
    )


def compares(condition: Condition) -> bool:
    """Returns True if a condition is about the difference to another run."""
    return condition.name in (NO_REGRESSION, NO_FALL, WORST_TASK, CHANGE)


def judge(
    conditions: Sequence[Condition],
    run: Run,
    pairs: Sequence[Paired] | None,
    steps: Collection[Step] = (),
    overall: Paired | None = None,
    first: Run | None = None,
) -> list[Finding]:
    """Tests a run against conditions. A void metric fails every condition on it, and on changes of its task.

    Args:
        conditions: The conditions, from `parse`.
        run: The run that has to meet them.
        pairs: Its comparisons with the first run; None if it is the only one.
        steps: Metrics of the first run that could be compared.
        overall: Its comparison over all tasks; None if no metric is a share.
        first: The first run; None if it is the only one.

    Raises:
        ConfigError: A condition names a metric, task or comparison that the run does not have.
    """
    findings: list[Finding] = []
    void = {task: why for compared in (first, run) if compared for task, why in no_result(compared.tasks).items()}
    for condition in conditions:
        if condition.name == NO_FALL:
            raise ConfigError("--gate: no_fall is of the models of a suite, one after another: write no_regression")
        if compares(condition) and (why := [line for task, line in void.items() if condition.task in ("", task)]):
            _checked(condition, run, pairs, steps)
            findings += [Finding(condition.text, run.name, line, FAIL) for line in why]
        elif condition.name == NO_REGRESSION:
            findings += _no_regression(run, _checked(condition, run, pairs, steps), overall)
        elif condition.name == WORST_TASK:
            findings += _worst_task(condition, run, _checked(condition, run, pairs, steps), overall)
        elif condition.name == CHANGE:
            findings.append(_change(condition, run, _checked(condition, run, pairs, steps), overall))
        elif condition.name in _SHARES:
            findings.append(_share(condition, run))
        else:
            findings += [_metric(condition, run, metric) for metric in _resolve(condition, run)]
    return findings


def _checked(
    condition: Condition, run: Run, pairs: Sequence[Paired] | None, steps: Collection[Step]
) -> Sequence[Paired]:
    if not pairs:
        raise ConfigError(
            f"--gate: {condition.text} needs two runs with items in common: the one before, then {run.name}"
        )
    compared = {pair.step for pair in pairs}
    if missing := [str(step) for step in steps if step not in compared and not step.group]:
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        raise ConfigError(
            f"--gate: {condition.text} cannot be told: {run.name} lacks {', '.join(missing[:_MOST_NAMED])}{more}, "
            "which the first run has; give a first run of the same tasks"
        )
    return pairs


def _no_regression(run: Run, pairs: Sequence[Paired], overall: Paired | None) -> list[Finding]:
    """Tests that a fall of MARGIN is excluded over all tasks, and that no primary metric fell beyond chance."""
    margin = _change(Condition(NO_REGRESSION, CHANGE, part="low", operator=">=", number=-MARGIN), run, pairs, overall)
    if hidden := _lowest(pairs):
        margin = replace(margin, what=f"{margin.what}; {_fall_text(hidden)}, the most of any task")
    return [margin] + [_fell(NO_REGRESSION, run, pair) for pair in pairs if pair.fall and pair.regression]


def _worst_task(condition: Condition, run: Run, pairs: Sequence[Paired], overall: Paired | None) -> list[Finding]:
    """Tests that every task's change is above the limit: shown for all tasks at once, or refuted for one."""
    lowest = _lowest(pairs)
    if lowest is None:
        return [_change(replace(condition, name=CHANGE, part="low"), run, pairs, overall)]
    limit = f"limit {100 * condition.number:+g}"
    short = [pair for pair in pairs if (low := _low(pair)) is not None and not _holds(condition, low)]
    if not short:
        return [Finding(condition.text, run.name, f"{_fall_text(lowest)}, the most of any task; {limit}", PASS)]
    if fell := [_fell(condition.text, run, pair) for pair in short if pair.regression]:
        return fell
    tasks = sum(_low(pair) is not None for pair in pairs)
    text = f"{_fall_text(lowest)}, {limit}, which {len(short):,} of {tasks:,} tasks may be below"
    return [Finding(condition.text, run.name, f"{text}: {_too_few(lowest, -condition.number, tasks)}", NOT_SHOWN)]


def _low(pair: Paired) -> float | None:
    return pair.fall.low if pair.fall else None


def _lowest(pairs: Sequence[Paired]) -> Paired | None:
    """Returns the task that may have fallen most; None for a single task, or if no metric is a share."""
    return min((pair for pair in pairs if _low(pair) is not None), key=lambda pair: _low(pair) or 0.0, default=None)


def _fall_text(pair: Paired) -> str:
    return f"{pair.step.task} may have fallen by {-100 * min(_low(pair) or 0.0, 0.0):.1f} points"


def _fell(condition: str, run: Run, pair: Paired) -> Finding:
    p_value = pair.fall.p if pair.fall else 1.0
    return Finding(
        condition, run.name, f"{_pair_text(pair)}: fell beyond chance, p {p_value:.2g} (max-T over all tasks)", FAIL
    )


def _change(condition: Condition, run: Run, pairs: Sequence[Paired], overall: Paired | None) -> Finding:
    tested = [pair for pair in pairs if pair.p is not None]
    tasks = [pair.step.task for pair in tested]
    if condition.task and condition.task not in tasks:
        raise ConfigError(
            f"--gate: the runs share no task {condition.task} of {condition.text!r}; they share {', '.join(tasks)}"
        )
    pair = tested[tasks.index(condition.task)] if condition.task else overall
    if pair is None:
        raise ConfigError(
            f"--gate: {condition.text} cannot be told over all tasks: no primary metric is a share of 0 to 1; "
            f"write {tasks[0]}/{CHANGE}.low>=NUMBER for one task"
        )
    value = {"": pair.difference, "low": pair.low, "high": pair.high}[condition.part]
    passed = value is not None and _holds(condition, value)
    text = f"{_pair_text(pair)}, limit {100 * condition.number:+g}"
    if (exact := _told_apart(_points, value, condition.number)) != _points(value, 1):
        text += f", is {exact}"
    if passed or condition.part != "low" or condition.operator not in (">=", ">"):
        return Finding(condition.text, run.name, text, _passed(passed))
    if pair.regression or (pair.high is not None and pair.high < condition.number):
        return Finding(condition.text, run.name, f"{text}: worse beyond chance", FAIL)
    return Finding(condition.text, run.name, f"{text}: {_too_few(pair, -condition.number)}", NOT_SHOWN)


def _points(value: float | None, digits: int) -> str:
    return "" if value is None else f"{100 * value:+.{digits}f}"


def _pair_text(pair: Paired) -> str:
    return f"{pair.step}: {100 * pair.difference:+.1f} points {pair.interval}".rstrip()


def _too_few(pair: Paired, margin: float, tasks: int = 1) -> str:
    """Says that the items do not decide it, and how many would: the standard error falls with their square root."""
    text = f"neither shown nor refuted by {pair.items:,} items"
    if margin <= 0 or pair.detectable is None:
        return text
    # One task has the change's two-sided interval; several tasks share the errors.
    reach = (_QUANTILE(1 - 0.05 / tasks) + _QUANTILE(0.8 ** (1 / tasks))) / REACH if tasks > 1 else 1.0
    needed = pair.items * (reach * pair.detectable / margin) ** 2
    digits = max(0, math.floor(math.log10(needed)) - 1)
    per_task = " of each task" if tasks > 1 else ""
    return (
        f"{text}; of an unchanged model about {round(needed, -digits):,.0f} like these{per_task} show it in 4 of 5 runs"
    )


def _holds(condition: Condition, value: float) -> bool:
    return _OPERATORS[condition.operator](value, condition.number)


def _told_apart(text: Callable[[float | None, int], str], value: float | None, limit: float) -> str:
    """Returns a value with enough digits to differ from the limit when rounding would make them equal."""
    digits = range(1, _MOST_DIGITS) if value is not None and value != limit else (1,)
    shown = [text(value, number) for number in digits]
    return next(
        (candidate for candidate, number in zip(shown, digits, strict=True) if candidate != text(limit, number)),
        shown[-1],
    )


def _passed(holds: bool) -> str:
    return PASS if holds else FAIL


def _share(condition: Condition, run: Run) -> Finding:
    tasks = {name: results for name, results in run.tasks.items() if condition.task in ("", name)}
    total = counts(tasks)
    if not total["planned"]:
        raise ConfigError(f"--gate: {run.name} has no results{f' of {condition.task}' if condition.task else ''}")
    number = _cut(condition, run, tasks) if condition.name == _CUT else total[condition.name]
    share = number / total["planned"]
    text = f"{number:,} of {total['planned']:,} {condition.name}"
    return Finding(condition.text, run.name, text, _passed(_holds(condition, share)))


def _cut(condition: Condition, run: Run, tasks: Mapping[str, Mapping[str, Any]]) -> int:
    counted = cut_counts(tasks)
    if missing := [task for task in tasks if task not in counted]:
        raise ConfigError(
            f"--gate: {condition.text} cannot be told: the results of {missing[0]} in {run.name} were made before cut "
            f"answers were counted; orchestrator score {run.path} counts them"
        )
    return cut_total(counted).items


def _resolve(condition: Condition, run: Run) -> list[MetricResult]:
    wanted, labels = condition.name.casefold(), dict(condition.labels)
    results = [f for f in metric_results(run.tasks_and_groups) if condition.task in ("", f.task) and f.labels == labels]
    chosen = (
        [result for result in results if result.name.casefold() == wanted]
        or [result for result in results if result.metric.casefold() == wanted]
        or [result for result in results if result.metric.casefold().startswith(wanted)]
    )
    if chosen:
        return chosen
    known = ", ".join(dict.fromkeys(metric.name for metric in results)) or "none with these labels"
    raise ConfigError(f"--gate {condition.text}: {run.name} has no such metric; it has {known}")


def _metric(condition: Condition, run: Run, metric: MetricResult) -> Finding:
    if metric.void:
        return Finding(condition.text, run.name, metric.void, FAIL)
    value = {"": metric.value, "low": metric.low, "high": metric.high, "answered": metric.answered}[condition.part]
    if metric.unit in ("fraction", "percent") and condition.number > 1 and "%" not in condition.text:
        raise ConfigError(
            f"--gate: {condition.text!r}: {metric.name} is a share: write {condition.number:g}% or "
            f"{condition.number / 100:g}"
        )
    # A gate is in fractions, also for a metric in percent.
    comparable = None if value is None else value / (100 if metric.unit == "percent" else 1)
    passed = comparable is not None and _holds(condition, comparable)
    name = metric.name + (f" [{metric.where}]" if metric.labels else "")
    name += f".{condition.part}" if condition.part else ""
    limit = condition.number * (100 if metric.unit == "percent" else 1)
    text = f"{metric.task}: {name} is {_told_apart(metric.text, value, limit)}{metric.suffix}"
    return Finding(condition.text, run.name, text, _passed(passed))
