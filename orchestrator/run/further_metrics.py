"""Metrics that a command asks for beside the tasks' own: `--metric pass_at,k=4`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from google.protobuf import json_format

from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.keys import split_repeat
from orchestrator.errors import ConfigError
from orchestrator.run_folder.files import RESPONSES
from orchestrator.run_folder.lines import Head
from orchestrator.run_folder.parts import proto_json
from orchestrator.run_folder.scanning import scan
from orchestrator.samples import metric

_PARAMETER = re.compile(r",(?=\s*\w+\s*=)")
_NO_NAME = re.compile(r"[^\w.+-]+")
"""Characters that no result's name may have: gates and tables separate by them."""
_FORM = "NAME or NAME,PARAMETER=VALUE,..., for example pass_at,k=4"
_OF_REPEATS: Mapping[str, tuple[str, int]] = {
    "pass_at": ("k", 1), "avg_at": ("k", 2), "consistency": ("", 2), "instability": ("", 2)
}  # fmt: skip
"""Metric -> the parameter that says how many repeats of a sample it needs, "" where none does, and the default."""


def read(texts: Iterable[str]) -> dict[str, scorer.MetricSpec]:
    """Returns each word of `--metric` with the result that it asks for, called as the word without its signs.

    Raises:
        ConfigError: A word is not of the form, or two ask for results of one name.
    """
    specs: dict[str, scorer.MetricSpec] = {}
    for text in texts:
        name, *parameters = _PARAMETER.split(text)
        pairs = [parameter.partition("=") for parameter in parameters]
        if not re.fullmatch(r"\s*\w+\s*", name) or not all(value.strip() for _, _, value in pairs):
            raise ConfigError(f"--metric {text}: give {_FORM}")
        values = {key.strip(): _value(value.strip()) for key, _, value in pairs}
        try:
            spec = metric(_name(name.strip(), values), name.strip(), params=values)
        except (json_format.ParseError, ValueError) as error:
            raise ConfigError(f"--metric {text}: {error}; give {_FORM}") from error
        if spec.name in {other.name for other in specs.values()}:
            raise ConfigError(f"--metric {text}: {spec.name!r} is there already: leave one out")
        specs[text] = spec
    return specs


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _name(kind: str, values: Mapping[str, Any]) -> str:
    """Returns "pass at 4" for pass_at,k=4; true is its parameter's name, and a unit changes no name."""
    name_parts = [kind.replace("_", " ")]
    for name, value in values.items():
        if name != "unit":
            flag = name.replace("_", " ") if value else f"not {name}"
            name_parts.append(flag if isinstance(value, bool) else str(value))
    return " ".join(_NO_NAME.sub(" ", word).strip() for word in name_parts)


def added(
    own: Sequence[scorer.MetricSpec], further: Mapping[str, scorer.MetricSpec], task: str
) -> list[scorer.MetricSpec]:
    """Appends further metrics to a task's own; one that it has already is not repeated.

    Raises:
        ConfigError: The task has another result of the same name.
    """
    specs = list(own)
    by_name = {spec.name: spec for spec in own}
    for word, spec in further.items():
        mine = by_name.get(spec.name)
        if mine is None:
            specs.append(spec)
        elif mine.metric != spec.metric:
            raise ConfigError(
                f"--metric {word}: {task} has a result {spec.name!r} of its own ({mine.metric}): give a parameter, for "
                "example level=0.95, which is added to the name"
            )
    return specs


def check_repeats(further: Mapping[str, scorer.MetricSpec], repeats: int) -> None:
    """Makes sure that samples have as many repeats as the metrics need.

    Args:
        further: The metrics by their words.
        repeats: Repeats of a sample.

    Raises:
        ConfigError: One needs more; names both numbers.
    """
    for word, spec in further.items():
        if spec.metric not in _OF_REPEATS or ("over" in spec.params and spec.params["over"] == "group"):
            continue
        name, needed = _OF_REPEATS[spec.metric]
        if name in spec.params.fields:
            needed = int(spec.params.fields[name].number_value)
        if needed > repeats:
            raise ConfigError(
                f"--metric {word} needs {needed:,} repeats of a sample, and this run has {repeats:,}: "
                f"run with --repeats {needed}" + (f", or give {name}={repeats} or less" if name and repeats > 1 else "")
            )


def repeats_of(run: Path) -> int:
    """Returns how many repeats the samples of a run have at most, whoever made them."""
    return 1 + max((split_repeat(head.key)[1] for _, head in scan(run / RESPONSES, Head)), default=0)


def in_manifest(manifest: Mapping[str, Any], further: Mapping[str, scorer.MetricSpec]) -> dict[str, Any]:
    """Returns the metrics of a manifest, with further ones appended to those of each task.

    Raises:
        ConfigError: A task has another result of the same name.
    """
    metrics = {}
    for task, own in manifest["metrics"].items():
        specs = [json_format.ParseDict(spec, scorer.MetricSpec()) for spec in own]
        new = added(specs, further, task)[len(specs) :]
        metrics[task] = [*own, *map(proto_json, new)]
    return metrics
