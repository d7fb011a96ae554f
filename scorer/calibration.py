"""Calibration of a judge: its agreement with labelled cases."""

from __future__ import annotations

import asyncio
import importlib.resources
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from lyncean.arrays import np
from lyncean.statistics.intervals import cohens_kappa, mean_interval
from scorer.judges.base import Judge, JudgeError, JudgePrompt
from scorer.judges.prompts import choice_reread, open_answer
from scorer.rules.voila import prompts as voila

Case = Mapping[str, Any]

FIRST = 2
"""Cases sent first and alone: they show whether the judge replies before the rest costs anything."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A case on which the judge's decision differs from the label.

    Attributes:
        case: The shipped case.
        said: The judge's decision, or its failure.
    """

    case: Case
    said: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """Agreement of a judge with one set of cases.

    Attributes:
        name: The set.
        decisions: Labelled decisions; a case may hold several, one per property.
        agreed: Decisions of the judge that equal the label.
        failed: Decisions that are missing because the judge failed.
        unasked: Failed decisions without any reply: a result that lacks them does not measure the judge.
        low: Lower end of the 95% interval of the agreement: Wilson's, over cases, since the decisions of one case
            depend on each other; None for a single case that holds several.
        high: Upper end.
        kappa: Cohen's kappa over the judge's decisions; None where it is undefined.
        disagreements: The cases on which judge and label differ.
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
"""Shipped set of labelled cases -> function that builds a case's prompt."""


def cases(name: str) -> list[Case]:
    """Returns the shipped cases of a set."""
    text = importlib.resources.files("scorer.judges").joinpath("cases", f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def calibrate(
    judge: Judge,
    name: str,
    labelled: Sequence[Case],
    within: float | None = None,
    on_reply: Callable[[], None] = lambda: None,
) -> Calibration:
    """Compares the judge's decisions with the labels of all cases; the judge bounds the requests in flight.

    Args:
        judge: The judge.
        name: The set that the cases belong to.
        labelled: The cases.
        within: Seconds for the replies to the `FIRST` cases; None sends all cases at once.
        on_reply: Called after each reply or failure.

    Raises:
        JudgeError: If the judge replies to none of the first cases, or to no case at all.
    """

    async def ask(prompt: JudgePrompt) -> Mapping[str, Any] | JudgeError:
        try:
            return (await judge.ask(prompt)).data
        except JudgeError as error:
            return error
        finally:
            on_reply()

    prompts = [SETS[name](case) for case in labelled]
    first = 0 if within is None else FIRST
    try:
        async with asyncio.timeout(within):
            replies = await asyncio.gather(*map(ask, prompts[:first]))
    except TimeoutError:
        raise JudgeError("judge_timeout", judge.waits_for or f"no reply within {within:g} s") from None
    _check_replied(replies)
    replies += await asyncio.gather(*map(ask, prompts[first:]))
    _check_replied(replies)
    expected: list[str] = []
    decided: list[str] = []
    failed = unasked = 0
    right: list[int] = []
    decisions: list[int] = []
    wrong = []
    for case, reply in zip(labelled, replies, strict=True):
        labels = dict(_leaves(case["expected"]))
        decisions.append(len(labels))
        if isinstance(reply, JudgeError):
            right.append(0)
            failed += len(labels)
            unasked += len(labels) * reply.no_reply
            wrong.append(Disagreement(case, f"{reply.reason}: {reply}"))
            continue
        by_path = dict(_leaves(reply))
        expected += labels.values()
        decided += (by_path[path] for path in labels)
        right.append(sum(by_path[path] == value for path, value in labels.items()))
        if right[-1] < len(labels):
            wrong.append(Disagreement(case, json.dumps(reply, ensure_ascii=False)))
    interval = mean_interval(np.array(right, np.float64), np.array(decisions, np.float64), binary=True)
    low, high = (interval.low, interval.high) if interval else (None, None)
    return Calibration(
        name, sum(decisions), sum(right), failed, unasked, low, high, cohens_kappa(expected, decided), tuple(wrong)
    )


def _check_replied(replies: Sequence[Mapping[str, Any] | JudgeError]) -> None:
    """Raises the first failure where none of the cases got a reply."""
    failures = [reply for reply in replies if isinstance(reply, JudgeError) and reply.no_reply]
    if failures and len(failures) == len(replies):
        raise failures[0]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}/{name}")
    else:
        yield path, json.dumps(value)
