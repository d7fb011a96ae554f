"""Validation of the contract's `ResponseFormat`, and of texts against it."""

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
"""One token of a regular expression in the contract's syntax."""
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\n\f\r"}


class FormatError(ValueError):
    """Raised for an invalid format; the message names the mistake."""


def check(wanted: model.ResponseFormat) -> None:
    """Validates a format. Sizes are checked first, so that nothing large is compiled.

    Raises:
        FormatError: If it is invalid.
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
    """Returns True if a whole text matches a valid format."""
    match wanted.WhichOneof("kind"):
        case "choices":
            return text in wanted.choices.texts
        case "regex":
            return bool(_compiled(plain_regex(wanted.regex)).fullmatch(text))
    return _allows(schema_of(wanted.json_schema), text)


def plain_regex(regex: str) -> str:
    r"""Rewrites an expression to syntax with one meaning in all engines: `\d` as `[0-9]`, `.` as `[^\n]`.

    Raises:
        FormatError: For syntax outside the contract.
    """
    tokens = []
    position = 0
    while position < len(regex):
        token = _TOKEN.match(regex, position)
        if token is None:
            raise FormatError(
                f"regex: {regex[position : position + 12]!r} at {position} is not in the contract's syntax"
            )
        tokens.append(_plain(token))
        position = token.end()
    return "".join(tokens)


def _plain(token: re.Match[str]) -> str:
    text = token[0]
    match token.lastgroup:
        case "set":
            return re.sub(r"\\(.)", lambda escape: _CLASSES.get(escape[1], escape[0]), text, flags=re.DOTALL)
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
        message = error.args[0]
        raise FormatError(f"regex: {message.decode() if isinstance(message, bytes) else message}") from error


def schema_of(text: str) -> Any:
    """Parses a JSON schema.

    Raises:
        FormatError: If it is invalid, refers to another document, or has `patternProperties`.
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
    """Returns True if a text is JSON that conforms to a schema. No reference is fetched."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        return bool(_validator()(schema, registry=Registry()).is_valid(json.loads(text, parse_constant=_no_json)))
    except (ValueError, RecursionError, Unresolvable):
        return False


@functools.cache
def _validator() -> Any:
    """Returns a validator that matches `pattern` in linear time, since the expression comes from a peer."""
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
    for index, text in enumerate(texts):
        if not text or text[0].isspace():
            raise FormatError(f"choices: number {index} is empty or begins with white space")


def _check_size(name: str, text: str, limit: int) -> None:
    if (size := len(text.encode())) > limit:
        raise FormatError(f"{name}: {size:,} bytes, the limit is {limit:,}")
