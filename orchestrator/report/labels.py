"""A metric from all verdicts and a few people's labels: which items are labelled, and what both show together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import combinations
from statistics import fmean
from typing import Any

from lyncean.arrays import Floats, np
from lyncean.statistics import intervals as stats
from lyncean.vocabulary.keys import split_repeat
from orchestrator.errors import ConfigError
from orchestrator.run_folder import labels as store
from orchestrator.run_folder.metrics import MetricResult, metric_results, overall
from orchestrator.run_folder.reader import STEP, Item, Run

FEWEST = 50
"""Labels from which on an estimate is shown: in simulations its interval covers too little with 20 or 30, 87 % where
nine of ten answers are right."""

_GROUP_ALL = "group_all"
_MEANS = ("accuracy", "mean", _GROUP_ALL)
"""Metrics that are the mean of what is labelled."""
_MEAN_SCORE = "mean score"
"""Estimated metric of a task that has none of them."""


@dataclass(slots=True)
class Unit:
    """Unit of a metric's mean: an item, or for an all-or-nothing metric the items of a group.

    Attributes:
        cluster: Name of its cluster.
        score: Its score by its verdicts, 0 without any.
        keys: Its items.
        answered: Whether each of them has an answer; without one the unit is wrong.
    """

    cluster: str
    score: float
    keys: list[str] = field(default_factory=list)
    answered: bool = True


@dataclass(frozen=True, slots=True)
class LabelUnits:
    """The units of a task's primary metric, in the order in which people label them.

    Attributes:
        units: All units; any first n are a uniform sample.
        whole: Whether a unit is right only if all its items are.
        part: The part of the score that the metric is made of, "" for the score itself.
    """

    task: str
    metric: str
    units: Sequence[Unit]
    whole: bool
    part: str

    @property
    def partial(self) -> bool:
        """True if there is partial credit."""
        return any(unit.score not in (0.0, 1.0) for unit in self.units)

    def score(self, item: Item) -> float:
        """Returns the score of an item by its verdict, 0 without one."""
        return float((item.verdict.get("scores") or {}).get(self.part, 0.0)) if self.part else item.score or 0.0

    def label(self, unit: Unit, scores: Mapping[str, Sequence[float]]) -> float | None:
        """Returns what people say of a unit, the mean over them; None where one of its items has no label."""
        if not unit.answered:
            return 0.0
        if not all(key in scores for key in unit.keys):
            return None
        return min(fmean(float(s == 1) for s in scores[k]) if self.whole else fmean(scores[k]) for k in unit.keys)


@dataclass(frozen=True, slots=True)
class LabelledResult:
    """A metric by its verdicts, by people's labels, and by both.

    Attributes:
        people: Who gave labels.
        labels: How many items (of an all-or-nothing metric: groups) have a label.
        items: Of how many.
        unanswered: How many of the sample have no answer; they count as wrong and not among `labels`.
        unclear: How many nobody could tell, left out.
        skipped: How many were passed over, left out.
        agreement: Mean of 1 - |label - score| over those with a label: for right and wrong, the share that is alike.
        people_agreement: The same between people, None where no item has two labels.
        verdicts: The metric by all verdicts, as the run's results have it.
        low_verdicts: Lower end of its interval, which takes the verdicts for true; None where there is none.
        high_verdicts: Upper end.
        value: The metric by verdicts and labels together (`stats.prediction_powered`).
        low: Lower end of its 95% interval.
        high: Upper end.
        weight: How much the verdicts count in it, from 0 to 1.
        value_labels: The metric by the labels alone.
        low_labels: Lower end of its 95% interval; None where all labels are of one group.
        high_labels: Upper end.
    """

    task: str
    metric: str
    people: Sequence[str]
    labels: int
    items: int
    unanswered: int
    unclear: int
    skipped: int
    agreement: float
    people_agreement: float | None
    verdicts: float
    low_verdicts: float | None
    high_verdicts: float | None
    value: float
    low: float
    high: float
    weight: float
    value_labels: float
    low_labels: float | None
    high_labels: float | None

    @property
    def rows(self) -> Sequence[tuple[str, str, str]]:
        """Name, value and interval, in percent, of each source."""
        return [
            ("verdicts alone", *_shown(self.verdicts, self.low_verdicts, self.high_verdicts)),
            ("verdicts and labels", *_shown(self.value, self.low, self.high)),
            ("labels alone", *_shown(self.value_labels, self.low_labels, self.high_labels)),
        ]

    def __str__(self) -> str:
        return f"{'; '.join(' '.join(row).rstrip() for row in self.rows)} ({self.note})"

    @property
    def note(self) -> str:
        """Number and authors of the labels, and their agreement with the verdicts."""
        line = f"{self.labels:,} of {self.items:,} labelled by {', '.join(self.people)}"
        left = (("without an answer, wrong", self.unanswered), ("unclear", self.unclear), ("skipped", self.skipped))
        line += "".join(f", {count:,} {name}" for name, count in left if count)
        line += f"; verdicts agree with them in {100 * self.agreement:.1f}%"
        if self.people_agreement is not None:
            line += f", people with each other in {100 * self.people_agreement:.1f}%"
        return line


def _shown(value: float, low: float | None, high: float | None) -> tuple[str, str]:
    return f"{100 * value:.1f}", "" if low is None or high is None else f"[{100 * low:.1f}, {100 * high:.1f}]"


def draw(run: Run, task: str, seed: int) -> LabelUnits:
    """Returns the units of a task in the order of a seed, which depends on nothing but the seed and their names.

    Raises:
        ConfigError: The task has nothing that a person can label.
    """
    spec: Mapping[str, Any] = next((one for one in run.specs(task) if one.get("metric") in _MEANS), {})
    where = {label: allowed.get("values", ()) for label, allowed in (spec.get("where") or {}).items()}
    all_or_nothing = spec.get("metric") == _GROUP_ALL
    units: dict[str, Unit] = {}
    drawn = LabelUnits(
        task, str(spec.get("name", _MEAN_SCORE)), [], all_or_nothing, str((spec.get("params") or {}).get("part", ""))
    )
    for item in run:
        if item.task != task or item.outcome in ("", STEP):
            continue
        if any(values and item.labels.get(label) not in values for label, values in where.items()):
            continue
        if item.continuations:
            raise ConfigError(f"{task} was scored by log-likelihood: there is no answer that a person can label")
        score = drawn.score(item)
        if not 0 <= score <= 1:
            raise ConfigError(f"{task}: {item.key} has the score {score:g}; labels are for scores from 0 to 1")
        bare, repeat = split_repeat(item.key)
        cluster = item.group or bare
        name = f"{cluster}#{repeat}" if all_or_nothing else item.key
        unit = units.setdefault(name, Unit(cluster, 1.0))
        unit.score = min(unit.score, float(score == 1)) if all_or_nothing else score
        unit.answered = unit.answered and bool((item.response.get("response") or {}).get("parts"))
        unit.keys.append(item.key)
    if not units:
        raise ConfigError(f"{task}: no item is scored: nothing to label")
    order = sorted(units, key=lambda name: blake2b(f"{seed}/{name}".encode(), digest_size=16).digest())
    return replace(drawn, units=[units[name] for name in order])


def results(run: Run) -> list[LabelledResult]:
    """Returns what labels and verdicts show together, for each task of a complete run with enough labels.

    Raises:
        ConfigError: A line of the run is damaged.
        RunLogError: A label is damaged.
    """
    seed, labels = store.read(run.path)
    if seed is None:
        return []
    tasks = {key.partition("/")[0] for mine in labels.values() for key in mine}
    metrics = {(metric.task, metric.name): metric for metric in overall(metric_results(run.tasks))}
    results = []
    for task in run.tasks:
        drawn = draw(run, task, seed) if task in tasks else None
        if drawn and (one := _result(drawn, labels, metrics.get((task, drawn.metric)))):
            results.append(one)
    return results


def _result(drawn: LabelUnits, labels: store.Labels, metric: MetricResult | None) -> LabelledResult | None:
    scores = store.scores(labels)
    marked = {key for mine in labels.values() for key in mine}
    touched = [number for number, unit in enumerate(drawn.units) if any(key in marked for key in unit.keys)]
    sample = drawn.units[: max(touched, default=-1) + 1]
    means = [drawn.label(unit, scores) for unit in sample]
    with_label = [unit for unit, mean in zip(sample, means, strict=True) if mean is not None]
    unanswered = sum(not unit.answered for unit in sample)
    if len(with_label) - unanswered < FEWEST:
        return None
    label = np.array([mean for mean in means if mean is not None])
    known = {id(unit) for unit in with_label}
    rest = [unit for unit in drawn.units if id(unit) not in known]
    clusters = np.unique([unit.cluster for unit in [*with_label, *rest]], return_inverse=True)[1]
    predicted = np.array([unit.score for unit in with_label])
    others = np.array([unit.score for unit in rest])
    both = stats.prediction_powered(label, predicted, others, clusters)
    sums, sizes = stats.clusters(label[None], np.unique(clusters[: len(label)], return_inverse=True)[1])
    binary = stats.is_binary(label)
    alone = stats.mean_interval(sums[0], sizes, binary=binary, within=stats.SHARE)
    answered = np.array([unit.answered for unit in with_label])
    lost = [unit for unit, mean in zip(sample, means, strict=True) if mean is None]
    unclear = sum(any(key in marked for key in unit.keys) for unit in lost)
    return LabelledResult(
        task=drawn.task,
        metric=drawn.metric,
        people=sorted(name for name, mine in labels.items() if any(k.partition("/")[0] == drawn.task for k in mine)),
        labels=int(answered.sum()),
        items=len(drawn.units),
        unanswered=unanswered,
        unclear=unclear,
        skipped=len(lost) - unclear,
        agreement=_alike(label[answered], predicted[answered]),
        people_agreement=_between([scores[k] for unit in sample for k in unit.keys if len(scores.get(k, ())) > 1]),
        verdicts=fmean(unit.score for unit in drawn.units),
        low_verdicts=metric.in_fractions(metric.low) if metric else None,
        high_verdicts=metric.in_fractions(metric.high) if metric else None,
        **both._asdict(),
        value_labels=float(label.mean()),
        low_labels=alone.low if alone else None,
        high_labels=alone.high if alone else None,
    )


def _alike(one: Floats, other: Floats) -> float:
    return float(1 - np.abs(one - other).mean())


def _between(scores: Sequence[Sequence[float]]) -> float | None:
    pairs = [pair for given_scores in scores for pair in combinations(given_scores, 2)]
    return _alike(*np.array(pairs).T) if pairs else None
