# ruff: noqa: E501 - the alternatives of a pattern are easier to check on one line than on ten
"""The words behind something named by which people state, reject and doubt it, as patterns.

They are matched at the words of the sentence that follow (a `tail` of cues), unless they say otherwise.
"""

from __future__ import annotations

import re

from scorer.reading.lexicon import before, languages

_I = re.IGNORECASE

MARKED = re.compile(r"(?:✓|[-:(,]\s*(?:correct|yes|true)\b|\A[).:\s-]{0,4}\w[^.;!?\n]{2,160}\. correct\b)[.!)\s]*$", _I)
CROSSED = re.compile(r"(?:✗|[-:(,]\s*(?:wrong|incorrect|no|false)\b)[.!)\s]*$", _I)
"""The end of a line that begins with a label: a verdict on it."""

SOLELY = re.compile(
    r"\s+(?:is|has|have|shows?|contains?|satisf\w+|fits?|match\w*|meets?|works?|follows?|can|could|makes?|keeps?|preserves?|retains?|continues?|completes?|displays?|includes?|exhibits?|features?|possesses|folds?|forms?|gives?|produces?|yields?|maintains?|aligns?|corresponds?|belongs?)\b|\s+alone\b"
    r"|[)\s]*(?:选项|選項|项|項)?\s*(?:符合|满足|滿足|正确|正確|能够?|可以|与|與|是|匹配|一致)"
    r"|\s+is the (?:only|sole) (?:\w+ )?(?:one|option|figure|choice|shape|image|panel|picture|candidate|answer)\b",
    _I,
)
"""tail: the verb behind "only", or the singling out itself."""

SOLE_TAIL = re.compile(
    r"\s+alone (?:has|is|shows|fits|satisf|match|meets|works|contains|follows)|\s+is the (?:only|sole) (?:\w+ )?(?:one|option|figure|choice|shape|image|panel|picture|candidate|answer)\b",
    _I,
)
"""tail: singles out by itself."""

ALSO = re.compile(
    r"\s+(?:is|are|was|seems?|could be|might be|may be|would be|looks?|can be)\s+(?:also|equally|just as|as|another|still|likewise)\b[^.;!?\n]{0,20}?\b(?:possible|possibility|plausible|correct|right|likely|valid|good|answer|option|candidate)"
    r"|\s+(?:also|too)\s+(?:works?|fits?|seems?|looks?|could|is|matches)|\s+(?:works?|fits?|matches|is (?:correct|right|possible)),? (?:too|as well|also)\b|\s+(?:is|seems|remains) (?:possible|plausible|a possibility)\b|"
    + languages.ALSO,
    _I,
)
"""tail: says that there is another answer."""

YES = re.compile(
    r"[\s)\]\"'|]*(?:[?:=→-]+\s*)?(?:✓|(?<=[?:=|→-] )\(?(?:yes|true|correct|right)\b(?=\s*(?:[.,;!)|]|$|✓)))|\s*[(\[](?:yes|true|correct)[)\]]|[).:\s]{1,3}(?:对|正确|符合)(?=[\s,.;]|$)",
    _I,
)
NO = re.compile(
    r"[\s)\]\"'|]*(?:[?:=→-]+\s*)?(?:✗|(?<=[?:=|→-] )\(?(?:no|nope|false|incorrect|wrong|not \w+)\b(?=\s*(?:[.,;!)|]|$|✗)))|[).:\s]{1,3}(?:不对|错误?|不正确|不符合)(?=[\s,.;]|$)",
    _I,
)
"""Behind a label: a verdict as in a table."""

