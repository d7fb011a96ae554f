"""The calls of a turn whose task asks in rounds: each is a conversation of its own, until the task has an answer."""

from __future__ import annotations

from collections.abc import Callable

from lyncean.model.v1 import model_pb2 as model
from lyncean.vocabulary.facts import TOOL_CALLS, TOOL_ERRORS
from orchestrator.engine.trajectory import Ask, Done, Trajectory
from orchestrator.samples import Answer, Call, Rounds


class RoundsTrajectory(Trajectory):
    """The rounds of one item so far; arguments and errors as of `Trajectory`."""

    def __init__(self, rounds: Rounds, call: Call, key: str, decoded: Callable[[Call], Call]) -> None:
        super().__init__(rounds, call, key, decoded)
        self._follow = rounds.follow
        self._answers: list[Answer] = []
        for name in (TOOL_CALLS, TOOL_ERRORS):
            del self.facts[name]  # the task counts its own

    def _take(self, answer: Answer) -> None:
        self._answers.append(answer)

    def _next(self, answer: Answer, info: model.GetModelInfoResponse) -> Ask | Done:
        following = self._follow(tuple(self._answers))
        if isinstance(following, Answer):
            return Done(following)
        return self._asked(tuple(following), len(following), info)

    def _limited(self, limit: str) -> Done:
        return Done(None, f"the rounds met their limit of {limit} before the task had an answer")
