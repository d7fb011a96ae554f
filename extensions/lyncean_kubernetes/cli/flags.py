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
"""Options of `eval` that a run on a cluster refuses, with their replacement."""

_OF_SERVERS = ("model_options", "judge", "judge_cache", "judge_reads")
"""Options of `eval` that are passed to the model server and the scorer, not to the run's command."""
OPTIONS = [
    copy(param)
    for param in evaluate.params
    if isinstance(param, click.Option) and param.name not in (*NOT_HERE, "endpoint", "suite", "checkpoints")
]
for _option in OPTIONS:
    _option.required = False  # --watch --run NAME names no task
SHARED = [option for option in OPTIONS if option.name not in _OF_SERVERS]


def flags_of(options: dict[str, Any]) -> list[str]:
    """Turns parsed options back into flags for `eval`; defaults are left out."""
    flags: list[str] = []
    for option in SHARED:
        value, flag = options[option.name or ""], max(option.opts, key=len)
        if option.is_flag:
            flags += [flag] if value else []
        elif value is not None and value != option.default:
            flags += [f"{flag}={item}" for item in (value if option.multiple else [value])]
    return flags


def submission_of(name: str | None, options: dict[str, Any]) -> Submission:
    """Returns the run that the flags describe."""
    if not options["tasks"]:
        raise click.UsageError("Missing option '--task'; or name an applied run with --run.")
    files, tool_files = _check(options), read_files(options["tool_servers"])
    if both := {Path(path).name for path in files} & {Path(path).name for path in tool_files}:
        raise UserError(f"{', '.join(both)}: a task file and a file of tools of one name; rename one")
    return Submission(
        flags=tuple(flags_of({**options, "tasks": [files.get(word, word) for word in options["tasks"]]})),
        files={
            **{Path(path).name: Path(path).read_text(encoding="utf-8") for path in files},
            **{Path(path).name: text for path, text in tool_files.items()},
        },
        name=name or "",
        overlay=overlay_of(options),
        server=server_of(options),
        judges=_judges(options),
        queue=options["queue"],
        **{
            key: options[key]
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
        **{key: options[key] for key in ("namespace", "registry", "tag", "pull_secrets")},
    )


def server_of(options: dict[str, Any]) -> Server:
    """Returns the changes of the model server that the flags describe."""
    from orchestrator.run import server_options

    changes: dict[str, Any] = {one.name: options[one.name] for one in fields(Server) if one.name != "options"}
    return Server(**changes, options=tuple(server_options(options["model_options"])))


def _judges(options: dict[str, Any]) -> tuple[str, ...]:
    """Returns the scorer's arguments for judges, as NAME=VALUE."""
    from orchestrator.run import judge_arguments

    arguments = judge_arguments(options["judge"], options["judge_cache"], options["judge_reads"], None)
    return tuple(f"{name}={value}" for name, value in zip(arguments[::2], arguments[1::2], strict=True))


def overlay_of(options: dict[str, Any]) -> str:
    """Returns the name or path of the overlay.

    Raises:
        UserError: If --engine contradicts another flag.
    """
    if engine := options["engine"]:
        for name in ("endpoints", "image"):
            if options[name]:
                raise UserError(f"--engine with --{name.removesuffix('s')}: that serves the model; leave one out")
        if options["overlay"] not in (None, OVERLAYS[engine]):
            raise UserError(f"--engine {engine} stands in overlay {OVERLAYS[engine]}: leave --overlay out")
        return OVERLAYS[engine]
    if options["overlay"]:
        return str(options["overlay"])
    if any("://" in word for word in options["endpoints"]):
        return "endpoint"
    return "proprietary" if options["image"] else "gpu"


def _check(options: dict[str, Any]) -> dict[str, str]:
    """Refuses options that would fail on the cluster; returns the paths of its task files there, by path here.

    Raises:
        ConfigError: For an unknown task, a bad setting, or a task file whose data is on this machine alone.
    """
    from orchestrator import ConfigError
    from orchestrator.benchmarks import TASK_FILES
    from orchestrator.run import make_plan, variants

    request = RunRequest(**{option.name: options[option.name] for option in SHARED if option.name})
    # Synthetic rows are made from the seed, here as there; other data is on the cluster.
    (make_plan if request.synthetic else variants)(request)
    files = [word for word in options["tasks"] if word.endswith(TASK_FILES)]
    for word in options["data"] or ():
        source = word.partition("=")[2] or word
        if source.startswith(".") or (not source.startswith("/") and Path(source).exists()):
            raise ConfigError(f"--data {word} is on this machine: copy it to the claim lyncean-data and give /data/...")
    if len({Path(path).name for path in files}) < len(files):
        raise ConfigError(f"{', '.join(files)}: two task files of one name; rename one")
    for path in files:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))["data"]
        if isinstance(data, str) and not request.data and (Path(path).parent / data).exists():
            raise ConfigError(f"{path}: its data, {data}, is on this machine: give --data its path on the cluster")
    return {path: f"{TASKS}/{Path(path).name}" for path in files}
