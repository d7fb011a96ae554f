"""A codec's refusal of a field in words: which field, what it takes, and what it got."""

from __future__ import annotations

import re

import msgspec

_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
    "any": "any value",
}
_SHAPES = (
    (re.compile(r"Expected `(?P<want>[^`]+)`, got `(?P<got>[^`]+)`"), "takes {want}, and got {got}"),
    (re.compile(r"Object missing required field `(?P<want>[^`]+)`"), "the field {want!r} is missing"),
    (re.compile(r"Object contains unknown field `(?P<want>[^`]+)`"), "{want!r} is not a field that is known here"),
    (re.compile(r"Invalid (?:enum )?value (?P<got>.+)"), "{got} is not one of the values that it takes"),
)
_PLACE = re.compile(r"\s+- at `(?:key in )?\$?\.?(?P<place>[^`]*)`$")


def words(error: msgspec.ValidationError | RecursionError) -> str:
    """Returns a refusal such as `messages[0].content: takes text or a list, and got a whole number`."""
    text = str(error)
    field = ""
    if location := _PLACE.search(text):
        text, field = text[: location.start()], location["place"]
    for pattern, shape in _SHAPES:
        if match := pattern.fullmatch(text):
            text = shape.format(**{name: _kinds(name, value) for name, value in match.groupdict().items()})
            break
    return f"{field[:100]}: {text}" if field else text


def _kinds(name: str, value: str) -> str:
    kinds = [kind for kind in value.split(" | ") if name == "got" or kind != "null"]
    if not all(kind in _KINDS for kind in kinds):
        return value[:60]
    return " or ".join(_KINDS[kind] for kind in kinds)
