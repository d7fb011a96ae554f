"""The Python API: `from orchestrator import evaluate`."""

from __future__ import annotations

import asyncio
import contextlib
import html
import inspect
import io
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from lyncean.errors import printable
from orchestrator.data.yaml_file import closest
from orchestrator.errors import ConfigError
from orchestrator.run.console import Terminal
from orchestrator.run.request import RunRequest, checked
from orchestrator.run_folder import reader
from orchestrator.run_folder.metrics import accounting, counts, metric_results, overall
from orchestrator.run_folder.reader import Run, open_run
from orchestrator.run_folder.usage import spent
from orchestrator.run_folder.validity import lines as doubts

if TYPE_CHECKING:
    from orchestrator.compare import result
    from orchestrator.report.labels import LabelledResult

P = ParamSpec("P")
T = TypeVar("T")

_WIDTH = 120


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One result of one task.

    Attributes:
        task: The task, or the group that it is over.
        name: The result's name, for example "accuracy".
        metric: Name of the metric.
        labels: The slice that it is of; empty for the whole.
        value: Over all planned items; None where it is undefined, or not a result.
        value_answered: Over those that were answered.
        low: Lower end of the interval, None where there is none.
        high: Upper end.
        denominator: Items that count in `value`.
        denominator_answered: Items that count in `value_answered`.
        unit: "fraction", "percent" or what the metric says.
        details: Further values of the metric, for example the parts of its `standard_error`.
    """

    task: str
    name: str
    metric: str
    labels: Mapping[str, str]
    value: float | None
    value_answered: float | None
    low: float | None
    high: float | None
    denominator: int
    denominator_answered: int
    unit: str
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Item:
    """One planned item and what became of it.

    Attributes:
        key: Its key.
        task: The task.
        outcome: "scored", "unparsed", "refused", "rejected", "unjudged" or "failed".
        score: The score over all samples: 0 where there is none. Its mean is the `value` of accuracy.
        score_answered: The same over answered samples, for `value_answered`; None where the item was not answered.
        prompt: The text that the model was given. An image's place in it is "[image]", a clip's "[audio]" or
            "[video]", and with several messages each begins with its role.
        images: The files of the images in the prompt, in their order; one that the run folder lacks is left out.
        reasoning: What the model reasoned before its answer, "" where the server tells none.
        text: What the model said; "" for a likelihood.
        extracted: What the rule read in it.
        targets: What is right.
        options: The options as the model saw them.
        labels: What it can be sliced by.
        error: Reason of a missing answer, "" with one.
    """

    key: str
    task: str
    outcome: str
    score: float
    score_answered: float | None
    prompt: str
    images: Sequence[Path]
    reasoning: str
    text: str
    extracted: str
    targets: Sequence[str]
    options: Sequence[str]
    labels: Mapping[str, str]
    error: str


@dataclass(frozen=True, slots=True, repr=False)
class Results:
    """A complete run.

    Attributes:
        run: Its folder, see docs/run-folder.md; report.html is in it.
        model: The model as its server described it.
        counts: Planned items and outcomes of each task.
        metrics: Every result of every task, and of every group over its tasks.

    `print` shows the metrics of whole tasks as a table, and so does a notebook; below it stands what people's labels
    add.
    """

    run: Path
    model: Mapping[str, Any]
    counts: Mapping[str, Mapping[str, int]]
    metrics: Sequence[MetricResult] = field(repr=False)
    _opened: Run = field(repr=False, compare=False)

    def __repr__(self) -> str:
        tasks = ", ".join(list(self.counts)[:3]) + (", ..." if len(self.counts) > 3 else "")
        return f"<Results of {tasks}: {accounting(counts(self._opened.tasks))}, in {self.run}>"

    def __str__(self) -> str:
        return _as_text([("task", "metric", "value", "n"), *self._rows()], *self._notes())

    def _repr_html_(self) -> str:
        return _as_html([("Task", "Metric", "Value, 95% CI", "n"), *self._rows()], *self._notes())

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (m.task, m.name, m.shown, f"{m.denominator:,}")
            for m in overall(metric_results(self._opened.tasks_and_groups))
        ]

    def _notes(self) -> list[str]:
        """Returns what stands beneath the table: the accounting, what labels show, where standard errors come from."""
        run = self._opened
        lines = [accounting(counts(run.tasks)), *(f"{one.task}, {one.metric}: {one}" for one in self.labelled)]
        lines += [*doubts(run.tasks_and_groups), *filter(None, [spent(run.results)])]
        lines += [note.sentence for note in run.notes]
        metrics = [(m, m.standard_error) for m in overall(metric_results(run.tasks))]
        return [*lines, *(f"{m.task}, {m.name}: {'; '.join(filter(None, error))}" for m, error in metrics if error)]

    @property
    def labelled(self) -> Sequence[LabelledResult]:
        """Estimates from people's labels and all verdicts (`orchestrator label`), for each task with enough of them."""
        from orchestrator.report.labels import results

        return results(open_run(self.run))

    def __getitem__(self, name: str) -> MetricResult:
        """Returns the result of this name over a whole task: "accuracy", or "task/accuracy" among several."""
        overall = {f"{metric.task}/{metric.name}": metric for metric in self.metrics if not metric.labels}
        matches = [metric for path, metric in overall.items() if name in (metric.name, path)]
        if len(matches) != 1:
            known = ", ".join(sorted(overall))
            raise KeyError(f"{len(matches)} metrics are called {name!r}; there are {known}")
        return matches[0]

    def items(self) -> Iterator[Item]:
        """Yields every planned item, read from the run folder as it goes."""
        run = open_run(self.run)
        for item in run:
            if not item.verdict:
                continue
            verdict = item.verdict
            error = item.response.get("error") or {}
            yield Item(
                key=item.key,
                task=item.task,
                outcome=item.outcome,
                score=item.score_all or 0.0,
                score_answered=item.score_answered,
                **_prompt(run, item),
                reasoning=str((item.response.get("response") or {}).get("reasoning", "")),
                text=item.text,
                extracted=str(verdict.get("extracted", "")),
                targets=tuple(verdict.get("targets", ())),
                options=tuple(verdict.get("options", ())),
                labels=dict(item.labels),
                error=f"{error.get('reason', '')}: {error.get('message', '')}" if error else "",
            )

    def compare(self, *others: Results | str | Path, other_data: bool = False) -> Comparison:
        """Compares this run, the baseline, with others, item by item.

        Args:
            others: Results or run folders.
            other_data: Whether runs are compared that have other questions under the same keys.

        Raises:
            ConfigError: The runs have nothing in common, or other questions under the same keys.
        """
        from orchestrator.compare.result import compare

        paths = [other.run if isinstance(other, Results) else Path(other) for other in others]
        if not paths:
            raise ConfigError("compare: give another run, as results or as a folder")
        return Comparison(compare([self.run, *paths], other_data=other_data))

    def report(self, *, embed: bool = False, published: bool = False, blind: str | Path | None = None) -> Path:
        """Writes report.html into the run folder and returns its path.

        Args:
            embed: Whether images are put into the file, so that it can be sent alone.
            published: Whether published results are shown beside the run's own.
            blind: Folder of the same run without images, shown beside.
        """
        from orchestrator.report import write_report

        return write_report(
            self.run, embed=embed, published=published, blind=None if blind is None else open_run(Path(blind))
        )

    def to_pandas(self, what: str = "metrics") -> Any:
        """Returns a DataFrame of the metrics, or of the items; each label is a column `label.NAME`.

        Raises:
            ValueError: `what` is neither "metrics" nor "items".
            ImportError: pandas is not installed.
        """
        import pandas as pd

        if what not in ("metrics", "items"):
            raise ValueError(f"what is {what!r}: give 'metrics' or 'items'")
        rows = self.metrics if what == "metrics" else self.items()
        kind = MetricResult if what == "metrics" else Item
        table = pd.DataFrame([_flat(asdict(row)) for row in rows])
        names = [name for name in kind.__dataclass_fields__ if name not in ("labels", "details")]
        return table.reindex(columns=[*names, *(name for name in table.columns if name not in names)])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs beside each other; `print` and a notebook show the paired tests.

    Attributes:
        details: All of it, see `orchestrator.compare.result.Comparison`; `details.as_json()` is what
            `orchestrator compare --json` prints.
    """

    details: result.Comparison = field(repr=False)

    def __str__(self) -> str:
        from orchestrator.compare.terminal import show

        text = io.StringIO()
        show(self.details, Terminal(file=text, width=_WIDTH, color_system=None, markup=False), 0)
        return "\n".join(line.rstrip() for line in text.getvalue().strip().splitlines())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def write_page(self, path: str | Path, *, embed: bool = False) -> Path:
        """Writes the comparison as a page, with up to 1,000 items that became worse and as many that became better.

        Args:
            path: The file.
            embed: Whether images are put into the file, so that it can be sent alone.

        Raises:
            OSError: It cannot be written.
        """
        from orchestrator.report.comparison import beside, render

        path = Path(path)
        path.write_text(render(self.details, beside(self.details, path.parent), embed=embed), encoding="utf-8")
        return path

    def to_pandas(self) -> Any:
        """Returns a DataFrame of the paired tests, scores as fractions.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd

        comparisons = self.details.as_json()["comparisons"]
        return pd.DataFrame([{**pair, "run": one["second"]} for one in comparisons for pair in one["pairs"]])


