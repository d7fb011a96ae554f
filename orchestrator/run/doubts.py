"""Doubts about the results of a complete run: what its answers show beside their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lyncean.errors import printable
from lyncean.statistics.distributions import normal_quantile
from lyncean.statistics.significance import at_least
from lyncean.vocabulary.keys import split_repeat
from lyncean.vocabulary.outcomes import Outcome
from lyncean.vocabulary.reasons import READ_BY_WORDS
from orchestrator.run_folder.files import RESPONSES
from orchestrator.run_folder.lines import VerdictLine
from orchestrator.run_folder.metrics import MetricResult, overall, stored_results
from orchestrator.run_folder.reader import Run
from orchestrator.run_folder.texts import AnswerLine, TextLine, answered
from orchestrator.run_folder.unreadable import from_logs
from orchestrator.run_folder.validity import Cause, Doubt, excerpt

_ONE_IN = 1000
"""Runs of a model without the fault of which one at most gets such a doubt."""
_CONSTANT = 0.95
"""Share of one answer from which on all are taken for it, as the metric `choice_bias` does."""
_MOST_ANSWERS = 256
"""Different answers beyond which none is looked for that is all of them."""
_FEWEST = 10
"""Items from which on it is not a coincidence that one text is right for rival answers, or that nothing is right."""
_NO_READING = "no result: one text is read as the right answer to questions with different ones:"
_REPEATED = "no result: every answer repeats its prompt, and says nothing else"
_FEWEST_KEYS = 20
"""Items from which on it is not a coincidence that the right option has one place in all of them."""
_BY_PLACE = frozenset({"choice", "choice_number"})
"""Rules whose targets are places of options."""
_GUESSED = READ_BY_WORDS | {"likelihood"}
"""Rules that choose among options, of which one is right."""


class Answers:
    """Statistics of one task's readings that show whether its answers are answers."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forgets what was counted: the verdicts follow from the first on."""
        self.scored = self.right = 0
        self._read: Counter[str] | None = Counter()
        self._right: Counter[str] = Counter()
        self._chance = self._points = self._guesses = 0.0
        self._guessed = 0
        self._keys: Counter[str] = Counter()
        self._answered, self._offered, self._by_chance = 0, 0, 0.0
        self._first: frozenset[str] = frozenset()
        self.rivals = False

    def add(self, line: VerdictLine) -> None:
        """Adds the verdict of an item; of repeats the first counts, since a question has one answer."""
        options = len(line.options) or line.choices
        choices = line.rule in _GUESSED and options > 1 and len(line.targets) == 1
        self._answered += 1
        self._offered += choices
        self._by_chance += 1 / options if choices else 0.0
        if line.outcome != Outcome.SCORED or split_repeat(line.key)[1]:
            return
        score = float(line.score) if isinstance(line.score, int | float) else 0.0
        self.scored += 1
        self.right += score == 1.0
        self._points += score
        if self._read is not None and line.extracted:
            self._read[line.extracted] += 1
            self._right[line.extracted] += score == 1.0
            if len(self._read) > _MOST_ANSWERS:
                self._read = None
        if choices:
            self._guessed += 1
            self._chance += 1 / options
            self._guesses += score
            if line.rule in _BY_PLACE:
                self._keys[line.targets[0]] += 1
        if score == 1.0 and not options and line.targets:
            targets = frozenset(target.strip().casefold() for target in line.targets)
            self._first = self._first or targets
            self.rivals |= self._first.isdisjoint(targets)

    @property
    def chance(self) -> float | None:
        """The share of guesses that would be right, where every item is a choice among known options; else None."""
        return self._by_chance / self._answered if self._answered == self._offered > 0 else None

    def of_text(self, text: _Text | None) -> Doubt | None:
        """Returns a doubt if all answers share a text that cannot be read as an answer; else None."""
        if text and text.echoes and text.questions:
            return Doubt(Cause.READING, _REPEATED, void=True)
        if text and text.alike and self.rivals and text.questions >= _FEWEST:
            return Doubt(Cause.READING, f"{_NO_READING} {printable(excerpt(text.text or ''))}", void=True)
        return None

    def constant(self, text: _Text | None) -> Doubt | None:
        """Returns that nearly all answers are one, which is right too seldom for that; None where it is not so."""
        if text and text.alike and text.text:
            answer, count, read, right = text.text, text.questions, text.questions, self.right
        elif self._read:
            (answer, count), read = max(self._read.items(), key=lambda pair: (pair[1], pair[0])), self._read.total()
            right = self._right[answer]
        else:
            return None
        # If answers were spread as the truths are, one that is right in this share would be given in it.
        share = min((right + 1) / (read + 1), 1 - 1e-9)
        if count < _CONSTANT * read or at_least(count, read, share) * _ONE_IN > 1:
            return None
        line = f"{count:,} of {read:,} answers are {printable(excerpt(answer))}, right in {right:,} of them"
        return Doubt(Cause.CONSTANT, line)

    def one_key(self) -> Doubt | None:
        """Returns that the right option has one place in all items; None where it has several, or there are few."""
        if len(self._keys) != 1 or not _FEWEST_KEYS <= self._keys.total() == self.scored:
            return None
        line = f"the right answer is {printable(next(iter(self._keys)))} in all {self.scored:,} items: a model that"
        return Doubt(Cause.ONE_KEY, f"{line} prefers this place looks better than it is; --shuffle-options measures it")

    def none_right(self) -> Doubt | None:
        """Returns that not one open answer is right in part, of as many as should have one; None where one is."""
        if self.scored < _FEWEST or self._points or self._guessed:
            return None
        return Doubt(Cause.NONE_RIGHT, f"none of {self.scored:,} answers is right: look whether they are read as meant")

    def below_chance(self, metric: MetricResult | None) -> Doubt | None:
        """Returns that fewer answers are right than guesses would be; None where it is not shown.

        Args:
            metric: The accuracy, whose interval knows the groups of items; None without one.
        """
        if metric is None or metric.high is None or metric.value is None or self._guessed < self.scored:
            return None
        right, chance = self._guesses / max(1, self._guessed), self._chance / max(1, self._guessed)
        reach = (metric.high - metric.value) / normal_quantile(metric.level) * normal_quantile(1 - 2 / _ONE_IN)
        if right + reach / (100 if metric.unit == "percent" else 1) >= chance:
            return None
        line = f"{100 * right:.1f}% of the answers are right, and {100 * chance:.1f}% of guesses would be"
        return Doubt(Cause.BELOW_CHANCE, line)


