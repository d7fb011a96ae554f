"""two_way: which of two options an answer states in its own words."""

from __future__ import annotations

import re
from functools import lru_cache

from lyncean.reasons import Reason
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.reading import mentions
from scorer.reading.answer import read_answer
from scorer.reading.label_forms import forms_of
from scorer.reading.lexicon import BEFORE, DOCUMENT, Lexicon
from scorer.reading.mentions import Mention
from scorer.reading.normalize import fold
from scorer.reading.numbers import WORDS, value_of
from scorer.reading.options import yes_no
from scorer.reading.prefilter import Seen
from scorer.reading.resolve import Reading, read
from scorer.reading.stance import NAMED, REJECTED, SUPPOSED, WEAK, Occurrence
from scorer.rule import Rule
from scorer.rules import request as asked

LEXICON = Lexicon("two_way")
_SAME = [entry.split(", ") for entry in LEXICON.entries("SAME")]
_GROUP = {word: words for words in _SAME for word in words}
_CARDINAL = {value: word for word, value in WORDS.items()}


def _word_variants(word: str) -> set[str]:
    forms = {word, *_GROUP.get(word, ())}
    value = value_of(word)
    if value is not None and value in _CARDINAL:
        forms |= {str(value), _CARDINAL[value]}
    if word.isalpha() and len(word) > 3:
        forms.add(word[:-1] if word.endswith("s") and not word.endswith("ss") else word + "s")
    return forms


def _phrase_variants(option: str) -> set[str]:
    words = re.split(r"[ /]+", option)
    if len(words) == 1:
        return _word_variants(option)
    forms = {option, option.replace(" ", "-"), option.replace(" ", "")}
    if len(words) == 2:
        pairs = {(a, b) for a in _word_variants(words[0]) for b in _word_variants(words[1])}
        joined = {f"{a} {b}" for a, b in pairs}
        if words[0] in _PLACES and words[1] in _PLACES:
            joined |= {f"{b} {a}" for a, b in pairs} | {f"{a}{b}" for a, b in pairs}
            joined |= (
                {f"{a} and {b}" for a, b in pairs} | {f"{b} and {a}" for a, b in pairs} | {f"{a}/{b}" for a, b in pairs}
            )
        forms |= joined
    return forms


_PLACES = {word for group in _SAME[:4] for word in group} | {"down", "up"}


@lru_cache(maxsize=4096)
def names_of(options: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns every way to write either of two options, with the option meant.

    A way that could mean both is left out; so is a variant that equals a word of the other.
    """
    plain = tuple(fold(option).rstrip(".") for option in options)
    own = [_phrase_variants(option) for option in plain]
    words = [set(re.split(r"[ /-]+", option)) for option in plain]
    names: list[tuple[str, str]] = []
    for place, option in enumerate(options):
        other = 1 - place
        forms = {form for form in own[place] if form == plain[place] or form not in own[other]}
        if len(words[place]) > 1 or len(words[other]) > 1:
            telling = {
                word for word in words[place] - words[other] if len(word) > 2 or not word.isalpha() or len(word) == 1
            }
            forms |= {form for word in telling - _STOP for form in _word_variants(word) if form not in own[other]}
        forms = {form for form in forms if form == plain[place] or not (set(form.split()) <= words[other])}
        names += [(form.replace("-", " "), option) for form in forms if form]
    taken: dict[str, set[str]] = {}
    for form, option in names:
        taken.setdefault(form, set()).add(option)
    return tuple((form, option) for form, option in dict.fromkeys(names) if len(taken[form]) == 1)


_STOP = {"to", "the", "a", "an", "of", "in", "on", "side", "letter", "number"}

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


def _by_negation(text: str, options: tuple[str, str], judged: list[Occurrence]) -> Reading:
    """Reads "it is not inside" as outside, and an answer to a yes/no question without either word."""
    rejected = {value for each in judged if each.stance == REJECTED for value in each.group.values}
    if len(text) > 200 or DOCUMENT.ABSTAIN.search(text):
        return Reading("", Reason.NO_CHOICE)
    lower = {option.lower() for option in options}
    if lower == {"yes", "no"} and not judged:
        stop = BEFORE.SENTENCE_END.search(text)
        first = text[: stop.end()] if stop else text
        match = LEXICON.NEGATED.search(first)
        word = "no" if match else "yes" if LEXICON.ELLIPSIS.fullmatch(first.strip()) else ""
        if word and "?" not in first:
            value = next(option for option in options if option.lower() == word)
            return Reading(value, Reason.NEGATION, match.span() if match else (0, len(first)))
    if lower in _OPPOSITES and len(rejected) == 1 and all(each.stance == REJECTED for each in judged):
        value = next(option for option in options if option not in rejected)
        return Reading(value, Reason.NEGATION, judged[0].group.span)
    return Reading("", Reason.NO_CHOICE)


def _both(text: str, value: str, found: list[Mention]) -> bool:
    """Whether a later sentence begins with the other answer: "Yes, the shapes. No, not the colours."."""
    return any(
        mention.value != value
        and text[: mention.start].rstrip(" ")[-1:] in (".", ";", "\n")
        and text[mention.end : mention.end + 1] in (",", ".", "!", ";")
        for mention in found
    )


def _lone(text: str, judged: list[Occurrence], options: tuple[str, str]) -> Reading:
    kept = [each.group for each in judged if each.stance in (NAMED, WEAK)]
    values = {value for group in kept for value in group.values}
    if not kept:
        return _by_negation(text, options, judged)
    if len(values) > 1:
        lead = kept[0]
        first = not text[: lead.first].strip(" \"'(") and len(lead.values) == 1
        if first and text[lead.last : lead.last + 1] in ",.:;\n" and {o.lower() for o in options} == {"yes", "no"}:
            return Reading(lead.values[0], Reason.LEADING, lead.span)
        return Reading("", Reason.CONFLICT)
    if any(each.stance == SUPPOSED for each in judged) or len(text) > 600:
        return Reading("", Reason.NO_CHOICE)
    group = kept[0]
    return Reading(group.values[0], Reason.OPTION_TEXT, group.span)


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
        if (
            set(lower) == {"yes", "no"}
            and reading.reason in (Reason.BARE, Reason.LEADING)
            and _both(text, reading.value, found)
        ):
            return Reading("", Reason.CONFLICT)
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
