"""VOILA's closed vocabularies, and finding their values in an answer's words.

A value found is the vocabulary's own word (the plural for subjects), or "" where something is
stated that is none of them, or two of them at once. Synonyms keep age and gender: "girls" are
female children, "kids" are nothing, "ladies" are women, "old ladies" senior women. For animals
age is no property, and the kinds that the reference's judge lets pass (mice for hamsters) pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

PROPERTIES = ("number", "subject_type", "action")
"""The three properties, by the names of the parts of a score."""

Values = Mapping[str, str]
"""Property -> value; a property of which nothing is said is missing."""

ANY = "any"

_SENIOR = (
    r"(?:senior|elderly|(?<!year-)(?<!years-)(?<!year )(?<!years )old|older|elder|aged|aging|ageing)"
    r"\s+(?:[a-z-]+\s+){0,2}?"
)
_ADULT = r"(?:adult|grown)\s+"
_SUBJECTS = {
    "female children": r"(?:school)?girls?|female\s+(?:child(?:ren)?|kids?|toddlers?|youths?)",
    "male children": r"(?:school)?boys?|male\s+(?:child(?:ren)?|kids?|toddlers?|youths?)",
    "senior men": rf"{_SENIOR}(?:men|man|gentlem[ea]n|guys?|males?)|(?:male|men)\s+seniors?|grandfathers?|grandpas?",
    "senior women": rf"{_SENIOR}(?:wom[ea]n|lady|ladies|females?)|female\s+seniors?|grandmothers?|grandmas?|granny",
    "men": rf"m[ae]n|gentlem[ae]n|guys?|{_ADULT}males?|male\s+adults?",
    "women": rf"wom[ae]n|lady|ladies|{_ADULT}females?|female\s+adults?",
    "cats": r"cats?|kittens?|kitt(?:y|ies)|felines?",
    "dogs": r"(?<!hot )dogs?|pupp(?:y|ies)",
    "foxes": r"fox(?:es)?",
    "hamsters": r"hamsters?|mice|mouse|gerbils?|guinea\s+pigs?",
    "monkeys": r"monkeys?|apes?|chimps?|chimpanzees?",
    "wolves": r"wol(?:f|ves)",
    "bears": r"bears?",
    "rabbits": r"rabbits?|bunn(?:y|ies)|hares?",
}
# What an activity's word means as part of a thing's name, it does not mean of the subjects.
_THING = (
    r"(?![\s-]+(?:pools?|suits?|trunks|goggles|caps?|shoes?|tracks?|gear|sticks?|canes?|paths?|trails?|glasses|rooms?"
    r"|nooks?|chairs?|desks?|pads?|utensils?|wheel|range|lessons?)\b)"
)
_ACTIONS = {
    "playing soccer": r"(?:play|kick)(?:s|ing|ed)?\s+(?:[a-z-]+\s+){0,4}?(?:soccer|football)(?:\s+ball)?|soccer",
    "driving a car": r"(?:driv(?:e|es|ing)|drove)",
    "ice-skating": r"(?:ice|figure)[\s_-]*skat(?:e|es|ing|ed)|(?<!roller[ -])(?<!inline[ -])skat(?:e|es|ing)(?=\W|$)",
    "walking": r"walk(?:s|ing|ed)?|stroll(?:s|ing|ed)?",
    "swimming": r"sw[iau]m(?:s|ming)?",
    "jumping": r"jump(?:s|ing|ed)?|leap(?:s|ing|ed|t)?",
    "typing": r"typing|typed|types?\s+(?:on|at|together|away)",
    "writing": r"writ(?:e|es|ing|ten)|wrote",
    "digging a hole": r"dig(?:s|ging)?|dug",
    "carrying something": r"carr(?:y|ies|ying|ied)",
    "reading": r"reads?|reading",
    "running": r"r[ua]n(?:s|ning)?|jog(?:s|ging|ged)?|sprint(?:s|ing|ed)?",
    "eating food": r"eat(?:s|ing|en)?|ate",
}
_NUMBERS = {
    "one": r"one|single|1",
    "two": r"two|(?:a\s+)?(?:pair|couple|duo)(?:\s+of)?|both|2",
    "three": r"three|(?:a\s+)?trio(?:\s+of)?|3",
    "four": r"four|(?:a\s+)?quartet(?:\s+of)?|4",
    "": r"zero|five|six|seven|eight|nine|ten|eleven|twelve|dozens?|several|multiple|many|no|[05-9]|\d{2,}|\d+[./]\d+",
}


NUMBERS = tuple(_NUMBERS)[:4]
"""The numbers, ascending."""


def _pattern(values: Mapping[str, str], before: str, after: str) -> tuple[re.Pattern[str], list[str]]:
    names = list(values)
    choices = "|".join(f"(?P<v{place}>{values[name]})" for place, name in enumerate(names))
    return re.compile(f"{before}(?:{choices}){after}", re.IGNORECASE), names


_VALUES = {
    "number": _pattern(_NUMBERS, r"(?<![\w.,/+-])", r"(?![\w/]|[.,]\d|[\s-]years?\b)"),
    "subject_type": _pattern(_SUBJECTS, r"\b", r"(?![\w])"),
    "action": _pattern(_ACTIONS, r"\b", rf"(?![\w]){_THING}"),
}
_IMAGE_NUMBER = re.compile(
    r"\b(?:images?|pictures?|panels?)[\s_#]*(?:\d|one|two|three|four)(?:\s*(?:,|and|&|to)\s*\d)*\b", re.IGNORECASE
)


class Found(NamedTuple):
    """A value and where it stands."""

    value: str
    start: int
    end: int


def mentions(prop: str, text: str) -> Iterator[Found]:
    """Yields every value of a property in a text; for numbers, "" for those beyond the vocabulary."""
    pattern, names = _VALUES[prop]
    for match in pattern.finditer(_without_image_numbers(text) if prop == "number" else text):
        yield Found(names[int((match.lastgroup or "v0")[1:])], *match.span())


def _without_image_numbers(text: str) -> str:
    return _IMAGE_NUMBER.sub(lambda match: " " * len(match[0]), text)


def canonical(prop: str, surface: str) -> str | None:
    """Returns the vocabulary's value for one of the data's own words, None if it is none."""
    pattern, names = _VALUES[prop]
    match = pattern.match(surface)
    if surface == ANY:
        return ANY
    if not match or (match.end() < len(surface) and prop != "action"):
        return None
    return names[int((match.lastgroup or "v0")[1:])] or None


_PARENTHESIS = re.compile(r"\([^()]*\)")
_VAGUE = re.compile(
    r"\b(?:not|or|either|less|fewer|more|least|most|unknown|undetermined|any)\b|[/?]|(?<![\w])-\s*\d", re.IGNORECASE
)
_TRIM = " \t\"'.,;:()[]"
_LATER = re.compile(r"=|→|\bto\b", re.IGNORECASE)


def value_of(prop: str, stated: str) -> str:
    """Reads what stands behind "number = ", "subject = " or "action = ".

    Returns:
        The value; "any" where exactly that stands there; "" where it cannot be used: unknown
        words, two different values, or a hedge.
    """
    bare = _PARENTHESIS.sub(" ", stated).strip(_TRIM) or stated.strip(_TRIM)
    if bare.lower() == ANY:
        return ANY
    if _VAGUE.search(bare):
        return ""
    if prop == "number":
        bare = _LATER.split(bare)[-1]
    values = {found.value for found in mentions(prop, bare)}
    return values.pop() if len(values) == 1 else ""


_LABELS = re.compile(
    r"""\b(?:
      (?P<number>(?:number|count|quantity)(?:\s+of\s+(?:the\s+)?\w+)?|(?:subject|animal)[\s_]counts?)
    | (?P<subject_type>subjects?(?:[\s_]+(?:types?|name))?|animals?[\s_]+types?|types?\s+of\s+(?:the\s+)?subjects?)
    | (?P<action>actions?|activity)
    )(?:\s+property)?["')\]]*\s*
    (?:=|:|(?P<verb>\b(?:is|are|remains|becomes|(?:will|would|should)\s+be)\b(?!\s+(?:changed|set))))\s*=?""",
    re.IGNORECASE | re.VERBOSE,
)
_STOP = re.compile(r"[,;\n]|\.(?=\s|$)|\band\b(?=\s+(?:the\s+)?(?:number|count|subject|action)\b)", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"[\s\"'(\[<]*(?:number|subject|action)[\s\"')\]>]*", re.IGNORECASE)


class Label(NamedTuple):
    """One "property = value" of an answer; positions are those of label and value together."""

    prop: str
    value: str
    start: int
    end: int


def labels(text: str) -> list[Label]:
    """Returns every "property = value" in a text, in order, an echoed "{number}" left out."""
    found = []
    matches = list(_LABELS.finditer(text))
    for place, match in enumerate(matches):
        limit = matches[place + 1].start() if place + 1 < len(matches) else len(text)
        stop = _STOP.search(text, match.end(), limit)
        end = stop.start() if stop else limit
        stated = text[match.end() : end]
        prop = next(prop for prop in PROPERTIES if match[prop])
        value = value_of(prop, stated)
        # "The subject is running" names no subject, where "subject = running" names a wrong one.
        if stated.strip(_TRIM) and not _PLACEHOLDER.fullmatch(stated) and (value or not match["verb"]):
            found.append(Label(prop, value, match.start(), end))
    return found


_NOUN = re.compile(
    r"(?:\s+[a-z-]+){0,2}?\s+(?:people|persons?|animals?|kids?|child(?:ren)?|individuals?|subjects?|characters?|figures?"
    r"|seniors?|males?|females?|adults?|creatures?|toddlers?|players?)\b",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"\b(?:an?|the|lone)\s+(?:[\w-]+\s+){0,3}\Z", re.IGNORECASE)
_PLURAL = re.compile(r".*(?:s|men|children|mice)\Z", re.IGNORECASE)
_AFTER = re.compile(r"\s*(?:\(|:|x\s?)\s*(?:count:?\s*)?(?P<number>\w+)\b")
_JOINED = re.compile(r"\s*(?:,\s*)?(?:and|or|&|/|,)\s+(?:an?\s+|the\s+|[\w-]+\s+){0,3}?\Z", re.IGNORECASE)
_HEDGED = re.compile(r"\s*(?:,\s*)?(?:or|/)\s+(?:[\w-]+\s+){0,2}?\Z", re.IGNORECASE)


def described(text: str) -> dict[str, str]:
    """Reads a description of one image, labelled or in free words.

    The first subject and the first action named are the description's; subjects joined by "and"
    or "or", and actions joined by "or", are no value at all. A number belongs to its subject.

    Returns:
        Property -> value, "" where something unusable is stated; nothing where nothing is.
    """
    read: dict[str, str] = {}
    for label in labels(text):
        read.setdefault(label.prop, label.value)
    subject = _first("subject_type", text, _JOINED)
    action = _first("action", text, _HEDGED)
    number = _number(text, subject)
    for prop, found in zip(PROPERTIES, (number, subject, action), strict=True):
        if found:
            read.setdefault(prop, found.value)
    return read


def _first(prop: str, text: str, joined: re.Pattern[str]) -> Found | None:
    found = mentions(prop, text)
    first = next(found, None)
    second = next((other for other in found if first and other.value != first.value), None)
    if first and second and joined.match(text[first.end : second.start]):
        return Found("", first.start, first.end)
    return first


def _number(text: str, subject: Found | None) -> Found | None:
    stated = list(mentions("number", text))
    if subject is None:
        return next((found for found in stated if _NOUN.match(text, found.end)), None)
    start = 1 + max(text.rfind(sign, 0, subject.start) for sign in ".;:!?\n")
    near = [found for found in stated if start <= found.start < subject.start]
    if near and len(text[near[-1].end : subject.start].split()) <= 5:
        return near[-1]
    after = _AFTER.match(text, subject.end)
    if after:
        found = next(mentions("number", after["number"]), None)
        if found:
            return Found(found.value, after.start("number"), after.end("number"))
    if _ARTICLE.search(text, start, subject.start) and not _PLURAL.match(text[subject.start : subject.end]):
        return Found("one", subject.start, subject.end)
    return None
