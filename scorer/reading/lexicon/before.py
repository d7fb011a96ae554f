# ruff: noqa: E501 - the alternatives of a pattern are easier to check on one line than on ten
"""The words by which people state, reject and doubt an answer, as patterns.

A `lead` pattern is searched in the words of the sentence before something named, and ends
there; a `tail` pattern (see tails) is matched at the words after it. Text is folded (see fold). Every
repetition is bounded, so that no input makes them slow.
"""

from __future__ import annotations

import re

from scorer.reading.lexicon import languages
from scorer.reading.prefilter import WORD, Seen

_I = re.IGNORECASE
_OPENING = r"[\s:=\"'()\[\]<>→#.-]*"

NOUN = (
    r"(?:answer|ans|choice|option|solution|response|pick|selection|guess|conclusion|verdict|prediction|letter(?! (?:on|in|written|printed|painted|shown)\b)|result|"
    r"(?:correct|right|best|matching|missing|next|odd|most \w+|only \w+|final|proper|suitable|appropriate)(?: \w+)? "
    r"(?:one|match|fit|candidate|figure|shape|panel|piece|image|picture|tile|alternative|out|grid|pattern|number)|"
    r"(?:one|panel|figure|shape|piece|image|picture|option|choice) (?:that|which)|"
    r"respuesta|opci[oó]n|alternativa|soluci[oó]n|r[ée]ponse|antwort|l[öo]sung|resposta|op[çc][ãa]o|risposta|opzione|"
    r"antwoord|odpowied[źz]|odpověď|svar(?:et)?|răspuns(?:ul)?|απάντηση|คำตอบ|cevap|yan[ıi]t|đáp án|câu trả lời|jawaban(?:nya)?|"
    r"ответ|вариант|відповідь|उत्तर|जवाब|الإجابة|الجواب|الاجابة|الخيار|الإجابة الصحيحة|"
    r"答案|选项|選項|正解|答え|回答|解答|正答|选择|選擇|정답|답)"
)
_IS = (
    r"(?:(?:is|was|be|are|equals|becomes|remains|being)\b|'s\b|\b(?:corresponds|points|belongs|refers|leads|comes|boils)(?: \w+)? to(?: be)?\b|"
    r"\b(?:es|ser[íi]a|est|serait|ist(?: (?:also|somit|daher|demnach|folglich))?|lautet|wäre|é|seria|è|sarebbe|jest|to|je|är|er|este|είναι|là|adalah|это|є|هي|هو)(?!["
    + WORD
    + r"])|"
    r"คือ|是|为|為|应为|應為|应该是|應該是|は|은|는|[:=→-])"
)
_FILL = (
    r"(?:\s*\b(?:the|that|most|more|very|likely|probably|clearly|definitely|certainly|simply|just|therefore|thus|then|"
    r"indeed|actually|again|also|still|obviously|surely|going to be|to be|in fact|of course|i think|i believe|i'd say|la|el|le|les|die|der|"
    r"das|a|o|lettre|réponse|respuesta|resposta|risposta|antwort|opci[oó]n|option|letra|lettera|buchstabe|literal|label(?:l?ed)?|marked|called|named|given by|shown in|one (?:in|at|from|under|shown in|given in|depicted in|labell?ed|marked|numbered)|in|number|should be|must be|would be|"
    + f"{languages.LIKELY}|{languages.NUMBER}"
    + r")(?!["
    + WORD
    + r"])\s*,?)*"
)

ANSWER = re.compile(rf"(?<![{WORD}]){NOUN}(?![A-Za-z])(?P<mid>[^.;!?\n:]{{0,90}}?){_IS}{_FILL}{_OPENING}$", _I)
"""lead: "the best answer for this puzzle is", "答案是", "Final answer:"."""

ANSWER_NOUN = re.compile(
    rf"^\s*A:\s*$|(?:^|[\s(\[\"'])(?:(?:final|correct|right|my|the|best)[ _])*(?:answer|ans|ответ|resposta|respuesta|antwort|cevap|yan[ıi]t|final(?=\s*:)|答案|उत्तर|answer[ _](?:option|choice|letter)){_OPENING}$",
    _I,
)
"""lead: "final answer" with nothing between it and what it names."""

