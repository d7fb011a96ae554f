"""vqa: the agreement of an answer with those of ten people."""

from __future__ import annotations

import re

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.reading.refusals import declines
from scorer.rule import Rule, refused, scored

_AGREED = 3
"""Number of people with the same answer from which it scores 1."""
_SIGNS = ';/[]"{}()=+\\_-><@`,?!'
_COMMA_IN_NUMBER = re.compile(r"\d,\d")
_FULL_STOP = re.compile(r"\.(?!\d)")
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DIGITS = {"none": "0"} | {word: str(value) for value, word in enumerate(_NUMBERS)}
_ARTICLES = {"a", "an", "the"}


def normalized(text: str) -> str:
    """Returns a short answer in the form that the official evaluation compares (https://github.com/GT-Vision-Lab/VQA).

    Signs are deleted, or become a blank between two words; number words up to ten become digits; articles and
    apostrophes are deleted, the latter in place of the evaluation's list of contractions.
    """
    text = " ".join(text.split()).lower()
    joined = _COMMA_IN_NUMBER.search(text)
    new = text
    for sign in _SIGNS:
        apart = f"{sign} " in text or f" {sign}" in text
        new = new.replace(sign, "" if apart or joined else " ")
    tokens = _FULL_STOP.sub("", new).replace("'", "").replace("\u2019", "").split()
    return " ".join(_DIGITS.get(token, token) for token in tokens if token not in _ARTICLES)


def agreement(answer: str, people: list[str]) -> float:
    """Returns the VQA accuracy: the mean, over all persons left out in turn, of min(1, others with this answer / 3).

    Args:
        answer: The model's answer.
        people: One answer per person, at least four.

    Source: Antol et al., 2015, https://arxiv.org/abs/1505.00468, and the official evaluation.
    """
    normal = normalized(answer)
    same = [normalized(human_answer) == normal for human_answer in people]
    return sum(min(1.0, (sum(same) - mine) / _AGREED) for mine in same) / len(same)


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    if len(request.targets) <= _AGREED:
        raise RequestError(
            f"vqa needs the answers of more than {_AGREED} people, one target for each, and there are "
            f"{len(request.targets)}: for one right answer use contains_word or anls"
        )
    score = agreement(request.text, list(request.targets))
    return refused() if not score and declines(request.text) else scored(request.text.strip(), score)


RULE = Rule(
    name="vqa",
    description=(
        "VQA accuracy: the whole answer, without case, signs and articles, against those of several people; right "
        "where three others gave it, in part where fewer did (Antol et al., 2015, https://arxiv.org/abs/1505.00468). "
        "Targets: one answer for each person, ten as a rule. Ask for a word or a phrase."
    ),
    read=_read,
)
