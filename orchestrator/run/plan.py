"""What a command asks for: tasks, their data and settings, and the samples they come to."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import click
import orjson

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks import bundle
from orchestrator.benchmarks.base import Benchmark
from orchestrator.benchmarks.registry import UnknownTaskError, find
from orchestrator.data.rows import DataError, MissingColumnError, Row, RowSource
from orchestrator.errors import ConfigError, EngineError
from orchestrator.run.code_hash import code_hash
from orchestrator.run_folder.manifest import model_identity
from orchestrator.run_folder.planned_rows import STRIDE, PlannedRows
from orchestrator.samples import Sample, Variant


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """One task of a run: its benchmark, how it is run, and its rows."""

    benchmark: Benchmark
    variant: Variant
    source: RowSource


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides what is asked, and nothing else.

    Attributes:
        tasks: The tasks, in the order they are run.
        limit: Rows per task; None takes all.
        repeats: How often each row is run.
        blind: Whether images are replaced by grey ones.
        synthetic: Whether the rows are drawn.
    """

    tasks: tuple[Task, ...]
    limit: int | None
    repeats: int
    blind: bool
    synthetic: bool

    @property
    def method(self) -> str:
        """The inference method, the same for all tasks."""
        return self.tasks[0].variant.method

    @property
    def names(self) -> list[str]:
        """The tasks' names."""
        return [task.variant.task for task in self.tasks]

    @property
    def needs(self) -> set[str]:
        """Capabilities that the model must claim, without their prefix."""
        wanted = {need for task in self.tasks for need in task.benchmark.needs(task.variant)}
        return wanted | {self.method.upper()}

    @property
    def stage_needs(self) -> dict[str, set[str]]:
        """The same for each further stage of the tasks."""
        wanted: dict[str, set[str]] = {}
        for task in self.tasks:
            for stage, needs in task.benchmark.stage_needs(task.variant).items():
                wanted.setdefault(stage, set()).update(needs)
        return wanted

    @property
    def rows(self) -> int | None:
        """Rows in all, repeats counted; None where a source does not know."""
        counts = [self.rows_of(task) for task in self.tasks]
        return None if None in counts else sum(filter(None, counts)) * self.repeats

    def samples(self, planned: PlannedRows | None = None) -> Iterator[Sample]:
        """Yields the samples, row by row, no images read.

        Args:
            planned: What earlier processes planned: rows that are over are passed over.
        """
        for number, task in enumerate(self.tasks):
            variants = [dataclasses.replace(task.variant, repeat=repeat) for repeat in range(self.repeats)]
            rows = itertools.islice(task.source, self.limit)
            for first in itertools.count(0, STRIDE):
                stride = list(itertools.islice(rows, STRIDE))
                if not stride:
                    break
                if planned and planned.over(number, first, len(stride)):
                    continue
                for (number_of_row, row), variant in itertools.product(enumerate(stride, first + 1), variants):
                    for sample in self.samples_of(task, number_of_row, row, variant):
                        if planned:
                            planned.note(sample)
                        yield sample
                if planned:
                    planned.close_stride(number, first, len(stride))

    def samples_of(self, task: Task, number: int, row: Row, variant: Variant) -> Iterator[Sample]:
        """Yields the samples of one row.

        Args:
            task: One of the tasks.
            number: The row's number from 1, for messages.
            row: The row.
            variant: The task's, with the repeat.

        Raises:
            DataError: If the row cannot be used.
            EngineError: If the benchmark fails; both name the row.
        """
        try:
            yield from task.benchmark.samples(row, variant)
        except (DataError, click.ClickException):
            raise
        except MissingColumnError as error:
            raise DataError(f"{task.source.origin}, row {number}: {error}") from error
        except Exception as error:
            where = f"benchmark {task.benchmark.name}, {task.source.origin}, row {number}"
            raise EngineError(f"{where}: {type(error).__name__}: {error}") from error

    def first_samples(self, task: Task) -> Iterator[Sample]:
        """Yields the samples of a task's first row, none where it has no rows; raises as `samples_of` does."""
        row = next(iter(task.source), None)
        if row is not None:
            yield from self.samples_of(task, 1, row, dataclasses.replace(task.variant, repeat=0))

    def metrics(self) -> dict[str, list[scorer.MetricSpec]]:
        """Returns the figures to compute, by task."""
        return {task.variant.task: list(task.benchmark.metrics(task.variant)) for task in self.tasks}

    def identity(
        self, info: model.GetModelInfoResponse, stages: Mapping[str, model.GetModelInfoResponse]
    ) -> dict[str, Any]:
        """Returns what makes two runs the same run."""
        first = self.tasks[0].variant
        return {
            "tasks": self.names,
            "method": first.method,
            "seed": first.seed,
            "limit": self.limit,
            "repeats": self.repeats,
            "shuffle_options": first.shuffle_options,
            "parity": first.parity,
            "blind": self.blind,
            "settings": {task.variant.task: _settings_json(task.variant.settings) for task in self.tasks},
            "data": {
                task.variant.task: {"origin": task.source.origin, "sha256": task.source.digest} for task in self.tasks
            },
            "model": model_identity(info),
            "stages": {name: model_identity(other) for name, other in sorted(stages.items())},
        }

    def code(self) -> dict[str, str]:
        """Returns the hash of each benchmark's code (`code_hash`)."""
        benchmarks = {task.benchmark.name: task.benchmark for task in self.tasks}
        return {name: code_hash(benchmark, synthetic=self.synthetic) for name, benchmark in benchmarks.items()}

    def name_of_samples(self, identity: Mapping[str, Any]) -> bytes:
        """Returns 32 bytes that differ where another identity or other code may make other samples."""
        words = orjson.dumps([identity, self.code()], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(words).digest()

    def rows_of(self, task: Task) -> int | None:
        """Returns how many rows of a task are run, once each; None where its source does not know."""
        source = task.source
        if source.count is None or self.limit is None:
            return source.count if self.limit is None else self.limit
        return min(source.count, self.limit)


def make(
    words: Sequence[str],
    *,
    method: str = "generate",
    data: Sequence[str] = (),
    synthetic: bool = False,
    limit: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    shuffle_options: bool = False,
    parity: bool = False,
    blind: bool = False,
    settings: Sequence[str] = (),
) -> Plan:
    """Returns the plan of a command.

    Raises:
        ConfigError: If the words contradict each other or name what there is not.
        DataError: If data cannot be used.
    """
    try:
        found = find(words)
    except UnknownTaskError as error:
        raise ConfigError(str(error)) from error
    if synthetic and data:
        raise ConfigError("--synthetic draws rows and --data reads them: leave one out")
    where = _data_of(data, found)
    values = _settings_of(settings, found)
    tasks = []
    for name, benchmark in found.items():
        if method not in benchmark.methods:
            known = " or ".join(benchmark.methods)
            raise ConfigError(f"task {name} has no method {method!r}: give --method {known}")
        variant = Variant(
            task=name,
            method=method,
            seed=seed,
            repeats=repeats,
            shuffle_options=shuffle_options,
            parity=parity,
            settings=values[benchmark.name],
        )
        rows = limit or benchmark.synthetic_rows
        source = _synthetic(benchmark, name, seed, rows) if synthetic else benchmark.rows(name, where.get(name))
        if source.count == 0:
            raise ConfigError(f"task {name}: {source.origin} has no rows for it: give --data another path")
        tasks.append(Task(benchmark, variant, source))
    return Plan(tuple(tasks), limit, repeats, blind, synthetic)


def check_capabilities(plan: Plan, models: Mapping[str, model.GetModelInfoResponse], where: Mapping[str, str]) -> None:
    """Makes sure that the models can be asked what the plan asks.

    Args:
        plan: The plan.
        models: The model under evaluation, under "", and those of further stages by name.
        where: Their addresses.

    Raises:
        ConfigError: If one does not claim something needed, or a stage is none of the plan's.
    """
    stages = plan.stage_needs
    for stage in models.keys() - stages.keys() - {""}:
        known = f"known here: {', '.join(sorted(stages))}" if stages else "the tasks have no further stages"
        raise ConfigError(f"--stage {stage}: {', '.join(plan.names)} has no such stage; {known}")
    wanted = {"": plan.needs}
    for stage, needs in stages.items():
        wanted.setdefault(stage if stage in models else "", set()).update(needs)
    for stage, needs in wanted.items():
        _check_claims(plan, stage, needs, models[stage], where[stage])


def _check_claims(plan: Plan, stage: str, needs: set[str], info: model.GetModelInfoResponse, where: str) -> None:
    claimed = {model.Capability.Name(c).removeprefix("CAPABILITY_") for c in info.capabilities}
    missing = sorted(needs - claimed)
    if missing == ["LIKELIHOOD"]:
        raise ConfigError(
            f"{info.model_name} at {where} does not score continuations (no CAPABILITY_LIKELIHOOD): "
            "use --method generate, or a server with Likelihood"
        )
    if missing:
        tasks = ", ".join(plan.names)
        help_ = f"give stage {stage} another model" if stage else "use another model or task"
        elsewhere = [name for name, more in plan.stage_needs.items() if not stage and more & set(missing)]
        if elsewhere:
            help_ += f", or another model for that stage (--stage {elsewhere[0]}=H:P)"
        raise ConfigError(
            f"{info.model_name} at {where} does not claim {', '.join(missing)}, which {tasks} needs: {help_}"
        )


def _data_of(words: Sequence[str], found: Mapping[str, Benchmark]) -> dict[str, str]:
    """Reads `--data PATH` (all tasks) and `--data TASK=PATH`."""
    where: dict[str, str] = {}
    everywhere = ""
    for word in words:
        task, equals, path = word.partition("=")
        if not word or (task in found and equals and not path):
            raise ConfigError(f"--data {word!r} names no data: give a path or hub id, or leave it out")
        if equals and task in found:
            if task in where:
                raise ConfigError(f"--data {word}: {task} has data already ({where[task]}): leave one out")
            where[task] = path
        elif equals and task.isidentifier() and "/" not in task and not Path(word).exists():
            raise ConfigError(f"--data {word}: {task} is none of the tasks {', '.join(found)}")
        elif everywhere:
            raise ConfigError(f"--data {everywhere} and --data {word}: give one for all tasks, others as TASK=PATH")
        else:
            everywhere = word
    if everywhere:
        where = dict.fromkeys(found, everywhere) | where
    return {name: bundle.resolve(path, name) for name, path in where.items()}


def _settings_of(words: Sequence[str], found: Mapping[str, Benchmark]) -> dict[str, Any]:
    """Reads `--set NAME=VALUE` into an instance of each benchmark's settings."""
    benchmarks = {benchmark.name: benchmark for benchmark in found.values()}
    given: dict[str, dict[str, Any]] = {name: {} for name in benchmarks}
    for word in words:
        name, equals, text = word.partition("=")
        owners = [b for b in benchmarks.values() if name in _fields(b)]
        if not equals or not owners:
            known = sorted({field for b in benchmarks.values() for field in _fields(b)})
            raise ConfigError(
                f"--set {word}: known settings are {', '.join(known) or 'none for this task'} (NAME=VALUE)"
            )
        for benchmark in owners:
            value = _value(word, text, get_type_hints(benchmark.settings)[name])
            allowed = _fields(benchmark)[name].metadata.get("range")
            if allowed is not None and value not in allowed:
                raise ConfigError(f"--set {word}: give {allowed[0]} to {allowed[-1]}")
            given[benchmark.name][name] = value
    made = {}
    for name, benchmark in benchmarks.items():
        try:
            made[name] = benchmark.settings(**given[name])
        except ValueError as error:
            raise ConfigError(f"--set: {error}") from error
    return made


def _fields(benchmark: Benchmark) -> dict[str, dataclasses.Field[Any]]:
    if not dataclasses.is_dataclass(benchmark.settings):
        return {}
    return {field.name: field for field in dataclasses.fields(benchmark.settings)}


def _value(word: str, text: str, kind: Any) -> Any:
    kinds = getattr(kind, "__args__", (kind,)) if not isinstance(kind, type) else (kind,)
    if any(not isinstance(one, type) for one in kinds):  # Literal["a", "b"]
        if text not in kinds:
            raise ConfigError(f"--set {word}: give one of {', '.join(map(str, kinds))}")
        return text
    if bool in kinds:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.lower() not in words:
            raise ConfigError(f"--set {word}: give true or false")
        return words[text.lower()]
    for number in (int, float):
        if number in kinds:
            try:
                return number(text)
            except ValueError:
                what = "a whole number" if number is int else "a number"
                raise ConfigError(f"--set {word}: give {what}") from None
    return text


def _settings_json(settings: Any) -> dict[str, Any]:
    return dataclasses.asdict(settings) if dataclasses.is_dataclass(settings) else {}  # type: ignore[arg-type]


def _synthetic(benchmark: Benchmark, task: str, seed: int, rows: int) -> RowSource:
    def iterate() -> Iterator[Row]:
        return itertools.islice(benchmark.synthetic(task, seed), rows)

    words = f"{benchmark.name}|{task}|{seed}|{code_hash(benchmark, synthetic=True)}"
    return RowSource(f"synthetic, seed {seed}", hashlib.sha256(words.encode()).hexdigest(), rows, iterate)
