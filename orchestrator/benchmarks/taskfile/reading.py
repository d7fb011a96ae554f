"""Reads a task file; a mistake in it is named with file and line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.data.rows import DataError
from orchestrator.data.yaml_file import YamlError, YamlFile

SCHEMA = Path(__file__).with_name("schema.json")
"""JSON Schema of a task file; docs/add-a-benchmark.md says what each key means."""


class TaskFileError(YamlError, DataError):
    """A task file that says what cannot be. A user's mistake: exit 2."""


@dataclass(frozen=True, slots=True)
class TaskFile(YamlFile):
    """A task file that fits the schema."""

    failure = TaskFileError
    keys = "`key: value`, data and answer among them"
    schema = SCHEMA

    def names(self, key: str) -> list[str]:
        """Returns the columns under a key that takes one or several."""
        value = self.values.get(key, [])
        values = [value] if isinstance(value, str) else value
        return [str(word).lower() if isinstance(word, bool) else word for word in values]
