"""The Python API: `from orchestrator import evaluate`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from lyncean.rpc import PLAIN, Credentials
from orchestrator.engine import Budget, ConfigError, Endpoint, Options, parse_endpoints
from orchestrator.run import ranges
from orchestrator.run_folder.reader import open_run


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one task.

    Attributes:
        task: The task.
        name: The figure's name, for example "accuracy".
        metric: The metric behind it.
        labels: The slice that it is of; empty for the whole.
        value: Over all planned items; None where it is undefined.
        value_answered: Over those that were answered.
        low: Lower end of the interval, None where there is none.
        high: Upper end.
        denominator: Items that count in `value`.
        denominator_answered: Items that count in `value_answered`.
        unit: "fraction", "percent" or what the metric says.
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


@dataclass(frozen=True, slots=True)
class Item:
    """One planned item and what became of it.

    Attributes:
        key: Its key.
        task: The task.
        outcome: "scored", "unparsed", "refused", "rejected", "unjudged" or "failed".
        score: The verdict's score, None where it has none.
        text: What the model said; "" for a likelihood.
        extracted: What the rule read in it.
        targets: What is right.
        options: The options as the model saw them.
        labels: What it can be sliced by.
        error: Why there is no answer, "" where there is one.
    """

    key: str
    task: str
    outcome: str
    score: float | None
    text: str
    extracted: str
    targets: Sequence[str]
    options: Sequence[str]
    labels: Mapping[str, str]
    error: str


@dataclass(frozen=True, slots=True)
class Results:
    """A complete run.

    Attributes:
        run: Its folder, see docs/run-folder.md; report.html is in it.
        model: The model as its server described it.
        counts: Planned items and outcomes of each task.
        figures: Every figure of every task.
    """

    run: Path
    model: Mapping[str, Any]
    counts: Mapping[str, Mapping[str, int]]
    figures: Sequence[Figure] = field(repr=False)

    def __getitem__(self, name: str) -> Figure:
        """Returns the figure of this name over a whole task: "accuracy", or "task/accuracy" among several."""
        found = [f for f in self.figures if not f.labels and name in (f.name, f"{f.task}/{f.name}")]
        if len(found) != 1:
            known = ", ".join(sorted({f"{f.task}/{f.name}" for f in self.figures if not f.labels}))
            raise KeyError(f"{len(found)} figures are called {name!r}; there are {known}")
        return found[0]

    def items(self) -> Iterator[Item]:
        """Yields every planned item, read from the run folder as it goes."""
        for item in open_run(self.run):
            if not item.verdict:
                continue
            verdict = item.verdict
            error = item.response.get("error") or {}
            yield Item(
                key=item.key,
                task=item.task,
                outcome=item.outcome,
                score=item.score,
                text=item.text,
                extracted=str(verdict.get("extracted", "")),
                targets=tuple(verdict.get("targets", ())),
                options=tuple(verdict.get("options", ())),
                labels=dict(item.labels),
                error=f"{error.get('reason', '')}: {error.get('message', '')}" if error else "",
            )

    def to_pandas(self, what: str = "figures") -> Any:
        """Returns a DataFrame of the figures, or of the items; each label is a column `label.NAME`.

        Raises:
            ValueError: `what` is neither "figures" nor "items".
            ImportError: pandas is not installed.
        """
        import pandas as pd

        if what not in ("figures", "items"):
            raise ValueError(f"what is {what!r}: give 'figures' or 'items'")
        rows = self.figures if what == "figures" else self.items()
        kind = Figure if what == "figures" else Item
        made = pd.DataFrame([_flat(asdict(row)) for row in rows])
        names = [name for name in kind.__dataclass_fields__ if name != "labels"]
        return made.reindex(columns=[*names, *(name for name in made.columns if name not in names)])


def evaluate(
    tasks: str | Sequence[str],
    *,
    endpoint: str | Sequence[str] = (),
    model: str = "demo",
    scorer: str | None = None,
    method: str = "generate",
    data: str | Path | Mapping[str, str | Path] | None = None,
    synthetic: bool = False,
    limit: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    shuffle_options: bool = False,
    blind: bool = False,
    parity: bool = False,
    settings: Mapping[str, object] | None = None,
    judge: Sequence[str] = (),
    run: str | Path | None = None,
    credentials: Credentials = PLAIN,
    concurrency: int | None = None,
    timeout: float = 600.0,
    patience: float = 600.0,
    progress: bool = False,
) -> Results:
    """Runs tasks to the end and returns their figures; the same call again resumes, as the command does.

    It may be called where an event loop runs already, in a notebook for example.

    Args:
        tasks: Tasks, groups or task files.
        endpoint: Model servers "host:port"; without any, one is started for `model`.
        model: "demo", "demo:hash", a folder or a hub id; what is started without an endpoint.
        scorer: The scorer's "host:port"; without it one is started.
        method: "generate" or "likelihood".
        data: A path or hub id for all tasks, or one by task; None takes each task's own.
        synthetic: Whether rows are drawn from the seed.
        limit: Rows of each task; None takes all.
        repeats: How often each row is asked.
        seed: The run's seed.
        shuffle_options: Whether options are permuted.
        blind: Whether images are replaced by grey ones.
        parity: Whether the reference implementation is followed, bugs included.
        settings: The benchmark's own settings.
        judge: Judges of the scorer that is started, as `--judge` takes them.
        run: The run folder, a path or URL (`s3://…`); None takes the one that these arguments name below runs/.
        credentials: TLS and token for whatever is dialled.
        concurrency: Calls in flight per replica; None takes what each asks for.
        timeout: Seconds per call.
        patience: Seconds to retry for.
        progress: Whether progress and figures are printed.

    Raises:
        EngineError: It could not be run, or not to the end; IncompleteError means that the same call resumes.
        DataError: Data cannot be used.
        RunLogError: The run folder cannot be used.
        ManifestError: The run folder is another run's.
    """
    from orchestrator.run import evaluate as run_eval
    from orchestrator.run import plan as run_plan
    from orchestrator.run_folder import remote

    _check("limit", limit, ranges.LIMIT)
    _check("repeats", repeats, ranges.REPEATS)
    _check("seed", seed, ranges.SEED)
    _check("concurrency", concurrency, ranges.CONCURRENCY)
    _check("timeout", timeout, ranges.TIMEOUT)
    _check("patience", patience, ranges.PATIENCE)
    words = [tasks] if isinstance(tasks, str) else list(tasks)
    console = Console(quiet=not progress, markup=False)
    endpoints: Sequence[Endpoint] = parse_endpoints([endpoint] if isinstance(endpoint, str) else endpoint)
    if scorer and judge:
        raise ConfigError(f"the scorer at {scorer} has a judge of its own: leave judge out")
    where = run_eval.Where(
        endpoints=endpoints,
        scorer=parse_endpoints([scorer])[0] if scorer else None,
        model=model,
        credentials=credentials,
        concurrency=concurrency,
        judge=[word for each in judge for word in ("--judge", each)],
    )

    async def work() -> Path:
        plan = run_plan.make(
            words,
            method=method,
            data=_data(data),
            synthetic=synthetic,
            limit=limit,
            repeats=repeats,
            seed=seed,
            shuffle_options=shuffle_options,
            parity=parity,
            blind=blind,
            settings=[f"{name}={_word(value)}" for name, value in (settings or {}).items()],
        )
        options = Options(timeout=timeout, patience=patience, blind=blind)
        with remote.writing(run) as place:
            path = await run_eval.evaluate(
                plan, where, options, Budget(), run=place.path, console=console, beside=place.guards
            )
            run_eval.finish(path, console)
        return path

    try:
        return read(_run(work()))
    except click.UsageError as error:
        raise ConfigError(error.message) from error


def read(run: str | Path) -> Results:
    """Returns the results of a complete run folder.

    Raises:
        ConfigError: There is no run, or it is not complete.
    """
    try:
        opened = open_run(Path(run))
    except click.UsageError as error:
        raise ConfigError(error.message) from error
    if not opened.results:
        raise ConfigError(f"{run} is not complete: it holds no results.json; run it again to resume")
    figures = [_figure(task, figure) for task, found in opened.tasks.items() for figure in found["figures"]]
    counts = {task: found["counts"] for task, found in opened.tasks.items()}
    return Results(Path(run), opened.model, counts, figures)


def _check(name: str, number: float | None, kind: click.ParamType[Any]) -> None:
    """Raises ConfigError for what the command's option of this name does not take."""
    try:
        taken = number if number is None else kind.convert(number, None, None)
    except click.BadParameter as error:
        raise ConfigError(f"{name}: {error.message}") from error
    if taken != number:
        raise ConfigError(f"{name}: {number!r} is no whole number.")


