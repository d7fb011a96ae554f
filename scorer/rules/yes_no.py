"""yes_no: the yes or no that an answer states."""

from __future__ import annotations

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.rule import Rule
from scorer.rules import two_way

YES, NO = "yes", "no"
_MEANINGS = {"yes": YES, "y": YES, "true": YES, "t": YES, "no": NO, "n": NO, "false": NO, "f": NO}
_PAIRS = ((YES, NO), ("true", "false"))


def meaning(text: str) -> str:
    """Returns "yes" or "no" for a target in one of its usual forms; "" for any other text."""
    return _MEANINGS.get(text.strip().strip(".\"'").lower(), "")


def read(request: pb.ScoreRequest) -> pb.Verdict:
    """Reads yes or no, else true or false.

    Raises:
        RequestError: A target is neither.
    """
    targets = {meaning(target) for target in request.targets}
    if not targets or "" in targets:
        raise RequestError(f"yes_no: the targets {list(request.targets)} are not yes or no, true or false")
    verdict = pb.Verdict()
    for options in _PAIRS:
        wanted = [option for option in options if meaning(option) in targets]
        verdict = two_way.RULE.read(
            pb.ScoreRequest(rule=request.rule, text=request.text, cut=request.cut, options=options, targets=wanted)
        )
        if verdict.reason not in (Reason.NO_CHOICE, Reason.EMPTY):
            break
    verdict.extracted = meaning(verdict.extracted)
    return verdict


RULE = Rule(
    name="yes_no",
    description=(
        "Reads whether an answer says yes or no, in its own words, ten languages or as true and false; both, or "
        "neither, is unparsed. Target: yes or no, true or false. Options: none, or yes and no."
    ),
    read=read,
)