def of_run(run: Run, answers: Mapping[str, Answers]) -> dict[str, list[Doubt]]:
    """Returns the doubts about each task of a complete run.

    Args:
        run: The run, its results without doubts.
        answers: What the answers of each task were read as.

    Raises:
        ConfigError: A line of the run is damaged.
        RunLogError: A verdict is damaged.
    """
    tasks = run.results["tasks"]
    by_task = from_logs(run, tasks)
    left = [task for task, doubts in by_task.items() if not any(doubt.void for doubt in doubts)]
    texts = _texts(run.path / RESPONSES, [task for task in left if answers[task].scored])
    for task in left:
        if doubt := answers[task].of_text(texts.get(task)):
            by_task[task].append(doubt)
        elif not run.identity.get("blind"):  # without images one answer to one text is as it should be
            constant = answers[task].constant(texts.get(task))
            below = answers[task].below_chance(_accuracy(task, tasks[task])) or answers[task].none_right()
            by_task[task] += [doubt for doubt in (constant, below, answers[task].one_key()) if doubt]
    return by_task


def _accuracy(task: str, results: Mapping[str, Any]) -> MetricResult | None:
    """Returns the accuracy over all items of a task, None without it."""
    planned = results["counts"]["planned"]
    metrics = overall(stored_results({task: results}))
    return next((metric for metric in metrics if metric.metric == "accuracy" and metric.denominator == planned), None)


@dataclass(slots=True)
class _Text:
    """Common features of the texts of a task's answers.

    Attributes:
        text: The first one; None before it.
        alike: Whether all are that one.
        echoes: Whether each repeats its prompt.
        questions: How many they answer: a question has one answer, however often it is asked.
    """

    text: str | None = None
    alike: bool = True
    echoes: bool = True
    questions: int = 0

    def add(self, line: AnswerLine) -> None:
        """Takes an answer; with its prompt as long as all repeat theirs."""
        text = _plain("".join(part.text for part in line.response.parts)) if line.response else ""
        self.text = text if self.text is None else self.text
        self.alike &= bool(text) and text == self.text
        self.echoes = bool(text) and isinstance(line, TextLine) and text in _prompts(line)
        self.questions += not split_repeat(line.key)[1]


def _texts(path: Path, tasks: Sequence[str]) -> dict[str, _Text]:
    """Returns what the texts of tasks have in common.

    Reads the log only as far as it takes to see of each task two answers that have nothing in common.

    Raises:
        RunLogError: A line is damaged.
    """
    texts = {task: _Text() for task in tasks}
    left = dict(texts)
    for task, line in answered(path, left, lambda task: left[task].echoes):
        left[task].add(line)
        if not (left[task].alike or left[task].echoes):
            del left[task]
    return texts


def _prompts(line: TextLine) -> set[str]:
    """Returns what an answer that repeats its prompt may be: a part of a message, a message or all of them."""
    messages = (
        [[part.text for part in message.parts if part.text] for message in line.request.messages]
        if line.request
        else []
    )
    texts = [text for parts in messages for text in (*parts, "".join(parts), " ".join(parts))]
    return {_plain(text) for text in (*texts, " ".join(text for parts in messages for text in parts))}


def _plain(text: str) -> str:
    return " ".join(text.split())