BOXED = re.compile(
    rf"(?:boxed:|</?(?:answer|final_answer|ans|conclusion)>){_OPENING}(?:(?:option|choice|answer|figure|panel)[\s):#]*)?$",
    _I,
)
"""lead: LaTeX boxes and their like."""

CHOOSE = re.compile(
    r"(?:\b(?:choos(?:e|ing)|chosen?|pick(?:ed|ing)?|select(?:ed|ing)?|(?:go|going|went|gone|stick|sticking|stay|staying) (?:for|with)|stand(?:ing)? by|(?:completed|filled(?: in)?|solved|replaced|substituted) (?:by|with)|"
    r"opt(?:ing|ed)? for|vot(?:e|ing) for|settl(?:e|ed|ing) (?:on|for)|lean(?:ing|s)? (?:more )?(?:toward|towards|to)|prefer|have to (?:go with|say|choose|pick)|arriv(?:e|es|ed|ing) at|end(?:ed|ing)? up with|(?:come|came) (?:to|up with)|"
    r"conclud(?:e|ed|ing)(?: that)?(?: with)?|say|guess(?:ing)?|bet(?:ting)?(?: on)?|answer(?:ing)?|decid(?:e|ed|ing) on|submit|"
    r"i(?:'d| would)? (?:think|believe|suspect|suppose|reckon|suggest|propose|assume)|money(?:'s| is) on|gotta be|got to be|"
    rf"elijo|escojo|selecciono|elegir[íi]a|escolho|escolheria|je choisis|je choisirais|ich w[äa]hle|scelgo|{languages.SAY}|выбираю|(?:думаю|считаю|полагаю),? что(?: это)?|selecteer)\b|选择?|選擇?|认为是?|觉得是?)"
    rf"\s*(?:it(?:'s| is)|it would be|option|the)?{_FILL}{_OPENING}$",
    _I,
)
"""lead: "I would go with"."""

ONLY = re.compile(
    rf"(?:\b(?:none|nothing|no one|nobody)|(?:n't|not|cannot) (?:be )?anything) (?:else )?(?:other than|but|except)\s*{_OPENING}$",
    _I,
)
"""lead: "it can't be anything other than"."""

ALL_BUT = re.compile(
    rf"\b(?:everything|all(?: (?:of )?(?:the )?(?:\w+ )?(?:options|choices|answers))?|(?:every|each|any) (?:option|choice|answer)) (?:but|except(?: for)?|other than){_OPENING}$",
    _I,
)
"""lead: what is said of the others does not hold of this one."""

EXAMPLE = re.compile(r"\b(?:for example|for instance|e\.g|such as|example|in the format|of the form)\b", _I)
"""Anywhere in a lead: what follows illustrates."""

INVERTED = re.compile(
    r"\W*(?:(?:so|but|or|and|hmm|wait)\W+)?(?:is|are|was|could|can|would|should|might|does|do|did|why|what|which|how|will|who|where|"
    + languages.ASKS
    + r")\b",
    _I,
)
"""A lead that asks, rather than states with a question mark."""

_IT = r"(?<!beside )(?<!behind )(?<!near )(?<!to )(?<!of )(?<!on )(?<!in )(?<!by )(?<!with )(?<!above )(?<!below )(?<!under )(?<!around )(?<!inside )"
# "the cat beside it is black"

THEREFORE = re.compile(
    rf"(?:(?:^|[\s,(;:.])(?:so|thus|therefore|hence|consequently|ergo|finally|accordingly|leav(?:es?|ing)(?: us| me)?(?: only| just)?(?: with)?|left with|"
    rf"remaining|remains|making it|makes it|which makes|must be|has to be|have to be|should be|{_IT}(?:it'?s|it is|it must|it was)|that'?s|that is|this is|"
    r"in conclusion|to conclude|in summary|overall|most likely|more likely|likely|probably|definitely|certainly|"
    rf"{languages.LEFT}|es|c'est|é|è|das ist|por lo tanto|por tanto|donc|also ist es|daher|portanto|logo|quindi|поэтому|значит|следовательно|dunque|somit|folglich)(?![{WORD}])"
    r"|∴|^\s*=>?|所以|因此|故|综上|就是|应为|应是|最有?可能的?是|したがって|よって|따라서)"
    r"(?:[\s,:]*(?:the|it|it'?s|is|be|must be|has to be|would be|should be|we|we have|we get|i|i say|i'd say|that|this|here|only|just|clearly|definitely|to|是|选|选择|est|es|ist|é))*"
    rf"{_FILL}[\s,:]*{_OPENING}$",
    _I,
)
"""lead: "so it must be", "leaving only"."""

