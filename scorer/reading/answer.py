"""Reads a complete answer: the labelled option that it states."""

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
"""Code points of the beginning and of the end that are read of a text longer than both."""

END, FAR = 420, 240
"""Code points of a long text's end that are read first, and the least offset of a statement in them."""

# Weak evidence, which a refusal overrules: a model that declines may still name an option in passing.
_OVERRULED = (
    Reason.ELIMINATION,
    Reason.LONE_LABEL,
    Reason.OPTION_TEXT,
    Reason.LIKELY,
    Reason.AGREED,
    Reason.ONLY_NUMBER,
    Reason.NEGATION,
)
# Weak evidence, which a last sentence overrules that is unfinished or announces more.
_WEAK = frozenset((*_OVERRULED, Reason.CONCLUDED)) - {Reason.ELIMINATION}
# Evidence that counts although the output limit cut the answer.
_FINAL = frozenset((Reason.BARE, Reason.BOXED, Reason.STATED, Reason.CHOSEN, Reason.CORRECTED))
_TAG = re.compile(r"<(answer|final_answer|ans|conclusion|choice|option|output)>", re.IGNORECASE)

_BOOLEANS = {"true": "yes", "false": "no"}

# The most frequent answers, a bare label among them, skip the lexicon.
_BARE = re.compile(r"\s{0,9}[(\[\"*]{0,3}([A-Za-z0-9])[)\]\".*]{0,3}\s{0,9}")
_LABELLED = re.compile(r"[\s(\[\"*]{0,9}([A-Za-z0-9])[)\].:*]{1,4}\s")
_LONGEST_BARE = 25
_SENTENCE, _WORD = 80, 16


class Answer(NamedTuple):
    """The reading of an answer.

    Attributes:
        value: The value; "" if none.
        reason: The evidence for the value, or the reason why there is none (see `lyncean.vocabulary.reasons`).
        span: The value's code points in the answer.
        inferred: Whether the value only follows from numbers that the text names.
    """

    value: str
    reason: str
    span: tuple[int, int] | None = None
    inferred: bool = False