def _run(work: Any) -> Path:
    """Runs a coroutine here, or beside the loop that runs here already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        path: Path = asyncio.run(work)
        return path
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    done = threading.Event()

    def drive() -> None:
        try:
            loop.run_until_complete(asyncio.wait([task]))
        finally:
            loop.close()
            done.set()

    threading.Thread(target=drive, name="lyncean-evaluate", daemon=True).start()
    try:
        done.wait()
    except KeyboardInterrupt:
        loop.call_soon_threadsafe(task.cancel)
        done.wait()
        raise
    result: Path = task.result()
    return result


def _figure(task: str, found: Mapping[str, Any]) -> Figure:
    interval = found.get("interval") or {}
    return Figure(
        task=task,
        name=found["name"],
        metric=found["metric"],
        labels=found["labels"],
        value=found["value"],
        value_answered=found["value_answered"],
        low=interval.get("low"),
        high=interval.get("high"),
        denominator=found["denominator"],
        denominator_answered=found["denominator_answered"],
        unit=found["unit"],
    )


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    labels = row.pop("labels")
    return row | {f"label.{name}": value for name, value in labels.items()}


def _data(data: str | Path | Mapping[str, str | Path] | None) -> list[str]:
    if data is None:
        return []
    return [f"{task}={path}" for task, path in data.items()] if isinstance(data, Mapping) else [str(data)]


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
