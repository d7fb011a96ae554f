"""Reads texts that name a single option without stating it as the answer: "The glove is made of cotton."."""

from __future__ import annotations

from lyncean.vocabulary.reasons import Reason
from scorer.reading import ending
from scorer.reading.context import Context
from scorer.reading.lexicon import AFTER, BEFORE, DOCUMENT, Lexicon
from scorer.reading.mentions import LABEL, TEXT, Group
from scorer.reading.occurrences import Occurrence
from scorer.reading.options import Options
from scorer.reading.partial_match import short_for, telling
from scorer.reading.prefilter import Seen
from scorer.reading.resolve import Reading, takes_back
from scorer.reading.stance import ASIDE, NAMED, REJECTED, SUPPOSED

LEXICON = Lexicon("single_mention")

_SHORT = 400
_SENTENCE = 120


def read(seen: Seen, occurrences: list[Occurrence], order: tuple[str, ...], options: Options) -> Reading | None:
    """Reads a text that states no option, from all groups of mentions."""
    text = seen.text
    reading = (
        _agreed(text, occurrences)
        or _lone_label(text, occurrences)
        or _described(text, occurrences)
        or _called(text, occurrences)
        or _singled_out(text, occurrences)
        or _numbered(text, occurrences, order)
        or _eliminated(occurrences, order)
        or _lone_text(seen, occurrences, order)
    )
    if reading:
        return reading
    denied = _values(occurrences)
    if (
        options.opposites
        and len(denied) == 1
        and len(text) <= 200
        and all(occurrence.stance == REJECTED for occurrence in occurrences)
    ):
        # "That is not true."
        return Reading(
            next(label for label in order if label not in denied), Reason.NEGATION, occurrences[0].group.span
        )
    line = text.strip().partition("\n")[0]
    label = "" if occurrences or takes_back(seen, 0) else short_for(line, options.pairs)
    return Reading(label, Reason.OPTION_TEXT, (0, len(text))) if label else None


def _values(occurrences: list[Occurrence]) -> set[str]:
    return {value for occurrence in occurrences for value in occurrence.group.values}


def _lone_label(text: str, occurrences: list[Occurrence]) -> Reading | None:
    """Reads a short sentence that ends with its only label."""
    kept = [occurrence for occurrence in occurrences if occurrence.stance not in (REJECTED, ASIDE)]
    if len(kept) != 1 or kept[0].stance != NAMED or len(kept[0].group.values) > 1:
        return None
    group, _, _, here = kept[0]
    mention, lead = group.mentions[0], here.lead
    stop = BEFORE.SENTENCE_END.search(text, group.last)
    bare = mention.last == mention.end
    cut_off = mention.value == "A" and bare and not lead.text.strip() and not text[group.last :].strip()
    if (
        mention.plain
        or group.last > 120
        or len(text) - group.last > 200
        or "\n" in text[: group.first].strip()
        or (lead.search(BEFORE.LOOKING) and not BEFORE.HAVING_LOOKED.match(lead.text))
        or lead.search(BEFORE.EXAMPLE)
        or LEXICON.QUOTED.search(lead.text)
        or LEXICON.DEPICTED.search(text, max(group.first - 60, 0), mention.start)
        or (mention.first == mention.start and bare and not lead.search(BEFORE.SAID))
        or (cut_off and text[: group.first].strip())
        or not BEFORE.AT_END.fullmatch(text[group.last : stop.start() if stop else len(text)])
    ):
        return None
    return Reading(group.values[0], Reason.LONE_LABEL, group.span)


def _agreed(text: str, occurrences: list[Occurrence]) -> Reading | None:
    """Reads a text that names one option by both label and text, and no other option."""
    kept = [occurrence.group for occurrence in occurrences if occurrence.stance not in (REJECTED, ASIDE)]
    kinds = {mention.kind for group in kept for mention in group.mentions if not mention.plain}
    values = {value for group in kept for value in group.values}
    if (
        len(values) != 1
        or len(kinds) != 2
        or len(text) > 400
        or any(occurrence.stance == SUPPOSED for occurrence in occurrences)
    ):
        return None
    if LEXICON.CUT_OFF.search(text, max(kept[-1].last, len(text) - 16)):
        return None
    return Reading(kept[-1].values[0], Reason.AGREED, kept[-1].span)


