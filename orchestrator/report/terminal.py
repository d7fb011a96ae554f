"""The results of a run as a table on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lyncean.errors import printable
from orchestrator.names import Name
from orchestrator.report.labels import LabelledResult, results
from orchestrator.report.problems import Problem, problems
from orchestrator.run_folder import tools_used
from orchestrator.run_folder.labels import ErrorKinds, error_kinds
from orchestrator.run_folder.metrics import (
    MetricResult,
    accounting,
    answered_results,
    by_chance,
    counts,
    how_read,
    offered,
    overall,
    slices,
    undefined,
)
from orchestrator.run_folder.reader import open_run
from orchestrator.run_folder.usage import spent
from orchestrator.run_folder.validity import lines, no_result

_MOST_VALUES = 24
_MOST_TASKS = 3
_MOST_PROBLEMS = 5
_MOST_NAMES = 3
_LONGEST_MESSAGE = 240
_STACKED = 60
"""Below this width a task stands above its metric rather than beside it."""

NARROW = 76
"""Below this width the table keeps the value, its interval and what it was divided by."""


def print_results(run: Path, console: Console) -> None:
    """Prints the metrics of a run with intervals and denominators, and the accounting and what went wrong beneath.

    Fits the console's width. Without a terminal there is neither colour nor a line drawn twice.

    Raises:
        ConfigError: `run` is not a run folder.
    """
    opened = open_run(run)
    if not opened.tasks:
        console.print(f"{opened.name}: no results yet")
        return
    metrics = answered_results(opened.tasks_and_groups)
    doubt = f"  {opened.doubt}" if opened.doubt else ""
    for line in lines(opened.tasks_and_groups, void=True):
        console.print()
        console.print(Text(line, "bold red"))
    if metrics and len(opened.tasks) > _MOST_TASKS:
        console.print()
        console.print(Text.assemble((opened.model_name, "bold"), (doubt, "yellow")))
        console.print(_table(overall(metrics), console.width, tasks=True))
    else:
        tables = slices(metrics)
        with_metrics = {metric.task for metric in metrics}
        void = no_result(opened.tasks_and_groups)
        for task in (name for name in opened.tasks_and_groups if name in with_metrics or name not in void):
            console.print()
            console.print(Text.assemble((task, "bold"), ("  " + opened.model_name, "dim"), (doubt, "yellow")))
            totals = [metric for metric in overall(metrics) if metric.task == task]
            console.print(_table(totals, console.width))
            for metric in totals:
                if metric.standard_error:
                    for line in filter(None, (f"{metric.name}:", *metric.standard_error)):
                        console.print(Text(printable(line), "dim"))
            if console.width >= NARROW:
                for label, rows in _by_label(task, tables).items():
                    if len(rows) <= _MOST_VALUES:
                        console.print(_slices(label, rows, console.width))
                        console.print()
            if len(opened.tasks) > 1 and task in opened.tasks:
                console.print(_accounting(counts({task: opened.tasks[task]})))
    if len(opened.tasks) > 1:
        console.print(Text.assemble(("all tasks  ", "dim"), _accounting(counts(opened.tasks))))
    else:
        console.print(_accounting(counts(opened.tasks)))
    if chance := by_chance(opened.tasks):
        levels = ", ".join(chance.values()) if len(opened.tasks) == 1 else ", ".join(map(" ".join, chance.items()))
        console.print(Text(f"  by chance: {printable(levels)}", "dim"))
    for line in lines(opened.tasks_and_groups, void=False):
        console.print(Text(line, "yellow"))
    if read := how_read(opened.tasks):
        console.print(Text(f"  {printable(read)}", "dim"))
    for line in filter(None, (spent(opened.results), tools_used.words(opened.results))):
        console.print(Text(f"  {printable(line)}", "dim"))
    for one in results(opened):
        _labels(one, console)
    for errors in error_kinds(opened):
        _kinds(errors, console)
    for line in undefined(metrics):
        console.print(Text(f"  not computed: {printable(line)}", "yellow"))
    if bare := dict.fromkeys(metric.name for metric in overall(metrics) if metric.no_interval):
        more = f" and {len(bare) - _MOST_NAMES} more" if len(bare) > _MOST_NAMES else ""
        names = f"{', '.join([*bare][:_MOST_NAMES])}{more}"
        console.print(Text(f"  no interval, see the report: {printable(names)}", "dim"))
    if opened.deviations:
        console.print(Text(f"not the benchmark's own decoding: {opened.deviations}", "yellow"))
    for note in opened.notes:
        console.print(Text(note.sentence, "yellow"))
    kinds = problems(opened)
    for problem in kinds[:_MOST_PROBLEMS]:
        console.print(_problem(problem))
    if len(kinds) > _MOST_PROBLEMS:
        console.print(Text(f"  and {len(kinds) - _MOST_PROBLEMS} more kinds: see the report", "dim"))
    if better := offered(opened.tasks, opened.results):
        console.print(Text(better, "yellow"))
    console.print()


def _table(rows: Sequence[MetricResult], width: int, *, tasks: bool = False) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", expand=False)
    names = [row.name for row in rows]
    wide = width >= NARROW
    stacked = tasks and width < _STACKED
    if tasks and not stacked:
        longest = max((len(row.task) for row in rows), default=0)
        table.add_column("task", overflow="fold", min_width=min(24, longest, max(8, width - 56)))
    # The name folds before a number is cut: value, interval and denominator need about 32 columns.
    table.add_column("metric", overflow="fold", min_width=min(24, max(map(len, names), default=0), max(6, width - 66)))
    table.add_column("all samples", justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    if wide:
        table.add_column("answered", justify="right", no_wrap=True)
        table.add_column("n", justify="right", no_wrap=True)
    # How an interval was made is worth a column only where there is room for it.
    method = width >= 110
    if method:
        table.add_column("", style="dim", no_wrap=True, overflow="ellipsis")
    for row in rows:
        cells: list[Text] = [Name(row.task)] if tasks and not stacked else []
        cells += [
            Name(f"{row.task}\n{row.name}" if stacked else row.name),
            _value(row),
            Text(f"{row.denominator:,}", "dim"),
        ]
        if wide:
            same = row.denominator == row.denominator_answered and row.value == row.answered
            cells += [Text(row.text(row.answered), "dim" if same else ""), Text(f"{row.denominator_answered:,}", "dim")]
        if method:
            cells.append(Text(f"{row.suffix} {f'{row.level:.0%} {row.method}' if row.level else ''}".strip()))
        table.add_row(*cells)
    return table


def _kinds(kinds: ErrorKinds, console: Console) -> None:
    """Prints the kinds of error that people named."""
    heading = f"  kinds of error in {kinds.answers:,} wrong answers, by people"
    console.print(Text.assemble((printable(kinds.task), "bold"), (heading, "dim")))
    width = max(len(printable(kind)) for kind in kinds.shares)
    for kind, value, interval in kinds.rows:
        console.print(Text.assemble(f"  {printable(kind):<{width}}  ", f"{value:>5}", " ", (interval, "dim")))


def _labels(result: LabelledResult, console: Console) -> None:
    """Prints what verdicts and people's labels show together."""
    console.print(Text.assemble((f"{result.task}: {result.metric}", "bold"), ("  with labels", "dim")))
    for name, value, interval in result.rows:
        both = name == "verdicts and labels"
        console.print(Text.assemble(f"  {name:<19}  ", (f"{value:>5}", "bold" if both else ""), " ", (interval, "dim")))
    console.print(Text(f"  {result.note}", "dim"))


