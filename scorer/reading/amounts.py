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
"""Relative difference of equal numbers that comes from their representation."""
_STAND_IN = 100_000_000
"""First integer that stands in for an amount that is not a plain integer."""
_MOST_DIGITS = 300

_SENTENCE_END = re.compile(r"[.!?](?=\s\S)|\n")


def _units() -> dict[str, tuple[str, float]]:
    """Returns unit -> quantity that it measures and size; amounts of two quantities are never equal."""
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
_SCALES = {name: float(size) for name, size in LEXICON.mapping("SCALES").items()}


class Amount(NamedTuple):
    """A number and its unit.

    Attributes:
        value: The number as written, in its unit; 12.5 of "12.5%".
        unit: A known unit or "%"; "" without one.
    """

    value: float
    unit: str

    def __str__(self) -> str:
        """Returns its shortest text, which verdicts show."""
        number = f"{self.value:.15g}"
        return number + (self.unit if self.unit in ("", PERCENT) else f" {self.unit}")


_DOLLAR = re.compile(r"\$\s?-?\s?\Z")
_CLOSING = re.compile(r"[^$\n]*(?:(?<!\s)\$|\$(?!\s?\d))")
"""The rest of a formula and its closing dollar sign; one after a blank and before a digit opens a further amount."""


def in_dollars(amount: Amount, text: str, span: tuple[int, int]) -> Amount:
    """Restores the dollar sign of an amount, which folding takes for the sign of a formula.

    Args:
        amount: The amount read from the folded text; a known unit stays.
        text: The unfolded answer.
        span: The amount's position in it.
    """
    dollars = _DOLLAR.search(text[: span[0]]) and not _CLOSING.match(text, span[1])
    return amount._replace(unit="$") if dollars and not amount.unit else amount


def _digits(text: str, decimal: str) -> float | None:
    """Returns the number of digits with separators; None if they fit no convention, as in a version or a date."""
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
    if foreign:  # with both signs present, only the last can be the decimal sign
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
    """Returns the amount of a text that is nothing else, such as a target; None for any other text."""
    text = text.strip().removesuffix(".").strip()
    if (word := value_of(text)) is not None:
        return Amount(float(word), "")
    match = LEXICON.AMOUNT.match(text)
    # A single word after the number is an unknown unit: "1,250 voters".
    rest = text[match.end() :].strip() if match else "?"
    return _amount(match, decimal) if match and (not rest or rest.isalpha()) else None


def read_amount(seen: Seen, decimal: str = ".") -> Reading:
    """Reads the amount that a folded text states; the reading's value is the text of an `Amount`.

    Among several amounts a last sentence that alone derives one from the others decides: "The difference is 2.2".
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
    """Reads the amount that a text states.

    Amounts are first replaced by integers, so that the reader of counts decides which of them the answer counts,
    announces, rejects or supposes; its span is then mapped back. Equal amounts get equal integers.
    """
    parts: list[str] = []
    replaced: list[tuple[int, int, int, Amount]] = []  # start in the new text, start and end in the old one
    tokens: dict[Amount, int] = {}
    last = length = 0
    for match in LEXICON.AMOUNT.finditer(seen.text):
        amount = _amount(match, decimal)
        if amount is None:
            continue
        integral = not amount.unit and amount.value.is_integer() and 0 <= amount.value < _STAND_IN
        plain = integral and match[0].isdecimal()
        token = int(amount.value) if integral else tokens.setdefault(amount, _STAND_IN + len(tokens) * len(tokens) + 1)
        start = match.start() + (len(match[0]) - len(match[0].lstrip()))
        before = seen.text[last:start]
        parts += [before, match[0] if plain else str(token)]
        replaced.append((length + len(before), start, match.end(), amount))
        length += len(before) + len(parts[-1])
        last = match.end()
    reading = read_count(prefilter("".join((*parts, seen.text[last:]))))
    if not reading.value:
        return reading
    at = bisect_right(replaced, reading.span[0], key=lambda row: row[0]) - 1
    if at >= 0 and replaced[at][0] == reading.span[0]:
        _, start, end, amount = replaced[at]
        if at and replaced[at - 1][3] != amount and LEXICON.LISTED.fullmatch(seen.text, replaced[at - 1][2], start):
            return Reading("", Reason.CONFLICT)
        return reading._replace(value=str(amount), span=(start, end))
    moved = sum(len(part) for part in parts[1 : 2 * at + 2 : 2])
    shift = sum(end - start for _, start, end, _ in replaced[: at + 1]) - moved
    return reading._replace(value=reading.value, span=(reading.span[0] + shift, reading.span[1] + shift))


def equal(amount: Amount, target: Amount, absolute: float = 0.0, relative: float = 0.0) -> bool:
    """Returns true if an amount equals the target within a tolerance.

    A unit on one side only is ignored. A percent on one side only counts both as a unit and as a hundredth.

    Args:
        amount: The amount of the answer.
        target: The ground truth.
        absolute: Largest difference, in the unit of `target`.
        relative: Largest difference as a share of `target`.
    """
    values = [amount.value]
    if (amount.unit == PERCENT) is not (target.unit == PERCENT):
        values.append(amount.value / 100 if amount.unit == PERCENT else amount.value * 100)
    elif amount.unit and target.unit:
        (kind, size), (other, base) = UNITS[amount.unit], UNITS[target.unit]
        if kind != other:
            return False
        values = [amount.value * size / base]
    reach = max(absolute, relative * abs(target.value)) + _ROUNDING * abs(target.value)
    return any(abs(value - target.value) <= reach for value in values)
