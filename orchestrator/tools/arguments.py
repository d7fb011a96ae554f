"""Arguments that models write: JSON, JSON5 and Python's literals, read as data.

Nothing is evaluated. Length and depth are bounded before a value is built.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from orchestrator.samples import text_part
from orchestrator.tools.types import ToolOutput

Syntax = Literal["json", "json5", "python"]

MAX_CHARACTERS = 65_536
MAX_DEPTH = 32
MAX_CALLS = 64
"""Calls of one answer that are run: a model that repeats itself fills its limit of tokens with them."""

_PLACE = re.compile(r"\{(\w+)\}")
_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_SPACE_JSON5 = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?|Infinity\b|NaN\b)")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_WORDS: dict[str, dict[str, object]] = {
    "json5": {"true": True, "false": False, "null": None},
    "python": {"True": True, "False": False, "None": None},
}
_STRING = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0", "\n": ""}
_BRACKETS = {"[": "]", "(": ")", "{": "}"}


def read_literal(text: str, syntax: Syntax) -> Any:
    """Returns the value that a text stands for.

    Args:
        text: The text of the model.
        syntax: "json" as the standard has it, "json5", or the literals of Python (containers, strings, numbers, True,
            False and None; no expressions).

    Raises:
        ValueError: It is not such a value, or longer or deeper than `MAX_CHARACTERS` and `MAX_DEPTH`. For "json" a
            json.JSONDecodeError with the message of the standard library.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"the arguments have {len(text):,} characters, the limit is {MAX_CHARACTERS:,}")
    if _depth(text) > MAX_DEPTH:
        raise ValueError(f"the arguments are nested more than {MAX_DEPTH} deep")
    if syntax == "json":
        return json.loads(text)
    reader = _Reader(text, syntax)
    value = reader.value()
    reader.end()
    return value


def check_schema(value: Any, schema: Mapping[str, Any]) -> None:
    """Raises ValueError with the message of jsonschema if arguments do not fit a schema."""
    import jsonschema

    try:
        jsonschema.validate(value, schema)
    except jsonschema.ValidationError as error:
        raise ValidationError(str(error)) from error


class ValidationError(ValueError):
    """Arguments that do not fit their schema; the name is the one that protocols show."""


def tool_error(template: str, **values: str) -> ToolOutput:
    """Returns an error output: the template's text with each {name} filled in."""
    return ToolOutput((text_part(filled(template, values)),), is_error=True)


def filled(template: str, values: Mapping[str, str]) -> str:
    """Returns a template's text with each {name} filled in; a name without a value stays."""
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), template)


def _depth(text: str) -> int:
    """Returns an upper bound of the depth of a value: brackets in strings count."""
    depth = most = 0
    for sign in text:
        if sign in "[({":
            depth += 1
            most = max(most, depth)
        elif sign in "])}":
            depth -= 1
    return most


class _Reader:
    """Reads one value from left to right; its depth is bounded by the caller."""

    def __init__(self, text: str, syntax: Syntax) -> None:
        self._text, self._place, self._json5 = text, 0, syntax == "json5"
        self._space = _SPACE_JSON5 if self._json5 else _SPACE
        self._words = _WORDS[syntax]

    def end(self) -> None:
        if self._next():
            raise self._error("the end")

    def value(self) -> Any:
        sign = self._next()
        if sign in ("'", '"'):
            return self._string()
        if sign == "{":
            return self._object()
        if sign == "[" or (sign == "(" and not self._json5):
            return self._list(sign)
        if number := _NUMBER.match(self._text, self._place):
            self._place = number.end()
            return self._number(number[0])
        if (word := _WORD.match(self._text, self._place)) and word[0] in self._words:
            self._place = word.end()
            return self._words[word[0]]
        raise self._error("a value")

    def _next(self) -> str:
        if space := self._space.match(self._text, self._place):
            self._place = space.end()
        return self._text[self._place : self._place + 1]

    def _error(self, wanted: str) -> ValueError:
        return ValueError(f"{wanted} is expected at character {self._place + 1}")

    def _object(self) -> dict[Any, Any]:
        members: dict[Any, Any] = {}
        self._place += 1
        while self._next() != "}":
            key = self._key()
            if self._next() != ":":
                raise self._error("':'")
            self._place += 1
            members[key] = self.value()
            if self._separated("}"):
                break
        self._place += 1
        return members

    def _key(self) -> str:
        if self._next() in ("'", '"'):
            return self._string()
        word = _WORD.match(self._text, self._place)
        if not (self._json5 and word):
            raise self._error("a key")
        self._place = word.end()
        return word[0]

    def _list(self, bracket: str) -> Any:
        items: list[Any] = []
        self._place += 1
        closing, separated = _BRACKETS[bracket], False
        while self._next() != closing:
            items.append(self.value())
            separated = not self._separated(closing)
            if not separated:
                break
        self._place += 1
        return items[0] if bracket == "(" and len(items) == 1 and not separated else items

    def _separated(self, closing: str) -> bool:
        """Reads a comma; returns whether the container ends instead."""
        sign = self._next()
        if sign == closing:
            return True
        if sign != ",":
            raise self._error(f"',' or {closing!r}")
        self._place += 1
        return False

    def _string(self) -> str:
        match = _STRING.match(self._text, self._place)
        if not match:
            raise self._error("the end of a string")
        self._place = match.end()
        return _ESCAPE.sub(self._unescaped, match[0][1:-1])

    def _unescaped(self, match: re.Match[str]) -> str:
        if code := match[1] or match[2]:
            return chr(int(code, 16))
        kept = match[3] if self._json5 or match[3] in "\\'\"" else match[0]
        return _ESCAPES.get(match[3], kept)

    def _number(self, text: str) -> float | int:
        sign = -1 if text.startswith("-") else 1
        digits = text.lstrip("+-")
        if digits in ("Infinity", "NaN"):
            if not self._json5:
                raise self._error("a number")
            return sign * (math.inf if digits == "Infinity" else math.nan)
        if digits[:2] in ("0x", "0X"):
            return sign * int(digits, 16)
        return sign * (int(digits) if digits.replace("_", "").isdigit() else float(digits))
