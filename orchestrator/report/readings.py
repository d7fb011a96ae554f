"""Two readings of the same answers: the default rule and the reference's, and where they differ."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from lyncean.vocabulary.outcomes import Outcome
from orchestrator.run_folder.files import PARITY_FOLDER, has_results
from orchestrator.run_folder.metrics import MetricResult, metric_results, overall
from orchestrator.run_folder.reader import Item, Run, open_run

_MOST_SHOWN = 50
_MOST_PRINTED = 5

_OF_LETTERS = frozenset({"choice", "lmms_vstar", "lmms_visualpuzzles"})
"""Rules that say an option's letter; others say its text."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One item that the two rules read differently.

    Attributes:
        key: The item.
        target: The right answer.
        careful: What the default rule extracted, "" for nothing.
        parity: What the reference's rule extracted, "" for nothing.
        text: The answer.
    """

    key: str
    target: str
    careful: str
    parity: str
    text: str


@dataclass(frozen=True, slots=True)
class Compared:
    """Both readings of a run's answers.

    Attributes:
        shown: The first items that are scored differently, in the order of their keys.
        differing: How many there are.
        items: How many items both read.
    """

    shown: Sequence[Difference]
    differing: int
    items: int


def compared(run: Path, most: int) -> Compared:
    """Compares the readings of a run folder scored by both rules (`orchestrator score RUN`, the same with --parity).

    Returns the first `most` items that differ.
    """
    careful, parity = open_run(run), open_run(run / PARITY_FOLDER)
    places = array("q"), array("q")
    for index, item in enumerate(careful):
        other = parity.index.find(item.key) if item.verdict else None
        if other is not None and parity.index.verdicts[other] >= 0:
            places[0].append(index)
            places[1].append(other)
    shown: list[Difference] = []
    differing = 0
    for one, other_one in zip(careful.at(places[0]), parity.at(places[1]), strict=True):
        if _read(one) != _read(other_one):
            differing += 1
            if len(shown) < most:
                target = " ".join(one.verdict.get("targets", ()))
                shown.append(Difference(one.key, target, _extracted(one), _extracted(other_one), one.text))
    return Compared(shown, differing, len(places[0]))


def described(run: Path) -> list[str]:
    """Returns lines for the terminal: number of items on which the two readings differ, and the first of them."""
    pair = compared(run, _MOST_PRINTED)
    differing = f"{pair.differing} of {pair.items} samples"
    lines = [f"{differing} are scored differently by the careful and the parity reading"]
    for one in pair.shown:
        text = " ".join(one.text.split())
        short = text if len(text) <= 60 else text[:57] + "..."
        lines.append(
            f"  {one.key}  right {one.target}  careful {one.careful or '-'}  parity {one.parity or '-'}  {short!r}"
        )
    return lines


@dataclass(frozen=True, slots=True)
class Readings:
    """Each overall result by the default rule and by the reference's, and the items that the two read differently."""

    pairs: Sequence[tuple[MetricResult, MetricResult]]
    compared: Compared


def readings(run: Run) -> Readings | None:
    """Returns both readings; None where `orchestrator score RUN --parity` was not run."""
    folder = run.path / PARITY_FOLDER
    if not run.tasks or not has_results(folder):
        return None
    other = open_run(folder)
    parity = {(result.task, result.name): result for result in overall(metric_results(other.tasks))}
    careful = overall(metric_results(run.tasks))
    pairs = [(result, parity[result.task, result.name]) for result in careful if (result.task, result.name) in parity]
    return Readings(pairs, compared(run.path, _MOST_SHOWN))


def _read(item: Item) -> tuple[str, float | None, str]:
    """Returns what an answer was taken for, the same whichever rule says it: outcome, score, and the option."""
    return item.outcome, item.score, _option(item)


def _option(item: Item) -> str:
    """Returns the text of the option that was read, or its letter where it has none; "" for an open answer."""
    rule, word = str(item.verdict.get("rule", "")), _extracted(item)
    options = [str(option) for option in item.verdict.get("options", ())]
    if rule not in _OF_LETTERS:
        return word if options else ""
    labels = (item.scoring.get("params") or {}).get("labels") or ascii_uppercase
    known = {str(label).upper(): text.upper() for label, text in zip(labels, options, strict=False)}
    return known.get(word, word)


def _extracted(item: Item) -> str:
    # The reference returns letters in the case they were written in, which it then ignores; and of an answer that it
    # cannot read its instability keeps the words.
    return str(item.verdict.get("extracted", "")).upper() if item.outcome == Outcome.SCORED else ""
