"""`ResponseFormat` of the contract: whether one is well formed, and whether a text is what it asks for."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import re2
from google.protobuf.unknown_fields import UnknownFieldSet

from lyncean.model.v1 import model_pb2 as model

MAX_CHOICES = 1024
"""Choices of one format."""
MAX_CHOICES_BYTES = 65_536
"""Bytes of all choices."""
MAX_REGEX_BYTES = 4_096
MAX_SCHEMA_BYTES = 65_536

_ESCAPE = r"\\[tnfr!-/:-@\[-`{-~]"
_SET = rf"\[\^?(?:(?!&&|--|~~)(?:{_ESCAPE}|\\[dws]|[^\\\[\]]))+\]"
_REPEATED = r"(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})"
_TOKEN = re.compile(
    rf"(?P<set>{_SET})|(?P<class>\.|\\[dwsDWS])|{_ESCAPE}|(?P<group>\((?:\?:|(?!\?)))|[)|]"
    rf"|(?P<repeated>{_REPEATED}(?![*+?{{]))|[^\\.^$|?*+()\[\]{{}}]",
    re.DOTALL,
)
"""One token of a regular expression as the contract has it."""
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\n\f\r"}


class FormatError(ValueError):
    """A format that no server takes; the message says why."""


def check(wanted: model.ResponseFormat) -> None:
    """Makes sure that a format is well formed. Sizes come first: nothing large is compiled.

    Raises:
        FormatError: If it is not.
    """
    match wanted.WhichOneof("kind"):
        case "choices":
            _check_choices(wanted.choices.texts)
        case "regex":
            _check_size("regex", wanted.regex, MAX_REGEX_BYTES)
            _compiled(plain_regex(wanted.regex))
        case "json_schema":
            _check_size("json_schema", wanted.json_schema, MAX_SCHEMA_BYTES)
            schema_of(wanted.json_schema)
        case _:
            newer = ", or one that this server does not know" if len(UnknownFieldSet(wanted)) else ""
            raise FormatError(f"neither choices nor regex nor json_schema is set{newer}")


def keeps(wanted: model.ResponseFormat, text: str) -> bool:
    """Whether a whole text is what a well-formed format asks for."""
    match wanted.WhichOneof("kind"):
        case "choices":
            return text in wanted.choices.texts
        case "regex":
            return bool(_compiled(plain_regex(wanted.regex)).fullmatch(text))
    return _allows(schema_of(wanted.json_schema), text)


def plain_regex(regex: str) -> str:
    r"""Returns an expression in words that all engines read alike: `\d` as `[0-9]`, `.` as `[^\n]`.

    Raises:
        FormatError: If it has more than the contract's syntax.
    """
    found = []
    place = 0
    while place < len(regex):
        token = _TOKEN.match(regex, place)
        if token is None:
            raise FormatError(f"regex: {regex[place : place + 12]!r} at {place} is not in the contract's syntax")
        found.append(_plain(token))
        place = token.end()
    return "".join(found)


def _plain(token: re.Match[str]) -> str:
    text = token[0]
    match token.lastgroup:
        case "set":
            return re.sub(r"\\(.)", lambda each: _CLASSES.get(each[1], each[0]), text, flags=re.DOTALL)
        case "class" if text == ".":
            return r"[^\n]"
        case "class":
            return f"[{'^' if text[1].isupper() else ''}{_CLASSES[text[1].lower()]}]"
        case "group":
            return "(?:"
    return text


def _compiled(regex: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options=options)
    except re2.error as error:
        words = error.args[0]
        raise FormatError(f"regex: {words.decode() if isinstance(words, bytes) else words}") from error


def schema_of(text: str) -> Any:
    """Returns a schema.

    Raises:
        FormatError: If it is none, refers to another document, or has `patternProperties`.
    """
    import jsonschema

    try:
        schema = json.loads(text, parse_constant=_no_json)
        jsonschema.Draft202012Validator.check_schema(schema)
        _check_keywords(schema)
    except jsonschema.SchemaError as error:
        raise FormatError(f"json_schema: {error.json_path}: {error.message[:200]}") from error
    except RecursionError as error:
        raise FormatError("json_schema: it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise FormatError(f"json_schema: not JSON: {error}") from error
    return schema


def _no_json(word: str) -> NoReturn:
    raise FormatError(f"json_schema: not JSON: {word}")


def _check_keywords(value: Any) -> None:
    if isinstance(value, dict):
        for name in ("$ref", "$dynamicRef"):
            if isinstance(reference := value.get(name), str) and not reference.startswith("#"):
                raise FormatError(f"json_schema: it refers to another document, {reference[:80]!r}")
        if isinstance(value.get("patternProperties"), dict):  # validators match these in exponential time
            raise FormatError("json_schema: it has patternProperties: name the properties")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_keywords(inner)


def _allows(schema: Any, text: str) -> bool:
    """Whether a text is JSON that a schema allows. No reference is fetched."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        return bool(_validator()(schema, registry=Registry()).is_valid(json.loads(text, parse_constant=_no_json)))
    except (ValueError, RecursionError, Unresolvable):
        return False


@functools.cache
def _validator() -> Any:
    """Returns a validator that matches `pattern` in linear time: the expression is a peer's."""
    import jsonschema

    def matched(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
        if isinstance(instance, str) and not _compiled(pattern).search(instance):
            yield jsonschema.ValidationError("the pattern does not match")

    validators: Any = jsonschema.validators
    return validators.extend(jsonschema.Draft202012Validator, {"pattern": matched})


def _check_choices(texts: Sequence[str]) -> None:
    if not texts:
        raise FormatError("choices: there are none")
    if len(texts) > MAX_CHOICES:
        raise FormatError(f"choices: {len(texts):,} of them, the limit is {MAX_CHOICES:,}")
    if (size := sum(len(text.encode()) for text in texts)) > MAX_CHOICES_BYTES:
        raise FormatError(f"choices: {size:,} bytes, the limit is {MAX_CHOICES_BYTES:,}")
    for place, text in enumerate(texts):
        if not text or text[0].isspace():
            raise FormatError(f"choices: number {place} is empty or begins with white space")


def _check_size(name: str, text: str, limit: int) -> None:
    if (size := len(text.encode())) > limit:
        raise FormatError(f"{name}: {size:,} bytes, the limit is {limit:,}")