def _value(row: MetricResult) -> Text:
    return Text.assemble((row.text(row.value), "bold"), " ", (f"{row.interval:>12}", "dim"))


def _by_label(
    task: str, tables: Mapping[tuple[str, str, tuple[str, ...]], list[MetricResult]]
) -> dict[str, dict[str, dict[str, MetricResult]]]:
    """Returns a task's metrics by label, by the label's value and by name."""
    by_label: dict[str, dict[str, dict[str, MetricResult]]] = {}
    for (owner, name, labels), rows in tables.items():
        if owner == task and len(labels) == 1:
            for row in rows:
                by_label.setdefault(labels[0], {}).setdefault(row.slice, {})[name] = row
    return by_label


def _slices(label: str, rows: Mapping[str, Mapping[str, MetricResult]], width: int) -> Table:
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    first = max(len(label) + 3, *(len(value) for value in rows))
    room = width - min(first, 32) - 9
    # A single metric leaves room for its interval, and so do two on a wide terminal.
    intervals = sum(max(len(name), 19) + 3 for name in names) <= room
    shown: list[str] = []
    for name in names:
        room -= max(len(name), 19 if intervals else 5) + 3
        if room >= 0 or not shown:
            shown.append(name)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", show_edge=False)
    table.add_column(f"by {label}", min_width=min(first, 24), overflow="fold")
    table.add_column("n", justify="right", no_wrap=True, style="dim")
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    for value, row in rows.items():
        sizes = sorted({metric.denominator for metric in row.values()})
        cells = [_cell(row.get(name), intervals) for name in shown]
        table.add_row(Text(value or "–"), "–".join(f"{size:,}" for size in sizes), *cells)
    return table


def _cell(metric: MetricResult | None, interval: bool) -> Text:
    if metric is None:
        return Text("")
    return _value(metric) if interval else Text(metric.text(metric.value))


def _problem(problem: Problem) -> Text:
    reason = ", ".join(filter(None, (problem.outcome, problem.reason)))
    # Escaped before the line is wrapped, or what it grows by is cut off.
    message = printable(" ".join(problem.message.split()))
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE] + "…"
    return Text(f"  {problem.count:,} {reason}" + (f": {message}" if message else ""), "dim")


_COLOURS = {"failed": "red", "rejected": "yellow", "unjudged": "yellow", "unparsed": "yellow"}


def _accounting(total: dict[str, int]) -> Text:
    line = Text(accounting(total))
    for outcome, colour in _COLOURS.items():
        if total[outcome]:
            line.highlight_words([f"{total[outcome]:,} {outcome}"], colour)
    return line
