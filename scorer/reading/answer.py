"""Reads a whole answer: which of some labelled options it states."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lyncean.vocabulary.reasons import Reason
from scorer.reading import cases, closing, ending, json_answer, mentions, refusals, resolve, single_mention, verdicts
from scorer.reading.counting import read_count
from scorer.reading.label_forms import Forms, by_ordinal, forms_of
from scorer.reading.lexicon import DOCUMENT
from scorer.reading.mentions import LABEL, Mention, without_article
from scorer.reading.normalize import Folded, fold
from scorer.reading.numbers import value_of
from scorer.reading.occurrences import Occurrence
from scorer.reading.options import options_of
from scorer.reading.prefilter import Seen
from scorer.reading.resolve import Reading, read, read_end

HEAD, TAIL = 4096, 16384
"""Code points read of the beginning and the end of a text that is longer than both."""

END, FAR = 420, 240
"""Code points of the end of a longer text that are read first, and how far in it a statement must stand to be alone."""

_OVERRULED = (
    Reason.ELIMINATION,
    Reason.LONE_LABEL,
    Reason.OPTION_TEXT,
    Reason.LIKELY,
    Reason.AGREED,
    Reason.ONLY_NUMBER,
    Reason.NEGATION,
)
# What a model that declines names in passing is no answer.
_WEAK = frozenset((*_OVERRULED, Reason.CONCLUDED)) - {Reason.ELIMINATION}
_FINAL = frozenset((Reason.BARE, Reason.BOXED, Reason.STATED, Reason.CHOSEN, Reason.CORRECTED))
# What a text states that ends in the middle of a sentence, and what one states that the output limit cut.
_TAG = re.compile(r"<(answer|final_answer|ans|conclusion|choice|option|output)>", re.IGNORECASE)

_BOOLEANS = {"true": "yes", "false": "no"}

# The commonest answers, read without further ado.
_BARE = re.compile(r"\s{0,9}[(\[\"*]{0,3}([A-Za-z0-9])[)\]\".*]{0,3}\s{0,9}")
_LABELLED = re.compile(r"[\s(\[\"*]{0,9}([A-Za-z0-9])[)\].:*]{1,4}\s")
_LONGEST_BARE = 25
_SENTENCE, _WORD = 80, 16


class Answer(NamedTuple):
    """What was read of an answer.

    Attributes:
        value: The value; "" if none.
        reason: How it was read, or why nothing was (see `lyncean.vocabulary.reasons`).
        span: Code points of the answer's text.
        inferred: Whether it only follows from the numbers that the text names.
    """

    value: str
    reason: str
    span: tuple[int, int] | None = None
    inferred: bool = False


def read_answer(text: str, reader: Callable[[Seen], Reading], *, cut: bool = False) -> Answer:
    """Returns what a reader of folded text (see whole) reads of an answer, answer tags and refusals minded.

    Of a text longer than HEAD + TAIL code points, beyond any answer a benchmark asks for, only
    that much of its beginning and its end is read.

    Args:
        text: The answer.
        reader: Reads a folded text.
        cut: Whether the output limit ended the answer: then only an answer that it has called so counts.
    """
    left = len(text) - HEAD - TAIL - 1
    if left > 0:
        answer = read_answer(f"{text[:HEAD]}\n{text[-TAIL:]}", reader, cut=cut)
        if answer.span and answer.span[0] > HEAD:
            answer = answer._replace(span=(answer.span[0] + left, answer.span[1] + left))
        return answer
    if cut:
        return _read_cut(text, reader)
    if not text.strip():
        return Answer("", Reason.EMPTY)
    tags = list(_TAG.finditer(text)) if "<" in text else []
    if tags:
        start, end = tags[-1].end(), text.lower().find(f"</{tags[-1][1].lower()}>", tags[-1].end())
        tagged = text[start : end if end >= 0 else None]
        answer = _read(tagged, start, reader) if tagged.strip() else Answer("", Reason.NO_CHOICE)
        if answer.value or answer.reason != Reason.NO_CHOICE:
            return answer
    return _read(text, 0, reader)


def _read_cut(text: str, reader: Callable[[Seen], Reading]) -> Answer:
    """Returns what an answer that the output limit cut has called its answer in a sentence that it finished."""
    if json_answer.answers(text) is not None:
        return read_answer(text, reader)
    whole = text[: ending.finished(text)]
    answer = read_answer(whole or text, reader)
    if answer.value and _is_final(text, answer, whole=bool(whole)):
        return answer
    heading = ending.heading(text)
    first = read_answer(heading, reader) if heading else Answer("", Reason.NO_CHOICE)
    if first.value and _is_final(text, first, whole=True, heads=True):
        return first
    begins = _read_beginning(text, reader)
    if begins.value and answer.value in ("", begins.value):
        return begins
    return Answer("", Reason.NO_CHOICE) if answer.value else answer


def _read_beginning(text: str, reader: Callable[[Seen], Reading]) -> Answer:
    """Returns what the first sentence of a cut text says plainly, which the text goes on to describe."""
    first = closing.first_sentence(text)
    answer = read_answer(first, reader) if first else Answer("", Reason.NO_CHOICE)
    return (
        answer if answer.value and not ending.guesses(text, *(answer.span or (0, 0))) else Answer("", Reason.NO_CHOICE)
    )


def _is_final(text: str, answer: Answer, *, whole: bool, heads: bool = False) -> bool:
    """Whether what is read of a cut text is called the answer in it, or is all of it where no sentence is finished."""
    if answer.span is None:
        return False
    if not whole:
        return answer.reason == Reason.BARE and ending.alone(text, *answer.span)
    if ending.guesses(text, *answer.span) or (answer.reason == Reason.BARE and ending.lists(text, answer.span[1])):
        return False
    called = answer.reason == Reason.BOXED or ending.called(text, *answer.span)
    if ending.turns(text) and not called:
        return False
    return (
        heads
        or (answer.reason in _FINAL and not answer.inferred)
        or (answer.reason in (Reason.CONCLUDED, Reason.ONLY_NUMBER) and called)
    )


def _read(text: str, offset: int, reader: Callable[[Seen], Reading]) -> Answer:
    spans = json_answer.answers(text)
    if spans is None:
        return _read_words(text, offset, reader)
    found = [_read_value(text, *span, offset, reader) for span in spans]
    values = {
        answer.value: answer for answer in found if answer.value and (len(spans) == 1 or answer.reason == Reason.BARE)
    }
    if len(values) > 1:
        return Answer("", Reason.CONFLICT)
    return next(iter(values.values()), found[0] if len(spans) == 1 else Answer("", Reason.NO_CHOICE))


def _read_value(text: str, start: int, end: int, offset: int, reader: Callable[[Seen], Reading]) -> Answer:
    """Reads a value of JSON: its words, or true and false as yes and no."""
    answer = _read_words(text[start:end], offset + start, reader)
    said = _BOOLEANS.get(text[start:end].lower())
    if answer.value or not said:
        return answer
    answer = _read_words(said, 0, reader)
    return answer._replace(span=(offset + start, offset + end)) if answer.value else answer


def _read_words(text: str, offset: int, reader: Callable[[Seen], Reading]) -> Answer:
    folded = Folded(text)
    seen = resolve.seen(closing.without_courtesy(folded.text))
    question = seen.search(DOCUMENT.NEXT)
    before = (
        seen.text[: question.start()].strip() and reader(seen.piece(seen.text[: question.start()]))
        if question
        else None
    )
    # What a base model asks itself next does not count, if it has stated an answer before.
    reading = before if before and before.value and before.reason not in _OVERRULED else reader(seen)
    if (reading.inferred or reading.reason in _WEAK) and reading.value:
        last = max(ending.broken(folded.text), ending.goes_on(folded.text))
        reading = Reading("", Reason.NO_CHOICE) if reading.span[1] <= last else reading
    if reading.value and cases.depends(folded.text, reading.span[0]):
        reading = Reading("", Reason.CONFLICT)
    if reading.value and (reading.reason not in _OVERRULED or not refusals.overrules(folded.text, reading.span[0])):
        start, end = folded.span(*reading.span)
        return Answer(reading.value, reading.reason, (start + offset, end + offset), reading.inferred)
    return Answer("", Reason.DECLINED if reading.value or refusals.declines(folded.text) else reading.reason)


def read_choice(
    text: str, labels: tuple[str, ...], options: Sequence[str] = (), *, forms: Forms | None = None, cut: bool = False
) -> Answer:
    """Returns the label that an answer states.

    Args:
        text: The answer.
        labels: The labels, in order.
        options: The options' texts, by place; may be empty.
        forms: Every way to write the labels; by default in any case.
        cut: Whether the output limit ended the answer.
    """
    forms = forms or forms_of(labels)
    bare = _BARE.fullmatch(text) if len(text) <= _LONGEST_BARE else None
    if bare and bare[1] in forms.meanings:
        return Answer(forms.meanings[bare[1]], Reason.BARE, bare.span(1))
    named = options_of(labels, tuple(options))
    if cut:
        begun = _begun(text, forms, named.whole, labels[0])
        if begun:
            return begun
    shy = labels[0].isdigit()

    def named_in(folded: str) -> list[Mention]:
        own = named.find(folded)
        by_label = list(mentions.labels(folded, forms, shy=shy))
        return mentions.without_overlap(mentions.without_own(folded, by_label, own), own) if own else by_label

    def lone(seen: Seen, judged: list[Occurrence]) -> Reading | None:
        return single_mention.read(seen, judged, labels, named)

    def reader(seen: Seen) -> Reading:
        folded = seen.text
        again = closing.repeated(folded)
        if again in forms.meanings:
            return Reading(forms.meanings[again], Reason.BARE, (0, len(again)))
        word = folded.strip(" .!")
        if len(word) < _WORD and not word.isdigit():
            value = _by_word(labels, word.lower(), shy)
            if value:
                return Reading(value, Reason.BARE, (folded.find(word), folded.find(word) + len(word)))
        cut = len(folded) - END
        if cut > END and not resolve.also_possible(seen):
            cut = folded.find(" ", cut) + 1
            end = folded[cut:]
            stated = read_end(seen.piece(end), named_in(end), labels, FAR)
            if stated:
                return Reading(stated.value, stated.reason, (stated.span[0] + cut, stated.span[1] + cut))
        found = named_in(folded)
        reading = read(seen, found, labels, lone)
        if (
            not reading.value
            and options
            and (reading.reason == Reason.NO_CHOICE or all(mention.plain for mention in found))
        ):
            # What differs in an option counts if it is called the answer, or is all that a sentence names.
            parts = named.find_parts(folded)
            by_part = read(seen, parts, labels, lone) if parts else reading
            short = len({part.value for part in parts}) == 1 and parts[0].end <= _SENTENCE
            short = short and "\n" not in folded[: parts[0].end]
            if by_part.value and (short or by_part.reason in (Reason.BOXED, Reason.STATED)):
                reading = by_part
        if not reading.value and reading.reason in (Reason.CONFLICT, Reason.NO_CHOICE) and options:
            reading = _by_count(seen, named.form.numbers, found) or reading
        if not reading.value and reading.reason in (Reason.CONFLICT, Reason.NO_CHOICE):
            return (
                verdicts.read(folded, labels)
                or closing.by_last_sentence(seen, found, named_in, labels, lone)
                or reading
            )
        return reading

    return read_answer(text, reader, cut=cut)


def _begun(text: str, forms: Forms, whole: Sequence[tuple[str, str]], first: str) -> Answer | None:
    """Reads an option that the output limit cut behind its label: "B. The man is rid"."""
    match = _LABELLED.match(text)
    value = forms.meanings.get(match[1], "") if match else ""
    said = fold(text[match.end() :]) if match else ""
    begun = any(
        label == value and without_article(said) and name.startswith(without_article(said)) for name, label in whole
    )
    # A list begins with the first label; what begins with a later one answers, if it names no other.
    later = value not in ("", first) and not any(forms.meanings[form["label"]] != value for form in forms.find(said))
    return Answer(value, Reason.BARE, match.span(1)) if match and (begun or later) else None


def _by_word(labels: tuple[str, ...], word: str, shy: bool) -> str:
    """Returns the label that a number word or an ordinal is for: "three", "the third one"; "" if none."""
    if shy and str(value_of(word)) in labels:
        return str(value_of(word))
    return by_ordinal(labels).get(word.removeprefix("the ").removesuffix(" one"), "")


def _by_count(seen: Seen, numbers: Mapping[str, str], found: list[Mention]) -> Reading | None:
    """Reads which option's number a text states as one would count, where it names no other option by its label."""
    counted = read_count(seen) if numbers else None
    if counted is None or counted.value not in numbers:
        return None
    alone = counted.reason == Reason.BARE and seen.text[slice(*counted.span)] == seen.text.strip(" .!\n")
    if not alone and counted.reason not in (Reason.STATED, Reason.ONLY_NUMBER):
        return None
    label = numbers[counted.value]
    other = any(mention.kind == LABEL and not mention.plain and mention.value != label for mention in found)
    return None if other else counted._replace(value=label)
