"""The plan of a run: its tasks with data and settings, and their samples."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean.plugins.code_hash import closure
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import Benchmark
from orchestrator.benchmarks.registry import find, groups
from orchestrator.data.rows import DataError, MissingColumnError, Row, RowSource
from orchestrator.engine.deviations import Deviations, choices_of, config_of
from orchestrator.engine.trajectory import Play, with_tools
from orchestrator.errors import ConfigError, EngineError
from orchestrator.run import further_metrics, reason_then_score, tools
from orchestrator.run.arguments import data_of, deviations_of, settings_of, words_of
from orchestrator.run.foreign import check_code
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.manifest import model_identity
from orchestrator.run_folder.planned_rows import STRIDE, PlannedRows
from orchestrator.samples import Sample, Variant

_LOOKED_AT = 100
"""Rows among which one with choices is looked for."""
_FAR = 64 * STRIDE
"""Number of finished rows from which starting a new read after them is faster than reading through them."""
_TOGETHER = 64
"""Repeats of a row that are made at a time."""
_SYNTHETIC = "synthetic"
"""Name of the modules that draw a benchmark's synthetic rows."""

_MEANS = frozenset({"accuracy", "mean"})
"""Metrics that tell the parts of their standard error."""


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """One task of a run: its benchmark, how it is run, and its rows."""

    benchmark: Benchmark
    variant: Variant
    source: RowSource


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Tasks and samples of a run.

    Attributes:
        tasks: The tasks, in the order they are run.
        request: The request that it is the plan of.
        play: The tools of the run, None without any.
    """

    tasks: tuple[Task, ...]
    request: RunRequest
    play: Play | None = None

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
        return wanted | {self.method.upper()} | tools.needs(self.called_by_model)

    @property
    def called_by_model(self) -> Play | None:
        """The tools that the model calls; None where it has none, or its tasks call them."""
        return None if any(task.benchmark.tool for task in self.tasks) else self.play

    @property
    def stage_needs(self) -> dict[str, set[str]]:
        """The same for each further stage of the tasks."""
        wanted: dict[str, set[str]] = {}
        for task in self.tasks:
            for stage, needs in task.benchmark.stage_needs(task.variant).items():
                wanted.setdefault(stage, set()).update(needs)
        return wanted

    def advice(self, info: model.GetModelInfoResponse) -> list[str]:
        """Returns what the tasks advise for a model, each sentence after the names of its tasks."""
        tasks_by_name: dict[str, list[str]] = {}
        for task in self.tasks:
            for sentence in task.benchmark.advice(task.variant, info):
                tasks_by_name.setdefault(sentence, []).append(task.variant.task)
        return [f"{_named(names)}: {sentence}" for sentence, names in tasks_by_name.items()]

    @property
    def deviations(self) -> dict[str, Any]:
        """Deviations of the decoding from the benchmark's own, as the manifest records them."""
        return deviations_of(self.request)

    def changes(self, info: model.GetModelInfoResponse | None = None, stages: Collection[str] = ()) -> Deviations:
        """Returns what the run changes in the benchmark's requests.

        Args:
            info: The model under evaluation; None where it is not known.
            stages: Stages with a model of their own.
        """
        seeded = info is not None and model.CAPABILITY_SEED in info.capabilities
        seed = self.request.seed if seeded else None
        constrained = self.request.answer == "constrained"
        config, finish = config_of(self.deviations), self.request.finish_cut or 0
        return Deviations(self.request.blind, constrained, config, frozenset(stages) - {""}, seed, finish)

    def samples(self, planned: PlannedRows | None = None) -> Iterator[Sample]:
        """Yields the samples, row by row, no images read.

        Args:
            planned: What earlier processes planned: rows that are over are passed over.
        """
        for number, task in enumerate(self.tasks):
            variants = [dataclasses.replace(task.variant, repeat=repeat) for repeat in range(self.request.repeats)]
            for first, stride in _strides(task.source, self.request.limit, planned, number):
                for number_of_row, row in enumerate(stride, first + 1):
                    for sample in self._repeated(task, number_of_row, row, variants):
                        if planned:
                            planned.note(sample)
                        yield sample
                if planned:
                    planned.close_stride(number, first, len(stride))

    def _repeated(self, task: Task, number: int, row: Row, variants: Sequence[Variant]) -> Iterator[Sample]:
        """Yields the samples of one row, each followed by its repeats."""
        for start in range(0, len(variants), _TOGETHER):
            some = variants[start : start + _TOGETHER]
            samples = [self.samples_of(task, number, row, variant) for variant in some]
            for repeats in itertools.zip_longest(*samples):
                yield from (sample for sample in repeats if sample is not None)

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
            samples = self._answered(task, row, variant)
            yield from (with_tools(sample, self.play) for sample in samples) if self.play else samples
        except UserError:  # DataError among them
            raise
        except MissingColumnError as error:
            raise DataError(f"{task.source.origin}, row {number}: {error}") from error
        except Exception as error:
            where = f"benchmark {task.benchmark.name}, {task.source.origin}, row {number}"
            raise EngineError(f"{where}: {type(error).__name__}: {error}") from error

    def _answered(self, task: Task, row: Row, variant: Variant) -> Iterable[Sample]:
        """Returns the samples of one row, answered in the form that the request asks for."""
        make = task.benchmark.samples
        if self.request.answer != reason_then_score.NAME:
            return make(row, variant)
        scores, other = "likelihood" in task.benchmark.methods, dataclasses.replace(variant, method="likelihood")
        return reason_then_score.reason_then_score(make(row, variant), lambda: make(row, other) if scores else ())

    def first_samples(self, task: Task) -> Iterator[Sample]:
        """Yields the samples of a task's first row, none where it has no rows; raises as `samples_of` does."""
        row = next(iter(task.source), None)
        if row is not None:
            yield from self.samples_of(task, 1, row, dataclasses.replace(task.variant, repeat=0))

    def metrics(self) -> dict[str, list[scorer.MetricSpec]]:
        """Returns the results to compute, by task."""
        further = further_metrics.read(words_of(self.request.metrics))
        metrics = {
            (name := task.variant.task): further_metrics.added(task.benchmark.metrics(task.variant), further, name)
            for task in self.tasks
        }
        if self.play:
            metrics = {name: tools.with_facts(specs) for name, specs in metrics.items()}
        if self.request.repeats > 1:
            for spec in itertools.chain.from_iterable(metrics.values()):
                if spec.metric in _MEANS and "facets" not in spec.params:
                    spec.params["facets"] = []  # the order of the options, which any benchmark may vary
        return metrics

    def groups(self) -> dict[str, dict[str, Any]]:
        """Returns the tasks and the results to compute of each group with results over its tasks."""
        all_groups = groups(words_of(self.request.tasks), words_of(self.request.include_path))
        of_tasks = self.metrics() if all_groups else {}
        return {
            name: {"tasks": list(group.tasks), "metrics": specs}
            for name, group in all_groups.items()
            if (specs := list(group.metrics(of_tasks)))
        }

    def identity(
        self, info: model.GetModelInfoResponse, stages: Mapping[str, model.GetModelInfoResponse]
    ) -> dict[str, Any]:
        """Returns what makes two runs the same run."""
        first = self.tasks[0].variant
        return {
            "tasks": self.names,
            "method": first.method,
            "seed": first.seed,
            "limit": self.request.limit,
            "repeats": self.request.repeats,
            "shuffle_options": first.shuffle_options,
            "parity": first.parity,
            "blind": self.request.blind,
            "settings": {task.variant.task: _settings_json(task.variant.settings) for task in self.tasks},
            "data": {
                task.variant.task: {"origin": task.source.origin, "sha256": task.source.digest} for task in self.tasks
            },
            "model": model_identity(info),
            "stages": {name: model_identity(other) for name, other in sorted(stages.items())},
            **({"deviations": self.deviations} if self.deviations else {}),
            **tools.identity_of(self.play),
        }

    def code(self) -> dict[str, str]:
        """Returns the hash of each benchmark's code (`code_hash`)."""
        benchmarks = {task.benchmark.name: task.benchmark for task in self.tasks}
        more = [reason_then_score.__name__] if self.request.answer == reason_then_score.NAME else []
        synthetic = self.request.synthetic
        return {name: code_hash(benchmark, synthetic=synthetic, more=more) for name, benchmark in benchmarks.items()}

    def name_of_samples(self, identity: Mapping[str, Any]) -> bytes:
        """Returns 32 bytes that differ where another identity or other code may make other samples."""
        content = orjson.dumps([identity, self.code()], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(content).digest()

    def rows_of(self, task: Task) -> int | None:
        """Returns how many rows of a task are run, once each; None where its source does not know."""
        counts = [count for count in (task.source.count, self.request.limit) if count is not None]
        return min(counts, default=None)


def _named(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - 3:,} more" if len(tasks) > 3 else ""
    return f"{', '.join(tasks[:3])}{more}"


def _strides(
    source: RowSource, limit: int | None, planned: PlannedRows | None, task: int
) -> Iterator[tuple[int, list[Row]]]:
    """Yields the strides of rows that are not over, each with the number of its first row from 0."""
    rows, first = itertools.islice(source, limit), 0
    while True:
        over = planned.rows_over(task, first) if planned else 0
        first += over
        if over >= _FAR and source.iterate_from:
            end = None if limit is None else max(0, limit - first)
            rows = itertools.islice(source.iterate_from(first), end)
        else:
            deque(itertools.islice(rows, over), maxlen=0)
        stride = list(itertools.islice(rows, STRIDE))
        if not stride:
            return
        if not (planned and planned.over(task, first, len(stride))):
            yield first, stride
        first += len(stride)


def make(request: RunRequest) -> Plan:
    """Returns the plan of a request whose values are of their fields' types; see `request.checked`.

    Raises:
        ConfigError: If its parameters contradict each other or name what there is not.
        DataError: If data cannot be used.
    """
    chosen = variants(request)
    play = tools.play_of(request, {name: benchmark.tool for name, (benchmark, _) in chosen.items()})
    paths = data_of(request.data, {name: benchmark for name, (benchmark, _) in chosen.items()})
    tasks = []
    for name, (benchmark, variant) in chosen.items():
        source = _synthetic(benchmark, name, request) if request.synthetic else benchmark.rows(name, paths.get(name))
        if source.count == 0:
            raise ConfigError(f"task {name}: {source.origin} has no rows for it: give --data another path")
        tasks.append(Task(benchmark, variant, source))
    plan = Plan(tuple(tasks), request, play)
    if request.answer == "constrained":
        _check_choices(plan)
    if request.answer == reason_then_score.NAME:
        for task in tasks:  # refuses a task that cannot be answered in this form
            deque(plan.first_samples(task), maxlen=0)
    return plan


def _check_choices(plan: Plan) -> None:
    """Raises ConfigError where none of a task's first rows has an answer that a choice rule reads."""
    for task in plan.tasks:
        rules = set()
        for number, row in enumerate(itertools.islice(task.source, _LOOKED_AT), 1):
            scorings = [
                turn.scoring
                for sample in plan.samples_of(task, number, row, dataclasses.replace(task.variant, repeat=0))
                for turn in sample.turns
                if turn.scoring
            ]
            if any(map(choices_of, scorings)):
                break
            rules |= {scoring.rule for scoring in scorings}
        else:
            raise ConfigError(
                f"--answer constrained: {task.variant.task} has no choices to answer with (its answers are read by "
                f"{', '.join(sorted(rules)) or 'no rule'}): leave it out"
            )


def variants(request: RunRequest) -> dict[str, tuple[Benchmark, Variant]]:
    """Returns each task's benchmark and how it is run; the data, which may be elsewhere, is not looked at.

    Raises:
        ConfigError: As `make` does.
    """
    deviations_of(request)  # refuses unknown settings before any data is read
    further_metrics.check_repeats(further_metrics.read(words_of(request.metrics)), request.repeats)
    benchmarks = find(words_of(request.tasks), words_of(request.include_path))
    if request.synthetic and request.data:
        raise ConfigError("--synthetic draws rows and --data reads them: leave one out")
    settings = settings_of(request.settings, list({b.name: b for b in benchmarks.values()}.values()))
    sources = {}
    for name, benchmark in benchmarks.items():
        if request.method not in benchmark.methods:
            known = " or ".join(benchmark.methods)
            raise ConfigError(f"task {name} has no method {request.method!r}: give --method {known}")
        variant = Variant(
            task=name,
            method=request.method,
            seed=request.seed,
            repeats=request.repeats,
            shuffle_options=request.shuffle_options,
            parity=request.parity,
            settings=settings[benchmark.name],
        )
        check_code(name, benchmark.runs_text(variant), trusted=request.trust_task_code)
        benchmark.needs(variant)  # refuses what contradicts itself before any data is read or a model is loaded
        sources[name] = (benchmark, variant)
    return sources


def _settings_json(settings: Any) -> dict[str, Any]:
    return dataclasses.asdict(settings) if dataclasses.is_dataclass(settings) else {}  # type: ignore[arg-type]


def _synthetic(benchmark: Benchmark, task: str, request: RunRequest) -> RowSource:
    seed, rows = request.seed, request.limit or benchmark.synthetic_rows

    def iterate() -> Iterator[Row]:
        return itertools.islice(benchmark.synthetic(task, seed), rows)

    content = f"{benchmark.name}|{task}|{seed}|{code_hash(benchmark, synthetic=True)}"
    return RowSource(f"synthetic, seed {seed}", hashlib.sha256(content.encode()).hexdigest(), rows, iterate)


def code_hash(benchmark: Benchmark, *, synthetic: bool, more: Collection[str] = ()) -> str:
    """Returns the sha256 of a benchmark's modules and of all that they import from its package and from ours.

    Args:
        benchmark: The benchmark; its rows, samples and metrics may stand in different modules.
        synthetic: Whether its rows are drawn: what draws them then counts as well.
        more: Modules that change its samples.
    """
    functions: list[Callable[..., Any]] = [benchmark.samples, benchmark.rows, benchmark.metrics]
    if synthetic:
        functions.append(benchmark.synthetic)
    modules = {module.__name__ for function in functions if (module := inspect.getmodule(function))}
    # A method may be of a base class: what its object's own class changes counts as well.
    modules |= {type(owner).__module__ for one in functions if (owner := getattr(one, "__self__", None)) is not None}
    modules |= set(more)
    packages = {"orchestrator", *(name.partition(".")[0] for name in modules)}
    files = closure(modules, packages, lambda name: not synthetic and name.rpartition(".")[2] == _SYNTHETIC)
    lines = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()
