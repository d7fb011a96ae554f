"""The manifest: the identity of a run, and further facts about it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
from google.protobuf import json_format

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc.addresses import without_password
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.run_folder.durable import write_file
from orchestrator.run_folder.files import MANIFEST
from orchestrator.run_folder.lines import identity_hash, verify_identity
from orchestrator.run_folder.parts import proto_json
from orchestrator.run_folder.records import FOLDERS
from orchestrator.samples import metric

_FIELDS = {"identity", "identity_sha256", "shard", "command", "created", "replicas", "rules", "metrics"}
"""Fields that every manifest has."""
_TYPES: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("identity", "rules", "metrics", "model", "stages", "benchmarks", "versions"), (dict, "an object")),
    **dict.fromkeys(("replicas", "judges"), (list, "a list")),
    **dict.fromkeys(("identity_sha256", "command", "created", "scorer"), (str, "a text")),
}
"""Types of a manifest's fields, and their names."""

FOREIGN_METRICS = frozenset({"harness_group", "harness_task", "vlmevalkit"})
"""The scorer's metrics that run code of other harnesses; in older runs their parameters name folders with tasks."""

_PACKAGES = ("lyncean", "grpcio", "protobuf", "orjson", "pillow", "pyarrow", "datasets", "numpy")


class ManifestError(UserError):
    """Raised if a run folder is another command's, or not a run at all: exit 2."""


def model_identity(info: model.GetModelInfoResponse) -> dict[str, str]:
    """Returns the part of a model's description that identifies it."""
    return {
        "model_name": info.model_name,
        "model_revision": info.model_revision,
        "chat_template_sha256": info.chat_template_sha256,
        **({"processor_sha256": info.processor_sha256} if info.processor_sha256 else {}),
    }


def info_json(info: model.GetModelInfoResponse) -> dict[str, Any]:
    """Returns a model's description as people and reports read it: proto3 JSON, numbers as numbers."""
    line = proto_json(info)
    if "max_request_bytes" in line:
        line["max_request_bytes"] = info.max_request_bytes
    return line


def make(
    identity: Mapping[str, Any],
    *,
    info: model.GetModelInfoResponse,
    stages: Mapping[str, model.GetModelInfoResponse],
    replicas: list[str],
    rules: scorer.ListRulesResponse,
    metrics: Mapping[str, list[scorer.MetricSpec]],
    shard: tuple[int, int] | None,
    code: Mapping[str, str],
    groups: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Returns the manifest of a run that begins now."""
    return {
        "identity": dict(identity),
        "identity_sha256": identity_hash(identity),
        "shard": {"index": shard[0], "of": shard[1]} if shard else None,
        "command": _command(sys.argv[1:]),
        "created": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "model": info_json(info),
        "stages": {name: info_json(other) for name, other in stages.items()},
        "replicas": replicas,
        "rules": {rule.name: rule.sha256 for rule in rules.rules},
        "scorer": rules.scorer_version,
        "judges": list(rules.judges),
        "metrics": with_agreement(
            {task: [proto_json(spec) for spec in specs] for task, specs in metrics.items()}, rules.judges
        ),
        "benchmarks": dict(code),
        "groups": {
            name: {**group, "metrics": [proto_json(spec) for spec in group["metrics"]]}
            for name, group in groups.items()
        },
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
    }


def with_agreement(specs: Mapping[str, list[dict[str, Any]]], judges: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Returns the metrics of every task, with the judges' agreement if several are asked."""
    agreement = proto_json(metric("judge agreement", "judge_agreement"))
    several = [agreement] if len(judges) > 1 else []
    return {task: [*(spec for spec in metrics if spec != agreement), *several] for task, metrics in specs.items()}


def _command(arguments: Sequence[str]) -> str:
    """Returns a command without passwords; bytes that are not UTF-8 are escaped."""
    shown = " ".join(["orchestrator", *map(without_password, arguments)])
    return shown.encode("utf-8", "backslashreplace").decode()


def read(run: Path) -> dict[str, Any]:
    """Returns a run folder's manifest.

    Raises:
        ManifestError: If it is missing, cannot be read or is not a run's manifest.
        ConfigError: If its identity was changed.
    """
    path = run / MANIFEST
    try:
        manifest = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise ManifestError(
            f"{run} is not a run folder: {MANIFEST} is missing; name one that `orchestrator eval` made"
        ) from None
    except (OSError, orjson.JSONDecodeError) as error:
        raise ManifestError(f"{path} cannot be read ({error}): restore it, or give --run another folder") from error
    missing = _FIELDS - manifest.keys() if isinstance(manifest, dict) else _FIELDS
    if missing:
        raise ManifestError(f"{path} is not the manifest of a run: it has no {', '.join(sorted(missing))}")
    fields: dict[str, Any] = manifest
    for name, (kind, expected) in _TYPES.items():
        if name in fields and not isinstance(fields[name], kind):
            raise ManifestError(f"{path} is damaged: {name} is {_short(fields[name])}, not {expected}; restore it")
    verify_identity(path, fields)
    return fields


def write(path: Path, content: Mapping[str, Any], *, indent: bool = True) -> None:
    """Writes a JSON file atomically, its fields sorted.

    Args:
        path: The file.
        content: Its content.
        indent: Whether it is for people as well.

    Raises:
        RunWriteError: If it cannot be written.
    """
    option = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if indent else 0)
    data = orjson.dumps(content, option=option)
    write_file(path, data)


def check_same(
    run: Path, manifest: Mapping[str, Any], identity: Mapping[str, Any], shard: tuple[int, int] | None
) -> None:
    """Makes sure that a folder is this command's.

    Raises:
        ManifestError: If it is not; names the first field that differs.
    """
    here = {**_fields(identity), "shard": {"index": shard[0], "of": shard[1]} if shard else None}
    there = {**_fields(manifest["identity"]), "shard": manifest["shard"]}
    for field in dict.fromkeys((*here, *there)):
        if orjson.dumps(here.get(field), option=orjson.OPT_SORT_KEYS) != orjson.dumps(
            there.get(field), option=orjson.OPT_SORT_KEYS
        ):
            raise ManifestError(
                f"{run} holds the run of another command: {field} is {_short(there.get(field))} there and "
                f"{_short(here.get(field))} here; give --run another folder, or leave it out"
            )


def _fields(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of an identity, model and deviations field by field: an error names the one that differs."""
    fields = dict(identity)
    for group in ("model", "deviations"):
        for name, value in fields.pop(group, {}).items():
            fields[f"{group}.{name}"] = value
    return fields


def specs_of(manifest: Mapping[str, Any]) -> dict[str, list[scorer.MetricSpec]]:
    """Returns the metrics that a manifest requests, by task."""
    return {task: [_spec(spec) for spec in specs] for task, specs in manifest["metrics"].items()}


def group_specs_of(manifest: Mapping[str, Any]) -> dict[str, tuple[list[str], list[scorer.MetricSpec]]]:
    """Returns tasks and metrics of the groups with metrics over their tasks, by name."""
    groups: Mapping[str, Mapping[str, Any]] = manifest.get("groups") or {}
    return {name: (list(group["tasks"]), [_spec(spec) for spec in group["metrics"]]) for name, group in groups.items()}


def _spec(line: dict[str, Any]) -> scorer.MetricSpec:
    spec = json_format.ParseDict(line, scorer.MetricSpec())
    if spec.metric in FOREIGN_METRICS:
        spec.params.fields.pop(FOLDERS, None)
    return spec


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
