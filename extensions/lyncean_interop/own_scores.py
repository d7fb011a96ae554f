"""Compares another tool's own scores of its answers with our verdicts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from lyncean_interop.answers import Answer, ToolAnswers, task_name
from orchestrator.run_folder import Item, open_run

_WORDS = 60
_MOST_PRINTED = 5
_PART = "part_of_an_answer"
"""Reason of the verdict on one of several answers that are scored together."""


def reported(imported: ToolAnswers) -> dict[str, tuple[float, str]]:
    """Returns the tool's own score and extracted text by the item's key."""
    task = task_name(imported)
    return {
        f"{task}/{answer.key}": (answer.score, answer.extracted)
        for answer in imported.answers
        if answer.score is not None
    }


def beside(imported: ToolAnswers, run: Path) -> list[str]:
    """Returns lines of text: the tool's own score, and the differences between its verdicts and ours with causes."""
    by_key = {answer.key: answer for answer in imported.answers}
    known = [answer.score for answer in imported.answers if answer.score is not None]
    if not known:
        return [f"{imported.tool}: the file holds no scores of its own"]
    lines = [f"{imported.tool}: accuracy {100 * sum(known) / len(known):.2f} over {len(known)} samples"]
    causes: Counter[str] = Counter()
    shown: list[str] = []
    together = 0
    for item in open_run(run):
        imported_answer = by_key[(item.response.get("sample") or item.key).partition("/")[2]]
        if item.verdict.get("reason") == _PART:
            together += 1
        elif imported_answer.score is not None and abs(imported_answer.score - (item.score or 0.0)) > 1e-9:
            cause = _cause(item, imported_answer)
            causes[cause] += 1
            if len(shown) < _MOST_PRINTED:
                text = " ".join(imported_answer.text.split())
                text = text if len(text) <= _WORDS else f"{text[:_WORDS]}..."
                mine = f"{item.verdict.get('extracted') or '-'} ({(item.score or 0.0):g})"
                other = f"{imported_answer.extracted or '-'} ({imported_answer.score:g})"
                right = " or ".join(imported_answer.targets)
                shown.append(f"  {item.key}  right {right}  ours {mine}  theirs {other}  {cause}  {text!r}")
    if together:
        return [*lines, f"the {together} answers of the documents are scored together: see the metrics"]
    lines.append(f"{causes.total()} of {len(known)} samples are scored differently")
    lines += [f"  {count} {cause}" for cause, count in causes.most_common()]
    return lines + shown


def _cause(item: Item, answer: Answer) -> str:
    """Returns the cause of a difference between two verdicts on an answer, as far as it is known."""
    if item.outcome == "failed":
        return "request failed, and scored there"
    if item.outcome != "scored":
        return f"{item.outcome} here ({item.verdict.get('reason', '')})"
    read = str(item.verdict.get("extracted", ""))
    if not answer.extracted:
        return "read here, only scored there"
    same = read.strip().casefold() == answer.extracted.strip().casefold()
    return "read alike, scored differently" if same else "read differently"
