"""count: the number of things that an answer states."""

from __future__ import annotations

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.reading.answer import read_answer
from scorer.reading.counting import read_count
from scorer.rule import Rule
from scorer.rules.request import verdict


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    if not request.targets:
        raise RequestError("count needs a target: the right number")
    for target in request.targets:
        if not (target.isascii() and target.isdigit()):
            raise RequestError(f"count: target {target!r} is no whole number in digits")
    targets = {str(int(target)) for target in request.targets}
    return verdict(request, read_answer(request.text, read_count, cut=request.cut), targets)


RULE = Rule(
    name="count",
    description=(
        "Reads the whole number an answer states, in digits or words, the last conclusion where several are reckoned"
        " with. Target: the number in digits. Different numbers without a conclusion are unparsed."
    ),
    read=_read,
    version=6,
)
