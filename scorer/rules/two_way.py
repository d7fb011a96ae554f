"""two_way: which of two options an answer states in its own words."""

from __future__ import annotations

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.reading import mentions
from scorer.reading.answer import read_answer
from scorer.reading.label_forms import forms_of
from scorer.reading.lexicon import BEFORE, DOCUMENT
from scorer.reading.mentions import Mention
from scorer.reading.numbers import value_of
from scorer.reading.prefilter import Seen
from scorer.reading.resolve import Reading, read
from scorer.reading.stance import NAMED, REJECTED, SUPPOSED, WEAK
from scorer.reading.stances import Judged
from scorer.reading.variants import LEXICON, names_of
from scorer.reading.yes_no import yes_no
from scorer.rule import RequestError, Rule
from scorer.rules import request as asked

_OPPOSITES = (
    {"inside", "outside"},
    {"open", "closed"},
    {"same", "different"},
    {"filled", "empty"},
    {"solid", "hollow"},
    {"intersected", "separated"},
    {"intersect", "seperate"},
)


def _names_else(text: str, mention: Mention) -> bool:
    """Whether a number is the name of a thing ("choice 2") or part of another ("forty-five")."""
    before = text[max(mention.start - 20, 0) : mention.start]
    if text[mention.start : mention.end].lower() == "one" and LEXICON.THE_ONE.search(before):
        return True
    if text.startswith(" of which", mention.end):
        return True
    return value_of(text[mention.start : mention.end]) is not None and bool(LEXICON.NAMED_THING.search(before))


def _by_negation(text: str, options: tuple[str, str], judged: list[Judged]) -> Reading:
    """Reads "it is not inside" as outside, and an answer to a yes/no question without either word."""
    rejected = {value for each in judged if each.what == REJECTED for value in each.group.values}
    if len(text) > 200 or DOCUMENT.ABSTAIN.search(text):
        return Reading("", "no_choice")
    lower = {option.lower() for option in options}
    if lower == {"yes", "no"} and not judged:
        stop = BEFORE.SENTENCE_END.search(text)
        first = text[: stop.end()] if stop else text
        match = LEXICON.NEGATED.search(first)
        word = "no" if match else "yes" if LEXICON.ELLIPSIS.fullmatch(first.strip()) else ""
        if word and "?" not in first:
            value = next(option for option in options if option.lower() == word)
            return Reading(value, "negation", match.span() if match else (0, len(first)))
    if lower in _OPPOSITES and len(rejected) == 1 and all(each.what == REJECTED for each in judged):
        value = next(option for option in options if option not in rejected)
        return Reading(value, "negation", judged[0].group.span)
    return Reading("", "no_choice")


def _both(text: str, value: str, found: list[Mention]) -> bool:
    """Whether a later sentence begins with the other answer: "Yes, the shapes. No, not the colours."."""
    return any(
        mention.value != value
        and text[: mention.start].rstrip(" ")[-1:] in (".", ";", "\n")
        and text[mention.end : mention.end + 1] in (",", ".", "!", ";")
        for mention in found
    )


def _lone(text: str, judged: list[Judged], options: tuple[str, str]) -> Reading:
    kept = [each.group for each in judged if each.what in (NAMED, WEAK)]
    values = {value for group in kept for value in group.values}
    if not kept:
        return _by_negation(text, options, judged)
    if len(values) > 1:
        lead = kept[0]
        first = not text[: lead.first].strip(" \"'(") and len(lead.values) == 1
        if first and text[lead.last : lead.last + 1] in ",.:;\n" and {o.lower() for o in options} == {"yes", "no"}:
            return Reading(lead.values[0], "leading", lead.span)
        return Reading("", "conflict")
    if any(each.what == SUPPOSED for each in judged) or len(text) > 600:
        return Reading("", "no_choice")
    group = kept[0]
    return Reading(group.values[0], "option_text", group.span)


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    if len(request.options) != 2 or request.options[0].lower() == request.options[1].lower():
        raise RequestError("two_way needs two different options")
    options = (request.options[0], request.options[1])
    targets = set(request.targets)
    if not targets or not targets <= set(options):
        raise RequestError(f"two_way: the targets {sorted(targets)} are not among the options {list(options)}")
    labels = asked.strings(request, "labels")
    if labels and len(labels) != 2:
        raise RequestError("two_way: params.labels must be two labels")
    forms = forms_of(labels, options) if labels else None
    lower = {option.lower(): option for option in options}
    words = tuple(pair for pair in names_of(options) if pair[0] not in ("yes", "no"))

    def reader(seen: Seen) -> Reading:
        text = seen.text
        found = [mention for mention in mentions.texts(text, words) if not _names_else(text, mention)] if words else []
        if set(lower) == {"yes", "no"}:
            found = yes_no(text, lower["yes"], lower["no"])
        if forms:
            found = mentions.without_overlap(found, mentions.labels(text, forms, shy=labels[0].isdigit()))
        reading = read(seen, found, options, lambda seen, judged: _lone(seen.text, judged, options))
        if set(lower) == {"yes", "no"} and reading.reason in ("bare", "leading") and _both(text, reading.value, found):
            return Reading("", "conflict")
        return reading

    return asked.verdict(request, read_answer(request.text, reader), targets)


RULE = Rule(
    name="two_way",
    description=(
        "Reads which of two options an answer states, by the option's words, their usual variants, or the negation of"
        " its opposite. Options: the two texts. Target: the right one's text. Both, or neither, is unparsed."
    ),
    read=_read,
    version=4,
    params={"labels": "The two labels, where the prompt gave the options labels."},
)
