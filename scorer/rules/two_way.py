"""two_way: the option of two that an answer states, in the options' words or in others."""

from __future__ import annotations

import re
from functools import lru_cache

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.reading import cases, closing, mentions
from scorer.reading.answer import read_answer
from scorer.reading.label_forms import forms_of
from scorer.reading.lexicon import BEFORE, DOCUMENT, Lexicon
from scorer.reading.mentions import Mention
from scorer.reading.normalize import fold
from scorer.reading.numbers import WORDS, value_of
from scorer.reading.occurrences import Occurrence
from scorer.reading.options import yes_no, yes_no_abroad
from scorer.reading.prefilter import Seen
from scorer.reading.resolve import Reading, read
from scorer.reading.stance import NAMED, REJECTED, SUPPOSED, WEAK
from scorer.rule import Rule
from scorer.rules.params import strings
from scorer.rules.request import verdict

LEXICON = Lexicon("two_way")
_SAME = [entry.split(", ") for entry in LEXICON.entries("SAME")]
_GROUP = {word: synonyms for synonyms in _SAME for word in synonyms}
_CARDINAL = {value: word for word, value in WORDS.items()}
_YES_NO = {"yes", "no"}
_ENDS = ("", *".,:;!)\"'\n")


def _word_variants(word: str) -> set[str]:
    forms = {word, *_GROUP.get(word, ())}
    value = value_of(word)
    if value is not None and value in _CARDINAL:
        forms |= {str(value), _CARDINAL[value]}
    if word.isalpha() and len(word) > 3:
        forms.add(word[:-1] if word.endswith("s") and not word.endswith("ss") else word + "s")
    return forms


def _phrase_variants(option: str) -> set[str]:
    parts = re.split(r"[ /]+", option)
    if len(parts) == 1:
        return _word_variants(option)
    forms = {option, option.replace(" ", "-"), option.replace(" ", "")}
    if len(parts) == 2:
        pairs = {(a, b) for a in _word_variants(parts[0]) for b in _word_variants(parts[1])}
        forms |= {f"{a} {b}" for a, b in pairs}
        if parts[0] in _PLACES and parts[1] in _PLACES:
            for a, b in pairs:
                forms |= {f"{b} {a}", f"{a}{b}", f"{a} and {b}", f"{b} and {a}", f"{a}/{b}"}
    return forms


_PLACES = {word for group in _SAME[:4] for word in group} | {"down", "up"}


