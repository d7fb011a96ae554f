"""An explanation for people and machines: on a terminal, as a page in Markdown, as JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lyncean.errors import printable
from orchestrator.compare.examples import Example, example
from orchestrator.compare.explain import Explained, Explanation
from orchestrator.compare.terminal import plain_table

if TYPE_CHECKING:
    from orchestrator.compare.experiment import Experiment

_LONGEST = 72
_MOST_NAMED = 8
_ALWAYS = ("command", "imported", "model.model", "model.server", "rules.", "benchmarks.", "scorer", "versions.lyncean")
"""Facts that a page lists even if both runs agree in them."""


def show(explanation: Explanation, experiment: Experiment | None, console: Console) -> None:
    """Prints an explanation; fits the console's width."""
    names = [run.name for run in explanation.runs]
    console.print()
    console.print(Text.assemble((names[0], "bold"), "  →  ", (names[1], "bold")))
    for note in explanation.notes:
        console.print(Text(f"caution: {note}", "yellow"))
    for task in explanation.tasks:
        console.print()
        console.print(Text.assemble((task.task, "bold"), "  ", _headline(task)))
        console.print(Text(_items(task, names), "dim"))
        if not task.shares:
            console.print("no item counts differently in the two")
            continue
        console.print(_causes(task))
        for share in task.shares:
            shown = example(task, share)
            target = f"  target {_cut(shown.target)}" if shown.target else ""
            console.print(Text.assemble(f"{share.attribution}  {shown.key}", (target, "dim")))
            _example(shown, names, console)
    if experiment:
        _experiment(experiment, console)
    if explanation.differing:
        facts = ", ".join(list(explanation.differing)[:_MOST_NAMED])
        more = ", …" if len(explanation.differing) > _MOST_NAMED else ""
        console.print()
        console.print(Text(f"recorded otherwise: {facts}{more}; --markdown - lists all", "dim"))


def _headline(task: Explained) -> str:
    first, second, difference, _, _ = task.printed()
    names = [head.name for head in task.headlines]
    if names[0] == names[1]:
        return f"{names[0]}  {first:.2f} → {second:.2f}  {difference:+.2f} points"
    return f"{names[0]} {first:.2f} → {names[1]} {second:.2f}  {difference:+.2f} points"


def _items(task: Explained, names: Sequence[str]) -> str:
    alone = [f", {count:,} only in {name}" for name, count in zip(names, task.alone, strict=True) if count]
    return f"{task.items:,} items in both{''.join(alone)}"


