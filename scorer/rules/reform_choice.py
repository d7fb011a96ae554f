"""reform_choice: reads a multiple-choice answer exactly as ReForm-Eval does (metrics/singlechoice.py there)."""

from __future__ import annotations

import math
import re
import string

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.rule import Rule, scored, unparsed

# ASCII only and exactly one character: "(10)", "( A )", "(0)" and full-width brackets are not marks.
_MARK = re.compile(r"\(([1-9A-Za-z])\)")
_INDEX = {
    mark: index
    for marks in (string.ascii_uppercase, string.ascii_lowercase, "123456789")
    for index, mark in enumerate(marks)
}


def read(request: pb.ScoreRequest) -> pb.Verdict:
    """Reads the first `(mark)` of an answer as a 0-based option index and compares it with the target's.

    Args:
        request: `targets` holds the right option's 0-based index in decimal, or its mark, "(B)". `text` is the
            answer, or, with params.infer "likelihood", the predicted index in decimal; `scores` are read as negative
            losses whose lowest wins. `options` name the option that was extracted.

    Returns:
        The verdict; scores.format_hit is 1 if the answer holds an index, scores.index is that index. The extracted
        text is that of the option, or without options the index. A mark beyond the options is a hit that scores 0 and
        extracts all of the answer, since the reference measures instability that way.

    Raises:
        RequestError: The target or a likelihood prediction is not an integer.
    """
    target = _target(request)
    if any(math.isnan(score.logprob) or not score.token_count for score in request.scores):
        return unparsed(Reason.INVALID_SCORES, "a log-likelihood is NaN or has no tokens")
    if request.scores:
        index: int | None = _lowest_loss(request)
    elif _word(request, "infer", "generation", ("generation", "likelihood")) == "likelihood":
        index = _integer(request.text, "a likelihood prediction")
    else:
        index = _marked(request)
    if index is None:
        verdict = unparsed(Reason.NO_MARK, "no (A), (a) or (1) in the answer")
        verdict.scores["format_hit"] = 0.0
        # The reference's instability counts different unreadable answers as different.
        verdict.extracted = request.text
        return verdict
    in_range = -len(request.options) <= index < len(request.options)
    unnamed = request.text if request.options else str(index)
    return scored(
        request.options[index] if in_range else unnamed,
        float(index == target),
        reason=Reason.OUT_OF_RANGE if request.options and not in_range else "",
        scores={"format_hit": 1.0, "index": float(index)},
    )


def _marked(request: pb.ScoreRequest) -> int | None:
    match = _MARK.search(request.text)
    if match:
        return _INDEX[match.group(1)]
    # Only the history of an online dialogue is compared with the options; the final scoring is not.
    use_options = request.params.fields.get("use_options")
    if use_options is not None and use_options.bool_value:
        return next((index for index, option in enumerate(request.options) if option == request.text), None)
    return None


def _lowest_loss(request: pb.ScoreRequest) -> int:
    reduction = _word(request, "reduction", "sum", ("sum", "mean"))
    losses = [-score.logprob / (score.token_count if reduction == "mean" else 1) for score in request.scores]
    return losses.index(min(losses))


def _word(request: pb.ScoreRequest, name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = request.params.fields.get(name)
    value_or_default = default if value is None else value.string_value
    if value_or_default not in allowed:
        raise RequestError(f"params.{name}: give {' or '.join(allowed)}", "invalid_param")
    return value_or_default


def _target(request: pb.ScoreRequest) -> int:
    # Our benchmark names the right option by its mark in brackets; of duplicate options the reference takes the first.
    marks = [match and _INDEX[match.group(1)] for match in map(_MARK.fullmatch, request.targets)]
    if marks and marks[0] is not None:
        return marks[0]
    if len(request.targets) != 1:
        raise RequestError(f"needs one target, the right option's index from 0; got {len(request.targets)}")
    return _integer(request.targets[0], "targets[0]")


def _integer(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise RequestError(f"{name} is {text!r}: a decimal integer, the option's index from 0") from None


RULE = Rule(
    name="reform_choice",
    description=(
        "ReForm-Eval's SingleChoice: the first (A), (a) or (1) anywhere in the answer is an option's index; nothing "
        "else is an answer. Targets: the right option's index from 0, or its mark, (B). Likelihood predictions are "
        "indices."
    ),
    read=read,
    parity=True,
    reads=("text", "scores"),
    params={
        "infer": '"likelihood" where the text is the predicted index; "generation" (the default) where it is an answer',
        "use_options": "true reads an answer that equals an option exactly, as the online history of dialogues does",
        "reduction": "how losses are reduced where scores are given: sum (the default) or mean",
    },
)