def read_answer(text: str, reader: Callable[[Seen], Reading], *, cut: bool = False) -> Answer:
    """Applies a reader to an answer; accounts for answer tags, JSON, refusals and cuts.

    Of a text longer than HEAD + TAIL code points, which no benchmark asks for, only the first HEAD and the last TAIL
    are read.

    Args:
        text: The answer.
        reader: The reader of a folded text.
        cut: Whether the output limit ended the answer: then only a value that it calls its answer counts.
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
    """Reads an answer that the output limit cut: only a value that a finished sentence calls the answer counts."""
    if json_answer.answers(text) is not None:
        return read_answer(text, reader)
    sentences = text[: ending.finished(text)]
    answer = read_answer(sentences or text, reader)
    if answer.value and _is_final(text, answer, finished=bool(sentences)):
        return answer
    heading = ending.heading(text)
    first = read_answer(heading, reader) if heading else Answer("", Reason.NO_CHOICE)
    if first.value and _is_final(text, first, finished=True, heads=True):
        return first
    begins = _read_beginning(text, reader)
    if begins.value and answer.value in ("", begins.value):
        return begins
    return Answer("", Reason.NO_CHOICE) if answer.value else answer


def _read_beginning(text: str, reader: Callable[[Seen], Reading]) -> Answer:
    """Reads the first sentence of a cut text, if it states an answer plainly and the rest only explains it."""
    first = closing.first_sentence(text)
    answer = read_answer(first, reader) if first else Answer("", Reason.NO_CHOICE)
    return (
        answer if answer.value and not ending.guesses(text, *(answer.span or (0, 0))) else Answer("", Reason.NO_CHOICE)
    )


def _is_final(text: str, answer: Answer, *, finished: bool, heads: bool = False) -> bool:
    """Returns true if a cut text calls a reading its answer, or, without a finished sentence, holds nothing else."""
    if answer.span is None:
        return False
    if not finished:
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
    readings = [_read_value(text, *span, offset, reader) for span in spans]
    values = {
        answer.value: answer
        for answer in readings
        if answer.value and (len(spans) == 1 or answer.reason == Reason.BARE)
    }
    if len(values) > 1:
        return Answer("", Reason.CONFLICT)
    return next(iter(values.values()), readings[0] if len(spans) == 1 else Answer("", Reason.NO_CHOICE))


def _read_value(text: str, start: int, end: int, offset: int, reader: Callable[[Seen], Reading]) -> Answer:
    """Reads a value of JSON: its text, else true and false as yes and no."""
    answer = _read_words(text[start:end], offset + start, reader)
    yes_or_no = _BOOLEANS.get(text[start:end].lower())
    if answer.value or not yes_or_no:
        return answer
    answer = _read_words(yes_or_no, 0, reader)
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
    # A base model may go on with a new question, which does not count after a stated answer.
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
        options: The options' texts, in the order of the labels; may be empty.
        forms: All ways to write the labels; by default in any case.
        cut: Whether the output limit ended the answer.
    """
    forms = forms or forms_of(labels)
    bare = _BARE.fullmatch(text) if len(text) <= _LONGEST_BARE else None
    if bare and bare[1] in forms.meanings:
        return Answer(forms.meanings[bare[1]], Reason.BARE, bare.span(1))
    option_names = options_of(labels, tuple(options))
    if cut:
        cut_option = _begun(text, forms, option_names.pairs, labels[0])
        if cut_option:
            return cut_option
    shy = labels[0].isdigit()

    def named_in(folded: str) -> list[Mention]:
        by_text = option_names.find(folded)
        by_label = list(mentions.labels(folded, forms, shy=shy))
        return (
            mentions.without_overlap(mentions.without_own(folded, by_label, by_text), by_text) if by_text else by_label
        )

    def fallback(seen: Seen, judged: list[Occurrence]) -> Reading | None:
        return single_mention.read(seen, judged, labels, option_names)

    def reader(seen: Seen) -> Reading:
        folded = seen.text
        single_word = closing.repeated(folded)
        if single_word in forms.meanings:
            return Reading(forms.meanings[single_word], Reason.BARE, (0, len(single_word)))
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
        named = named_in(folded)
        reading = read(seen, named, labels, fallback)
        if (
            not reading.value
            and options
            and (reading.reason == Reason.NO_CHOICE or all(mention.plain for mention in named))
        ):
            # The distinctive part of an option counts if it is called the answer, or if a sentence names nothing else.
            parts = option_names.find_parts(folded)
            by_part = read(seen, parts, labels, fallback) if parts else reading
            short = len({part.value for part in parts}) == 1 and parts[0].end <= _SENTENCE
            short = short and "\n" not in folded[: parts[0].end]
            if by_part.value and (short or by_part.reason in (Reason.BOXED, Reason.STATED)):
                reading = by_part
        if not reading.value and reading.reason in (Reason.CONFLICT, Reason.NO_CHOICE) and options:
            reading = _by_count(seen, option_names.form.numbers, named) or reading
        if not reading.value and reading.reason in (Reason.CONFLICT, Reason.NO_CHOICE):
            return (
                verdicts.read(folded, labels)
                or closing.by_last_sentence(seen, named, named_in, labels, fallback)
                or reading
            )
        return reading

    return read_answer(text, reader, cut=cut)


def _begun(text: str, forms: Forms, options: Sequence[tuple[str, str]], first: str) -> Answer | None:
    """Reads an option that the output limit cut after its label: "B. The man is rid"."""
    match = _LABELLED.match(text)
    value = forms.meanings.get(match[1], "") if match else ""
    rest = fold(text[match.end() :]) if match else ""
    matches_option = any(
        label == value and without_article(rest) and name.startswith(without_article(rest)) for name, label in options
    )
    # A list begins with the first label; a text that begins with a later one, and names no other, answers.
    later = value not in ("", first) and not any(forms.meanings[form["label"]] != value for form in forms.find(rest))
    return Answer(value, Reason.BARE, match.span(1)) if match and (matches_option or later) else None


def _by_word(labels: tuple[str, ...], word: str, shy: bool) -> str:
    """Returns the label of a number word or an ordinal: "three", "the third one"; "" if there is none."""
    if shy and str(value_of(word)) in labels:
        return str(value_of(word))
    return by_ordinal(labels).get(word.removeprefix("the ").removesuffix(" one"), "")


def _by_count(seen: Seen, numbers: Mapping[str, str], named: list[Mention]) -> Reading | None:
    """Reads the option whose number a text states as a count, unless the text names another option by its label."""
    counted = read_count(seen) if numbers else None
    if counted is None or counted.value not in numbers:
        return None
    alone = counted.reason == Reason.BARE and seen.text[slice(*counted.span)] == seen.text.strip(" .!\n")
    if not alone and counted.reason not in (Reason.STATED, Reason.ONLY_NUMBER):
        return None
    label = numbers[counted.value]
    other = any(mention.kind == LABEL and not mention.plain and mention.value != label for mention in named)
    return None if other else counted._replace(value=label)
