"""Reading a run folder: what every report, table and export starts from.

Responses stay on disk. An index of byte offsets is kept, so that a run of any length can be read
in the order of its keys, one item at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import orjson

from lynceus.outcomes import Outcome

OUTCOMES = tuple(str(outcome) for outcome in Outcome)

_SHA256 = re.compile("[0-9a-f]{64}")

STEP = "step"
"""What stands in place of an outcome where a turn only prepared another and is not scored."""


@dataclass(frozen=True, slots=True)
class Item:
    """One call of a run and what became of it.

    Attributes:
        key: The item's key.
        response: Its line of responses.jsonl, empty where only a verdict is known.
        verdict: Its line of verdicts.jsonl, empty where there is none.
    """

    key: str
    response: Mapping[str, Any]
    verdict: Mapping[str, Any]

    @property
    def outcome(self) -> str:
        """One of the six outcomes, `STEP` for an unscored turn, "" where it is not scored yet."""
        if found := self.verdict.get("outcome") or self.response.get("outcome"):
            return str(found)
        return STEP if self.response and self.response.get("scoring") is None else ""

    @property
    def score(self) -> float | None:
        """The verdict's score, None where it has none."""
        score = self.verdict.get("score")
        return None if score is None else float(score)

    @property
    def text(self) -> str:
        """The text parts of the answer, joined: what `span` counts in."""
        parts = (self.response.get("response") or {}).get("parts", ())
        return "".join(part.get("text", "") for part in parts)

    @property
    def scoring(self) -> Mapping[str, Any]:
        """The scoring of the turn, empty where it has none."""
        return self.response.get("scoring") or {}

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.response.get("task") or self.verdict.get("task") or self.key.partition("/")[0])

    @property
    def sample(self) -> str:
        """Key of the sample that the item is a turn of."""
        return str(self.response.get("sample") or self.key)

    @property
    def labels(self) -> Mapping[str, str]:
        """What the item can be sliced by."""
        return self.scoring.get("labels") or self.verdict.get("labels") or {}

    @property
    def group(self) -> str:
        """Name of the group, "" where it has none."""
        return str(self.scoring.get("group") or self.verdict.get("group") or "")


@dataclass(frozen=True)
class Run:
    """A run folder, possibly one that is still being written.

    Attributes:
        path: The folder.
        manifest: manifest.json.
        results: results.json, empty while the run goes on.
    """

    path: Path
    manifest: Mapping[str, Any]
    results: Mapping[str, Any]
    name: str = field(default="")

    @cached_property
    def verdicts(self) -> dict[str, Mapping[str, Any]]:
        """The last verdict of each key."""
        return {str(line["key"]): line for _, line in read_lines(self.path / "verdicts.jsonl")}

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Where in responses.jsonl the last line of each key starts."""
        return {str(line["key"]): at for at, line in read_lines(self.path / "responses.jsonl")}

    @cached_property
    def keys(self) -> list[str]:
        """The keys of all items, in the order a person would put them."""
        return sorted(self.offsets.keys() | self.verdicts.keys(), key=natural)

    def __iter__(self) -> Iterator[Item]:
        return self.read(self.keys)

    def read(self, keys: Iterable[str]) -> Iterator[Item]:
        """Yields the items of some keys, in the order given."""
        path = self.path / "responses.jsonl"
        if not path.exists():
            for key in keys:
                yield Item(key, {}, self.verdicts.get(key, {}))
            return
        with path.open("rb") as file:
            for key in keys:
                response: dict[str, Any] = {}
                if key in self.offsets:
                    file.seek(self.offsets[key])
                    response = orjson.loads(file.readline())
                yield Item(key, response, self.verdicts.get(key, {}))

    def image(self, name: str) -> Path | None:
        """Returns the file of an image of the run, None where there is none of that name."""
        if not _SHA256.fullmatch(name):
            return None
        path = self.path / "images" / name
        # A link may lead to a store of images, never to a file that is called something else.
        return path if path.is_file() and path.resolve().name == name else None

    @property
    def identity(self) -> Mapping[str, Any]:
        """What makes two runs the same run."""
        identity: Mapping[str, Any] = self.manifest.get("identity", {})
        return identity

    def specs(self, task: str) -> Sequence[Mapping[str, Any]]:
        """Returns the metrics asked for of a task (lynceus.scorer.v1.MetricSpec), where the manifest has them."""
        found: Sequence[Mapping[str, Any]] = (self.manifest.get("metrics") or {}).get(task, ())
        return found

    @property
    def model(self) -> Mapping[str, Any]:
        """The model as the server reported it."""
        model: Mapping[str, Any] = self.manifest.get("model") or self.results.get("model") or {}
        return model

    @property
    def model_name(self) -> str:
        """The model's name, the folder's where it is not known."""
        return str(self.model.get("model_name") or self.identity.get("model_name") or self.name)

    @property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """The results by task, empty while the run goes on."""
        tasks: Mapping[str, Mapping[str, Any]] = self.results.get("tasks", {})
        return tasks


def open_run(path: Path) -> Run:
    """Opens a run folder.

    Raises:
        click.UsageError: There is no run at `path`.
    """
    manifest = path / "manifest.json"
    if not manifest.is_file():
        known = sorted(found.parent.name for found in path.glob("*/manifest.json")) if path.is_dir() else []
        hint = f"; did you mean one of {', '.join(known[:5])} in it?" if known else ": give the folder that --run named"
        raise click.UsageError(f"{path} is no run: it holds no manifest.json{hint}")
    return Run(path, read_json(manifest), read_json(path / "results.json"), path.resolve().name)


def read_json(path: Path) -> dict[str, Any]:
    """Returns a JSON object, empty where the file is not there.

    Raises:
        click.UsageError: The file is no JSON object.
    """
    try:
        found = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except orjson.JSONDecodeError as error:
        raise click.UsageError(f"{path} is damaged ({error}): restore it, or run the same command again") from error
    if not isinstance(found, dict):
        raise click.UsageError(f"{path} is damaged: a JSON object was expected")
    return found


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the offset and the content of each whole line; a torn last line is passed over.

    Raises:
        click.UsageError: A line before the last is no JSON.
    """
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                found = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise click.UsageError(f"{path} line {number} is damaged: {error}") from error
            yield offset, found
            offset += len(line)


_DIGITS = re.compile(r"(\d+)")


def natural(key: str) -> list[tuple[int, int, str]]:
    """Returns a sort key under which marvel/9 stands before marvel/17, and digits before letters."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(key) if part]