IDENTIFIES = re.compile(
    rf"(?:^|[\s,;])(?:so|thus|therefore|hence|consequently)\b[^.;!?\n]{{0,60}}\b(?:is|are|be)\s*(?:the |an? )?{_OPENING}$",
    _I,
)
"""lead: "so the lightest is"."""

FINALLY = re.compile(
    rf"^\W*(?:the|our|its|their)\b(?! (?:letter|word|sign|text|label) (?:on|in|written|printed|painted|shown)\b)[^.,;!?\n]{{1,50}}\b(?:is|(?:would|should|must) be)\s*{_OPENING}$",
    _I,
)
"""lead of the last sentence: "the lightest is"."""

INSTEAD = re.compile(
    rf"(?:(?:^|[\s,(;:.!?-])(?:but|actually|wait|correction|no|sorry|i mean|i meant|rather|make that|instead|on second thought|scratch that|hmm+|oops|edit|update|"
    rf"let me (?:correct|fix) (?:that|this|it|myself)|hold on|(?:change|changing|switch|switching|revise|revising|correct|correcting|update|updating)(?: \w+){{0,3}} to|nope|sino|sondern|mais|mas|aber|а|но)(?![{WORD}])|而是|应该是|其实是|实际上是|(?<=,)是|ではなく|でなく|じゃなくて|아니라)"
    r"(?:[\s,:.!-]*(?:it'?s|it is|it should be|it must be|should be|must be|is|that'?s|the answer is|i(?:'d| would)? (?:say|choose|pick|go with)|actually|no|wait|rather|instead))*"
    rf"(?:[\s,.!]*(?:there (?:are|is)|the|on|in|at|an?)(?=\s))*[\s,.!]*{_OPENING}$",
    _I,
)
"""lead: "wait, actually", "not A but"."""

LED = re.compile(
    rf"(?:→|->|\b(?:then|folds? (?:up )?into|forms?|gives|gave|yields|produces|obtain|get|gets|results? in|leads? to|turns? into|becomes?))(?:\s+(?:us|the|figure|option|shape|choice))*{_OPENING}$",
    _I,
)
"""lead: concludes, unless another thing named in the sentence is what leads there."""

WHENEVER = re.compile(r"\bif (?:you|we|one|i) (?!were|was|had|could)[a-z]+\b(?![^.;!?\n]*\bwould\b)", _I)
"""lead: a condition that can be met."""

SOLE = re.compile(
    r"(?:^|[\s,])only (?:the )?(?:(?:figure|option|shape|image|choice|panel|picture|number|(?:one|figure|net|shape|image|picture|piece|panel|pattern) in)\s?)?\s*[\"'(]*$|(?:只有|唯有|仅有|僅有)\s*\(?$",
    _I,
)
"""lead: "only"; with a verb behind it, it singles out."""

AMONG = re.compile(
    r"\W*(?:of|among|amongst|out of) (?:[\w-]+ ){0,4}(?:choices?|options?|candidates?|answers|images|figures|panels)(?: [\d-]+)?,\s*(?:only\s+)?$",
    _I,
)
"""lead: sets out that one of the choices is picked."""

_ANOTHER = (
    r"(?:\b(?:another|an alternative|a second|one more)(?: \w+){0,2} (?:answer|option|choice|possibility|candidate|solution) (?:is|was|(?:would|could|might|may) be)\b|"
    + languages.ALSO_BEFORE
    + ")"
)
ANOTHER = re.compile(_ANOTHER, _I)
ANOTHER_IS = re.compile(rf"{_ANOTHER}(?:\s*(?:the|option|choice)\b)*{_OPENING}$", _I)
"""Anywhere, and a lead: what follows is an answer beside the one that is stated."""

MAYBE = re.compile(
    rf"(?:(?<![{WORD}])(?:maybe|perhaps|possibly|corresponds to|corresponding to|which is|namely|i\.e\.,?|could be|might be|may be|can be|seems? (?:to be|like)|looks?(?: to be| like)?|appears? to be|match(?:es)?|fits?|suggests?|indicates?|means|implies|closest to|consistent with|(?:characteristic|typical|indicative) of|resembles?|shows?|(?:(?<=, )|(?<=\bis )|(?<=\bare ))(?:shown|depicted|represented|given|found) (?:in|by|as)|quizás|tal vez|peut-être|vielleicht|talvez|forse|возможно)|可能是|也许是)"
    rf"(?:\s*(?:is|it'?s|it is|that|the))*{_FILL}{_OPENING}$",
    _I,
)
"""lead: counts only while nothing firmer is said and nothing contradicts it."""

