# ruff: noqa: E501 - the alternatives of a pattern are easier to check on one line than on ten
"""The words by which people state, reject and doubt an answer, as patterns.

A `lead` pattern is searched in the words of the sentence before something named, and ends
there; a `tail` pattern is matched at the words after it. Text is folded (see fold). Every
repetition is bounded, so that no input makes them slow.
"""

from __future__ import annotations

import re

from scorer.reading import tongues
from scorer.reading.screen import WORD, Seen

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
    + f"{tongues.LIKELY}|{tongues.NUMBER}"
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

BOXED = re.compile(rf"(?:boxed:|</?(?:answer|final_answer|ans|conclusion)>){_OPENING}$", _I)
"""lead: LaTeX boxes and their like."""

CHOOSE = re.compile(
    r"(?:\b(?:choos(?:e|ing)|chosen?|pick(?:ed|ing)?|select(?:ed|ing)?|(?:go|going|went|gone|stick|sticking|stay|staying) (?:for|with)|stand(?:ing)? by|(?:completed|filled(?: in)?|solved|replaced|substituted) (?:by|with)|"
    r"opt(?:ing|ed)? for|vot(?:e|ing) for|settl(?:e|ed|ing) (?:on|for)|lean(?:ing|s)? (?:more )?(?:toward|towards|to)|prefer|have to (?:go with|say|choose|pick)|arriv(?:e|es|ed|ing) at|end(?:ed|ing)? up with|(?:come|came) (?:to|up with)|"
    r"conclud(?:e|ed|ing)(?: that)?(?: with)?|say|guess(?:ing)?|bet(?:ting)?(?: on)?|answer(?:ing)?|decid(?:e|ed|ing) on|submit|"
    r"i(?:'d| would)? (?:think|believe|suspect|suppose|reckon|suggest|propose|assume)|money(?:'s| is) on|gotta be|got to be|"
    rf"elijo|escojo|selecciono|elegir[íi]a|escolho|escolheria|je choisis|je choisirais|ich w[äa]hle|scelgo|{tongues.SAY}|выбираю|(?:думаю|считаю|полагаю),? что(?: это)?|selecteer)\b|选择?|選擇?|认为是?|觉得是?)"
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
    + tongues.ASKS
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
    rf"{tongues.LEFT}|es|c'est|é|è|das ist|por lo tanto|por tanto|donc|also ist es|daher|portanto|logo|quindi|поэтому|значит|следовательно|dunque|somit|folglich)(?![{WORD}])"
    r"|∴|^\s*=>?|所以|因此|故|综上|就是|したがって|よって|따라서)"
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

MARKED = re.compile(r"(?:✓|[-:(,]\s*(?:correct|yes|true)\b|\A[).:\s-]{0,4}\w[^.;!?\n]{2,160}\. correct\b)[.!)\s]*$", _I)
CROSSED = re.compile(r"(?:✗|[-:(,]\s*(?:wrong|incorrect|no|false)\b)[.!)\s]*$", _I)
"""The end of a line that begins with a label: a verdict on it."""

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

AMONG = re.compile(
    r"\W*(?:of|among|amongst|out of) (?:[\w-]+ ){0,4}(?:choices?|options?|candidates?|answers|images|figures|panels)(?: [\d-]+)?,\s*(?:only\s+)?$",
    _I,
)
"""lead: sets out that one of the choices is picked."""

ALSO = re.compile(
    r"\s+(?:is|are|was|seems?|could be|might be|may be|would be|looks?|can be)\s+(?:also|equally|just as|as|another|still|likewise)\b[^.;!?\n]{0,20}?\b(?:possible|possibility|plausible|correct|right|likely|valid|good|answer|option|candidate)"
    r"|\s+(?:also|too)\s+(?:works?|fits?|seems?|looks?|could|is|matches)|\s+(?:works?|fits?|matches|is (?:correct|right|possible)),? (?:too|as well|also)\b|\s+(?:is|seems|remains) (?:possible|plausible|a possibility)\b|"
    + tongues.ALSO,
    _I,
)
"""tail: says that there is another answer."""

_ANOTHER = (
    r"(?:\b(?:another|an alternative|a second|one more)(?: \w+){0,2} (?:answer|option|choice|possibility|candidate|solution) (?:is|was|(?:would|could|might|may) be)\b|"
    + tongues.ALSO_BEFORE
    + ")"
)
ANOTHER = re.compile(_ANOTHER, _I)
ANOTHER_IS = re.compile(rf"{_ANOTHER}(?:\s*(?:the|option|choice)\b)*{_OPENING}$", _I)
"""Anywhere, and a lead: what follows is an answer beside the one that is stated."""

YES = re.compile(
    r"[\s)\]\"'|]*(?:[?:=→-]+\s*)?(?:✓|(?<=[?:=|→-] )\(?(?:yes|true|correct|right)\b(?=\s*(?:[.,;!)|]|$|✓)))|\s*[(\[](?:yes|true|correct)[)\]]|[).:\s]{1,3}(?:对|正确|符合)(?=[\s,.;]|$)",
    _I,
)
NO = re.compile(
    r"[\s)\]\"'|]*(?:[?:=→-]+\s*)?(?:✗|(?<=[?:=|→-] )\(?(?:no|nope|false|incorrect|wrong|not \w+)\b(?=\s*(?:[.,;!)|]|$|✗)))|[).:\s]{1,3}(?:不对|错误?|不正确|不符合)(?=[\s,.;]|$)",
    _I,
)
"""Behind a label: a verdict as in a table."""

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
    rf"(?:(?<![{WORD}])(?:not|not (?:chosen|selected|picked|suitable|valid)|least (?:likely|plausible|probable|suitable)|never|neither|nor|no longer|cannot be|can't be|less (?:like|of|likely(?: to be)?)|rather than|instead of|(?<!none )(?<!nothing )(?<!anything )other than|(?<!other )than|except(?: for)?|"
    r"exclud(?:e|es|ed|ing)|eliminat(?:e|es|ed|ing)|rul(?:e|es|ed|ing) out|unlike|reject(?:s|ed|ing)?|discard(?:s|ed|ing)?|cross(?:ed|ing)? out|dismiss(?:ed|es|ing)?|"
    r"besides|anything but|avoid|against|versus|vs\.?|(?:in)?correctly chose|(?:wrong|incorrect|false|invalid)(?: \w+)?(?: is| are|:)|apart from|"
    rf"no|kein|keine|nicht|pas|non|n'est pas|não|не|{tongues.NOT}|ليس(?:ت)?)|n't|(?:不是|而非|不要|别|別)选?|(?<!不得)不(?!得不|仅|只)[^,.;:\n不]{{0,3}}(?:选择?|選擇?)|并非|排除)"
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
    + tongues.GOVERNS,
    _I,
)
"""Before a lead: "I don't think the answer is"."""

