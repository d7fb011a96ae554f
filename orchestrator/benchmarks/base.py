"""The type of a benchmark: functions over rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any, Generic, Protocol, runtime_checkable

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.data.rows import Row, RowSource
from orchestrator.errors import ConfigError
from orchestrator.samples import Sample, Scoring, SettingsT, Variant, metric

OUTPUT_TOKENS = range(1, 2**31)
"""Range of a bound on an answer's tokens."""


def setting(default: Any, text: str, within: range | None = None) -> Any:
    """Returns a field of `Benchmark.settings` with its help text, and the range of a whole number."""
    return field(default=default, metadata={"help": text} | ({"range": within} if within else {}))


class NoSettings:
    """For benchmarks without settings of their own."""


@dataclass(frozen=True, slots=True)
class LetterSettings:
    """For multiple-choice benchmarks whose options are texts with letters."""

    letters: bool = setting(False, "with --method likelihood, score the options' letters, not their texts")


def shuffled(options: list[str], target: str, variant: Variant, identifier: str) -> tuple[list[str], str]:
    """Returns the options and the right one's letter, `target` before; with `--shuffle-options` in a random order."""
    if not variant.shuffle_options or not options:
        return options, target
    right, order = options[ascii_uppercase.index(target)], list(options)
    variant.rng(identifier, "options").shuffle(order)
    return order, ascii_uppercase[order.index(right)]


def letter_scoring(
    variant: Variant,
    options: Sequence[str],
    target: str,
    labels: Mapping[str, str],
    *,
    lettered: bool,
    parity: str,
    params: Mapping[str, Any],
) -> Scoring:
    """Returns how the answer to a multiple-choice question is scored.

    Args:
        variant: How the task is run.
        options: The options' texts; empty where the image shows four.
        target: The right one's letter.
        labels: The item's labels.
        lettered: Whether log-likelihood scoring takes the options' letters, not their texts.
        parity: The rule of `--parity`.
        params: Its parameters.
    """
    letters = tuple(ascii_uppercase[: len(options) or 4])
    if variant.method == "likelihood":
        right = target if lettered else options[letters.index(target)]
        return Scoring("likelihood", (right,), letters if lettered else tuple(options), labels=labels)
    if variant.parity:
        return Scoring(parity, (target,), tuple(options), params, labels)
    return Scoring("choice", (target,), tuple(options), {} if options else {"count": 4}, labels)


