"""Several judges, one decision."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence

from scorer.judges.base import Judge, JudgeError, JudgePrompt, Reply, canonical
from scorer.judges.chat import ChatPrompt

EXPLANATION = "explanation"
"""The property of a reply that is prose and not part of the decision."""


def decision(words: str) -> str:
    """Returns what judges have to agree on: a usable reply without its prose."""
    return canonical({name: value for name, value in json.loads(words).items() if name != EXPLANATION})


class Panel:
    """Asks every judge; the decision that more than half of all give is the panel's.

    A judge that fails is a voice that is missing, not a vote: with three judges, two that
    agree carry it, one alone does not.

    Args:
        judges: At least two.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        self._judges = judges

    @property
    def identity(self) -> str:
        """All of the judges'."""
        return canonical([judge.identity for judge in self._judges])

    @property
    def waits_for(self) -> str:
        """What each of the judges waits for."""
        return "; ".join(judge.waits_for for judge in self._judges if judge.waits_for)

    async def ask(self, prompt: JudgePrompt) -> Reply:
        """Returns the majority's reply, with every judge's beside it.

        Raises:
            JudgeError: `judge_no_majority`.
        """
        if isinstance(prompt, ChatPrompt):
            raise JudgeError("judge_no_majority", "the task's code reads the words of one judge: give one --judge")
        results = await asyncio.gather(*(judge.ask(prompt) for judge in self._judges), return_exceptions=True)
        replies: list[Reply] = []
        failures: list[JudgeError] = []
        for result in results:
            if isinstance(result, Reply):
                replies.append(result)
            elif isinstance(result, JudgeError):
                failures.append(result)
            else:
                raise result
        votes = Counter(decision(reply.words) for reply in replies)
        best, count = votes.most_common(1)[0] if votes else ("", 0)
        if count * 2 <= len(self._judges):
            failed = (f"{error.reason} ({error})" for error in failures)
            said = ", ".join([*(decision(reply.words) for reply in replies), *failed])
            raise JudgeError(
                "judge_no_majority",
                f"no majority among {len(self._judges)} judges: {said}",
                no_reply=all(error.no_reply for error in failures) and not replies,
                members=tuple(replies),
            )
        first = next(reply for reply in replies if decision(reply.words) == best)
        return Reply(
            data=first.data,
            words=first.words,
            model=f"{count} of {len(self._judges)}: " + ", ".join(reply.model for reply in replies),
            input_tokens=sum(reply.input_tokens for reply in replies),
            output_tokens=sum(reply.output_tokens for reply in replies),
            cached=all(reply.cached for reply in replies),
            members=tuple(replies),
        )

    async def close(self) -> None:
        """Closes all."""
        for judge in self._judges:
            await judge.close()
