"""number: compares the number that an answer states with the right one, within a tolerance."""

from __future__ import annotations

from functools import partial

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.reading.amounts import amount_of, equal, in_dollars, read_amount
from scorer.reading.answer import read_answer
from scorer.rule import Rule, refused, scored, unparsed
from scorer.rules import contains_word, yes_no
from scorer.rules.params import choice, real


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    absolute, relative = real(request, "absolute"), real(request, "relative")
    decimal = choice(request, "decimal", (".", ","))
    if not request.targets:
        raise RequestError("number needs a target")
    wanted = [amount for target in request.targets if (amount := amount_of(target, decimal)) is not None]
    if not wanted:
        return _read_text(request)
    answer = read_answer(request.text, partial(read_amount, decimal=decimal), cut=request.cut)
    stated = amount_of(answer.value) if answer.value else None
    if stated is None:
        return refused() if answer.reason == Reason.DECLINED else unparsed(answer.reason)
    value = answer.value
    if answer.span is not None and (money := in_dollars(stated, request.text, answer.span)) != stated:
        stated, value = money, str(money)
    right = any(equal(stated, target, absolute, relative) for target in wanted)
    return scored(value, float(right), span=answer.span, reason=answer.reason)


def _read_text(request: pb.ScoreRequest) -> pb.Verdict:
    """Reads an answer whose targets are not numbers, such as some of ChartQA's: yes or no, or text."""
    if all(yes_no.meaning(target) for target in request.targets):
        return yes_no.read(request)
    return contains_word.read(request)


RULE = Rule(
    name="number",
    description=(
        "Reads the number an answer states, in digits or words, with thousands separators, decimals, percent, a unit "
        "or a scale (2.5 million), the last conclusion where several are reckoned with. Target: the number, with or "
        "without its unit; a target that is not a number is read as yes_no or contains_word reads it. Relative 0.05 "
        "is ChartQA's relaxed accuracy (Masry et al., 2022, https://arxiv.org/abs/2203.10244)."
    ),
    read=_read,
    params={
        "absolute": "Largest difference that is right, in the target's unit; default 0.",
        "relative": "Largest difference that is right, as a share of the target; default 0.",
        "decimal": 'The decimal sign: "." (1,250 is a thousand and more) or "," (1.250 is); default ".".',
    },
)
