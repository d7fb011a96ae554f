"""YAML files that people write, checked by a JSON Schema: a mistake is named with file, line, key and fix."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import jsonschema
import orjson
import yaml

from lyncean.errors import UserError

_DEEPEST = 20
_MOST_BYTES = 1 << 20

Place = tuple[str | int, ...]
"""Keys and numbers that lead to a value: ("decoding", "stop"), ("metrics", 0), ..."""
Lines = Iterator[tuple[Place, int]]


class _Loader(yaml.SafeLoader):
    """Reads yes, no, on and off as the words that they are, as YAML 1.2 does: they are answers and options here."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, re.compile("(?i:true|false)") if tag.endswith(":bool") else pattern)
        for tag, pattern in resolvers
        if not (tag.endswith(":bool") and first.lower() not in "tf")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class YamlError(UserError):
    """A file with a mistake of its user's: exit 2."""


@dataclass(frozen=True, slots=True)
class YamlFile:
    """A file that fits its schema.

    Attributes:
        path: The file.
        values: Its content.
        lines: The line of each key, by its place.
        sha256: Hash of its bytes.
    """

    path: Path
    values: Mapping[str, Any]
    lines: Mapping[Place, int]
    sha256: str

    failure = YamlError
    """Class of the error of a mistake in it."""
    keys = "`key: value`"
    """Description of its entries for messages."""
    schema: ClassVar[Path]
    """JSON Schema (2020-12) that it fits."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads and checks a file.

        Raises:
            YamlError: It cannot be read, is not YAML, or violates the schema; of the class `failure`.
        """
        try:
            data = path.read_bytes()
            text = data.decode("utf-8-sig")
        except OSError as error:
            raise cls.failure(f"{path} cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise cls.failure(f"{path} is not UTF-8: {error}") from error
        if len(data) > _MOST_BYTES:
            raise cls.failure(f"{path} has {len(data):,} bytes, more than {_MOST_BYTES:,}: it names data, not holds it")
        values, lines = cls._parse(path, text)
        if not isinstance(values, dict):
            raise cls.failure(f"{path}, line 1: it has to be a list of {cls.keys}")
        file = cls(path, values, lines, hashlib.sha256(data).hexdigest())
        file._check(json.loads(cls.schema.read_bytes()))
        return file

    @classmethod
    def _parse(cls, path: Path, text: str) -> tuple[Any, dict[Place, int]]:
        try:
            depth = 0
            for event in yaml.parse(text, yaml.SafeLoader):
                # An alias can make a small file enormous, and no file needs one.
                if isinstance(event, yaml.AliasEvent):
                    raise cls.failure(f"{path} uses a YAML alias (*name): write the value out")
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > _DEEPEST:
                    mark = event.start_mark
                    where = f", line {mark.line + 1}" if mark else ""
                    raise cls.failure(f"{path}{where}: lists or mappings are nested more than {_DEEPEST} deep")
            node = yaml.compose(text, _Loader)
            return yaml.load(text, _Loader), dict(cls._lines(path, node)) if node else {}  # noqa: S506 - a SafeLoader
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise cls.failure(f"{path}{where}: no YAML: {error.problem or error.context}") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise cls.failure(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error

    @classmethod
    def _lines(cls, path: Path, node: yaml.Node, keys: Place = ()) -> Lines:
        """Yields the line of every key and item; a key that stands twice is an error."""
        if isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                name, line = str(key.value), key.start_mark.line + 1
                if name in seen:
                    raise cls.failure(f"{path}, line {line}: {name} stands on line {seen[name]} already")
                seen[name] = line
                yield (*keys, name), line
                yield from cls._lines(path, value, (*keys, name))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                yield (*keys, index), value.start_mark.line + 1
                yield from cls._lines(path, value, (*keys, index))

    def _check(self, schema: Mapping[str, Any]) -> None:
        errors = jsonschema.Draft202012Validator(schema).iter_errors(self.values)
        # A misspelt key explains a missing one, not the other way round.
        first = min(
            errors,
            key=lambda error: (error.validator == "required", self.lines.get(tuple(error.absolute_path), 0)),
            default=None,
        )
        if first is not None:
            message, keys = _message(first, first.instance)
            raise self.error(message, *keys)
        for key, value in self.values.items():
            try:
                json.dumps(value, allow_nan=False)
                # What the run folder's lines are written with: no integers of more than 64 bits.
                orjson.dumps(value)
            except (TypeError, ValueError) as error:
                raise self.error(f"{key}: {error}; write it in quotes", key) from error

    def error(self, message: str, *keys: str | int) -> YamlError:
        """Returns an error that names the file and the line of a key."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.failure(f"{self.path}, line {self.lines.get(keys, 1)}: {message}")


def _message(error: jsonschema.ValidationError, values: Any) -> tuple[str, Place]:
    """Returns a message for people, and the place it is about."""
    keys: Place = tuple(error.absolute_path)
    name = ".".join(map(str, keys))
    allowed: Any = error.validator_value
    if error.validator == "additionalProperties":
        schema: Any = error.schema
        known = list(schema["properties"])
        extra = next(str(key) for key in values if key not in known)
        return f"unknown key {extra!r}: {closest(extra, known)}", (*keys, extra)
    if error.validator == "required":
        return f"{next(key for key in allowed if key not in values)} is missing: it is needed", keys
    if error.validator == "enum":
        return f"{name} is {values!r}: give one of {', '.join(map(str, allowed))}", keys
    if error.validator == "pattern":
        return f"{name} is {values!r}: letters, digits, dots, dashes and underscores only", keys
    if error.validator == "anyOf":
        return f"{name} is {values!r}: give a name or a list of names", keys
    return f"{name}: {error.message}", keys


def closest(word: str, known: list[str]) -> str:
    """Returns what was meant by a word that is none of the known ones, else all of these."""
    close = difflib.get_close_matches(word, known, 1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
