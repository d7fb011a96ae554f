"""Reads a suite: the cells of models x tasks x variants, each the request of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from lyncean.rpc import PLAIN, Credentials
from orchestrator.benchmarks.registry import TASK_FILES
from orchestrator.compare import gate
from orchestrator.compare.series import BEST, PREVIOUS
from orchestrator.data.yaml_file import Place, YamlError, YamlFile, closest
from orchestrator.errors import ConfigError
from orchestrator.run.request import RunRequest, checked
from orchestrator.suite.checkpoints import Found

SCHEMA = Path(__file__).with_name("schema.json")
"""JSON Schema of a suite, as far as it is not the options of a run; docs/suites.md describes the keys."""
CLUSTER = "cluster"
"""Key of a model with its settings for `orchestrator submit`."""

_OF_MODELS = ("model", "model_options", "endpoint")
_NOT_HERE = {
    "tasks": "`tasks` of the suite names them",
    "run": "--run is the folder of the suite, and each cell has its own in it",
    "shard": "`orchestrator submit --suite` has --shards",
    "credentials": "give --tls-ca, --token-file and so on beside --suite",
    "progress": "give --quiet beside --suite",
}
"""Fields of a request that a suite does not take, and what replaces them."""
_SPELLED = {"set": "settings", "metric": "metrics", "model_option": "model_options", "stage": "stages"}
"""Options of the command whose fields are called otherwise."""
_OPTIONS = [field.name for field in fields(RunRequest) if field.name not in _NOT_HERE]


class SuiteError(YamlError, ConfigError):
    """Raised for a suite with a mistake of its user: exit 2."""


@dataclass(frozen=True, slots=True)
class SuiteFile(YamlFile):
    """A suite's file as it is written."""

    failure = SuiteError
    keys = "`key: value`, models and tasks among them"
    schema = SCHEMA


@dataclass(frozen=True, slots=True)
class Cell:
    """One model, one task or group of tasks, one variant.

    Attributes:
        model: The model's name in the suite.
        task: The task as it is written, a file's path seen from the working folder.
        variant: Name of the variant, "" if the suite has none.
        name: Name of its run folder.
        request: The request of its run.
        places: Place of each of its options in the file.
        model_place: Place of its model in the file.
        task_place: Place of its task in the file.
        cluster: What `orchestrator submit` needs of the model.
        checkpoint: The checkpoint that its model is, None where the suite names the model.
    """

    model: str
    task: str
    variant: str
    name: str
    request: RunRequest
    places: Mapping[str, Place]
    model_place: Place
    task_place: Place
    cluster: Mapping[str, Any]
    checkpoint: Found | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite that is read and not planned yet.

    Attributes:
        name: Its name, which its folder and leaderboard have.
        cells: The cells, those of one model after each other.
        baseline: The model that the gate compares with, "" for none.
    """

    file: SuiteFile
    name: str
    cells: tuple[Cell, ...]
    baseline: str
    conditions: tuple[gate.Condition, ...]

    def error(self, cell: Cell, error: Exception | str, location: Place) -> YamlError:
        """Returns an error of a cell, at the option of the cell that its message names first, else at `location`."""
        names = (word.replace("-", "_") for word in re.findall(r"(?:^|--)([\w-]+)", str(error)))
        places = (cell.places.get(_SPELLED.get(name, name)) for name in names)
        return self.file.error(f"{cell.name}: {error}", *next(filter(None, places), location))


def read(path: Path, credentials: Credentials = PLAIN, checkpoints: Sequence[Found] | None = None) -> Suite:
    """Reads a suite and checks the type of every option.

    Args:
        path: The file.
        credentials: Of servers that run already.
        checkpoints: Checkpoints that become models, by step; None for a suite that is not about checkpoints.

    Raises:
        SuiteError: If it has a mistake; the message names file, line, key and fix.
    """
    return of_file(SuiteFile.read(path), credentials, checkpoints)


def of_file(file: SuiteFile, credentials: Credentials = PLAIN, checkpoints: Sequence[Found] | None = None) -> Suite:
    """Returns the suite of a file that is read already."""
    path, values = file.path, file.values
    common = _options(file, values.get("options"), ("options",))
    for name in _OF_MODELS:
        if name in common:
            raise file.error(f"{name} is an option of a single model: write it under `models`", "options", name)
    written = values["tasks"]
    tasks = dict.fromkeys(written) if isinstance(written, list) else written
    if len(tasks) < len(written):
        raise file.error("a task stands twice in `tasks`: leave one out", "tasks")
    at = range(len(written)) if isinstance(written, list) else written
    places: dict[str, Place] = {word: ("tasks", location) for word, location in zip(tasks, at, strict=True)}
    suite = Suite(file, path.stem, (), *_gate(file, checkpoints))
    cells: dict[str, Cell] = {}
    for model, given, location, checkpoint in _models(file, checkpoints):
        cluster = given.get(CLUSTER) or {}
        of_model = _options(file, {key: value for key, value in given.items() if key != CLUSTER}, location)
        for word, more in tasks.items():
            of_task = _options(file, more, places[word])
            for variant, changed in (values.get("variants") or {"": None}).items():
                of_variant = _options(file, changed, ("variants", variant))
                _check_apart(file, [of_model, of_task, of_variant])
                merged = {**common, **of_model, **of_task, **of_variant}
                name = "-".join(filter(None, (model, _name(word), variant)))
                if (other := cells.get(name.casefold())) is not None:
                    raise file.error(
                        f"{name} would be the folder of two cells, of {other.model} with {other.task} and of {model} "
                        f"with {word}: rename the model or the variant",
                        *places[word],
                    )
                option_places = {key: location for key, (_, location) in merged.items()}
                task = _beside(path, word) if word.endswith(TASK_FILES) else word
                options = {key: _located(path, key, value) for key, (value, _) in merged.items()}
                request = RunRequest(task, credentials=credentials, **options)
                cell = Cell(
                    model, task, variant, name, request, option_places, location, places[word], cluster, checkpoint
                )
                try:
                    cells[name.casefold()] = replace(cell, request=checked(request))
                except ConfigError as error:
                    raise suite.error(cell, error, places[word]) from error
    return replace(suite, cells=tuple(cells.values()))


def _models(
    file: SuiteFile, checkpoints: Sequence[Found] | None
) -> Iterator[tuple[str, Mapping[str, Any], Place, Found | None]]:
    """Yields each model with its options, their location and its checkpoint: the file's models, then checkpoints."""
    models: Mapping[str, Any] = file.values.get("models") or {}
    if not models and checkpoints is None:
        raise file.error("models is missing: it is needed, unless --checkpoints names the models")
    for model, options in models.items():
        yield model, options, ("models", model), None
    common = file.values.get("checkpoints") or {}
    for name in ("model", "endpoint"):
        if name in common:
            raise file.error(
                f"{name} is not an option of checkpoints: each is served from its folder", "checkpoints", name
            )
    for checkpoint in checkpoints or ():
        if checkpoint.name in models:
            raise file.error(f"{checkpoint.name} is a checkpoint as well: rename the model", "models", checkpoint.name)
        yield checkpoint.name, {**common, "model": str(checkpoint.path)}, ("checkpoints",), checkpoint


