"""A caption against its references; the metrics of a corpus are those of the metric `caption`."""

from __future__ import annotations

from collections.abc import Sequence

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rule import Rule, scored

_BETA = 1.2


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """Returns the length of the longest common subsequence."""
    row = [0] * (len(right) + 1)
    for word in left:
        diagonal = 0
        for column, other in enumerate(right, start=1):
            diagonal, row[column] = row[column], diagonal + 1 if word == other else max(row[column], row[column - 1])
    return row[-1]


def rouge_l(caption: str, references: Sequence[str]) -> float:
    """Returns ROUGE-L as image captioning defines it, over tokens split at single blanks.

    F with beta 1.2 of the best precision and the best recall over the references (Lin, 2004:
    https://aclanthology.org/W04-1013; the two maxima are COCO caption evaluation's).
    """
    tokens = caption.split(" ")
    pairs = [(reference.split(" "), _common(tokens, reference.split(" "))) for reference in references]
    precision = max(common / len(tokens) for _, common in pairs)
    recall = max(common / len(reference) for reference, common in pairs)
    if not precision or not recall:
        return 0.0
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def read(request: pb.ScoreRequest) -> pb.Verdict:
    """Takes all of the answer as the caption; its score is ROUGE-L against the targets, a value to sort by.

    Raises:
        RequestError: The reference is missing.
    """
    if not request.targets:
        raise RequestError("needs at least one reference in targets")
    return scored(request.text, rouge_l(request.text, request.targets))


RULE = Rule(
    name="caption",
    description=(
        "The whole answer is the caption, the targets are its references. The score is ROUGE-L of this one caption on "
        "raw text; BLEU, METEOR, ROUGE-L and CIDEr of a corpus come from the metric caption."
    ),
    read=read,
)