def _with_signature_of(kind: Callable[P, RunRequest]) -> Callable[[Callable[..., Results]], Callable[P, Results]]:
    """Returns a decorator that gives a function the parameters of another, for editors, type checkers and `help`."""

    def decorate(function: Callable[..., Results]) -> Callable[P, Results]:
        parameters = inspect.signature(kind).parameters.values()
        function.__signature__ = inspect.Signature([*parameters], return_annotation=Results)  # type: ignore[attr-defined]
        arguments = "".join(f"        {option.name}: {option.metadata['help']}\n" for option in fields(RunRequest))
        function.__doc__ = f"{function.__doc__}\n    Args:\n{arguments}"
        return function

    return decorate


@_with_signature_of(RunRequest)
def evaluate(*args: Any, **kwargs: Any) -> Results:
    """Runs tasks to the end and returns their results; the same call again resumes, as the command does.

    Its parameters are the options of `orchestrator eval`. A call works where an event loop runs already, in a
    notebook for example.

    Raises:
        EngineError: It could not be run, or not to the end; IncompleteError means that the same call resumes.
        DataError: Data cannot be used.
        RunLogError: The run folder cannot be used.
        ManifestError: The run folder is another run's.
    """
    from orchestrator.report import Reports
    from orchestrator.run import evaluate as run_eval

    known = [option.name for option in fields(RunRequest)]
    if unknown := [name for name in kwargs if name not in known]:
        raise ConfigError(f"evaluate() has no argument {unknown[0]!r}: {closest(unknown[0], known)}")
    request = checked(RunRequest(*args, **kwargs))
    for name in ("model", "model_options"):
        if request.endpoint and kwargs.get(name):
            raise ConfigError(f"{name} starts a model server, endpoint names those that run: leave one out")
    return load(run_async(run_eval.run(request, Terminal(quiet=not request.progress, markup=False), Reports())))


