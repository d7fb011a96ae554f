"""Another tool's own scores of its answers, and where our verdicts differ from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from lyncean_interop.answers import Answer, ToolAnswers, task_name
from orchestrator.run_folder import Item, open_run

_WORDS = 60
_MOST_PRINTED = 5
_PART = "part_of_an_answer"
"""Reason of a verdict on one of several answers that are scored together."""


def reported(imported: ToolAnswers) -> dict[str, tuple[float, str]]:
    """Returns what the tool itself scored, and what it read, by the item's key."""
    task = task_name(imported)
    return {f"{task}/{one.key}": (one.score, one.extracted) for one in imported.answers if one.score is not None}


def beside(imported: ToolAnswers, run: Path) -> list[str]:
    """Returns lines for people: the tool's own score, and where its verdicts and ours differ and why."""
    by_key = {answer.key: answer for answer in imported.answers}
    known = [answer.score for answer in imported.answers if answer.score is not None]
    if not known:
        return [f"{imported.tool}: the file holds no scores of its own"]
    lines = [f"{imported.tool}: accuracy {100 * sum(known) / len(known):.2f} over {len(known)} samples"]
    causes: Counter[str] = Counter()
    shown: list[str] = []
    together = 0
    for item in open_run(run):
        own = by_key[(item.response.get("sample") or item.key).partition("/")[2]]
        if item.verdict.get("reason") == _PART:
            together += 1
        elif own.score is not None and abs(own.score - (item.score or 0.0)) > 1e-9:
            cause = _cause(item, own)
            causes[cause] += 1
            if len(shown) < _MOST_PRINTED:
                words = " ".join(own.text.split())
                words = words if len(words) <= _WORDS else f"{words[:_WORDS]}..."
                mine = f"{item.verdict.get('extracted') or '-'} ({(item.score or 0.0):g})"
                other = f"{own.extracted or '-'} ({own.score:g})"
                right = " or ".join(own.targets)
                shown.append(f"  {item.key}  right {right}  ours {mine}  theirs {other}  {cause}  {words!r}")
    if together:
        return [*lines, f"the {together} answers of the documents are scored together: see the metrics"]
    lines.append(f"{causes.total()} of {len(known)} samples are scored differently")
    lines += [f"  {count} {cause}" for cause, count in causes.most_common()]
    return lines + shown


def _cause(item: Item, own: Answer) -> str:
    """Returns why two verdicts on an answer differ, as far as they say."""
    if item.outcome == "failed":
        return "request failed, and scored there"
    if item.outcome != "scored":
        return f"{item.outcome} here ({item.verdict.get('reason', '')})"
    read = str(item.verdict.get("extracted", ""))
    if not own.extracted:
        return "read here, only scored there"
    same = read.strip().casefold() == own.extracted.strip().casefold()
    return "read alike, scored differently" if same else "read differently"
