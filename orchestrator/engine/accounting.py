"""The accounting line: planned items and their outcomes, live."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from lyncean.vocabulary.outcomes import READ, Outcome


@dataclass(slots=True)
class TaskCount:
    """One task's items: planned, and by outcome those that are settled.

    Attributes:
        planned: Items.
        outcomes: Settled items by outcome.
        resumed: Items that an earlier process settled.
        score: Sum of the scores.
        highest: The highest score so far: above 1 the task's own code counts in percent.
        answers: Answers that this process received and that were to be read.
        unreadable: Those of them that no rule could read.
        example: One of them: the item's key, the answer and a right answer.
    """

    planned: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    resumed: int = 0
    score: float = 0.0
    highest: float = 0.0
    answers: int = 0
    unreadable: int = 0
    example: tuple[str, str, str] = ("", "", "")

    @property
    def settled(self) -> int:
        """Items with an outcome."""
        return self.outcomes.total()

    @property
    def mean(self) -> float | None:
        """Mean score over settled items; None while there is none.

        It has no interval: one for a fixed number of independent items does not hold at every look, nor over repeats.
        A resumed run has none before its end: earlier scores stay in the log unread.
        """
        return self.score / self.settled if self.settled and not self.resumed else None


@dataclass(slots=True)
class Accounting:
    """All tasks' counts, calls and tokens so far.

    Attributes:
        tasks: Counts by task.
        answered: Calls answered by this process.
        tokens: Tokens, in and out, of this process's calls.
        tool_calls: Tools that models called in this process.
        tool_errors: Tool calls that returned an error.
        cut: Items whose answer the output limit ended in this process, or the reasoning before it.
        unfinished: Cut answers that a failed call leaves cut; the next process finishes them.
        expected: Items that all rows will come to, None while unknown.
        complete: Whether every row has been planned.
        started: Start of this process's calls, by time.monotonic.
    """

    tasks: dict[str, TaskCount] = field(default_factory=lambda: defaultdict(TaskCount))
    answered: int = 0
    tokens: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    cut: int = 0
    unfinished: int = 0
    expected: int | None = None
    complete: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def planned(self) -> int:
        """Items planned so far."""
        return sum(task.planned for task in self.tasks.values())

    @property
    def settled(self) -> int:
        """Items with an outcome."""
        return sum(task.settled for task in self.tasks.values())

    @property
    def goes_on(self) -> bool:
        """True if items without an outcome are left, as far as known."""
        total = self.planned if self.complete else max(self.planned, self.expected or self.planned + 1)
        return self.settled < total

    @property
    def resumed(self) -> int:
        """Items that an earlier process had settled."""
        return sum(task.resumed for task in self.tasks.values())

    @property
    def outcomes(self) -> Counter[Outcome]:
        """Settled items by outcome, over all tasks."""
        total: Counter[Outcome] = Counter()
        for task in self.tasks.values():
            total.update(task.outcomes)
        return total

    @property
    def calls(self) -> str:
        """Calls and tool errors of this process as text; "" if no tool was called."""
        errors = f"  {self.tool_errors:,} tool errors" if self.tool_errors else ""
        return f"{self.answered:,} calls{errors}" if self.tool_calls else ""

    def plan(self, task: str) -> None:
        """Counts a planned item."""
        self.tasks[task].planned += 1

    def unplan(self, task: str, items: int) -> None:
        """Subtracts planned items that are no longer needed."""
        self.tasks[task].planned -= items

    def settle(self, task: str, outcome: Outcome, score: float) -> None:
        """Counts an item's outcome."""
        count = self.tasks[task]
        count.outcomes[outcome] += 1
        count.answers += outcome in READ
        count.score += score
        count.highest = max(count.highest, score)

    def unread(self, task: str, key: str, text: str, target: str) -> None:
        """Counts an answer that could not be read."""
        count = self.tasks[task]
        count.unreadable += 1
        if not count.example[0]:
            count.example = (key, text, target)

    def pass_over(self, task: str, outcome: Outcome, items: int) -> None:
        """Counts items that are planned and that an earlier process has settled."""
        count = self.tasks[task]
        count.planned += items
        count.outcomes[outcome] += items
        count.resumed += items

    def resume(self, task: str, outcome: Outcome) -> None:
        """Counts an item that an earlier process has settled."""
        count = self.tasks[task]
        count.outcomes[outcome] += 1
        count.resumed += 1