@lru_cache(maxsize=4096)
def names_of(options: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns all ways to write either of two options, in pairs with the option.

    Ambiguous ways are left out, and so are variants that equal a word of the other option.
    """
    plain = tuple(fold(option).rstrip(".") for option in options)
    variants = [_phrase_variants(option) for option in plain]
    words_of = [set(re.split(r"[ /-]+", option)) for option in plain]
    names: list[tuple[str, str]] = []
    for index, option in enumerate(options):
        other = 1 - index
        forms = {form for form in variants[index] if form == plain[index] or form not in variants[other]}
        if len(words_of[index]) > 1 or len(words_of[other]) > 1:
            distinctive = {
                word
                for word in words_of[index] - words_of[other]
                if len(word) > 2 or not word.isalpha() or len(word) == 1
            }
            of_words = {form for word in distinctive - _STOP for form in _word_variants(word)}
            forms |= of_words - variants[other]
        forms = {form for form in forms if form == plain[index] or not (set(form.split()) <= words_of[other])}
        names += [(form.replace("-", " "), option) for form in forms if form]
    taken: dict[str, set[str]] = {}
    for form, option in names:
        taken.setdefault(form, set()).add(option)
    return tuple((form, option) for form, option in dict.fromkeys(names) if len(taken[form]) == 1)


_STOP = {"to", "the", "a", "an", "of", "in", "on", "side", "letter", "number"}
RIVALS = [("yes", "no"), ("true", "false"), *(tuple(entry.split(", ")) for entry in LEXICON.entries("OPPOSITES"))]
"""Pairs of opposite words, of which an answer states one."""
_OPPOSITES = [set(pair) for pair in RIVALS[2:]]


def _names_else(text: str, mention: Mention) -> bool:
    """Returns true if a number names a thing ("choice 2") or is part of another ("forty-five")."""
    before = text[max(mention.start - 20, 0) : mention.start]
    if text[mention.start : mention.end].lower() == "one" and LEXICON.THE_ONE.search(before):
        return True
    if text.startswith(" of which", mention.end):
        return True
    return value_of(text[mention.start : mention.end]) is not None and bool(LEXICON.NAMED_THING.search(before))


def _answers(text: str, mention: Mention) -> bool:
    """Returns true if a foreign word for yes or no answers, and is not a mere negation: "нет подписи"."""
    before = text[max(mention.start - 80, 0) : mention.start]
    begins = before.rstrip(" (\"'*")[-1:] in ("", ":", "\n", ".", "!", "?")
    return text[mention.end : mention.end + 1] in _ENDS and bool(begins or BEFORE.ANSWER.search(before))


def _by_negation(text: str, options: dict[str, str], occurrences: list[Occurrence]) -> Reading | None:
    """Reads "it is not inside" as outside, and a yes/no answer without either word."""
    if len(text) > 200 or DOCUMENT.ABSTAIN.search(text):
        return None
    if options.keys() == _YES_NO and not occurrences:
        stop = BEFORE.SENTENCE_END.search(text)
        first = text[: stop.end()] if stop else text
        match = LEXICON.NEGATED.search(first)
        if "?" not in first and (match or LEXICON.ELLIPSIS.fullmatch(first.strip())):
            return Reading(
                options["no" if match else "yes"], Reason.NEGATION, match.span() if match else (0, len(first))
            )
    rejected = {value for occurrence in occurrences for value in occurrence.group.values}
    if (
        options.keys() in _OPPOSITES
        and len(rejected) == 1
        and all(occurrence.stance == REJECTED for occurrence in occurrences)
    ):
        value = next(option for option in options.values() if option not in rejected)
        return Reading(value, Reason.NEGATION, occurrences[0].group.span)
    return None


def _unstated(text: str, occurrences: list[Occurrence], options: dict[str, str]) -> Reading | None:
    """Reads a text that names the options without stating one."""
    kept = [occurrence.group for occurrence in occurrences if occurrence.stance in (NAMED, WEAK)]
    if not kept:
        return _by_negation(text, options, occurrences)
    group = kept[0]
    if len({value for group in kept for value in group.values}) > 1:
        leads = not text[: group.first].strip(" \"'(") and len(group.values) == 1
        if leads and text[group.last : group.last + 1] in ",.:;\n" and options.keys() == _YES_NO:
            return Reading(group.values[0], Reason.LEADING, group.span)
        return Reading("", Reason.CONFLICT)
    if any(one.stance == SUPPOSED or cases.holds_if(one) for one in occurrences) or len(text) > 600:
        return None
    return Reading(group.values[0], Reason.OPTION_TEXT, group.span)


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    if len(request.options) != 2 or request.options[0].lower() == request.options[1].lower():
        raise RequestError("two_way needs two different options")
    options = (request.options[0], request.options[1])
    targets = set(request.targets)
    if not targets or not targets <= set(options):
        raise RequestError(f"two_way: the targets {sorted(targets)} are not among the options {list(options)}")
    labels = strings(request, "labels")
    if labels and len(labels) != 2:
        raise RequestError("two_way: params.labels must be two labels")
    forms = forms_of(labels, options) if labels else None
    lower = {option.lower(): option for option in options}
    names = tuple(pair for pair in names_of(options) if pair[0] not in _YES_NO)
    abroad = None if lower.keys() == _YES_NO else yes_no_abroad(options)

    def named_in(text: str) -> list[Mention]:
        if lower.keys() == _YES_NO:
            named = yes_no(text, lower["yes"], lower["no"])
        elif abroad:
            answering = [mention for mention in mentions.texts(text, names_of(options)) if _answers(text, mention)]
            yes_or_no = [mention for mention in yes_no(text, *abroad) if not mention.start or _answers(text, mention)]
            named = mentions.without_overlap(answering, yes_or_no)
        else:
            named = [mention for mention in mentions.texts(text, names) if not _names_else(text, mention)]
        return (
            mentions.without_overlap(named, mentions.labels(text, forms, shy=labels[0].isdigit())) if forms else named
        )

    def unstated(seen: Seen, occurrences: list[Occurrence]) -> Reading | None:
        return _unstated(seen.text, occurrences, lower)

    def reader(seen: Seen) -> Reading:
        text = seen.text
        named = named_in(text)
        reading = read(seen, named, options, unstated)
        if reading.reason in (Reason.CONFLICT, Reason.NO_CHOICE) and lower.keys() != _YES_NO:
            reading = closing.by_last_sentence(seen, named, named_in, options, unstated) or reading
        # "Yes, the shapes. No, not the colours.": a later sentence begins with the other answer.
        both = lower.keys() == _YES_NO and any(
            mention.value != reading.value
            and text[: mention.start].rstrip(" ")[-1:] in (".", ";", "\n")
            and text[mention.end : mention.end + 1] in (",", ".", "!", ";")
            for mention in named
        )
        return Reading("", Reason.CONFLICT) if both and reading.reason in (Reason.BARE, Reason.LEADING) else reading

    return verdict(request, read_answer(request.text, reader, cut=request.cut), targets)


RULE = Rule(
    name="two_way",
    description=(
        "Reads which of two options an answer states, by the option's words, their usual variants, or the negation of"
        " its opposite. Options: the two texts. Target: the right one's text. Both, or neither, is unparsed."
    ),
    read=_read,
    version=5,
    params={"labels": "The two labels, where the prompt gave the options labels."},
)