LIKENED = re.compile(
    r"\b(?:panel|figure|image|picture|shape|row|column|tile|piece) (?:\d|[A-Z])\b.{0,30}\b(?:like|resembles?|match\w*|corresponds? to|closest to)\s*\w*\s*$",
    _I,
)
"""lead: one thing in the picture is compared with another."""

NOT = re.compile(
    rf"(?:(?<![{WORD}])(?:not|not (?:chosen|selected|picked|suitable|valid)|least (?:likely|plausible|probable|suitable)|(?:it'?s|is|was|are) anything (?:other than|except)|never|neither|nor|no longer|cannot be|can't be|less (?:like|of|likely(?: to be)?)|rather than|instead of|(?<!none )(?<!nothing )(?<!anything )other than|(?<!other )than|except(?: for)?|"
    r"exclud(?:e|es|ed|ing)|eliminat(?:e|es|ed|ing)|rul(?:e|es|ed|ing) out|unlike|reject(?:s|ed|ing)?|discard(?:s|ed|ing)?|cross(?:ed|ing)? out|dismiss(?:ed|es|ing)?|"
    r"besides|anything but|avoid|against|versus|vs\.?|(?:in)?correctly chose|(?:wrong|incorrect|false|invalid)(?: \w+)?(?: is| are|:)|apart from|"
    rf"no|kein|keine|nicht|pas|non|n'est pas|não|не|{languages.NOT}|ليس(?:ت)?)|n't|(?:不是|而非|不要|别|別)选?|(?<!不得)不(?!得不|仅|只)[^,.;:\n不]{{0,3}}(?:选择?|選擇?)|并非|排除)"
    rf"(?:\s*(?:it'?s|it is|be|is|the|to be|likely|necessarily|actually|simply|just|really|going to be|either|both|la|le|es|est|ist|é|è|to|in|an?))*{_OPENING}$",
    _I,
)
"""lead: "not", "rather than", "we can eliminate"."""

NEGATED = re.compile(
    rf"(?<![{WORD}])(?:not(?! only| just)|never|neither|nor|cannot|unlikely|incorrect|wrong|eliminated?|no longer|hardly|(?<!no )(?<!without a )(?<!without )doubt|disagree|no (?:evidence|sign|support)|nicht|kein|não|ne|не|pas|rejected)(?![{WORD}])|n't\b|不|ではな|아니",
    _I,
)
"""Anywhere between a lead's noun and what it names."""

GOVERNS = re.compile(
    r"(?:\b(?:not|never|cannot)|n't) (?:really |quite |actually |fully |necessarily )?(?:think|believe|agree|say|choose|pick|select|go|sure|certain|convinced|conclude|mean|know|see|clear|suggest|imply|follow|the case|suppose|support|prove)\b|(?:\bnot|n't) (?:very |really |at all )?(?:likely|true|possible|plausible|probable|correct|right) that\b|\b(?:unlikely|impossible|doubtful|false|wrong) that\b|\b(?:nothing|little|hardly anything) (?:(?:that|to|here|which|really) ){0,2}(?:suggest|indicate|support|point|show|impl)\w*|(?<!no )(?<!without a )(?<!without )\b(?:doubt|disagree)\b|\bno (?:reason|evidence|way|indication)\b|\b(?:not (?:be )?able|unable) to (?:say|tell|choose|pick|select|conclude|claim|confirm|answer|decide)\b|"
    + languages.GOVERNS,
    _I,
)
"""Before a lead: "I don't think the answer is"."""

