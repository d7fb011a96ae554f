"""Open-ended reading of text in images: does the answer hold the target as a word of its own?"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.reading.refusals import declines
from scorer.rule import Rule, refused, scored

_PIECE = re.compile(r"[^\W_]+")
_INNER_APOSTROPHE = re.compile(r"(?<=[^\W_])'(?=[^\W_])")
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00ad": None})


def canonical(text: str) -> str:
    """Returns the text in Unicode's compatibility form, without the apostrophes inside words and soft hyphens."""
    return _INNER_APOSTROPHE.sub("", unicodedata.normalize("NFKC", text.translate(_QUOTES)))


def pattern(target: str) -> re.Pattern[str] | None:
    """Returns what finds a canonical target in a canonical answer; None for a target without any sign.

    Case does not matter, and neither does the punctuation around the target and between its letters ("co-op", "coop").
    Between digits it does: 12.50 is not 1250, and 12 does not stand in 12.50. A per cent sign belongs to its number.
    """
    target = target.strip()
    pieces = list(_PIECE.finditer(target))
    if not pieces:
        return re.compile(re.escape(target)) if target else None
    words = re.escape(pieces[0].group())
    for before, piece in itertools.pairwise(pieces):
        between = target[before.end() : piece.start()]
        if target[before.end() - 1].isdigit() and target[piece.start()].isdigit() and not between.isspace():
            words += r"\s+".join(map(re.escape, re.split(r"\s+", between)))
        else:
            words += r"[\W_]+" if any(sign.isspace() for sign in between) else r"[\W_]*"
        words += re.escape(piece.group())
    start = r"(?<![^\W_])" + (r"(?<!\d[.,])" if pieces[0].group()[0].isdigit() else "")
    end = r"(?![^\W_])" + (r"(?![.,]\d)" if pieces[-1].group()[-1].isdigit() else "")
    if target[pieces[-1].end() :].startswith("%"):
        end += r"\s*(?:%|per\s?cent\b)"
    return re.compile(start + words + end, re.IGNORECASE)


def search(request: pb.ScoreRequest, prepare: Callable[[str], str]) -> pb.Verdict:
    """Searches any target in the answer; `prepare` makes two spellings of the same thing equal.

    Raises:
        RequestError: There is no target.
    """
    if not request.targets:
        raise RequestError("needs a target")
    text = prepare(request.text)
    patterns = [found for found in (pattern(prepare(target)) for target in request.targets) if found]
    if not patterns:
        return scored(request.text.strip(), 0.0, reason=Reason.EMPTY_TARGET, scores={"format_hit": 1.0})
    for wanted in patterns:
        match = wanted.search(text)
        if match:
            # Positions are only known where preparing has not moved them.
            span = match.span() if text == request.text else None
            return scored(match.group(), 1.0, span=span, scores={"format_hit": 1.0})
    if declines(request.text):
        return refused()
    return scored(request.text.strip(), 0.0, reason=Reason.NOT_FOUND, scores={"format_hit": 1.0})


RULE = Rule(
    name="contains_word",
    description=(
        "Whether any target stands in the answer as a word of its own; where none does, whether the model declines. "
        "Case, the punctuation around the target and inside words and Unicode's compatibility forms do not matter; "
        "signs between digits do (12.50 is not 1250)."
    ),
    read=lambda request: search(request, canonical),
    version=2,
)