HYPOTHETICAL = re.compile(
    rf"(?<![{WORD}])(?:if|suppose|supposing|assum(?:e|ing|ed)|(?:might|may|could|would|will|can) (?:think|say|argue|assume|guess|choose|pick|select|believe|expect|be tempted)|"
    r"(?:one|someone|somebody|you|they|an? (?:\w+ )?(?:person|reader|solver|student)) (?:might|may|could|would|can) (?:\w+ )?(?:answer|go|opt|conclude|decide|settle|vote)|"
    r"some(?:one)? (?:people |might |may |would |could )|(?:people|many)(?: (?:often|usually|sometimes|also|people|of us|mistakenly))? (?:may|might|would|could|will|think|say|choose|pick|select|assume|believe|guess|argue|go|answer|tend)|others(?! than)|other (?:people|models|answers)|models say|tempt(?:ing|ed)|trap|mistake(?:nly)?|at first|initially|originally|first (?:glance|thought|guess|instinct|impression)|"
    r"thought|unless|whether|wonder|let'?s|let (?:me|us)|were|had been|would have(?! to)|as if|assumption|hypothesis|candidates?|previously|earlier (?:i|we)|example|e\.g\.?|"
    rf"user|prompt|such as|instead of (?:saying|choosing)|format|imagine|maybe not|in case|should (?:i|we)|used to be|pretend(?:s|ing|ed)?|(?:trying|tries|supposed) to (?:be|look|seem|appear)|ob|wenn|falls|hvis|{tongues.SUPPOSES})"
    rf"(?![{WORD}])|如果|假如|假设|もし|만약|{tongues.SUPPOSES_HAN}",
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
    + tongues.YET
    + r")\b|但是?|所以|因此|因为",
    _I,
)
"""Begins a clause, as , ; and → do."""
# Begins with a set of characters: only where one of them stands is anything tried.
SENTENCE_END = re.compile(
    r"[.!?;\n](?:(?<=\.)(?<!\.\.)(?<!\.[a-z]\.)[\"')\]]*(?=\s|$)|(?<=[!?])[!?]*[\"')\]]*(?=\s|$)|(?<=[;\n])|(?<=[^\x00-\u2e7f].))"
)

