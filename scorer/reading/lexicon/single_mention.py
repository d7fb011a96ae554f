# ruff: noqa: E501 - the alternatives of a pattern are easier to check on one line than on ten
"""The words of answers that name one thing and state nothing."""

from __future__ import annotations

import re

_I = re.IGNORECASE

DEPICTED = re.compile(
    r"\b(?:with|wearing|shows?|showing|says?|saying|reads?|reading|bears?|bearing|has|have|having|contains?|see|write|written|spells?|print\w*)"
    r" (?:(?:the|a|an|big|large|capital|red|white|black) ){0,3}(?:letter|word|number)s? [\"'(]*$|\b(?:grade|score|rating|confidence|difficulty|level|quality)(?: is)?\s?[:=-]?\s?[\"'(]*$",
    _I,
)
"""Before a label: a letter that is seen, or a mark that is given, not one that is chosen."""
CUT_OFF = re.compile(
    r"\b(?:is|are|was|were|the|an?|of|and|to|in|on|with|that|which|has|have|its|but|or|for|as|by|from|at|than|because|since|while|not|known|very)\s*$",
    _I,
)
"""The text ends in the middle of a sentence."""
ANNOUNCES = re.compile(
    r"[.!?\n]\s*(?:(?:so|therefore|thus|hence|then),? )?(?:(?:the|my)(?: (?:correct|final|right|best))? (?:answer|option|choice|letter)(?: (?:letter|choice|option))?(?: (?:is|was|would be))?:?|the|this|in|as|it is)\s*$",
    _I,
)
"""The sentence in which the text ends adds nothing but that an answer comes: "The dog is on the left. So the answer is"."""
TOLD = re.compile(
    r"(?=\W*\w)(?:[ -]hand)?(?: (?:side|part|half|edge|end))?(?: (?:of|from))?(?: (?:the|an?|his|her|its|their))?\s*|,? as (?:is )?(?:\w+ )?(?:by|from|in|on)(?: (?:the|an?|its))?\s*",
    _I,
)
"""The text ends when an option has been named, and says what it lies beside or by what it is known: "is on the left side of the"."""
SAYS = re.compile(r"\b(?:is|are|was|were|lies|sits|stands|appears?|seems?)\b|'s\b", _I)
OF_SUBJECT = re.compile(
    r"\W*(?:the|an?)(?: [a-z]+){1,4} (?:in|with|wearing|near|behind|beside|by|next to|holding|carrying)(?: (?:the|an?|his|her|its))? $",
    _I,
)
BEHIND_SUBJECT = re.compile(
    r" [a-z]+(?<!s) (?:is|was|stands|sits|holds|walks|looks|has|holding|standing|sitting|walking|looking)\b", _I
)
"""lead and tail: only tells which one is meant of whom more is said: "The man in the red jacket is holding a phone"."""
GENERIC = re.compile(
    r" [a-z]{2,}s (?:are|have|tend|come|look|would|can|often|usually|typically|normally|generally)\b", _I
)
"""tail of what begins a sentence behind another: it tells of all such things: "Kevlar gloves are yellow"."""
SINCE = re.compile(r"\W*(?:since|because|given that|seeing that)\b[^,.;:!?\n]{0,80}$", _I)
THEN = re.compile(r"[^,.;:!?\n]{0,80},\s+(?!and\b|or\b|which\b|while\b|but\b)[a-z]", _I)
"""lead and tail: the reason is given first."""
IDENTIFIED = re.compile(
    r"\s+(?:(?:clearly |correctly |exactly )?(?:shows?|has|is|matches|represents?|depicts?|displays?|contains?|gives|folds? (?:up )?(?:in)?to|forms?|keeps?)) (?:the (?!wrong|incorrect|given|original|first|second|third|starting|initial|question|reference|main|example|figure|image|picture|shape)|exactly )[^.;:!?,\n]{3,80}[.!]? *(?:\n|$)",
    _I,
)
"""tail of a whole answer: what the one choice that is named is."""
CONCLUDES = re.compile(
    r"\W*(?:(?:in|to) )?(?:conclusion|conclude|summary|short|overall|therefore|thus|hence|result|final\w*)\b", _I
)
"""The beginning of a line that ends a plan."""
SUBJECT_ONLY = re.compile(
    r"(?:the )?(?:(?:figure|net|shape|image|picture|piece|panel|pattern|one|object) (?:in|of) )?[\s\"'(]*", _I
)
"""All that stands before the label of such an answer."""
NOUN_FOLLOWS = re.compile(
    r" (?!(?:is|are|was|were|has|have|and|or|but|with|in|on|at|of|to|which|that|because|since|while)\b)[a-z]{3,}", _I
)
SHOWS = re.compile(
    r"\s+(?:shows?|has|contains?|displays?|depicts?|features|includes|is|uses|presents)\s+(?:the |an? |exactly )*(?P<what>[^.;:!?,\n]{2,100})[.!]? *(?:\n|$)",
    _I,
)
"""tail of the last sentence: what is seen in one of the choices."""
NEEDED = re.compile(
    r"\b(?:needs?|needed|must|should|would|next|missing|expect(?:ed)?|so|therefore|thus|hence|requires?|required|looking for|has to|have to)\b",
    _I,
)
"""A sentence that says what is asked for."""
