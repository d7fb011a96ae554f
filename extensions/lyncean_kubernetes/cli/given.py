"""The options of `submit` as a run on a cluster."""

from __future__ import annotations

from copy import copy
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import yaml

from lyncean.errors import UserError
from lyncean_kubernetes.engines import OVERLAYS
from lyncean_kubernetes.server import Server
from lyncean_kubernetes.submission import TASKS, Submission
from lyncean_kubernetes.tools import read_files
from orchestrator.cli import eval_command as evaluate
from orchestrator.run import RunRequest

NOT_HERE = {
    "scorer": "the cluster's scorer is used",
    "model": "--model is the model servers'",
    "shard": "--shards N runs all of them",
    "run": "--run is a name, not a folder; --out is where folders are",
    "patience": "it is long enough for a node to be replaced",
    **dict.fromkeys(("prices", "max_cost"), "`orchestrator score RUN --prices FILE` adds the cost to a complete run"),
    "dry_run": "nothing is sent before `kubectl apply`",
    "as_json": "the log is for people; the results are in the run folder",
    "quiet": "the log is for people",
    **dict.fromkeys(("tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name"), "--component mtls does that"),
    "rules": "files of this machine are not there; a package with the entry point lyncean.rules is",
    "token_file": "the Secret lyncean-token holds the token",
}
"""Options of `eval` that a cluster's run does not take, and what stands in their place."""

_OF_SERVERS = ("model_options", "judge", "judge_cache", "judge_reads")
"""Options of `eval` that are given to the model server and the scorer, not to the run's command."""
OPTIONS = [
    copy(param)
    for param in evaluate.params
    if isinstance(param, click.Option) and param.name not in (*NOT_HERE, "endpoint", "suite", "checkpoints")
]
for _option in OPTIONS:
    _option.required = False  # --watch --run NAME names no task
SHARED = [option for option in OPTIONS if option.name not in _OF_SERVERS]


def flags_of(given: dict[str, Any]) -> list[str]:
    """Turns parsed options back into flags for `eval`; defaults are left out."""
    words: list[str] = []
    for option in SHARED:
        value, flag = given[option.name or ""], max(option.opts, key=len)
        if option.is_flag:
            words += [flag] if value else []
        elif value is not None and value != option.default:
            words += [f"{flag}={item}" for item in (value if option.multiple else [value])]
    return words


def submission_of(name: str | None, given: dict[str, Any]) -> Submission:
    """Returns the run that the flags describe."""
    if not given["tasks"]:
        raise click.UsageError("Missing option '--task'; or name an applied run with --run.")
    files, tool_files = _check(given), read_files(given["tool_servers"])
    if both := {Path(path).name for path in files} & {Path(path).name for path in tool_files}:
        raise UserError(f"{', '.join(both)}: a task file and a file of tools of one name; rename one")
    return Submission(
        flags=tuple(flags_of({**given, "tasks": [files.get(word, word) for word in given["tasks"]]})),
        files={
            **{Path(path).name: Path(path).read_text(encoding="utf-8") for path in files},
            **{Path(path).name: text for path, text in tool_files.items()},
        },
        name=name or "",
        overlay=overlay_of(given),
        server=server_of(given),
        judges=_judges(given),
        queue=given["queue"],
        **{
            key: given[key]
            for key in (
                "components",
                "out",
                "endpoints",
                "model",
                "weights",
                "servers",
                "replicas",
                "shards",
                "tool_servers",
            )
        },
        **{key: given[key] for key in ("namespace", "registry", "tag", "pull_secrets")},
    )


def server_of(given: dict[str, Any]) -> Server:
    """Returns what the flags change of the model server."""
    from orchestrator.run import server_options

    changes: dict[str, Any] = {one.name: given[one.name] for one in fields(Server) if one.name != "options"}
    return Server(**changes, options=tuple(server_options(given["model_options"])))


def _judges(given: dict[str, Any]) -> tuple[str, ...]:
    """Returns the arguments of the scorer that give it judges, as one word each."""
    from orchestrator.run import judge_arguments

    words = judge_arguments(given["judge"], given["judge_cache"], given["judge_reads"], None)
    return tuple(f"{name}={value}" for name, value in zip(words[::2], words[1::2], strict=True))


def overlay_of(given: dict[str, Any]) -> str:
    """Returns the name or path of the overlay.

    Raises:
        UserError: If --engine contradicts another flag.
    """
    if engine := given["engine"]:
        for name in ("endpoints", "image"):
            if given[name]:
                raise UserError(f"--engine with --{name.removesuffix('s')}: that serves the model; leave one out")
        if given["overlay"] not in (None, OVERLAYS[engine]):
            raise UserError(f"--engine {engine} stands in overlay {OVERLAYS[engine]}: leave --overlay out")
        return OVERLAYS[engine]
    if given["overlay"]:
        return str(given["overlay"])
    if any("://" in word for word in given["endpoints"]):
        return "endpoint"
    return "proprietary" if given["image"] else "gpu"


def _check(given: dict[str, Any]) -> dict[str, str]:
    """Refuses what would end the run on the cluster, and returns where its task files will be there.

    Raises:
        ConfigError: For an unknown task, a bad setting, or a task file whose data is on this machine alone.
    """
    from orchestrator import ConfigError
    from orchestrator.benchmarks import TASK_FILES
    from orchestrator.run import make_plan, variants

    request = RunRequest(**{option.name: given[option.name] for option in SHARED if option.name})
    # Synthetic rows are made from the seed, here as there; other data is on the cluster.
    (make_plan if request.synthetic else variants)(request)
    files = [word for word in given["tasks"] if word.endswith(TASK_FILES)]
    for word in given["data"] or ():
        place = word.partition("=")[2] or word
        if place.startswith(".") or (not place.startswith("/") and Path(place).exists()):
            raise ConfigError(f"--data {word} is on this machine: copy it to the claim lyncean-data and give /data/...")
    if len({Path(path).name for path in files}) < len(files):
        raise ConfigError(f"{', '.join(files)}: two task files of one name; rename one")
    for path in files:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))["data"]
        if isinstance(data, str) and not request.data and (Path(path).parent / data).exists():
            raise ConfigError(f"{path}: its data, {data}, is on this machine: give --data its path on the cluster")
    return {path: f"{TASKS}/{Path(path).name}" for path in files}
