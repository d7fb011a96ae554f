"""What went wrong in a run: how often each reason occurs, and one message of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from orchestrator.errors import ConfigError
from orchestrator.run_folder.metrics import OUTCOMES, counts
from orchestrator.run_folder.reader import Run

_SCORED = re.compile(rb'\{"key":"(?:[^"\\]|\\.)*","outcome":"scored"')
"""How nearly all lines begin: they need not be read further."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that went wrong, and how often."""

    outcome: str
    reason: str
    count: int
    message: str


def ordered(found: Mapping[tuple[str, str], Iterable[Any]]) -> list[Problem]:
    """Returns problems from (outcome, reason) -> (count, message), the most frequent first."""
    problems = (Problem(*names, *rest) for names, rest in found.items())
    return sorted(problems, key=lambda problem: (-problem.count, problem.outcome, problem.reason))


def problems(run: Run) -> list[Problem]:
    """Returns what went wrong in a complete run by its verdicts alone, the most frequent first.

    Raises:
        ConfigError: A verdict is damaged.
    """
    path = run.path / "verdicts.jsonl"
    if not path.exists():
        return []
    try:
        return ordered(_tally(run, path))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is damaged ({error}): `orchestrator score` names the line") from error


def _tally(run: Run, path: Path) -> dict[tuple[str, str], list[Any]]:
    found = _count(_lines(path))
    planned = counts(run.tasks)
    # Where an item was asked again its earlier line stands there still.
    if any(sum(many for (name, _), (many, _) in found.items() if name == o) != planned[o] for o in OUTCOMES[1:]):
        found = _count(_last_lines(run, path))
    return found


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _last_lines(run: Run, path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for offset in run.index.verdicts[run.index.verdicts >= 0]:
            file.seek(offset)
            yield file.readline()


def _count(lines: Iterable[bytes]) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for line in lines:
        if _SCORED.match(line):
            continue
        verdict = orjson.loads(line)
        if verdict["outcome"] != "scored":
            names = (verdict["outcome"], verdict.get("reason", ""))
            found.setdefault(names, [0, verdict.get("detail", "")])[0] += 1
    return found
