# ruff: noqa: E501 - the alternatives of a pattern are easier to check on one line than on ten
"""The words by which something is named that is not the answer: of other things, of bounds, of appearances."""

from __future__ import annotations

import re

_I = re.IGNORECASE
_OPENING = r"[\s\"'(\[]*"

OTHERS = re.compile(
    r"\b(?:the|all|its|their) (?:others?|rest|remaining|other [a-z]{2,20}|remaining [a-z]{2,20})\b"
    rf"[^.,;:!?\n]{{0,30}}\b(?:is|are|was|were|has|have|shows?|looks?|seems?)\b[^.;:!?\n]{{0,40}}?{_OPENING}$",
    _I,
)
"""lead: "while the others are"."""

BOUND = re.compile(
    r"\b(?:at (?:least|most)|(?:more|less|fewer|greater|smaller|larger|higher|lower) than|no (?:more|fewer|less) than|up to|over|under"
    r"|exceeds?|almost|nearly|between|from|(?:above|below)(?= \d)|(?:one|a) or|(?:\d|one|two|three|four|five) (?:out )?of(?: the)?|(?:neither|none|any|some|most|either|each) of(?: the)?)\s*(?:\d+(?:\.\d+)? (?:and|to) )?$",
    _I,
)
"""lead: a number behind it is a bound, not an amount."""

CONCEDES = re.compile(rf"(?:^|[\s,])(?:while|although|though|even if|whereas|granted|admittedly|sure){_OPENING}$", _I)
SEEMS = re.compile(
    r"[\s)\"']*(?:seems?|appears?|looks?|sounds?|may|might|could|can|is (?:tempting|close|plausible))\b", _I
)
"""lead and tail: what it seems to be is about to be denied."""

BACKDROP = re.compile(rf"\b(?:on|against|over|with|in front of) (?:an? |the )?{_OPENING}$", _I)
GROUND = re.compile(r"\s+(?:background|backdrop|ground|canvas|surface)\b", _I)
"""lead and tail: the colour of what is behind."""
WITH = re.compile(rf"\w with (?:an? |the )?{_OPENING}$", _I)
EDGE = re.compile(r"\s+(?:outlines?|borders?|contours?|rims?|edges?|trim|collar|stripes?|lettering)\b", _I)
"""lead and tail: the colour of an edge or the like."""

WOULD = re.compile(
    r"\s+(?:[a-z]+ )?would(?:n't| not)? (?:have|be|look|appear|show|need|require|mean|feel|seem)\b"
    r"(?! (?:the |my |a |an )?(?:most |more )?(?:correct|right|best|better|answer|guess|choice|fit|match|likely|logical|appropriate|suitable))",
    _I,
)
"""tail: it is compared with what is seen."""

TOTAL = re.compile(
    r"\b(?:(?:a |the )?(?:grand )?total(?: (?:number|count))?(?: is| of|:| comes to)|in total(?:,|:| there (?:are|is))|altogether,?(?: there (?:are|is))?"
    rf"|adds? up to|sums? (?:up )?to|which makes|makes a total of|amounts? to)\s*(?:exactly |just )?{_OPENING}$",
    _I,
)
"""lead: a number behind it is what all others add up to."""

RUNNER_UP = re.compile(
    rf"\b(?:most|least|largest|smallest|[a-z]{{3,12}}est)\b[^.;:!?\n]{{1,100}},? (?:closely )?(?:followed (?:closely )?by|ahead of|compared (?:to|with)) (?:the |an? )?{_OPENING}$",
    _I,
)
"""lead: what comes after the one that is asked for."""

PARTLY = re.compile(rf"\b(?:part(?:ly|ially)|half|semi|quasi)[\s-]*{_OPENING}$", _I)
"""lead: what it is in part is not what it is."""

TRUTHS = frozenset(("true", "false", "correct", "incorrect", "right", "wrong"))
IN_PART = re.compile(r",?\s+(?:that|only|however|though|in (?:part|that)|as far as|to (?:some|an) extent)\b", _I)
"""tail of one of them: what is true is said of a part, not of what was asked: "It is true that there is a dog, but"."""
YET = re.compile(r"\b(?:but|however|though|although|yet|only)\b", _I)
"""In such a sentence: the part is not the whole."""

TICKED, STRUCK = re.compile(r"[\s(\[-]*✓[\s)\]:-]*"), re.compile(r"[\s(\[-]*✗[\s)\]:-]*")
"""All that stands before a label on its line: a verdict on it."""

LEADS = (BACKDROP, BOUND, CONCEDES, OTHERS, PARTLY, RUNNER_UP, TOTAL, WITH)
TAILS = (EDGE, GROUND, IN_PART, SEEMS, WOULD)
