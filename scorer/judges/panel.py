"""A panel: several judges, one decision by majority."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence

from scorer.judges.base import Judge, JudgeError, JudgePrompt, Reply, canonical
from scorer.judges.chat import ChatPrompt

EXPLANATION = "explanation"
"""A property of replies that is prose and not part of the decision."""


def decision(text: str) -> str:
    """Returns the part of a usable reply that judges vote on: all but its prose, as canonical JSON."""
    return canonical({name: value for name, value in json.loads(text).items() if name != EXPLANATION})


class Panel:
    """Asks all judges; the panel's decision is that of more than half of them.

    A judge that fails counts as a judge without a vote: of three judges, two that agree are a majority, one is not.

    Args:
        judges: At least two.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        self._judges = judges

    @property
    def identity(self) -> str:
        """The identities of all judges."""
        return canonical([judge.identity for judge in self._judges])

    @property
    def waits_for(self) -> str:
        """The reasons of all judges that wait."""
        return "; ".join(judge.waits_for for judge in self._judges if judge.waits_for)

    async def ask(self, prompt: JudgePrompt) -> Reply:
        """Returns the majority's reply, with the replies of all judges as its members.

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
        votes = Counter(decision(reply.text) for reply in replies)
        best, count = votes.most_common(1)[0] if votes else ("", 0)
        if count * 2 <= len(self._judges):
            failed = (f"{error.reason} ({error})" for error in failures)
            outcomes = ", ".join([*(decision(reply.text) for reply in replies), *failed])
            raise JudgeError(
                "judge_no_majority",
                f"no majority among {len(self._judges)} judges: {outcomes}",
                no_reply=all(error.no_reply for error in failures) and not replies,
                members=tuple(replies),
            )
        first = next(reply for reply in replies if decision(reply.text) == best)
        return Reply(
            data=first.data,
            text=first.text,
            model=f"{count} of {len(self._judges)}: " + ", ".join(reply.model for reply in replies),
            input_tokens=sum(reply.input_tokens for reply in replies),
            output_tokens=sum(reply.output_tokens for reply in replies),
            cached=all(reply.cached for reply in replies),
            members=tuple(replies),
        )

    async def close(self) -> None:
        """Closes all judges."""
        for judge in self._judges:
            await judge.close()
