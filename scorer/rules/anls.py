"""anls: the similarity of a short text to the right one, letter by letter."""

from __future__ import annotations

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.reading.refusals import declines
from scorer.rule import Rule, refused, scored

_THRESHOLD = 0.5
_LONGEST = 1000
"""Most characters of a target: the time of a distance grows with the product of both lengths."""


def distance(left: str, right: str) -> int:
    """Returns the Levenshtein distance of two texts, in characters."""
    row = list(range(len(right) + 1))
    for row_number, letter in enumerate(left, 1):
        diagonal, row[0] = row[0], row_number
        for column, other in enumerate(right, 1):
            diagonal, row[column] = (
                row[column],
                min(diagonal + (letter != other), row[column] + 1, row[column - 1] + 1),
            )
    return row[-1]


def similarity(answer: str, target: str) -> float:
    """Returns 1 - NL, the normalized Levenshtein similarity, or 0 if that is below a half.

    NL is the distance of the two texts, in lower case and with single blanks, over the longer one's length
    (Biten et al., 2019, https://arxiv.org/abs/1907.00490). At exactly a half the paper gives 0; this gives a half, as
    does the evaluation script of DocVQA, from which published results come.
    """
    left, right = " ".join(answer.lower().split()), " ".join(target.lower().split())
    longer, shorter = max(len(left), len(right)), min(len(left), len(right))
    if not longer or shorter < _THRESHOLD * longer:  # the distance is at least the difference in length
        return float(not longer)
    value = 1 - distance(left, right) / longer
    return value if value >= _THRESHOLD else 0.0


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    if not request.targets:
        raise RequestError("anls needs a target")
    if max(map(len, request.targets)) > _LONGEST:
        raise RequestError(f"anls: a target has more than {_LONGEST:,} characters: it is for short texts")
    score = max(similarity(request.text, target) for target in request.targets)
    return refused() if not score and declines(request.text) else scored(request.text.strip(), score)


RULE = Rule(
    name="anls",
    description=(
        "Average Normalized Levenshtein Similarity of the whole answer with the nearest target, from 0 to 1, and 0 "
        "below a half (Biten et al., 2019, https://arxiv.org/abs/1907.00490): for short texts read in documents and "
        "scenes, where a letter may be misread. Targets: the texts that are right. Ask for the text alone."
    ),
    read=_read,
)
