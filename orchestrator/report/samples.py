"""The samples of a run: what its page shows of them, and what is counted of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lyncean.vocabulary import facts
from orchestrator.report.diagnostics import Diagnostics
from orchestrator.report.packing import SNIPPET, Packing, question, snippet
from orchestrator.report.selection import Selection
from orchestrator.run_folder.metrics import OUTCOMES
from orchestrator.run_folder.reader import STEP, Item, Run, reason

MOST = 20_000
"""Items that a page holds at most, or about: more is slow to open, and nobody pages through them."""

PENDING = "pending"
"""In place of an outcome where an answer is not scored yet."""

_SHOWN = (*OUTCOMES, STEP, PENDING)
_PLAIN = ("key", "score", "extracted", "target", "answer", "length", "seconds")
_CODED = ("outcome", "task", "reason", "turn", "question", "image", *facts.FILTERED)


@dataclass(slots=True)
class Packed:
    """A run's items as a page holds them, and what was counted on the way.

    Attributes:
        packing: The items shown.
        problems: How often each (outcome, reason) other than scored occurs, with one message.
        rules: The rules that read the answers.
        decoding: How it was decoded, as asked for, a few words for each way that occurs.
        diagnostics: What the charts need that no metric has.
        outcomes: How many verdicts there are by outcome.
        wrong: For each task that is asked about, how many of the items with the labels asked for are wrong, and how
            many there are.
        items: How many items the run has.
    """

    packing: Packing = field(default_factory=lambda: Packing(_PLAIN, _CODED, outcome=_SHOWN))
    problems: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    decoding: set[str] = field(default_factory=set)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, tuple[int, int]] = field(default_factory=dict)
    items: int = 0


def pack(run: Run, labels: Mapping[str, Mapping[str, str]] | None = None) -> Packed:
    """Reads a run and packs it: all of it up to `MOST` items, of a larger one a selection.

    `labels` are, for each task, the labels of the items that `Packed.wrong` counts.
    """
    packed, labels = Packed(items=len(run)), labels or {}
    if packed.items <= MOST:
        for item in run:
            _count(packed, item, labels)
            _show(packed.packing, item)
        return packed
    selection = Selection()
    for item in run:
        _count(packed, item, labels)
        selection.add(item, reason(item))
    for item in run.at(selection.places(MOST)):
        _show(packed.packing, item)
    return packed


def _show(packing: Packing, item: Item) -> None:
    text, image = question(item)
    packing.add(
        packing.show(item), item.labels,
        key=item.key, score=item.score, extracted=item.verdict.get("extracted", ""),
        target=" | ".join(item.scoring.get("targets", ()))[:SNIPPET], answer=_answer(item), length=len(item.text),
        seconds=item.response.get("seconds"), outcome=item.outcome or PENDING, task=item.task,
        reason=reason(item) or None, turn=_turn(item), question=text, image=image,
        **{name: _class(item, name) for name in facts.FILTERED},
    )  # fmt: skip


def _class(item: Item, fact: str) -> str | None:
    """Returns the class of an item's fact, None where it has none."""
    value = (item.verdict.get("facts") or {}).get(fact)
    return None if value is None else facts.fact_class(float(value))


def _is_wrong(item: Item) -> bool:
    """Returns what the page's filter "wrong" shows."""
    return item.outcome in ("unparsed", "refused") or (
        item.outcome == "scored" and item.score is not None and item.score <= 0
    )


def _turn(item: Item) -> str | None:
    """Returns what the key says after the sample's own, which may hold colons too; None where that is all it says."""
    key, prefix = item.key, f"{item.sample}:"
    return key.removeprefix(prefix) if key.startswith(prefix) else None


def _answer(item: Item) -> str:
    if item.response.get("error"):
        return str(item.response["error"].get("message", ""))[:SNIPPET]
    response = item.response.get("response") or {}
    if scores := response.get("scores"):
        return f"{len(scores)} continuations scored"
    pictures = sum("image" in part for part in response.get("parts", ()))
    return " ".join(filter(None, (snippet(item.text), "[image]" * pictures)))


def _count(packed: Packed, item: Item, labels: Mapping[str, Mapping[str, str]]) -> None:
    """Counts what an item adds to the run as a whole."""
    required, outcome = labels.get(item.task), item.outcome
    if required is not None and outcome != STEP and all(item.labels.get(k) == v for k, v in required.items()):
        wrong, items = packed.wrong.get(item.task, (0, 0))
        packed.wrong[item.task] = (wrong + _is_wrong(item), items + 1)
    if outcome in OUTCOMES and outcome != "scored":
        message = (item.response.get("error") or {}).get("message") or item.verdict.get("detail") or ""
        packed.problems.setdefault((outcome, reason(item)), [0, message])[0] += 1
    packed.outcomes[str(item.verdict.get("outcome", ""))] += 1
    packed.diagnostics.add(item)
    if rule := item.verdict.get("rule") or item.scoring.get("rule"):
        packed.rules.add(str(rule))
    request = item.response.get("request") or {}
    if config := {name: value for name, value in (request.get("config") or {}).items() if name != "seed"}:
        packed.decoding.add(", ".join(f"{name} {value}" for name, value in sorted(config.items())))