def _described(text: str, occurrences: list[Occurrence]) -> Reading | None:
    """Reads the only label that the text identifies with the required thing.

    "So 8 dots come next. C has 8 dots.", "C is the mirror image of the figure".
    """
    kept = [occurrence for occurrence in occurrences if not occurrence.group.plain]
    needed = [occurrence for occurrence in kept if occurrence.stance != REJECTED]
    if len(needed) != 1:
        return None
    group, stance, _, here = needed[0]
    if stance != NAMED or len(group.values) > 1 or group.mentions[0].kind != LABEL:
        return None
    reading = Reading(group.values[0], Reason.CONCLUDED, group.span)
    shown = LEXICON.SHOWS.match(text, group.last)
    before = [part for part in BEFORE.SENTENCE_END.split(text[: group.first].rstrip()) if part.strip()]
    if shown and before and not AFTER.MISMATCH.search(shown["what"]) and not here.lead.text.strip():
        properties = set(telling(shown["what"].lower()))
        if len(properties) > 1 and LEXICON.NEEDED.search(before[-1]) and properties <= set(telling(before[-1].lower())):
            return reading
    identity = LEXICON.IDENTIFIED.match(text, group.last) if len(kept) == 1 else None
    identified = identity and not AFTER.MISMATCH.search(identity[0])
    return reading if identified and LEXICON.SUBJECT_ONLY.fullmatch(text[: group.first]) else None


def _singled_out(text: str, occurrences: list[Occurrence]) -> Reading | None:
    """Reads a sentence that singles out a thing by noun and label: "Person 4 is the tallest"."""
    named = [occurrence for occurrence in occurrences if not text[: occurrence.group.first].strip(" (\"'*")]
    if len(_values(occurrences)) != 1 or not named or named[0].stance != NAMED:
        return None
    group = named[0].group
    mention = group.mentions[0]
    thing = mention.kind == LABEL and text[mention.first : mention.start].strip(" (\"'*")
    singled = thing and LEXICON.SINGLES_OUT.match(text, group.last)
    return Reading(group.values[0], Reason.CONCLUDED, group.span) if singled else None


def _numbered(text: str, occurrences: list[Occurrence], order: tuple[str, ...]) -> Reading | None:
    """Reads the only choice that a text of one sentence names by noun and number: "Picture 2 fits the frame"."""
    if not order[0].isdigit() or len(occurrences) != 1 or len(text) > _SENTENCE:
        return None
    group, stance, _, here = occurrences[0]
    mention = group.mentions[0]
    noun = mention.first < mention.start or " " in text[mention.start : mention.end]
    ends = BEFORE.SENTENCE_END.search(text.rstrip(" .!"))
    if stance != NAMED or not noun or ends or here.question or len(group.values) > 1:
        return None
    looks = (
        here.lead.search(BEFORE.LOOKING)
        or here.lead.search(BEFORE.LIKENED)
        or LEXICON.DENIED_ABROAD.search(text)
        or AFTER.MISMATCH.search(text)
    )
    comes = not here.lead.text.strip() or LEXICON.COMES_TO.search(here.lead.text)
    return (
        None
        if looks or not comes or not LEXICON.VERB.match(text, group.last)
        else Reading(group.values[0], Reason.CONCLUDED, group.span)
    )


def _called(text: str, occurrences: list[Occurrence]) -> Reading | None:
    """Reads a label next to a foreign word for the answer: "Somit ist C richtig".

    It must be the only label of the text, or of its last sentence if no earlier one has such a word.
    """
    kept = [occurrence for occurrence in occurrences if occurrence.stance not in (REJECTED, ASIDE)]
    last = kept[-1] if kept else None
    if not last or last.stance != NAMED or last.group.plain or len(last.group.values) > 1:
        return None
    if len(_values(kept)) > 1:
        before = kept[-2].group.last
        ends = BEFORE.SENTENCE_END.search(text, before, last.group.first)
        if not ends or LEXICON.CALLED_ABROAD.search(text[: ends.start()]) or text[last.group.last :].count("\n"):
            return None
    around = f"{last.here.clause.text} {last.here.tail.text}"
    denied = LEXICON.DENIED_ABROAD.search(around)
    called = last.group.mentions[0].kind == LABEL and LEXICON.CALLED_ABROAD.search(around)
    return Reading(last.group.values[0], Reason.CONCLUDED, last.group.span) if called and not denied else None


