"""Reads a task file; a mistake in it is named with file and line."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import yaml

from orchestrator.data.rows import DataError

SCHEMA = Path(__file__).with_name("schema.json")
"""JSON Schema of a task file; docs/add-a-benchmark.md says what each key means."""
_DEEPEST = 20
_MOST_BYTES = 1 << 20


Place = tuple[str | int, ...]
Lines = Iterator[tuple[Place, int]]


class TaskFileError(DataError):
    """A task file that says what cannot be. A user's mistake: exit 2."""


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file that fits the schema.

    Attributes:
        path: Where it is.
        values: What it says.
        lines: The line of each key, by its place: ("decoding", "stop"), ("metrics", 0), ...
        sha256: Of its bytes.
    """

    path: Path
    values: Mapping[str, Any]
    lines: Mapping[Place, int]
    sha256: str

    def error(self, message: str, *place: str | int) -> TaskFileError:
        """Returns an error that names the file and the line of a key."""
        while place and place not in self.lines:
            place = place[:-1]
        return TaskFileError(f"{self.path}, line {self.lines.get(place, 1)}: {message}")

    def names(self, key: str) -> list[str]:
        """Returns the columns under a key that takes one or several."""
        value = self.values.get(key, [])
        return [value] if isinstance(value, str) else list(value)


def read(path: Path) -> TaskFile:
    """Reads and checks a task file.

    Raises:
        TaskFileError: It cannot be read, is no YAML, or says what the schema does not know.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise TaskFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TaskFileError(f"{path} is not UTF-8: {error}") from error
    if len(data) > _MOST_BYTES:
        raise TaskFileError(f"{path} has {len(data):,} bytes: a task file names its data and does not hold it")
    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            # An alias can make a small file enormous, and no task needs one.
            if isinstance(event, yaml.AliasEvent):
                raise TaskFileError(f"{path} uses a YAML alias (*name): write the value out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                mark = event.start_mark
                where = f", line {mark.line + 1}" if mark else ""
                raise TaskFileError(f"{path}{where}: lists or mappings are nested more than {_DEEPEST} deep")
        node = yaml.compose(text, yaml.SafeLoader)
        lines = dict(_lines(path, node)) if node else {}
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise TaskFileError(f"{path}{where}: no YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise TaskFileError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise TaskFileError(f"{path}, line 1: a task file is a list of `key: value`, data and answer among them")
    file = TaskFile(path, values, lines, hashlib.sha256(data).hexdigest())
    errors = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_bytes())).iter_errors(values)
    # A misspelt key explains a missing one, not the other way round.
    first = min(
        errors,
        key=lambda error: (error.validator == "required", lines.get(tuple(error.absolute_path), 0)),
        default=None,
    )
    if first is not None:
        message, place = _said(first, first.instance)
        raise file.error(message, *place)
    for key, value in values.items():
        try:
            json.dumps(value, allow_nan=False)
            # What the run folder's lines are written with: no integers of more than 64 bits.
            orjson.dumps(value)
        except (TypeError, ValueError) as error:
            raise file.error(f"{key}: {error}; write it in quotes", key) from error
    return file


def _lines(
    path: Path, node: yaml.Node, place: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yields the line of every key and item; a key that stands twice is an error."""
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in seen:
                raise TaskFileError(f"{path}, line {line}: {name} stands on line {seen[name]} already")
            seen[name] = line
            yield (*place, name), line
            yield from _lines(path, value, (*place, name))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*place, index), value.start_mark.line + 1
            yield from _lines(path, value, (*place, index))


def _said(error: jsonschema.ValidationError, values: Any) -> tuple[str, Place]:
    """Returns a message for people, and the place it is about."""
    place: Place = tuple(error.absolute_path)
    name = ".".join(map(str, place))
    said: Any = error.validator_value
    if error.validator == "additionalProperties":
        schema: Any = error.schema
        known = list(schema["properties"])
        extra = next(str(key) for key in values if key not in known)
        close = difflib.get_close_matches(extra, known, 1)
        help_ = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
        return f"unknown key {extra!r}: {help_}", (*place, extra)
    if error.validator == "required":
        return f"{next(key for key in said if key not in values)} is missing: it is needed", place
    if error.validator == "enum":
        return f"{name} is {values!r}: give one of {', '.join(map(str, said))}", place
    if error.validator == "pattern":
        return f"{name} is {values!r}: letters, digits, dots, dashes and underscores only", place
    if error.validator == "anyOf":
        return f"{name} is {values!r}: give a name or a list of names", place
    return f"{name}: {error.message}", place