_SURELY = r"(?:(?:clearly|definitely|most likely|likely|probably|therefore|thus|indeed|obviously|also|still|in fact|actually|then|certainly|really|now|surely|the|my|our|an?|only|most|more|single|one|overall|by far|of these|of course|simply|just|here)\s+){0,4}"
RIGHT = re.compile(
    r"(?:\s+from the (?:left|right|top|bottom|end))?[\s,:;)\]\"'-]*(?:(?:(?:would|must|should|will|could|may|might|can|has to|have to|seems?|appears?|looks?|sounds?|does|is|was|it|which|that|this|the)\s+){0,3}(?:to\s+)?(?:be\s+)?|'s\s+)?"
    + _SURELY
    + r"(?:(?:correct|better|closer|closest|right(?! of| side| hand| next|-| half| angle| corner| above| below| end)|best|(?:true|valid|accurate)(?! (?:of|for) )|appropriate|suitable|logical|proper|matching|plausible|consistent|reasonable|likely|fitting)"
    r"(?:\s+(?:answer|choice|option|one|fit|match|candidate|response|solution|conclusion|completion|pick|selection|figure|shape|panel|piece|image|here|overall))?|(?:answer|solution|winner|choice|pick|guess|(?:must|has to|should) be it|is it|it|odd one out|missing (?:piece|panel|figure|one|shape|image|part)))"
    r"(?:\s+(?:to|for) (?:the|this) (?:question|puzzle|problem|sequence|pattern|missing \w+))?"
    r"(?=\s*(?:[.,:;!)\]\"'✓-]|\n|$|because|since|as\b|given|here|among|of (?:the|these|all)|that|which|and (?:the|all|not)|based|due|while|where|in (?:this|my)|for (?:the|this|these)|to (?:complete|fill)|from|with|considering|to me|imo))"
    r"|[\s,:;)\]|-]*✓|\s*\|\s*(?:yes|correct)\b|\s+it is(?=[.!\s]*$)|\s+holds(?: true)?(?=[.!\s]*$)"
    r"|[)\]\"'\s]*(?:选项|選項|项|項)?\s*(?:是|为|才是|最)*\s*(?:正确|正確|对的|正解|最合适|最佳|最符合|符合题意)|[)\]\"'\s]*(?:が|は)?(?:正解|正しい|です|となります|になります|だと思|(?:最も|一番)?(?:適切|最適|ふさわしい|当てはまり)(?!では|じゃ|とは|でな))|[)\]\"'\s]*(?:번|가|이)?\s*(?:입니다|이다|정답|맞)"
    r"|\s+(?:es|est|ist|é|è|está|scheint) (?:la |le |die |der |das |a |o )?(?:respuesta |réponse |bonne |resposta |opção |opción |risposta |antwort )?(?:correct\w*|richtig\w*|korrekt\w*|bonne|juste|corret\w*|certa)"
    r"|" + tongues.FITS + r"|\s+is (?:de|het) juiste\b|\s*-?\s*(?:правильный|верный|верно|правильно|सही)",
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
IF_FIRST, WERE = re.compile(r"\W*(?:and |but |or |so )?if\b", _I), re.compile(r"\s+(?:would|could|might)\b", _I)
"""lead and tail of a condition and what would follow from it."""

WRONG = re.compile(
    r"\s*[(\[](?:incorrect|wrong|false|no|not correct)\b|[\s:)\]\"'|-]*(?:(?:is|are|was|were|does|do|did|can|could|seems?|appears?|looks?|would|should|has|have|had|must|might|may|which|all|both|also|clearly|therefore|definitely|obviously|likely|probably|simply|just|then|thus|be|to|get|gets|the)\s+){0,4}"
    r"(?:not\b|n't\b|never|cannot\b|can't\b|isn't|aren't|wasn't|doesn't|don't|didn't|won't|wouldn't|couldn't|wrong|incorrect|false|out\b|eliminated|excluded|ruled|rejected|discarded|inconsistent|invalid|impossible|unlikely|implausible|fails?\b|too\b|no\b(?!\.)|✗|breaks?|violates?|lacks?|misses|differs?\b|irrelevant|off\b(?=[.,;!]|\s*$|\s+by\b)|less\b)"
    r"|\s*(?:选项|選項|项|項)?\s*(?:都|均|全|皆)?(?:是(?!不是)(?=[不错錯]))?(?:不|错|錯|排除|并非|非)|(?:では(?:ない|ありません|なく)|じゃない|が間違|は違|は不正解)|(?:은|는|이|가)?\s*(?:아니|아닙|틀)|\s+(?:no es|n'est|non è|não é|ist nicht|ist falsch|es incorrect|не |değil)|"
    + tongues.WRONG,
    _I,
)
"""tail: "is wrong", "can be ruled out"."""

LIKEWISE = re.compile(r"\b(?:and|but|,|as) so (?:is|are|was|were|does|do|did)\s*[\"'(]*$", _I)
"""lead: what was said of another holds of this one."""

CONTRAST = re.compile(r"\b(?:but|however|yet|still|though|nevertheless|nonetheless)\b", _I)
"""Between another possibility and the answer: the possibility is passed over."""

ORIGIN, GOAL = re.compile(r"\bfrom (?:the )?$", _I), re.compile(r"\s+(?:side )?to\b", _I)
"""lead and tail of what a movement starts from."""

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
HAD = re.compile(r"\W*(?:and |but |or |so )?(?:had|were) (?:the|it|this|that|there|they|we|all|an?)\b", _I)
"""lead: a condition without "if"."""
ASKED = re.compile(tongues.ASKED)

IF = re.compile(
    r"[^.;!?\n]{0,40}\b(?:if(?! i (?:had|have|must|were|need)(?: to)? (?:choose|guess|pick|select|answer|say)\b)|unless|only when|were (?:it|they|the|this|that|there|he|she|we|you))\b",
    _I,
)
"""tail: makes what stands before it conditional."""

VARIABLE = re.compile(r"\s*(?:=(?! ?[>✓✗])|[+<>≈≥≤≠] ?[\dA-Za-z(])")
"""tail: the letter before it is reckoned with: "so A = 3"."""
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
TAILS = (
    ALSO,
    AT_FIRST,
    CLOSES,
    DISOWNED,
    FITS,
    GOAL,
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