HYPOTHETICAL = re.compile(
    rf"(?<![{WORD}])(?:if|suppose|supposing|assum(?:e|ing|ed)|(?:might|may|could|would|will|can) (?:think|say|argue|assume|guess|choose|pick|select|believe|expect|be tempted)|"
    r"(?:one|someone|somebody|you|they|an? (?:\w+ )?(?:person|reader|solver|student)) (?:might|may|could|would|can) (?:\w+ )?(?:answer|go|opt|conclude|decide|settle|vote)|"
    r"some(?:one)? (?:people |might |may |would |could )|(?:people|many)(?: (?:often|usually|sometimes|also|people|of us|mistakenly))? (?:may|might|would|could|will|think|say|choose|pick|select|assume|believe|guess|argue|go|answer|tend)|others(?! than)|other (?:people|models|answers)|models say|tempt(?:ing|ed)|trap|mistake(?:nly)?|at first|initially|originally|first (?:glance|thought|guess|instinct|impression)|"
    r"thought|unless|whether|wonder|let'?s|let (?:me|us)|were|had been|would have(?! to)|as if|assumption|hypothesis|candidates?|previously|earlier (?:i|we)|example|e\.g\.?|"
    rf"user|prompt|such as|instead of (?:saying|choosing)|format|imagine|maybe not|in case|should (?:i|we)|used to be|only (?:after|when|once)|pretend(?:s|ing|ed)?|(?:trying|tries|supposed) to (?:be|look|seem|appear)|ob|wenn|falls|hvis|{languages.SUPPOSES})"
    rf"(?![{WORD}])|如果|假如|假设|もし|만약|{languages.SUPPOSES_HAN}",
    _I,
)
"""A clause that supposes rather than states."""
BAD = re.compile(
    r"\b(?:least(?: \w+)?|worst|wrong|incorrect|false|invalid|previous|former|old|rejected|discarded|eliminated|tempting|poor)(?: \w+)? "
    r"(?:answer|option|choice|one|guess|response|solution|pick)\b|\b(?:first|second|third|fourth|another|other|every|each) (?:option|choice|answer)\b",
    _I,
)
"""Anywhere in a lead: the noun is not the one that is asked for."""
_MINE = re.compile(
    r"\bif i (?:had|have|must|were|need)(?: to)? (?:choose|guess|pick|select|answer|say)\b|\b(?:i|we)(?:'d| would| will|'ll| can| could) (?:think|say|argue|guess|choose|pick|select|believe)\b|\blet(?:'s| us| me) (?:go|choose|pick|select|say|answer|conclude|settle)\b|\bi suppose\b|\blet (?:me|us) (?:correct|fix|revise|change|amend)\b|\bi will\b",
    _I,
)

CONJUNCTION = re.compile(
    r"\s-+\s|\b(?:but|so|because|since|while|whereas|although|though|therefore|thus|hence|then|however|and so|yet|which means|meaning|mais|pero|aber|mas|но|also|donc|"
    + languages.YET
    + r")\b|但是?|所以|因此|因为",
    _I,
)
"""Begins a clause, as , ; and → do."""
# Begins with a set of characters: only where one of them stands is anything tried.
SENTENCE_END = re.compile(
    r"[.!?;\n](?:(?<=\.)(?<!\.\.)(?<!\.[a-z]\.)[\"')\]]*(?=\s|$)|(?<=[!?])[!?]*[\"')\]]*(?=\s|$)|(?<=[;\n])|(?<=[^\x00-\u2e7f].))"
)
IF_FIRST, WERE = (
    re.compile(r"\W*(?:and |but |or |so )?if\b", _I),
    re.compile(r"[)\]\"']*\s+(?:would|could|might)\b", _I),
)
"""lead and tail of a condition and what would follow from it."""

LIKEWISE = re.compile(r"\b(?:and|but|,|as) so (?:is|are|was|were|does|do|did)\s*[\"'(]*$", _I)
"""lead: what was said of another holds of this one."""

CONTRAST = re.compile(r"\b(?:but|however|yet|still|though|nevertheless|nonetheless)\b", _I)
"""Between another possibility and the answer: the possibility is passed over."""

