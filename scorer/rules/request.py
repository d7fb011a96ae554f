"""Targets of a request as labels, and the verdict of an extracted answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.reading.answer import Answer
from scorer.rule import refused, scored, unparsed


@lru_cache(maxsize=1024)
def _by_name(labels: tuple[str, ...]) -> dict[str, str]:
    return {label.lower(): label for label in labels}


def label_targets(request: pb.ScoreRequest, labels: Sequence[str], options: Sequence[str]) -> set[str]:
    """Returns the targets as labels; a target may be the text of an option, if that is unambiguous."""
    known = _by_name(tuple(labels))
    targets = set()
    for target in request.targets:
        plain = target.strip().strip("().").lower()
        if plain in known:
            targets.add(known[plain])
        elif list(options).count(target) == 1:
            targets.add(labels[list(options).index(target)])
        else:
            raise RequestError(f"{request.rule}: target {target!r} is none of the labels {', '.join(labels)}")
    if not targets:
        raise RequestError(f"{request.rule} needs a target")
    return targets


def verdict(request: pb.ScoreRequest, answer: Answer, targets: set[str]) -> pb.Verdict:
    """Returns the verdict of a read answer."""
    if answer.value:
        return scored(answer.value, float(answer.value in targets), span=answer.span, reason=answer.reason)
    return refused() if answer.reason == Reason.DECLINED else unparsed(answer.reason)
