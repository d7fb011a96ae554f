"""choice: the labelled option that an answer states."""

from __future__ import annotations

from string import ascii_uppercase

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.reading.answer import read_choice
from scorer.rule import Rule
from scorer.rules.params import integer, strings
from scorer.rules.request import label_targets, verdict


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    names = strings(request, "labels")
    options = tuple(request.options)
    count = integer(request, "count", len(options) or len(names) or 4)
    labels = names or tuple(ascii_uppercase[:count])
    if not 1 < (len(names) or count) <= 26:
        raise RequestError(f"choice: {len(names) or count} labels: give 2 to 26 options, or params.count")
    if options and len(options) != len(labels):
        raise RequestError(f"choice: {len(options)} options but {len(labels)} labels")
    targets = label_targets(request, labels, options)
    return verdict(request, read_choice(request.text, labels, options, cut=request.cut), targets)


RULE = Rule(
    name="choice",
    description=(
        "Reads which option an answer states, by label or by the option's own words. Targets: the right label."
        " Options: their texts in the order the model saw them, labelled A, B, C... by place; none where they are"
        " drawn in the image. Several answers, none, or a label that does not exist are unparsed."
    ),
    read=_read,
    version=6,
    params={
        "labels": "The labels as the model saw them, in order, where they are not A, B, C...",
        "count": "How many options there are, where `options` is empty; default 4.",
    },
)