Options = Mapping[str, tuple[Any, Place]]
"""Values of options, and where each is written."""


def _options(file: SuiteFile, values: Mapping[str, Any] | None, location: Place) -> Options:
    options = {}
    for key, value in (values or {}).items():
        if key in _NOT_HERE:
            raise file.error(f"{key} is not an option of a suite: {_NOT_HERE[key]}", *location, key)
        name = key.replace("-", "_")
        name = _SPELLED.get(name, name)
        if key not in _OPTIONS:
            hint = f"write {name}" if name in _OPTIONS else closest(name, _OPTIONS)
            raise file.error(f"unknown option {key!r} of `orchestrator eval`: {hint}", *location, key)
        if key in _OF_MODELS and location[0] not in ("models", "checkpoints") and location != ("options",):
            raise file.error(f"{key} is an option of a single model: write it under `models`", *location, key)
        options[key] = (value, (*location, key))
    return options


def _check_apart(file: SuiteFile, parts: list[Options]) -> None:
    """Raises if an option of one cell has two values: a choice between them would be a guess."""
    seen: dict[str, Place] = {}
    for part in parts:
        for key, (_, location) in part.items():
            if key in seen:
                first = ".".join(map(str, seen[key][:-1]))
                raise file.error(
                    f"{key} is given by {first} as well: leave one out, or write it in `options`", *location
                )
            seen[key] = location


def _gate(file: SuiteFile, checkpoints: Sequence[Found] | None) -> tuple[str, tuple[gate.Condition, ...]]:
    section = file.values.get("gate") or {}
    baseline = section.get("baseline", "")
    models = file.values.get("models") or {}
    # A checkpoint that is the baseline may not be there yet.
    if baseline and baseline not in (*models, PREVIOUS, BEST) and checkpoints is None:
        known = ", ".join([*models, PREVIOUS, BEST])
        raise file.error(f"baseline {baseline!r} is none of the models: {known}", "gate", "baseline")
    conditions: list[gate.Condition] = []
    for number, text in enumerate(section.get("conditions", ())):
        location = ("gate", "conditions", number)
        try:
            parsed = gate.parse(text)
        except ConfigError as error:
            raise file.error(str(error).removeprefix("--gate: "), *location) from error
        if not baseline and any(gate.compares(one) for one in parsed):
            raise file.error(f"{text!r} compares two models: name the first one by `baseline`", *location)
        conditions += parsed
    return baseline, tuple(conditions)


def _name(word: str) -> str:
    """Returns a task as a part of a folder's name."""
    last = Path(word).stem if word.endswith(TASK_FILES) else word
    return "".join(c if c.isalnum() or c in "._+-" else "_" for c in last)


def _located(path: Path, key: str, value: Any) -> Any:
    """Returns a value whose paths lead from the working folder: in a suite they may lead from the suite's own."""
    if key not in ("data", "include_path"):
        return value
    if isinstance(value, Mapping):
        return {task: _beside(path, one) for task, one in value.items()}
    if isinstance(value, list):
        return [_beside(path, one) for one in value]
    return _beside(path, value)


def _beside(path: Path, value: Any) -> Any:
    """Returns the path of a file beside the suite that has this name; the name itself if there is none."""
    if isinstance(value, str) and value and (neighbour := path.parent / value).exists():
        return str(neighbour)
    return value
