"""likelihood: the option with the highest log-likelihood."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.rule import Rule, scored, unparsed
from scorer.rules.params import choice

_REDUCTIONS: dict[str, Callable[[float, int, str], float]] = {
    "sum": lambda logprob, tokens, text: logprob,
    "mean": lambda logprob, tokens, text: logprob / tokens,
    "mean_bytes": lambda logprob, tokens, text: logprob / len(text.encode()),
}


def read(request: pb.ScoreRequest) -> pb.Verdict:
    """Scores one request: 1 if the most likely option is one of the targets."""
    options = list(request.options)
    if len(request.scores) != len(options) or not options:
        raise RequestError(f"likelihood needs one score for each option: {len(request.scores)} for {len(options)}")
    names, right = _targets(list(request.targets), options)
    reduction = choice(request, "reduction", tuple(_REDUCTIONS))
    if reduction == "mean_bytes" and not all(options):
        raise RequestError("reduction mean_bytes cannot divide by the bytes of an empty option")
    # Invalid numbers are a failure of the server, not of the benchmark: the item is unparsed, the run goes on.
    if any(math.isnan(score.logprob) or score.logprob == math.inf for score in request.scores):
        return unparsed(Reason.INVALID_SCORES, "a log-likelihood is NaN or +inf")
    if reduction == "mean" and not all(score.token_count for score in request.scores):
        return unparsed(Reason.INVALID_SCORES, "a score has no token count")
    reduce = _REDUCTIONS[reduction]
    values = [
        reduce(score.logprob, score.token_count, text) for score, text in zip(request.scores, options, strict=True)
    ]
    best = max(values)
    if best == -math.inf:
        return unparsed(Reason.ALL_IMPOSSIBLE, "every option has probability 0")
    chosen = values.index(best)
    tied = values.count(best) > 1
    parts = {"probability": 1 / math.fsum(math.exp(value - best) for value in values)}
    others = max((value for index, value in enumerate(values) if index != chosen), default=-math.inf)
    if others > -math.inf:
        parts["margin"] = best - others
    return scored(names[chosen], float(chosen in right), reason=Reason.TIE if tied else "", scores=parts)


def _targets(targets: Sequence[str], options: Sequence[str]) -> tuple[Sequence[str], set[int]]:
    """Returns the options' names in the form of the targets, and the indices of the right ones.

    All targets of an item have one form, tried in this order: the options' texts, their letters (A is the first),
    their indices from 0.
    """
    if not targets:
        raise RequestError("likelihood needs targets")
    letters = [chr(ord("A") + index) for index in range(min(len(options), 26))]
    for names in (options, letters, [str(index) for index in range(len(options))]):
        if all(target in names for target in targets):
            return names, {index for index, name in enumerate(names) if name in targets}
    raise RequestError(
        f"targets {list(targets)} are neither texts nor letters nor places of the {len(options)} options"
    )


RULE = Rule(
    name="likelihood",
    description="Takes the option with the highest log-likelihood: `scores` holds one for each of `options`, in their "
    "order. Targets are all of one form: option texts, else letters (A is the first), else places counted from 0; "
    "`extracted` has the same form. An exact tie goes to the first of the best and says so (reason tie). Parts of the "
    "score: probability (of the chosen one under the softmax of the reduced values) and margin (to the next, in nats).",
    read=read,
    params={"reduction": "sum (default) | mean (divide by tokens) | mean_bytes (divide by bytes of the option's text)"},
    reads=("scores",),
)
