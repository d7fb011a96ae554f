"""Calibration of a judge: its agreement with labelled cases."""

from __future__ import annotations

import asyncio
import importlib.resources
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from lyncean.arrays import np
from lyncean.stats import cohens_kappa, mean_interval
from scorer.judges.base import Judge, JudgeError, JudgePrompt
from scorer.judges.prompts import choice_reread, open_answer
from scorer.rules.voila import prompts as voila

Case = Mapping[str, Any]

FIRST = 2
"""Cases that are asked before the others, to see whether anybody replies."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A case that the judge decided otherwise.

    Attributes:
        case: The case as shipped.
        said: The judge's decision, or its failure.
    """

    case: Case
    said: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """What came of one set of cases.

    Attributes:
        name: The set.
        decisions: Labelled decisions; a case may hold several (a property each).
        agreed: How many of them the judge made as labelled.
        failed: How many it made none of, because it failed.
        unasked: How many of these nobody replied to: what is measured without them is not the judge.
        low: Lower end of the 95% interval of the agreement: Wilson's, over cases, whose decisions depend on each
            other; None of a single case that holds several.
        high: Upper end.
        kappa: Cohen's kappa over the decisions made; None where it is undefined.
        disagreements: What to look at.
    """

    name: str
    decisions: int
    agreed: int
    failed: int
    unasked: int
    low: float | None
    high: float | None
    kappa: float | None
    disagreements: tuple[Disagreement, ...]


def _choice(case: Case) -> JudgePrompt:
    labels = tuple(ascii_uppercase[: len(case["options"])])
    user = choice_reread.question(labels, case["options"], case["answer"])
    return JudgePrompt(choice_reread.NAME, choice_reread.SYSTEM, user, choice_reread.schema(labels))


def _open(case: Case) -> JudgePrompt:
    user = open_answer.question(case["question"], case["targets"], case["answer"])
    return JudgePrompt(open_answer.NAME, open_answer.SYSTEM, user, open_answer.SCHEMA)


def _voila(case: Case) -> JudgePrompt:
    return voila.prompt(case["step"], case["truth"], case["answer"])


SETS = {"choice_reread": _choice, "open_answer": _open, "voila": _voila}
"""The labelled cases that are shipped, each with how it is asked."""


def cases(name: str) -> list[Case]:
    """Returns the shipped cases of a set."""
    text = importlib.resources.files("scorer.judges").joinpath("cases", f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def calibrate(judge: Judge, name: str, labelled: Sequence[Case], within: float | None = None) -> Calibration:
    """Asks the judge every case and compares; the judge's own concurrency bounds what is in flight.

    Args:
        judge: Who is asked.
        name: The set that the cases are of.
        labelled: The cases.
        within: Seconds for the replies to the first cases, which are asked alone; None asks all at once.

    Raises:
        JudgeError: If nobody replies to the first cases, or to any: then nobody is there to be measured.
    """
    make = SETS[name]
    prompts = [make(case) for case in labelled]
    first = await _first(judge, prompts[:FIRST], within) if within is not None else []
    replies = [*first, *await asyncio.gather(*(_ask(judge, prompt) for prompt in prompts[len(first) :]))]
    _somebody(replies)
    expected: list[str] = []
    said: list[str] = []
    failed = unasked = 0
    right: list[int] = []
    decisions: list[int] = []
    wrong = []
    for case, reply in zip(labelled, replies, strict=True):
        wanted = dict(_leaves(case["expected"]))
        decisions.append(len(wanted))
        if isinstance(reply, JudgeError):
            right.append(0)
            failed += len(wanted)
            unasked += len(wanted) * reply.no_reply
            wrong.append(Disagreement(case, f"{reply.reason}: {reply}"))
            continue
        given = dict(_leaves(reply))
        expected += wanted.values()
        said += (given[path] for path in wanted)
        right.append(sum(given[path] == value for path, value in wanted.items()))
        if right[-1] < len(wanted):
            wrong.append(Disagreement(case, json.dumps(reply, ensure_ascii=False)))
    interval = mean_interval(np.array(right, np.float64), np.array(decisions, np.float64), binary=True)
    low, high = (interval.low, interval.high) if interval else (None, None)
    return Calibration(
        name, sum(decisions), sum(right), failed, unasked, low, high, cohens_kappa(expected, said), tuple(wrong)
    )


async def _first(judge: Judge, prompts: Sequence[JudgePrompt], within: float) -> list[Mapping[str, Any] | JudgeError]:
    try:
        async with asyncio.timeout(within):
            replies = await asyncio.gather(*(_ask(judge, prompt) for prompt in prompts))
    except TimeoutError:
        message = judge.waits_for or f"no reply within {within:g} s"
        raise JudgeError("judge_timeout", message) from None
    _somebody(replies)
    return replies


def _somebody(replies: Sequence[Mapping[str, Any] | JudgeError]) -> None:
    """Raises the first failure where nobody replied to anything."""
    failures = [reply for reply in replies if isinstance(reply, JudgeError) and reply.no_reply]
    if failures and len(failures) == len(replies):
        raise failures[0]


async def _ask(judge: Judge, prompt: JudgePrompt) -> Mapping[str, Any] | JudgeError:
    try:
        return (await judge.ask(prompt)).data
    except JudgeError as error:
        return error


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}/{name}")
    else:
        yield path, json.dumps(value)