ORIGIN, GOAL = re.compile(r"\bfrom (?:the )?$", _I), re.compile(r"\s+(?:side )?to\b", _I)
"""lead and tail of what a movement starts from."""
HAD = re.compile(
    r"\W*(?:and |but |or |so )?(?:(?:had|were) (?:the|it|this|that|there|they|we|all|an?)\b|if (?!i |you |one |we )[^,;.!?\n]{1,60}\b(?:were|was|had|did|showed|contained)\b)",
    _I,
)
"""lead: a condition that is not met, with or without "if"."""
RELATED = re.compile(r"(?<!\w)[A-Z] ?[=<>+≈≥≤≠] ?$")
"""lead: the letter behind it is reckoned with: "so A > B"."""
LABELLED = re.compile(r"\b(?:answer|ans|option|choice|letter)\b", _I)
"""Anywhere in its lead: it is a label all the same."""
MATCHES = re.compile(
    r"\b(?:match(?:es|ed|ing)?|correspond(?:s|ing) to|agrees with)(?: (?:the|its|that|this)(?: (?!not\b)\w+)? (?:value|number|shape|figure|result|count|one|length|angle|description|pattern|answer)| that)?"
    r"(?: (?:in|of|from|for|given (?:in|by)|shown (?:in|by)))?\s*[\"'(]*$",
    _I,
)
"""lead of "option B": "matching", "this matches the value in"."""

LOOKING = re.compile(
    r"\b(?:look(?:ing)?|consider(?:ing)?|check(?:ing)?|examin(?:e|ing)|analy[sz](?:e|ing)|compar(?:e|ing)|evaluat(?:e|ing)|start(?:ing)?|test(?:ing)?|try(?:ing)?|zoom|focus|explore|describ(?:e|ing)|review|verify|between|among|(?<!come )(?<!comes )(?<!came )(?<!coming )from(?! the (?:\w+(?:'s)? )?(?:perspective|viewpoint|view|point|side|front|back|top|graph|chart|image|picture|photo|figure|north|south|east|west)|[^,]*\bperspective)|what|which(?! (?:is|are|equals|means|makes|gives|corresponds|simplifies|reduces)\b)|why|how|about|asks?|asked|question|moving|turning|next(?! to\b)|on to|proceed(?:ing)?|continu(?:e|ing)|now)\b",
    _I,
)
"""lead: regards without judging."""

QUESTIONED = re.compile(
    r"\b(?:question|asked?|asks|which|who|what|where)\b[^.;!?\n]{0,100}:\s*(?:an? |the )?[\"'(]*$", _I
)
"""lead: what is asked, and behind the colon the answer."""

HAVING_LOOKED = re.compile(r"\W*(?:after|upon|having|on closer)\b[^.;!?\n]{0,60}[:,]\s*$", _I)
"""lead: the looking is done."""