_SURELY = r"(?:(?:clearly|definitely|most likely|likely|probably|therefore|thus|indeed|obviously|also|still|in fact|actually|then|certainly|really|now|surely|the|my|our|an?|only|most|more|single|one|overall|by far|of these|of course|simply|just|here)\s+){0,4}"
RIGHT = re.compile(
    r"(?:\s+from the (?:left|right|top|bottom|end))?[\s,:;)\]\"'-]*(?:(?:(?:would|must|should|will|could|may|might|can|has to|have to|seems?|appears?|looks?|sounds?|does|is|was|it|which|that|this|the)\s+){0,3}(?:to\s+)?(?:be\s+)?|'s\s+)?"
    + _SURELY
    + r"(?:(?:correct|better|closer|closest|right(?! of| side| hand| next|-| half| angle| corner| above| below| end)|best|(?:true|valid|accurate)(?! (?:of|for) )|appropriate|suitable|logical|proper|matching|plausible|consistent|reasonable|likely|fitting)"
    r"(?:\s+(?:answer|choice|option|one|fit|match|candidate|response|solution|conclusion|completion|pick|selection|figure|shape|panel|piece|image|here|overall))?|(?:answer|solution|winner|choice|pick|guess|(?:must|has to|should) be it|is it|it(?!')|odd one out|missing (?:piece|panel|figure|one|shape|image|part)))"
    r"(?:\s+(?:to|for) (?:the|this) (?:question|puzzle|problem|sequence|pattern|missing \w+))?"
    r"(?=\s*(?:[.,:;!)\]\"'✓-]|\n|$|because|since|as\b|given|here|among|of (?:the|these|all)|that|which|and (?:the|all|not)|based|due|while|where|in (?:this|my)|for (?:the|this|these)|to (?:complete|fill)|from|with|considering|to me|imo))"
    r"|[\s,:;)\]|-]*✓|\s*\|\s*(?:yes|correct)\b|\s+it is(?=[.!\s]*$)|\s+holds(?: true)?(?=[.!\s]*$)"
    r"|[)\]\"'\s]*(?:选项|選項|项|項)?\s*(?:是|为|才是|最)*\s*(?:正确|正確|对的|正解|最合适|最佳|最符合|符合题意)|[)\]\"'\s]*(?:が|は)?(?:正解|正しい|です|となります|になります|だと思|(?:最も|一番)?(?:適切|最適|ふさわしい|当てはまり)(?!では|じゃ|とは|でな))|[)\]\"'\s]*(?:번|가|이)?\s*(?:입니다|이다|정답|맞)"
    r"|\s+(?:es|est|ist|é|è|está|scheint) (?:la |le |die |der |das |a |o )?(?:respuesta |réponse |bonne |resposta |opção |opción |risposta |antwort )?(?:correct\w*|richtig\w*|korrekt\w*|bonne|juste|corret\w*|certa)"
    r"|" + languages.FITS + r"|\s+is (?:de|het) juiste\b|\s*-?\s*(?:правильный|верный|верно|правильно|सही)",
    _I,
)
"""tail: "is the correct answer", "it is"."""

SUBJECT = re.compile(
    r"\s+(?!(?:because|since|as|due|given|for|based|over|rather|instead|and|which|here|in|from|considering|with|where|while|when|though|although|but|not|too|then|again|i|it|that|this|to|on|at|"
    r"please|definitely|obviously|clearly|probably|likely|most|final|simply|seeing|by|per|unless|despite|even|also|instead|now|after|of|the|only|if|porque|parce|car|weil|pois|perché|потому|or|yet|than)\b)[a-zà-ÿ]",
)
"""tail: a verb follows, so that what stands before it is spoken of, not chosen: "so B lies"."""

FITS = re.compile(
    r"[)\]\"']?\s+(?:(?:clearly|definitely|best|most|closely|accurately|also|seems? to|appears? to|would|perfectly|correctly|likely|does|should|must|will|is the (?:only )?(?:one|option|choice|figure|image|shape|panel) (?:that|which)|is what)\s+){0,3}"
    r"(?:fits?|fills?|replaces?|belongs|goes|completes?|continues?|matches|match|works?|satisf(?:y|ies)|follows?|makes? (?:the most )?sense|remains?|(?:(?<=best )|(?<=closely )|(?<=accurately ))(?:describes?|represents?|captures?|reflects?|answers?|explains?|illustrates?)|(?:describes?|represents?|captures?|reflects?|answers?|explains?|illustrates?|matches|fits) [^.;!?\n]{1,50} (?:the best|best|most accurately|accurately|correctly|perfectly)(?=[.!]|\s*$)|(?:shows?|has|displays?|depicts?|meets?) (?:exactly )?(?:this|that|these)\b|is (?:different|distinct) from (?:all )?(?:of )?(?:the )?(?:others?|rest)\b|is (?:much |far |slightly )?more (?:likely|plausible|probable|suitable|appropriate|consistent) than (?!nothing|none)|is the (?:only )?one (?:that|which) (?!does|is not|isn|has no|lacks|cannot|can)\w+s\b|is (?:left|the remaining (?:one|option|choice)))\b(?P<rest>[^.;!?\n]{0,80})",
    _I,
)
"""tail: "fits the pattern best"."""

CLOSES = re.compile(
    r"\s+(?:fits?|works|matches|completes|remains)(?: (?:best|perfectly|well|exactly))?(?: (?:the|this) (?:\w+ ){0,2}(?:pattern|sequence|image|picture|rule|description|question|puzzle|blank|series|matrix))?(?=[.!,;]|\s*$)",
    _I,
)
"""tail: fits, and that is all: what stands before it was concluded, not looked at."""

HALF = re.compile(
    r"\b(?:but|however|only|except|partial(?:ly)?|first|some|almost|one of|half|although|though|not|n't|to a degree|well enough|superficially|in terms of|if)\b",
    _I,
)
"""In the rest of a FITS: praise that is about to be taken back."""

