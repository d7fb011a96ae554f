"""The answers that a refusal overrules, and that are not sent to a judge."""

from __future__ import annotations

from typing import Any

import pytest

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import Outcome
from scorer.judges.base import JudgeError
from scorer.reading.refusals import declines, only_declines, overrules
from scorer.rules.judge_answer import RULE

ONLY = (
    "I'm sorry, but I can't assist with that.",
    "I’m sorry, but I can’t assist with that.",
    "I'm sorry, but I can't assist with that request. Is there anything else I can help with?",
    "I'm sorry, I can't help with identifying people in images. If you have other questions, feel free to ask!",
    "As an AI language model, I cannot view images.",
    "Hello! I'm really sorry, but I cannot help with that. Please let me know if you need something else.",
    "抱歉，我无法协助处理这个请求。",
)
MORE = (
    "I can't identify the person, but the shirt is red.",
    "I'm sorry, but I can't identify people in images. However, the man's shirt is red.",
    "The shirt is red. I can't help with identifying the person.",
    "I'm sorry, I can't help with that. I can describe the shirt, though: it is red.",
    "I'm unable to view images directly, but based on the description the color is red.",
)


@pytest.mark.parametrize("text", ONLY)
def test_a_refusal_and_courtesies_are_nothing_else(text: str) -> None:
    assert declines(text)
    assert only_declines(text)


@pytest.mark.parametrize("text", MORE)
def test_an_option_in_another_clause_counts(text: str) -> None:
    assert declines(text)
    assert not only_declines(text)
    assert not overrules(text, text.index("red"))


def test_an_option_in_the_refusal_or_in_an_offer_does_not_count() -> None:
    for text in (
        "I can't help with identifying the man in the red shirt.",
        "I'm sorry, I can't help with that. Please send a picture of the red shirt.",
    ):
        assert overrules(text, text.index("red"))


def test_can_not_help_but_is_not_a_refusal() -> None:
    assert not declines("I can't help but notice that the shirt is red.")
    assert not only_declines("I can't help but notice that the shirt is red.")


class _Recorder:
    """A judge that records its prompts."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def ask(self, prompt: Any) -> Any:
        self.prompts.append(prompt.user)
        raise JudgeError("down", "it records only")


@pytest.mark.parametrize("text", [*ONLY, *MORE])
async def test_the_judge_is_asked_unless_nothing_but_a_refusal_is_there(text: str) -> None:
    judge = _Recorder()
    verdict = await RULE.read(pb.ScoreRequest(key="k", rule="judge_answer", text=text, targets=["red"]), judge)
    assert bool(judge.prompts) == (text in MORE)
    assert verdict.outcome == (Outcome.UNJUDGED if text in MORE else Outcome.REFUSED)
