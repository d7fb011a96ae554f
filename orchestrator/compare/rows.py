"""Pairs the items of two tasks on the same rows: variants of one benchmark, such as direct and step by step.

A row has the same name in all tasks of a benchmark (`Benchmark.row`), independent of the task and its turns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from lyncean.errors import UserError
from lyncean.vocabulary.keys import split_repeat
from orchestrator.compare.items import Items
from orchestrator.compare.scores import Scores, Step, read
from orchestrator.run_folder.reader import Item

ANSWER = "answer"
"""Name of the turn that answers after preparing turns, such as a drawing."""

Match = Literal["key", "row"] | None
"""Pairing of items: by key or by row; None pairs by row if tasks are variants of one benchmark, else by key."""


def paired_tasks(first: Collection[str], second: Collection[str], match: Match = None) -> list[tuple[str, str]]:
    """Returns the tasks of two runs whose items are paired by row; by default only tasks that a single run has."""
    if match == "key":
        return []
    left, right = (
        ([task for task in mine if match or task not in theirs]) for mine, theirs in ((first, second), (second, first))
    )
    families = {task: family(task) for task in {*left, *right}} if left and right else {}
    return [(one, other) for one in left for other in right if one != other and families[one] == families[other] != ""]


def by_row_instead(first: Collection[str], second: Collection[str], match: Match) -> str:
    """Returns the end of an error where two runs have nothing in common by key, and would have by row; else ""."""
    return "; --match row pairs them by row" if match == "key" and paired_tasks(first, second, "row") else ""


def family(task: str) -> str:
    """Returns the benchmark that a task is a variant of, "" if it is unknown."""
    from orchestrator.benchmarks.registry import find

    if ":" in task:  # a task of another harness is a separate benchmark
        return ""
    try:
        benchmark = find([task]).get(task)
    except UserError:  # a task of another installation
        return ""
    return (benchmark.family or benchmark.name) if benchmark else ""


def matched(first: Scores, second: Scores, match: Match = None) -> tuple[Scores, Scores]:
    """Returns the scores of two runs, with one name in both for tasks that are paired by row."""
    if imported := _of_their_tool(first, second):
        return tuple(  # type: ignore[return-value]  # two of two
            _renamed(mine, [(pair[here], name_of(*pair)) for pair in imported], match, _rest_of_key)
            for here, mine in enumerate((first, second))
        )
    tasks = paired_tasks(first.items, second.items, match)
    if not tasks:
        return first, second
    return _renamed(first, [(one, name_of(one, other)) for one, other in tasks], match), _renamed(
        second, [(other, name_of(one, other)) for one, other in tasks], match
    )


def _of_their_tool(first: Scores, second: Scores) -> list[tuple[str, str]]:
    """Returns pairs of a task and its name in the other run, which is a tool's log with the tool's names."""
    logged = [bool(side.run.identity.get("imported")) for side in (first, second)]
    return [
        (one, other)
        for one in first.items
        for other in second.items
        if (logged[1] and one.endswith(f":{other}")) or (logged[0] and other.endswith(f":{one}"))
    ]


def _rest_of_key(_: str) -> Callable[[Item], str]:
    """Returns a function that names an item as a tool's log does: by its document if one answer to it is scored."""

    def name(item: Item) -> str:
        alone = item.response.get("turn") in (None, "", ANSWER)
        return str(item.response.get("sample") or item.key if alone else item.key).partition("/")[2]

    return name


def name_of(first: str, second: str) -> str:
    """Returns the common name of two tasks that are paired by row."""
    return f"{first} → {second}"


def _renamed(
    scores: Scores,
    names: Sequence[tuple[str, str]],
    match: Match,
    naming: Callable[[str], Callable[[Item], str]] | None = None,
) -> Scores:
    paired = {task for task, _ in names}
    by_row = read(scores.run, {task: (naming or _naming)(task) for task in paired}).items
    items: dict[str, Items] = {name: by_row[task] for task, name in names}
    steps: dict[Step, Mapping[str, object]] = {
        replace(step, task=name): spec
        for task, name in names
        for step, spec in scores.steps.items()
        if step.task == task
    }
    if not match:
        items |= {task: task_items for task, task_items in scores.items.items() if task not in paired}
        steps |= {step: spec for step, spec in scores.steps.items() if not step.group and step.task not in paired}
    return replace(scores, items=items, steps=steps, tasks={name: task for task, name in names})


def rows_of(scores: Scores, tasks: Collection[str]) -> Mapping[str, Items]:
    """Returns the items of some tasks of a run, named by row."""
    return read(scores.run, {task: _naming(task) for task in tasks}).items


def _naming(task: str) -> Callable[[Item], str]:
    from orchestrator.benchmarks.registry import find

    benchmark = find([task])[task]

    def name(item: Item) -> str:
        bare, repeat = split_repeat(item.key)
        row = benchmark.row(bare.partition("/")[2], item.labels)
        return f"{row}#{repeat}" if repeat else row

    return name
