# ruff: noqa: E501 - the alternatives of a pattern are easier to check on one line than on ten
"""What a whole answer says of itself: that it has no answer, that it takes one back, that it only sets out."""

from __future__ import annotations

import re

from scorer.reading.lexicon import after, before
from scorer.reading.prefilter import Screen, Seen

_I = re.IGNORECASE

ABSTAIN = re.compile(
    r"\b(?:none of (?:the|these|them|those)\b(?: \w+){0,3}|all of the above|n/a\b"
    r"|(?:can(?:no|')t|can not|could(?: not|n't)|unable to|not able to|not possible to|impossible to|hard to|difficult to|no way to|isn't possible to|am not sure how to)(?: be)? (?:\w+ )?(?:determin\w*|tell|say(?! which)|answer|decide|identify|conclude|know|infer|judge|deduce|discern|verify|choose|pick|select|make out|see|confirm|ascertain|establish|figure|solve|give|provide)\b"
    r"|(?:not|n't) (?:have |provide |contain |give |include )?(?:\w+ )?(?:enough|sufficient) (?:\w+ )?(?:information|info|context|data|detail|evidence|clues?)|insufficient|not enough"
    r"|(?:do not|don't|didn't) (?:really )?know\b|no idea|not sure\b|unsure|unclear|not clear|undetermined|indeterminate|unknown|no (?:correct|right|valid|clear|suitable) (?:answer|option|choice)"
    r"|no (?:answer|option|choice)\b|no se puede|non è possibile|impossible de|nicht (?:möglich|bestimm|erkennbar|sicher)|weiß (?:es )?nicht|no lo s[ée]|no s[ée]\b|je ne sais pas|não sei|não é possível|не знаю|невозможно)"
    r"|无法(?:确定|判断|回答|得出|识别|看)|無法(?:確定|判斷)|不能确定|不知道|不确定|没有(?:足够|正确)|以上都不|都不(?:对|正确)|わかりません|分かりません|判断できません|特定できません|알 수 없|모르겠|판단할 수 없",
    _I,
)
"""Anywhere: an answer without content."""

UNSURE = re.compile(r"not sure|unsure", _I)
"""Behind an answer: it is tentative, and an answer all the same."""
RESOLVES = re.compile(r"\b(?:actually|so|therefore|thus|hence|conclusion|wait|answer is|but|however)\b|所以|因此", _I)
TAKEN_BACK = re.compile(
    r"\b(?:wait,? no|no,? wait|actually,? no(?=[.,!\s]*$)|scratch that|(?:that|this)(?:'s| is| was| can'?t be| is not| isn't) (?:not )?(?:wrong|right|incorrect|correct|a mistake|an error)|(?:that|this|it)(?:'s| is| does)?(?:n't| not)(?: seem| look)? right|i (?:was|am) (?:wrong|mistaken)|(?:made|making) (?:a|an) (?:mistake|error)|on second thought|let me (?:correct|fix|reconsider|re-?think|re-?evaluate|start over|redo|try again)|i take (?:that|it) back|(?:changed|changing) my mind)\b",
    _I,
)
"""Anywhere behind a conclusion: it no longer stands."""

PLANS = re.compile(
    r"\b(?:first,|i need to|we need to|let me|let's|step \d(?! in )|to (?:determine|answer|find|solve|identify)|okay,|alright|the question (?:asks|is))",
    _I,
)
"""In a text that states nothing: it only sets out."""
RESUMED = re.compile(r"(?:^|[\s.])(?:wait|hold on|actually|hmm+|correction|oops|sorry)\b", _I)
"""Anywhere behind a conclusion: the thought goes on."""
_FINE = re.compile(r"\bnot (?:wrong|incorrect|a mistake)|(?:is|was|'s) (?:right|correct)$", _I)


NEXT = re.compile(r"\n(?:the )?(?:next )?(?:question|q|human|user|instruction)\s?\d{0,3}\s?:", _I)
"""A base model does not stop at its answer, but goes on to ask itself."""
_LIKEWISE = re.compile(r"\bso (?:is|are|was|were|does|do|did)\b", _I)

seen = Screen((ABSTAIN, NEXT, PLANS, RESOLVES, RESUMED, TAKEN_BACK, after.ALSO, before.ANOTHER, _LIKEWISE))
"""Tells of a folded text what may be found anywhere in it."""
_SECOND = seen.bits(after.ALSO, before.ANOTHER, _LIKEWISE)


def takes_back(text: Seen, start: int) -> bool:
    """Returns whether anything from `start` on withdraws what was said before."""
    return text.may(TAKEN_BACK) and any(not _FINE.search(match[0]) for match in TAKEN_BACK.finditer(text.text, start))


def also_possible(text: Seen) -> bool:
    """Returns whether a text may name a second answer beside the one that it states."""
    return bool(text.found & _SECOND)