MEETS = re.compile(
    r"[^.;!?\n]{0,120}, (?:thus |thereby |so |and (?:so )?)?(?:(?:which|it|this|that) (?:best |closely |exactly )?)?(?:match(?:es|ing)|follow(?:s|ing)|complet(?:es|ing)|continu(?:es|ing)|satisf(?:ies|ying)|fit(?:s|ting)|fulfil+(?:s|ing)|consistent with|as required by|in line with) (?:the|this|that|our) (?:\w+ ){0,2}(?:pattern|rule|sequence|series|description|requirements?|criteri(?:a|on)|condition|logic|progression)\b(?! (?:of|in|on) the (?:first|second|third|top|middle|bottom|other))"
    r"|[^.;!?\n]{0,80}, which is (?:exactly |just |precisely )?what (?:the (?:question|puzzle|pattern|sequence|rule)|we|is) (?:asks?|asked|needs?|needed|requires?|required|wants?|want|look(?:ing)? for|are looking for|expect)\b",
    _I,
)
"""tail: what is said of it is then said to be what is needed."""

MISMATCH = re.compile(r"\b(?:not|n't|but|however|only|except|almost|lacks?|without|too|instead|first|some|if|no)\b", _I)
"""In a MEETS: not quite."""

NOT_BELONGING = re.compile(
    r"\s+(?:does not|doesn't) belong(?: (?:here|(?:to|with|in) the (?:\w+ )?(?:group|others?|rest|set|sequence|series)))?[.!]?\s*$",
    _I,
)
"""tail: what singles out the odd one."""

WRONG = re.compile(
    r"\s*[(\[](?:incorrect|wrong|false|no|not correct)\b|[\s:)\]\"'|-]*(?:(?:is|are|was|were|does|do|did|can|could|seems?|appears?|looks?|would|should|has|have|had|must|might|may|which|all|both|also|clearly|therefore|definitely|obviously|likely|probably|simply|just|then|thus|be|to|get|gets|the)\s+){0,4}"
    r"(?:not\b|n't\b|never|cannot\b|can't\b|isn't|aren't|wasn't|doesn't|don't|didn't|won't|wouldn't|couldn't|wrong|incorrect|false|out\b|eliminated|excluded|ruled|rejected|discarded|inconsistent|invalid|impossible|unlikely|implausible|fails?\b|too\b|no\b(?!\.)|✗|breaks?|violates?|lacks?|misses|differs?\b|irrelevant|off\b(?=[.,;!]|\s*$|\s+by\b)|less\b)"
    r"|\s*(?:选项|選項|项|項)?\s*(?:都|均|全|皆)?(?:是(?!不是)(?=[不错錯]))?(?:不|错|錯|排除|并非|非)|(?:では(?:ない|ありません|なく)|じゃない|が間違|は違|は不正解)|(?:은|는|이|가)?\s*(?:아니|아닙|틀)|\s+(?:no es|n'est|non è|não é|ist nicht|ist falsch|es incorrect|не |değil)|"
    + languages.WRONG,
    _I,
)
"""tail: "is wrong", "can be ruled out"."""

DISOWNED = re.compile(
    r"[^.;:!?\n]{0,30}?,? (?:or so (?:one|it|i|you|they)\b|(?:but|though|although|yet|which) (?:i (?:don't|do not) (?:agree|think so|believe)|i disagree|i (?:strongly )?doubt|(?:the|this) \w+ (?:shows?|suggests?|says|indicates?) otherwise"
    r"|(?:that|it|this)(?:'s| is| would be) (?:a trap|a mistake|false|untrue|wrong|incorrect|misleading|not (?:so|right|true|correct|the case))))\b",
    _I,
)
"""tail: what is said to be the answer is not the speaker's."""

AT_FIRST = re.compile(
    r"[^.,;:!?\n]{0,20}\b(?:at first(?: glance| sight| look)?|initially|superficially|at a glance)\b"
    r"|[^.;!?\n]{0,40}\b(?:but|while|whereas)\b[^.;!?\n]{0,12}\b(?:from|for|in) (?:our|my|us|the (?:viewer|camera|observer|image))",
    _I,
)
"""tail: it is what it seems before one looks closer, or from elsewhere."""

DOUBTED = re.compile(
    r"[^.;!?\n]{0,24}\?[?\"')\s]*(?:hmm+|let me|let's|wait|no|nope|not|but|or|perhaps|i doubt|i'm not)\b", _I
)
"""Behind something named: it is asked for, and the thought goes on."""

ASKED = re.compile(languages.ASKED)
"""Behind something named: it is asked for."""

IF = re.compile(
    r"[^.;!?\n]{0,40}\b(?:if(?! i (?:had|have|must|were|need)(?: to)? (?:choose|guess|pick|select|answer|say)\b)|unless|only when|were (?:it|they|the|this|that|there|he|she|we|you))\b",
    _I,
)
"""tail: makes what stands before it conditional."""

VARIABLE = re.compile(r"\s*(?:=(?! ?[>✓✗])|[+<>≈≥≤≠] ?[\dA-Za-z(])")
"""tail: the letter before it is reckoned with: "so A = 3"."""

ALL = (
    ALSO,
    AT_FIRST,
    CLOSES,
    DISOWNED,
    FITS,
    before.GOAL,
    IF,
    MEETS,
    NO,
    NOT_BELONGING,
    RIGHT,
    SOLELY,
    SOLE_TAIL,
    SUBJECT,
    VARIABLE,
    WRONG,
    YES,
)
"""What is matched at the words behind it."""