def load(run: str | Path) -> Results:
    """Returns the results of a complete run folder.

    Raises:
        ConfigError: The run is missing or incomplete.
    """
    opened = open_run(Path(run))
    if not opened.results:
        raise ConfigError(f"{run} is not complete: it holds no results.json; run it again to resume")
    void = {(metric.task, metric.name) for metric in metric_results(opened.tasks_and_groups) if metric.void}
    metrics = [
        _metric(task, result, void=(task, result["name"]) in void)
        for task, results in opened.tasks_and_groups.items()
        for result in results["metrics"]
    ]
    planned = {task: results["counts"] for task, results in opened.tasks.items()}
    return Results(Path(run), opened.model, planned, metrics, opened)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine here, or beside the loop that runs here already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    loop = asyncio.new_event_loop()
    task: asyncio.Task[T] = loop.create_task(work)
    with contextlib.closing(loop), ThreadPoolExecutor(1, thread_name_prefix="lyncean-evaluate") as thread:
        try:
            return thread.submit(loop.run_until_complete, task).result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(task.cancel)
            raise


def _metric(task: str, line: Mapping[str, Any], *, void: bool) -> MetricResult:
    if void:
        line = {**line, "value": None, "value_answered": None, "interval": None}
    interval = line.get("interval") or {}
    ends = {end: interval.get(end) for end in ("low", "high")}
    return msgspec.convert({**line, **ends, "task": task}, MetricResult, strict=False)


def _prompt(run: Run, item: reader.Item) -> dict[str, Any]:
    messages = (item.response.get("request") or {}).get("messages", ())
    images, messages_text = [], []
    for message in messages:
        texts = []
        for part in message.get("parts", ()):
            if path := run.image(str((part.get("image") or {}).get("sha256", ""))):
                images.append(path)
            medium = next((f"[{kind}]" for kind in ("image", "audio", "video") if kind in part), "")
            texts.append(medium or str(part.get("text", "")))
        role = str(message.get("role", "")).removeprefix("ROLE_").lower()
        messages_text.append("\n".join([f"{role}:", *texts] if len(messages) > 1 else texts))
    return {"prompt": "\n\n".join(messages_text), "images": tuple(images)}


def _as_text(rows: Sequence[Sequence[str]], *notes: str) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return printable("\n".join([*lines, *notes]))


def _as_html(rows: Sequence[Sequence[str]], *notes: str) -> str:
    head, *body = [[html.escape(printable(cell)) for cell in row] for row in rows]
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in body]
    table = f"<thead><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr></thead>"
    table += f"<tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody>"
    return f"<table>{table}</table>" + "".join(f"<p>{html.escape(printable(note))}</p>" for note in notes)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    labels = row.pop("labels")
    row.pop("details", None)
    return row | {f"label.{name}": value for name, value in labels.items()}
