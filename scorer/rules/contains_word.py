"""contains_word: an answer is right if it contains the target as separate words."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.reading.refusals import declines
from scorer.rule import Rule, refused, scored, unparsed
from scorer.rules import two_way

_PIECE = re.compile(r"[^\W_]+")
_OR = re.compile(r"\bor\b", re.IGNORECASE)
_OR_NUMBER = re.compile(r"\s?(?:-|\u2013|\bor\b|\bto\b)\s?[$\u20ac\u00a3]?\d", re.IGNORECASE)
_NUMBER_OR = re.compile(r"\d%?\s?(?:-|\u2013|\bor\b|\bto\b)\s?[$\u20ac\u00a3]?$", re.IGNORECASE)
_STOP = re.compile(r"[.!?](?=\s|$)|\n")
_INNER_APOSTROPHE = re.compile(r"(?<=[^\W_])'(?=[^\W_])")
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00ad": None})


def canonical(text: str) -> str:
    """Returns the text in Unicode's compatibility form, without soft hyphens and apostrophes inside words."""
    return _INNER_APOSTROPHE.sub("", unicodedata.normalize("NFKC", text.translate(_QUOTES)))


def pattern(target: str) -> re.Pattern[str] | None:
    """Returns a pattern that finds a canonical target in a canonical answer; None for an empty target.

    It ignores case and the punctuation around the target and between its letters ("co-op", "coop"), but not between
    digits: 12.50 is not 1250, and does not contain 12. A per cent sign belongs to its number.
    """
    target = target.strip()
    pieces = list(_PIECE.finditer(target))
    if not pieces:
        return re.compile(re.escape(target)) if target else None
    body = re.escape(pieces[0].group())
    for before, piece in itertools.pairwise(pieces):
        between = target[before.end() : piece.start()]
        if target[before.end() - 1].isdigit() and target[piece.start()].isdigit() and not between.isspace():
            body += r"\s+".join(map(re.escape, re.split(r"\s+", between)))
        else:
            body += r"[\W_]+" if any(sign.isspace() for sign in between) else r"[\W_]*"
        body += re.escape(piece.group())
    start = r"(?<![^\W_])" + (r"(?<!\d[.,])" if pieces[0].group()[0].isdigit() else "")
    end = r"(?![^\W_])" + (r"(?![.,]\d)" if pieces[-1].group()[-1].isdigit() else "")
    if target[pieces[-1].end() :].startswith("%"):
        end += r"\s*(?:%|per\s?cent\b)"
    return re.compile(start + body + end, re.IGNORECASE)


def search(request: pb.ScoreRequest, prepare: Callable[[str], str]) -> pb.Verdict:
    """Searches the answer for any target; `prepare` maps equivalent spellings to one.

    Raises:
        RequestError: The target is missing.
    """
    if not request.targets:
        raise RequestError("needs a target")
    text = prepare(request.text)
    patterns = [compiled for compiled in (pattern(prepare(target)) for target in request.targets) if compiled]
    if not patterns:
        return scored(request.text.strip(), 0.0, reason=Reason.EMPTY_TARGET, scores={"format_hit": 1.0})
    for wanted in patterns:
        match = wanted.search(text)
        if match:
            # Positions in the answer are known only if `prepare` has not changed it.
            span = match.span() if text == request.text else None
            return scored(match.group(), 1.0, span=span, scores={"format_hit": 1.0})
    if declines(request.text):
        return refused()
    return scored(request.text.strip(), 0.0, reason=Reason.NOT_FOUND, scores={"format_hit": 1.0})


def read(request: pb.ScoreRequest) -> pb.Verdict:
    """Searches the answer for any target; if it also names the target's rival, reads which of the two it states.

    Raises:
        RequestError: The target is missing.
    """
    verdict = search(request, canonical)
    if not verdict.score:
        return verdict
    text = canonical(request.text)
    for first, second in two_way.RIVALS:
        targets = {first, second}.intersection(target.strip().lower() for target in request.targets)
        if len(targets) == 1 and all(re.search(rf"\b{word}\b", text, re.IGNORECASE) for word in (first, second)):
            rival_request = pb.ScoreRequest(
                rule=request.rule, text=request.text, cut=request.cut, options=(first, second)
            )
            rival_request.targets.extend(targets)
            return two_way.RULE.read(rival_request)
    patterns = [compiled for target in request.targets if (compiled := pattern(canonical(target)))]
    matches = [match for compiled in patterns for match in compiled.finditer(text)]
    if matches and all(_is_alternative(text, *match.span()) for match in matches):
        return unparsed(Reason.CONFLICT)
    return verdict


def _is_alternative(text: str, start: int, end: int) -> bool:
    """Returns true if a match is one of several alternatives: "12 or 13", "3 to 5", or a question, "red or blue?"."""
    if text[start:end].strip("$€£%. ").isdigit() and (
        _OR_NUMBER.match(text, end) or _NUMBER_OR.search(text[:start][-40:])
    ):
        return True
    stop = _STOP.search(text, end)
    begin = max((match.end() for match in _STOP.finditer(text, 0, start)), default=0)
    return bool(stop and stop[0] == "?" and _OR.search(text, begin, stop.start()))


RULE = Rule(
    name="contains_word",
    description=(
        "Whether any target stands in the answer as a word of its own; where none does, whether the model declines. "
        "Case, the punctuation around the target and inside words and Unicode's compatibility forms do not matter; "
        'signs between digits do (12.50 is not 1250). Where the answer names a rival, too (yes and no, "12 or 13"), '
        "it is unparsed unless it says which of the two it is."
    ),
    read=read,
    version=3,
)
