"""The text around a mention, within its sentence."""

from __future__ import annotations

from typing import NamedTuple

from scorer.reading.lexicon import AFTER, ASIDES, BEFORE
from scorer.reading.mentions import Group
from scorer.reading.prefilter import Prefilter, Seen

LEAD, TAIL = 160, 200
"""Most code points before and after a mention that are searched."""

LEADS = Prefilter(lambda: (*BEFORE.marked("lead"), *ASIDES.marked("lead")))
TAILS = Prefilter(lambda: (*BEFORE.marked("tail"), *AFTER.marked("tail"), *ASIDES.marked("tail")), anchored=True)


_THAT = (" dass ", " daß ", " что ", " że ")
_THOUGHT = ("dachte ich", "glaubte ich", "meinte ich", "dachte man")
"""Text after and before a comma that separates a verb of thinking from its object, and does not begin a clause."""


class Context(NamedTuple):
    """The text around a group within its sentence."""

    lead: Seen
    clause: Seen
    tail: Seen
    line_before: str
    line_after: Seen
    question: bool

    @property
    def alone(self) -> bool:
        """True if the group shares its line with nothing but signs."""
        return bool(BEFORE.LINE_START.fullmatch(self.line_before) and BEFORE.BLANK.fullmatch(self.line_after.text))


def context(text: str, group: Group) -> Context:
    """Returns the text around a group within its sentence."""
    low = max(group.first - LEAD, 0)
    before = text[low : group.first]
    newline = before.rfind("\n")
    line_before = before[newline + 1 :]
    lead = sentence(line_before)
    if newline >= 0 and not line_before.strip(" \"'(["):
        lead = sentence(before[:newline].rpartition("\n")[2].rstrip()) + " "
        if not lead.rstrip().endswith((":", "is", "=")) and not BEFORE.ANSWER_NOUN.search(lead):
            lead = ""
    after = text[group.last : group.last + TAIL]
    line_after = after.split("\n", 1)[0]
    stop = BEFORE.SENTENCE_STOP.search(line_after)
    question = bool(stop and "?" in stop[0])
    ahead, following = LEADS(lead), TAILS(line_after)
    tail = following.piece(line_after[: stop.start()]) if stop else following
    start = _clause(ahead)
    clause = ahead.piece(lead[start:].lstrip(",; ")) if start >= 0 else ahead
    return Context(ahead, clause, tail, line_before, following, question)


def _clause(lead: Seen) -> int:
    """Returns the start of the last clause of a lead; -1 if it is the only one."""
    comma = lead.text.rfind(",")
    if comma > 0 and (lead.text.startswith(_THAT, comma + 1) or lead.text.endswith(_THOUGHT, 0, comma)):
        comma = lead.text.rfind(",", 0, comma)
    start = max(comma, lead.text.rfind(";"), lead.text.rfind("→"))
    if lead.may(BEFORE.CONJUNCTION):
        for match in BEFORE.CONJUNCTION.finditer(lead.text, start + 1):
            start = match.start()
    return start


def sentence(line: str, limit: int | None = None) -> str:
    """Returns the last sentence of a line that begins at or before `limit`."""
    start = 0
    for match in BEFORE.SENTENCE_END.finditer(line):
        if limit is None or match.end() <= limit:
            start = match.end()
    return line[start:]