def metrics_by(category: str, *others: str) -> list[scorer.MetricSpec]:
    """Returns accuracy in percent, overall and by some labels, and the distribution of choices, by the first label.

    A label of two, "category difficulty", is each pair of their values.
    """
    labels = [tuple(label.split()) for label in (category, *others)]
    return [
        metric("accuracy", "accuracy", by=labels, params={"unit": "percent"}),
        metric("choice bias", "choice_bias", by=labels[:1]),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark(Generic[SettingsT]):
    """A benchmark: its tasks, and how rows become samples and verdicts become metrics.

    Attributes:
        name: The module's name, for example "marvel".
        tasks: Task names, each with a line that describes it.
        groups: Names of several tasks together.
        data: Description of the data that `--data` takes; the first line names the hub id used without it.
        rows: Opens the data of a task: `rows(task, data)`, data None meaning the hub id.
        samples: Turns one row into samples (one puzzle may ask five questions).
        metrics: The metrics of a task.
        synthetic: Synthetic rows in the upstream schema, by seed; endless or long, taken
            with `--limit`.
        settings: A frozen dataclass whose fields, made by `setting`, are the `--set NAME=VALUE` of this benchmark.
        methods: The inference methods that its tasks have.
        needs: Capabilities that a model must have, for example "IMAGE_OUTPUT", by task; checked before the first
            sample is sent.
        advice: Sentences about settings that a task or the model calls for, which a run prints as it begins; made
            after the rows are open.
        stage_needs: The same as `needs` for further stages by name (`Call.stage`), of the model that
            `--stage NAME=H:P` gives, without one of the model under evaluation.
        synthetic_rows: Number of rows of `--synthetic` without `--limit`.
        family: Name of the benchmark whose rows its tasks ask about, "" where that is its own.
        row: Returns the name of an item's row from its key without task and repeat, and its labels: the same in every
            task of the family, and another one for each item of a task.
        tool: Name of a tool of `--tools` that its tasks call themselves (`orchestrator.samples.Lookups`), "" for none.
        runs_text: Place in the code of a task's scoring that runs text as Python, "FILE:LINE calls NAME", "" for none:
            answers would run as code, which a run has to allow.
    """

    name: str
    tasks: Mapping[str, str]
    data: str
    rows: Callable[[str, str | None], RowSource]
    samples: Callable[[Row, Variant[SettingsT]], Iterable[Sample]]
    metrics: Callable[[Variant[SettingsT]], Sequence[scorer.MetricSpec]]
    synthetic: Callable[[str, int], Iterator[Row]]
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    settings: type[SettingsT] = NoSettings  # type: ignore[assignment]  # which SettingsT is then
    methods: Sequence[str] = ("generate", "likelihood")
    needs: Callable[[Variant[SettingsT]], Sequence[str]] = lambda _: ("IMAGE_INPUT",)
    advice: Callable[[Variant[SettingsT], model.GetModelInfoResponse], Sequence[str]] = lambda *_: ()
    stage_needs: Callable[[Variant[SettingsT]], Mapping[str, Sequence[str]]] = lambda _: {}
    synthetic_rows: int = 100
    family: str = ""
    row: Callable[[str, Mapping[str, str]], str] = lambda identifier, _: identifier
    tool: str = ""
    runs_text: Callable[[Variant[SettingsT]], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """A group of tasks with metrics over them.

    Attributes:
        tasks: Names of its tasks.
        metrics: Makes its metrics of those of its tasks by name; each item has its task in the label "task".
    """

    tasks: Sequence[str]
    metrics: Callable[[Mapping[str, Sequence[scorer.MetricSpec]]], Sequence[scorer.MetricSpec]]


@runtime_checkable
class TaskSource(Protocol):
    """Tasks `PREFIX:NAME` of one prefix."""

    @property
    def name(self) -> str:
        """The prefix."""

    def find(self, name: str, include: Sequence[str]) -> Mapping[str, Benchmark]:
        """Returns the benchmark of each task that a name stands for, by the task's whole name.

        Args:
            name: The word after the colon: a task, or a group of tasks.
            include: Folders with further configurations (`--include-path`).

        Raises:
            UserError: The task is unknown.
        """

    def groups(self, name: str, include: Sequence[str]) -> Mapping[str, TaskGroup]:
        """Returns the groups with metrics over their tasks that a name stands for; parameters as in `find`."""

    def scored_by_code(self, settings: Mapping[str, str]) -> bool:
        """Returns whether code of others scores the answers under some settings (`--set NAME=VALUE`).

        A scorer runs such code only when it is started with `--foreign-tasks`.
        """

    def runs_text(self, name: str, include: Sequence[str]) -> str:
        """Returns where the code that scores a task runs text as Python, "" where it does not.

        The place is "FILE:LINE calls NAME"; such a task is refused without `--trust-task-code`. Parameters as in
        `find`.
        """

    def why_absent(self) -> str:
        """Returns why none of these tasks can be run here and what to do, "" where they can."""


def check_parity(variant: Variant, *, reference: bool = True) -> None:
    """Raises ConfigError where `--parity` cannot be kept, as without a `reference` implementation to follow.

    For `Benchmark.needs`, which is called before anything is sent.
    """
    if not variant.parity:
        return
    if not reference:
        raise ConfigError(f"{variant.task} has no published reference implementation to follow; drop --parity")
    if variant.shuffle_options:
        raise ConfigError("--parity asks as the reference does, which never shuffles; drop --shuffle-options")
    if variant.method == "likelihood":
        raise ConfigError("--parity follows the reference, which only generates; drop --method likelihood")
