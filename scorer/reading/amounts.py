"""Amounts as texts write them: decimals, separators of thousands, percents, units, "2.5 million", "3/4"."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from lyncean.vocabulary.reasons import Reason
from scorer.reading.counting import read_count
from scorer.reading.lexicon import Lexicon
from scorer.reading.numbers import WORD_PATTERN, value_of
from scorer.reading.prefilter import Seen
from scorer.reading.resolve import Reading, seen as prefilter

PERCENT = "%"
_ROUNDING = 1e-9
"""Share by which two equal numbers may differ by their representation alone."""
_STAND_IN = 100_000_000
"""From here on whole numbers stand in for amounts that are not plain whole numbers."""
_MOST_DIGITS = 300

_SENTENCE_END = re.compile(r"[.!?](?=\s\S)|\n")


def _units() -> dict[str, tuple[str, float]]:
    """Returns what each unit measures, and its size; amounts of two kinds are never equal."""
    units: dict[str, tuple[str, float]] = {}
    for names, meaning in Lexicon("amounts").mapping("UNITS").items():
        kind, size = meaning.split()
        for name in names.split():
            plural = {f"{name}s"} if len(name) > 2 and name.isalpha() else set()
            units |= dict.fromkeys({name, *plural}, (kind, float(size)))
    return units


UNITS: Mapping[str, tuple[str, float]] = MappingProxyType(_units())
_NAMES = sorted(UNITS, key=len, reverse=True)
LEXICON = Lexicon(
    "amounts",
    NUMBER_WORD=WORD_PATTERN,
    UNIT="|".join(f"(?i:{re.escape(name)})" if len(name) > 2 else re.escape(name) for name in _NAMES),
)
_SCALES = {words: float(size) for words, size in LEXICON.mapping("SCALES").items()}


class Amount(NamedTuple):
    """A number with what stands beside it.

    Attributes:
        value: The number as it is written, in its unit; 12.5 of "12.5%".
        unit: A known unit, "%" among them; "" where none stands there.
    """

    value: float
    unit: str

    def __str__(self) -> str:
        """The shortest text of it, as verdicts show it."""
        number = f"{self.value:.15g}"
        return number + (self.unit if self.unit in ("", PERCENT) else f" {self.unit}")


_DOLLAR = re.compile(r"\$\s?-?\s?\Z")
_CLOSING = re.compile(r"[^$\n]*(?:(?<!\s)\$|\$(?!\s?\d))")
"""The rest of a formula between two dollar signs; before a further amount a blank stands, and no closing sign."""


def in_dollars(found: Amount, text: str, span: tuple[int, int]) -> Amount:
    """Returns an amount that was read from a folded text with the dollar sign that folding takes for a formula's.

    Args:
        found: The amount; another unit is its unit.
        text: The answer as it was given.
        span: Where the amount stands in it.
    """
    dollars = _DOLLAR.search(text[: span[0]]) and not _CLOSING.match(text, span[1])
    return found._replace(unit="$") if dollars and not found.unit else found


def _digits(text: str, decimal: str) -> float | None:
    """Returns the number that digits with separators stand for; None where they fit neither way: a version, a date."""
    text = re.sub("[ \u00a0\u2009\u202f']", "", text)
    other = "," if decimal == "." else "."
    signs = [sign for sign in text if sign in ".,"]
    if len(text) > _MOST_DIGITS:
        return None
    if not signs:
        return float(text)
    grouped = re.fullmatch(rf"\d{{1,3}}(?:[{other}]\d{{3}})+(?:[{decimal}]\d+)?", text)
    if grouped:
        return float(text.replace(other, "").replace(decimal, "."))
    foreign = re.fullmatch(rf"\d{{1,3}}(?:[{decimal}]\d{{3}})+[{other}]\d+", text)
    if foreign:  # with both signs in it, only the last can be the decimal one
        return float(text.replace(decimal, "").replace(other, "."))
    return float(text.replace(",", ".")) if len(signs) == 1 else None


def _amount(match: re.Match[str], decimal: str) -> Amount | None:
    if match["mixed"]:
        value: float | None = float(match["mixed"]) + int(match["over"]) / int(match["under"])
    elif match["word"]:
        value = float(value_of(match["word"]) or 0)
    else:
        value = _digits(match["number"], decimal)
    if value is None:
        return None
    if match["divisor"]:
        value /= int(match["divisor"])
    if power := match["ten"] or (match["power"] or "")[1:]:
        value *= 10.0 ** int(power) if int(power) < 300 else math.inf
    if match["scale"]:
        value *= _SCALES[match["scale"].lower()]
    if match["sign"]:
        value = -value
    unit = PERCENT if match["percent"] else match["money"] or match["unit"] or ""
    return Amount(value, unit if unit in UNITS else unit.lower()) if math.isfinite(value) else None


def amount_of(text: str, decimal: str = ".") -> Amount | None:
    """Returns the amount that a text is, such as a right answer; None for any other text."""
    text = text.strip().removesuffix(".").strip()
    if (word := value_of(text)) is not None:
        return Amount(float(word), "")
    match = LEXICON.AMOUNT.match(text)
    # What follows is a unit that is not known, if it is one word: "1,250 voters".
    rest = text[match.end() :].strip() if match else "?"
    return _amount(match, decimal) if match and (not rest or rest.isalpha()) else None


def read_amount(seen: Seen, decimal: str = ".") -> Reading:
    """Returns the amount that an answer states, from a folded text; its value is a text of `Amount`.

    Of several amounts the last sentence decides where it alone names what follows from them: "The difference is 2.2".
    """
    reading = _read(seen, decimal)
    if reading.reason not in (Reason.CONFLICT, Reason.NO_CONCLUSION):
        return reading
    starts = [match.start() for match in LEXICON.DERIVED.finditer(seen.text)]
    if len(starts) != 1 or _SENTENCE_END.search(seen.text.rstrip(), starts[0]):
        return reading
    last = _read(prefilter(seen.text[starts[0] :]), decimal)
    if not last.value:
        return reading
    return last._replace(reason=Reason.CONCLUDED, span=(last.span[0] + starts[0], last.span[1] + starts[0]))


def _read(seen: Seen, decimal: str) -> Reading:
    """Returns the amount stated.

    Each amount is written as a whole number first, so that what an answer counts, announces, rejects or supposes is
    told as for counts.
    """
    parts: list[str] = []
    places: list[tuple[int, int, int, Amount]] = []  # beginning in the new text and in the old, end in the old
    tokens: dict[Amount, int] = {}
    last = length = 0
    for match in LEXICON.AMOUNT.finditer(seen.text):
        amount = _amount(match, decimal)
        if amount is None:
            continue
        whole = not amount.unit and amount.value.is_integer() and 0 <= amount.value < _STAND_IN
        plain = whole and match[0].isdecimal()
        token = int(amount.value) if whole else tokens.setdefault(amount, _STAND_IN + len(tokens) * len(tokens) + 1)
        start = match.start() + (len(match[0]) - len(match[0].lstrip()))
        before = seen.text[last:start]
        parts += [before, match[0] if plain else str(token)]
        places.append((length + len(before), start, match.end(), amount))
        length += len(before) + len(parts[-1])
        last = match.end()
    reading = read_count(prefilter("".join((*parts, seen.text[last:]))))
    if not reading.value:
        return reading
    at = bisect_right(places, reading.span[0], key=lambda place: place[0]) - 1
    if at >= 0 and places[at][0] == reading.span[0]:
        _, start, end, amount = places[at]
        if at and places[at - 1][3] != amount and LEXICON.LISTED.fullmatch(seen.text, places[at - 1][2], start):
            return Reading("", Reason.CONFLICT)
        return reading._replace(value=str(amount), span=(start, end))
    moved = sum(len(part) for part in parts[1 : 2 * at + 2 : 2])
    shift = sum(end - start for _, start, end, _ in places[: at + 1]) - moved
    return reading._replace(value=reading.value, span=(reading.span[0] + shift, reading.span[1] + shift))


def equal(found: Amount, wanted: Amount, absolute: float = 0.0, relative: float = 0.0) -> bool:
    """Whether an amount is the wanted one within a tolerance.

    A unit on one side alone says nothing. A percent on one side alone is read both as a unit and as a hundredth.

    Args:
        found: The answer's.
        wanted: The ground truth.
        absolute: Largest difference, in the unit of `wanted`.
        relative: Largest difference as a share of `wanted`.
    """
    values = [found.value]
    if (found.unit == PERCENT) is not (wanted.unit == PERCENT):
        values.append(found.value / 100 if found.unit == PERCENT else found.value * 100)
    elif found.unit and wanted.unit:
        (kind, size), (other, base) = UNITS[found.unit], UNITS[wanted.unit]
        if kind != other:
            return False
        values = [found.value * size / base]
    reach = max(absolute, relative * abs(wanted.value)) + _ROUNDING * abs(wanted.value)
    return any(abs(value - wanted.value) <= reach for value in values)