def _causes(task: Explained) -> Table:
    table = plain_table()
    table.add_column("cause", overflow="fold")
    for name in ("items", "points", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in _rows(task):
        table.add_row(*map(Text, row))
    return table


def _rows(task: Explained) -> Iterator[list[str]]:
    _, _, difference, points, percent = task.printed()
    for share, added, of_all in zip(task.shares, points, percent, strict=True):
        percent_text = "–" if of_all is None else f"{of_all:,}%"
        yield [str(share.attribution), f"{len(share.pairs):,}", f"{added:+.2f}", percent_text]
    items = sum(len(share.pairs) for share in task.shares)
    yield ["all", f"{items:,}", f"{difference:+.2f}", "–" if None in percent else "100%"]


def _example(shown: Example, names: Sequence[str], console: Console) -> None:
    width = max(map(len, names))
    for spot in shown.spots:
        for side, text in enumerate((spot.first, spot.second)):
            head = (f"  {spot.what if side == 0 else '':8}  {names[side]:{width}}  ", "dim")
            console.print(Text.assemble(head, " ".join(text.split())), overflow="ellipsis", no_wrap=True)


def _experiment(experiment: Experiment, console: Console) -> None:
    console.print()
    console.print(_tried(experiment))
    if not experiment.trials:
        return
    table = plain_table()
    table.add_column("put down to", overflow="fold")
    table.add_column("reproduced by", overflow="fold")
    table.add_column("items", justify="right", no_wrap=True)
    for row in _cause_counts(experiment):
        table.add_row(*map(Text, row))
    console.print(table)


def _tried(experiment: Experiment) -> str:
    same = {(True, True): "both runs", (True, False): "the first run", (False, True): "the second run"}
    whose = same.get(experiment.same, "neither run")
    left = f"; {experiment.left:,} more were not asked again" if experiment.left else ""
    return f"{len(experiment.trials):,} items asked again of {experiment.model}, the model of {whose}{left}"


def _cause_counts(experiment: Experiment) -> list[list[str]]:
    counts = Counter((str(trial.attribution), experiment.cause(trial)) for trial in experiment.trials)
    return [[*names, f"{count:,}"] for names, count in counts.most_common()]


def as_json(explanation: Explanation, experiment: Experiment | None) -> dict[str, Any]:
    """Returns an explanation as JSON. The causes' points sum to the difference in the decimals that are written."""
    document: dict[str, Any] = {
        "runs": [{"name": run.name, "path": str(run.path), "model": run.model_name} for run in explanation.runs],
        "tasks": [_task_json(task) for task in explanation.tasks],
        "notes": list(explanation.notes),
        "differs": {name: list(values) for name, values in explanation.differing.items()},
    }
    if experiment:
        document["experiment"] = {
            "model": experiment.model,
            "same_as": list(experiment.same),
            "not_tried": experiment.left,
            "items": [
                {
                    "key": trial.key,
                    "cause": trial.attribution.cause,
                    "also": list(trial.attribution.also),
                    "wanted": trial.wanted,
                    "scores": trial.scores,
                    "found": experiment.cause(trial),
                }
                for trial in experiment.trials
            ],
        }
    return document


def _task_json(task: Explained) -> dict[str, Any]:
    first, second, difference, points, percent = task.printed()
    causes = []
    for share, added, of_all in zip(task.shares, points, percent, strict=True):
        shown = example(task, share)
        causes.append(
            {
                "cause": share.attribution.cause,
                "also": list(share.attribution.also),
                "not_recorded": list(share.attribution.unrecorded),
                "items": len(share.pairs),
                "points": added,
                "percent": of_all,
                "example": {
                    "key": shown.key,
                    "target": shown.target,
                    "spots": {spot.what: [spot.first, spot.second] for spot in shown.spots},
                },
            }
        )
    return {
        "task": task.task,
        "metrics": [head.name for head in task.headlines],
        "first": first,
        "second": second,
        "difference": difference,
        "items": task.items,
        "only_first": task.alone[0],
        "only_second": task.alone[1],
        "causes": causes,
    }


def markdown(explanation: Explanation, experiment: Experiment | None) -> str:
    """Returns an explanation as a Markdown page for an issue; text of a model or tool stands in code spans only."""
    one, other = explanation.runs
    blocks = [f"## Why {_code(one.name)} and {_code(other.name)} differ"]
    blocks += [f"**Caution:** {_code(note)}" for note in explanation.notes]
    for task in explanation.tasks:
        first, second, difference, _, _ = task.printed()
        heads = [_code(head.name) for head in task.headlines]
        blocks.append(
            f"### {_code(task.task)}\n\n{heads[0]} {first:.2f} in {_code(one.name)}, {heads[1]} {second:.2f} in "
            f"{_code(other.name)}: {difference:+.2f} points. {_code(_items(task, [one.name, other.name]))}."
        )
        if not task.shares:
            continue
        blocks.append(_table(["cause", "items", "points", "share"], _rows(task)))
        for share in task.shares:
            shown = example(task, share)
            where = f", for example {_code(shown.key)}" if shown.key else ""
            target = f", target {_code(_cut(shown.target))}" if shown.target else ""
            blocks.append(f"**{share.attribution}**{where}{target}:")
            lines = [[spot.what, spot.first, spot.second] for spot in shown.spots]
            blocks.append(_table(["", one.name, other.name], lines, code=True))
    if experiment:
        blocks.append(f"### Asked again\n\n{_code(_tried(experiment))}")
        if experiment.trials:
            blocks.append(_table(["put down to", "reproduced by", "items"], _cause_counts(experiment)))
    if rows := [[name, *map(_setting, values)] for name, values in explanation.differing.items()]:
        blocks += ["### What differs between the runs", _table(["", one.name, other.name], rows, code=True)]
    alike = {name: value for name, (value, other_value) in explanation.facts.items() if value == other_value}
    if rows := [[name, _setting(value)] for name, value in alike.items() if name.startswith(_ALWAYS)]:
        blocks += ["### Alike in both", _table(["", "both"], rows, code=True)]
    blocks.append(
        "Points sum to the difference. `prompt or decoding` are items in which both differ, what is upstream first. "
        "Made by `orchestrator explain`."
    )
    return printable("\n\n".join(blocks) + "\n")


def _table(head: Sequence[str], rows: Iterator[list[str]] | Sequence[Sequence[str]], *, code: bool = False) -> str:
    head = [_code(word) if code and word else word for word in head]
    cells = [[_code(cell) if cell and (code or at == 0) else cell for at, cell in enumerate(row)] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *cells])


def _code(text: str) -> str:
    """Returns text as a Markdown code span, safe in tables: nothing in it acts as markup, a link or a mention."""
    text = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (1 + max((len(ticks) for ticks in re.findall("`+", text)), default=0))
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def _setting(value: Any) -> str:
    return "not given" if value is None else _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