def _eliminated(occurrences: list[Occurrence], order: tuple[str, ...]) -> Reading | None:
    """Reads a text that rejects all labels except one, which it also names."""
    rejected = [occurrence for occurrence in occurrences if occurrence.stance == REJECTED]
    left = set(order) - _values(rejected)
    denied = {
        occurrence.group.values[0]: occurrence.group.first
        for occurrence in rejected
        if len(occurrence.group.values) == 1
    }
    # "A. red: the umbrella is not red."
    kept = [
        occurrence.group
        for occurrence in occurrences
        if occurrence.stance not in (REJECTED, SUPPOSED, ASIDE)
        and (len(occurrence.group.values) > 1 or denied.get(occurrence.group.values[0], -1) < occurrence.group.first)
    ]
    if len(order) < 3 or len(left) != 1 or not kept or any(set(group.values) != left for group in kept):
        return None
    if kept[-1].mentions[0].plain or any(occurrence.stance == SUPPOSED for occurrence in occurrences):
        return None
    return Reading(kept[-1].values[0], Reason.ELIMINATION, kept[-1].span)


def _explains(text: str, occurrence: Occurrence, last: Occurrence) -> bool:
    """Returns true if an occurrence only explains or distinguishes the last one, or is a supposition before it.

    "Since volume decreases, pressure increases", "The car by the orange van is blue".
    """
    group, stance, _, here = occurrence
    lead, first = last.here.lead.text, last.group.first
    contrast = stance == SUPPOSED and last.stance == NAMED and BEFORE.CONTRAST.search(text, group.last, first)
    subject = first - len(lead) <= group.first < first and BEFORE.FINALLY.search(lead)
    return bool(
        contrast
        or (LEXICON.SINCE.match(here.lead.text) and LEXICON.THEN.match(here.tail.text))
        or (subject and LEXICON.NOUN_FOLLOWS.match(text, group.last))
    )


def _cut_off(text: str, group: Group, here: Context, named: set[str]) -> bool:
    """Returns true if the text breaks off in a statement on an option, or before one on several."""
    if not LEXICON.CUT_OFF.search(text, max(len(text) - 16, 0)):
        return False
    if len(named) == 1 and ending.LEXICON.ANNOUNCES.search(text, group.last):
        return False
    complete = LEXICON.TOLD.fullmatch(text, group.last) and LEXICON.SAYS.search(here.clause.text)
    return not complete or bool(here.lead.match(BEFORE.INVERTED))


def _lone_text(seen: Seen, occurrences: list[Occurrence], order: tuple[str, ...]) -> Reading | None:
    """Reads a short text that names a single option by its text."""
    text = seen.text
    # "A says red, B says blue": mentions that only repeat the options do not count.
    listed = [
        occurrence.group.values == [label] and [mention.kind for mention in occurrence.group.mentions] == [LABEL, TEXT]
        for occurrence, label in zip(occurrences, order, strict=False)
    ]
    if 3 <= len(order) < len(occurrences) and all(listed):
        occurrences = occurrences[len(order) :]
    kept = [
        occurrence
        for occurrence in occurrences
        if occurrence.stance not in (REJECTED, ASIDE) and not _lists(occurrence.group)
    ]
    if len(_values(kept)) > 1 and len(text) < 3 * _SHORT:
        kept = [*(occurrence for occurrence in kept[:-1] if not _explains(text, occurrence, kept[-1])), kept[-1]]
    values = _values(kept)
    if len(values) > 1:
        return (
            Reading("", Reason.CONFLICT)
            if all(occurrence.group.mentions[0].kind == TEXT for occurrence in kept)
            else None
        )
    if len(values) != 1 or any(occurrence.stance == SUPPOSED for occurrence in kept):
        return None
    group, _, _, here = kept[-1]
    subject = LEXICON.OF_SUBJECT.fullmatch(here.lead.text) and LEXICON.BEHIND_SUBJECT.match(text, group.last)
    begins = text[: group.first].strip() and not here.lead.text.strip()
    plans = seen.may(DOCUMENT.PLANS) and DOCUMENT.PLANS.search(text[: group.last])
    if (
        group.last > _SHORT
        or len(text) - group.last > _SHORT
        or group.mentions[0].kind != TEXT
        or (" " not in text[slice(*group.span)] and LEXICON.BESIDE_THING.search(here.lead.text))
        or _cut_off(text, group, here, _values(occurrences))
        or subject
        or (begins and LEXICON.GENERIC.match(text, group.last))
        or (plans and not LEXICON.CONCLUDES.match(here.line_before))
        or (here.clause.search(BEFORE.LOOKING) and not LEXICON.SUBJECT_IS.fullmatch(here.lead.text))
    ):
        return None
    return Reading(group.values[0], Reason.OPTION_TEXT, group.span)


def _lists(group: Group) -> bool:
    """Returns true if a group repeats the options: three or more, all by label and text."""
    kinds = {(mention.kind, mention.value) for mention in group.mentions}
    return len(group.values) > 2 and all({(LABEL, value), (TEXT, value)} <= kinds for value in group.values)
