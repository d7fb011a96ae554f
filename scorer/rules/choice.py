"""choice: which of the labelled options an answer states."""

from __future__ import annotations

from functools import lru_cache

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.reading.answer import read_choice
from scorer.rule import Rule
from scorer.rules import request as asked


@lru_cache(maxsize=1024)
def _labels(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    if names:
        return names
    return tuple(chr(ord("A") + place) for place in range(count))


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    names = asked.strings(request, "labels")
    options = tuple(request.options)
    count = asked.whole(request, "count", len(options) or len(names) or 4)
    # Before any labels are made: a number from outside must not say how much memory is taken.
    if not names and not 1 < count <= 26:
        raise RequestError(f"choice: {count} labels: give 2 to 26 options, or params.count")
    labels = _labels(names, count)
    if options and len(options) != len(labels):
        raise RequestError(f"choice: {len(options)} options but {len(labels)} labels")
    if not 1 < len(labels) <= 26:
        raise RequestError(f"choice: {len(labels)} labels: give 2 to 26 options, or params.count")
    targets = asked.label_targets(request, labels, options)
    return asked.verdict(request, read_choice(request.text, labels, options), targets)


RULE = Rule(
    name="choice",
    description=(
        "Reads which option an answer states, by label or by the option's own words. Targets: the right label."
        " Options: their texts in the order the model saw them, labelled A, B, C... by place; none where they are"
        " drawn in the image. Several answers, none, or a label that does not exist are unparsed."
    ),
    read=_read,
    version=4,
    params={
        "labels": "The labels as the model saw them, in order, where they are not A, B, C...",
        "count": "How many options there are, where `options` is empty; default 4.",
    },
)