JOIN = re.compile(
    r"[\"')\]]*(?:\.{1,3}(?=\s*(?:or|and)\b))?\s*(?:,\s*(?:and|or)\b|,?\s*(?:and )?then\b|[,/&|+]|\((?:and|or)\s?\)|and/or|as well as\b|and also\b|along with\b|plus\b\b|and\b|or\b|\(or\b|nor\b|vs\.?|versus\b|ni\b|né\b|nem\b|noch\b|ни\b|y\b|o\b|et\b|ou\b|oder\b|und\b|和|或者?|还是|還是|と|か|それとも|와|또는|아니면|и\b|или\b)?"
    r"\s*(?:(?:the|both|also|maybe|possibly|perhaps|even|either|probably|option|choice|letter|answer|number)s?\s+){0,2}(?:boxed:)?[\"'(\[]*",
    _I,
)
"""Between things named in one breath."""
OWN_TEXT = re.compile(
    r"[\"')\]]*\s?[.):,=|-]*\s*(?:(?:(?:which|it|that) )?(?:is|says|shows|reads|states)\s+|the |an? |[\"'(\[])*", _I
)
"""Between a label and its option's words."""
EQUATES = re.compile(r"\b(?:is|says|shows|reads|states)\b", _I)
"""In an OWN_TEXT: says what the label stands for, and no more."""
BLANK = re.compile(r"[\s\"'()\[\].,:;!?*|✓<>=→-]*")
"""Before and behind an answer that stands alone on its line."""
BEFORE = re.compile(r"(?i)(?:the )?[\s\"'()\[\].,:;!?*|✓<>=→-]*(?:\d{1,2}[.)]\s*)?[\s\"'(\[]*")
"""Before an answer that begins its line."""
FOLLOWED = re.compile(
    r"\s*(?:[(\[](?!(?:not|or|and|maybe|possibly)\b)|by (?:the )?(?:process of )?elimination\b|[.,:;)!-]+(?:\s|$)|(?:because|since|as(?! well| in )|due|given|for the|rather than|instead of|and not|over|, not|\(not)\b|\(not\b|\n|$|因为|✓|[.,:;](?=[^\x00-\u2e7f]))",
    _I,
)
"""Behind an answer that begins its line."""
NEXT_ITEM = re.compile(r"\s\(?[A-Za-z0-9][)\]](?:\s|$)")
"""Behind a label: a list of options goes on."""
SCORED = re.compile(r"[\"')\]]*\s*[:=]\s*(?:0?\.\d+|\d{1,3}(?:\.\d+)?\s?%)\s*[,;|]")
"""Behind a name: how likely it is, and the next one follows."""
LISTED = re.compile(r"[.):]? ?\(?[A-Za-z0-9][.)](?:\s|$)")
"""Behind a label: the next one follows at once."""
AT_END = re.compile(
    r"[\s\"')\].,!]*(?:(?:obviously|for sure|i think|i believe|i guess|i'd say|definitely|clearly|imo|imho|maybe|perhaps|possibly|please|probably|here|then|though|of course|certainly|no doubt|thanks|i suppose|most likely|likely|is my (?:answer|choice|pick|guess)|wins|it is|to me)[\s.,!]*)*$",
    _I,
)
"""Behind a label at the end of a sentence that judges nothing."""
PERHAPS = re.compile(r"\W*(?:maybe|perhaps|probably|possibly)(?: it'?s| it is)?(?: the| an?| option)?\s*[\"'(]*$", _I)
"""All of a lead: a question that is an answer in doubt."""
SENTENCE_STOP = re.compile(r"[.!?;](?:(?<=;)|(?<!;)[.!?]*[\"')\]]*(?=\s|$))")
"""Behind something named: its sentence ends."""
ARTICLE = re.compile(r"(?:^|\W)A [a-z]")
"""lead: perhaps a label, perhaps an article: "A becomes B"."""
STOPS = re.compile(r"[ )]*(?:[.!]+\s|[.!]*\n|[.!]*$)")
"""Behind a label that is a sentence of its own."""
SAID = re.compile(
    r"(?:[,:;.%→-]|^|\b(?:vote|get|la|le|el|die|der|réponse|respuesta|resposta|antwort|risposta|like|is|be|say|see|it|got|with|well|okay|ok|yes|sure|hmm|clearly|definitely|obviously|surely|certainly|simply|still|again|indeed|opinion|imo|imho|view|just|only|to|than|for|be option))\s*[\"'(]*$",
    _I,
)
"""lead: a plain letter behind it is a label, unlike that in "plan B"."""

_LOOKED = re.compile(
    r"\blet(?:'s| me| us) (?!(?:say|assume|suppose|imagine|pretend|try|test|consider|take|start|guess)\b)[^:.]{1,80}(?::|\.{2,3})(?=\s)",
    _I,
)
"""In a lead: what was announced is done, and its result follows: "let me check: "."""
_ODD = re.compile(
    r"\b(?:that|which|who) (?:(?:does|do|is|are|has|have|can) not|(?:does|do|is|are|has|have|ca)n't|cannot|never)\b[^,.;!?\n]{0,50}?(?= (?:is|(?:would|should|must) be)\b)",
    _I,
)


def supposes(clause: Seen) -> bool:
    """Returns whether a clause supposes rather than states."""
    return clause.may(HYPOTHETICAL) and bool(HYPOTHETICAL.search(_LOOKED.sub(" ", _MINE.sub(" ", clause.text))))


def negates(words: Seen) -> bool:
    """Returns whether a noun's sentence denies it, other than by what singles it out: "the one that does not fit"."""
    return words.may(NEGATED) and bool(NEGATED.search(_ODD.sub(" ", words.text)))


LEADS = (
    *(
        IF_FIRST,
        ALL_BUT,
        AMONG,
        ANOTHER_IS,
        ANSWER,
        ANSWER_NOUN,
        BAD,
        BOXED,
        CHOOSE,
        CONJUNCTION,
        EXAMPLE,
        FINALLY,
        GOVERNS,
        HAD,
        HYPOTHETICAL,
        IDENTIFIES,
    ),
    *(
        INSTEAD,
        INVERTED,
        LED,
        LIKENED,
        LIKEWISE,
        LOOKING,
        MATCHES,
        MAYBE,
        NEGATED,
        NOT,
        ONLY,
        ORIGIN,
        PERHAPS,
        SAID,
        SOLE,
    ),
    THEREFORE,
)
"""What is looked for in the words before something named."""
