"""A sample, its progress through its turns and their calls, and its next request, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.finishing import Begun
from orchestrator.engine.trajectory import Trajectory
from orchestrator.engine.wire import Request
from orchestrator.run_folder.lines import ResponseLine
from orchestrator.samples import Answer, Sample, Turn


class LoggedCall(NamedTuple):
    """Offsets of the line of a call and of the lines of its tools' results."""

    offset: int
    tools: list[int]


@dataclass(slots=True, eq=False)
class Episode:
    """A sample and its progress.

    Attributes:
        sample: The sample.
        answers: The answers to its earlier turns; for one of an earlier process, the
            offset of its line, read only if a later turn needs it.
        begun: Offset of the line of a cut answer to the next turn, which is to be finished; None without one.
        trajectory: The calls of the next turn so far, where it has tools and is under way.
        logged: Offsets of the lines of those calls that an earlier process made.
        beyond: The server's message if one more of them exceeded the context; "" otherwise.
    """

    sample: Sample
    answers: list[Answer | int] = field(default_factory=list)
    begun: int | None = None
    trajectory: Trajectory | None = None
    logged: Sequence[LoggedCall] = ()
    beyond: str = ""

    @property
    def task(self) -> str:
        """The task's name, which begins every key."""
        return self.sample.key.split("/", 1)[0]

    @property
    def turn(self) -> Turn:
        """The turn that is next."""
        return self.sample.turns[len(self.answers)]

    @property
    def key(self) -> str:
        """The key of the next turn."""
        return self.sample.item_key(self.turn)

    @property
    def rule(self) -> str:
        """The rule that judges the answer to the next turn; "" without one."""
        scoring = self.turn.scoring
        return scoring.rule if scoring else ""

    @property
    def answered_key(self) -> str | None:
        """The key of the turn that was answered last, None before the first answer."""
        return self.sample.item_key(self.sample.turns[len(self.answers) - 1]) if self.answers else None

    @property
    def over(self) -> bool:
        """True if every turn has its answer."""
        return len(self.answers) == len(self.sample.turns)


@dataclass(slots=True, eq=False)
class PreparedRequest:
    """A call ready to be sent.

    Attributes:
        key: That of its line: the turn's, or for a turn with tools the call's own.
        line: The line of the log, without what becomes of the request.
        scoring: How the answer is scored; None for a call that only prepares another.
        score: The ScoreRequest, but for the answer; None likewise.
        begun: The cut answer that it finishes; None for any other request.
    """

    episode: Episode
    key: str
    request: Request
    stage: str
    line: ResponseLine
    scoring: dict[str, Any] | None
    score: scorer.ScoreRequest | None
    begun: Begun | None = None


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """The answer of a turn with tools, once no call is left to make.

    Attributes:
        line: The line of the log.
        answer: The answer.
        scoring: How it is scored.
        score: The ScoreRequest, but for the answer.
        cut: Whether the output limit ended it, or the output that it follows.
    """

    line: bytes
    answer: Answer
    scoring: dict[str, Any]
    score: scorer.ScoreRequest
    cut: bool


@dataclass(frozen=True, slots=True)
class UnsentOutcome:
    """The outcome of a turn without an answer, and its reason."""

    outcome: Outcome
    reason: str
    detail: str
