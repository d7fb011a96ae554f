# ruff: noqa: E501 - the alternatives of a pattern are easier to check on one line than on ten
"""The words by which other languages doubt, deny and ask, as parts of the patterns in cues."""

from __future__ import annotations

_WORD = r"(?!(?:und|oder|aber|sondern|weil|da|denn|wenn|falls|dass|[a-h])\b)[a-zäöüß]+"

WRONG = (
    rf"\s+(?:{_WORD} ){{1,4}}?nicht\b(?! nur\b)|\s+(?:scheidet aus|entfällt|fällt (?:weg|aus))\b"
    r"|\s+(?:ne\b|n'|non\b(?! (?:solo|seulement)\b|-)|não\b|тоже не\b|также не\b|tampoco\b|neanche\b|nemmeno\b|neppure\b|nem\b|aussi est fau)"
    r"|\s+(?:is|past|klopt|kan) [^.,;!?\n]{0,30}?\bniet\b|\s*-?\s*(?:неправ|неверн|некоррект|ошибоч)"
    r"|\s+(?:es|está|queda|est|è|é|ist|foi|fue)(?: (?:aussi|également|également|también|también|anche|auch|também|also|somit|daher|claramente|clairement))? (?:incorre\w+|inexact\w*|fau(?:x|sse)|exclue?|éliminée?|à exclure|descartad[ao]|errad[ao]|erróne[ao]|mal(?=[.,;]|$)|sbagliat[ao]|errat[ao]|esclus[ao]|falsch|ausgeschlossen|inkorrekt|unmöglich)"
)
"""Behind something named: it is not the answer."""

NOT = r"ni|né|nem|weder|tampoco|niet|ни"
"""Before something named: it is not the answer."""

GOVERNS = (
    r"\b(?:no|non|não|nicht|ne|n'|не) (?:\w+ )?(?:creo|pienso|considero|diría|credo|penso|direi|acho|creio|diria|glaube|denke|pense|crois|dirais|думаю|считаю|верю)\b"
    r"|\b(?:glaube|denke|meine) (?:ich )?nicht\b|(?:不|没有?)(?:认为|認為|觉得|覺得|相信)|\bno puedo (?:decir|afirmar)\b"
)
"""Before a lead: "I don't think the answer is"."""

SUPPOSES = (
    r"zuerst|anfangs|zunächst|ursprünglich|auf den ersten blick|al principio|en un principio|inicialmente|a primera vista|au début|d'abord|au départ|à première vue"
    r"|a prima vista|inizialmente|all'inizio|no início|à primeira vista|сначала|поначалу|на первый взгляд"
    r"|dachte|glaubte|meinte|pensé|pensaba|creí|creía|(?:ai|avais) (?:pensé|cru)|pensais|croyais|pensavo|pensei|думал[аи]?"
    r"|(?:no|non) (?:\w+ )?(?:creo|pienso|considero|diría|credo|penso|direi)|(?:no estoy|non sono) (?:\w+ )?s[ie]gur[oa] (?:de )?(?:que|che)|no (?:está|es) (?:claro|seguro) que"
    r"|(?:suis|est) pas (?:sûre?|certaine?|sûr et certain) que|não tenho certeza (?:de )?(?:que|se)|dudo que|je doute que|bezweifle"
    r"|(?:man|jemand|einige|manche|viele) (?:könnte|würden?|mag|kann|mögen)|könnte man|(?:se|uno) podría (?:pensar|creer)|(?:on|certains) pourrai(?:t|ent) (?:penser|croire|dire)|si potrebbe (?:pensare|dire)|pode-se pensar"
    r"|(?:si|se) (?:la|le|el|on|fuera|era|fosse|c'était|ce|a|o|il)"
)
"""In a clause that supposes."""
SUPPOSES_HAN = r"假設|要是|倘若|以为|以為|一开始|起初|乍一看|初看"

ASKS = r"ist|sind|wäre|könnte|soll(?:te)?|es|ser[áí]a?|est-ce|serait-ce|é|è|sarebbe|wer|was|welche[rs]?|qué|cuál|quel(?:le)?|qual[ei]?|может|это ли"
"""The first word of a question."""
ASKED = r"[)\"'\s]*(?:吗|嗎|么|呢|ですか|でしょうか|か(?=\s*\?)|인가|입니까|일까)"
"""Behind something named: it is asked for."""

ALSO = (
    r"\s+(?:wäre|ist|könnte|kann|scheint)(?: \w+){0,2}? (?:auch|ebenfalls|ebenso)\b|\s+(?:est|serait|pourrait|peut|semble)(?: \w+){0,2}? (?:aussi|également)\b"
    r"|\s+(?:es|sería|podría|puede|é|seria|poderia|pode|è|sarebbe|potrebbe|può)(?: \w+){0,2}? (?:también|também|anche)\b"
    r"|\s+(?:también|auch|aussi|également|também|anche) (?:podría|puede|sería|es|könnte|kann|wäre|ist|pourrait|peut|serait|est|poderia|pode|seria|é|potrebbe|può|sarebbe|è)\b"
    r"|[)\"'\s]*也(?:有|是|很)?(?:可能|可以|对|正确|行|符合|合理)"
)
"""Behind something named: it is another answer."""
ALSO_BEFORE = (
    r"\b(?:auch|ebenfalls|aussi|également|también|também|anche) (?:\w+ )?(?:könnte|kann|wäre|pourrait|peut|serait|podría|puede|sería|poderia|pode|seria|potrebbe|può|sarebbe)(?: (?:ser|être|essere|la|el|le|auch))*"
    r"|\b(?:könnte|kann|wäre|pourrait|peut|serait|podría|puede|sería|poderia|pode|seria|potrebbe|può|sarebbe)(?: \w+){0,2}? (?:auch|ebenfalls|aussi|également|también|também|anche)(?: (?:être|ser|essere|la|el|le|die|option|antwort))*|也(?:有)?可能是?|也可以(?:选|是)"
)
"""Before something named: it is another answer."""

LIKELY = r"wahrscheinlich|vermutlich|wohl|eindeutig|sicher|probablemente|seguramente|claramente|probablement|sûrement|clairement|probabilmente|chiaramente|provavelmente|вероятно|скорее всего|waarschijnlijk|muy|très|sehr"
"""Between a verb and the answer: it is tentative, or sure, and an answer all the same."""

SAY = r"(?:je|yo|eu|io) (?:dirais|opterais pour|diría|diria|direi)|ich (?:würde sagen|tippe auf|nehme)|me (?:quedo|inclino) (?:con|por)"
"""Before something named: it is what one says."""
LEFT = r"il (?:ne )?reste(?: que| donc| plus que)?|(?:só |solo )?(?:queda|resta|sobra)(?: solo| só)?(?: la| a| il| el| o)?|(?:es )?bleibt(?: also| nur| noch)*"
"""Before something named: it is what is left."""
FITS = r"\s+(?:passt|trifft|stimmt) (?:am besten|genau|perfekt)\b|\s+(?:encaja|se ajusta|corresponde) (?:mejor|perfectamente)\b|\s+(?:convient|correspond) le mieux\b|\s+(?:richtig|korrekt|die (?:richtige|korrekte) (?:antwort|lösung|option)) (?:ist|sein (?:muss|dürfte|müsste))\b"
"""Behind something named: it is the answer."""
NUMBER = r"nummer|numéro|número|numero|choix|figur|figura"
"""Between a verb and a label."""

YET = r"sondern|sino|jedoch|doch|cependant|toutefois|sin embargo|por lo tanto|deshalb|porém|tuttavia|однако|maar|ma"
"""Begins a clause."""
