"""The cells of a suite, and the checkpoints of a training, on a cluster."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lyncean.errors import UserError
from lyncean_kubernetes.cli.flags import NOT_HERE, OPTIONS, server_of, submission_of
from lyncean_kubernetes.kubectl import Applied
from lyncean_kubernetes.render import as_yaml
from lyncean_kubernetes.submission import Submission, check_name
from lyncean_kubernetes.watch import act
from orchestrator.cli import as_given, refuse

if TYPE_CHECKING:
    from orchestrator.suite import Cell, Suite

_SAME = (
    "overlay",
    "engine",
    "model",
    "image",
    "arguments",
    "gpus",
    "nodes",
    "memory",
    "weights",
    "servers",
    "replicas",
    "shards",
)
_OF_CLUSTER = {
    **{name: name for name in _SAME},
    **{"component": "components", "endpoint": "endpoints", "env": "variables"},
    **{"node_selector": "selectors", "toleration": "tolerations", "secret_env": "secret_variables", "mount": "mounts"},
    **{name: name for name in ("priority_class", "runtime_class", "queue")},
    "tool_server": "tool_servers",
}
"""Keys of a model's `cluster` in a suite -> the parameter that each sets."""


def submit_suite(
    file: Path, name: str | None, action: str | None, folder: str | None, patience: float, options: dict[str, Any]
) -> None:
    """Renders a suite, or runs an action on one that is on the cluster."""
    from lyncean_kubernetes.objects import slug
    from lyncean_kubernetes.suite import fetch, render_suite, run_names
    from orchestrator.report import save_leaderboard
    from orchestrator.run import Terminal
    from orchestrator.suite import board_of, exit_code, read_suite, show_board

    refuse([option.name for option in OPTIONS if option.name], "beside --suite: write it into the file")
    refuse(["model", "endpoints", "image", "arguments"], "beside --suite: write it into the file, at the model")
    suite = read_suite(file)
    name = name or slug(file.stem, 20)
    check_name(name)
    if action is None and folder is None:
        names = run_names(suite, name)
        cells = [(cell.model, _cell(suite, cell, name, names[cell.name], options)) for cell in suite.cells]
        click.echo(as_yaml(render_suite(cells)), nl=False)
        return
    code, applied = 0, Applied(name, options["namespace"], suite=True)
    if folder is not None:
        record = fetch(suite, applied, Path(folder))
        board = board_of(record, Path(folder))
        page, code = save_leaderboard(board, Path(folder)), exit_code(record, board)
        show_board(board, Terminal(markup=False))
        click.echo(page)
    if action is not None:
        code = act(action, applied, patience)
    sys.exit(code)


def submit_checkpoints(
    file: Path | None, pattern: str, name: str | None, action: str | None, options: dict[str, Any]
) -> None:
    """Renders the CronJob that evaluates a training's checkpoints."""
    from lyncean_kubernetes.checkpoints import Watched, render_watched
    from lyncean_kubernetes.objects import slug
    from orchestrator.suite import read_suite

    if file is None:
        raise click.UsageError("--checkpoints needs --suite FILE: the tasks that each checkpoint is evaluated by")
    if action is not None:
        raise click.UsageError("--checkpoints is rendered: kubectl get, logs and delete are about its CronJob")
    refuse([option.name for option in OPTIONS if option.name], "beside --suite: write it into the file")
    other = ("model", "endpoints", "arguments", "overlay", "components", "engine", "nodes", "weights", "shards", "out")
    refuse(other, "is for servers of their own: a pod of --checkpoints loads each checkpoint by --image")
    watched = Watched(
        name or slug(file.stem, 20),
        pattern,
        server_of(options),
        options["namespace"],
        options["queue"],
        options["pull_secrets"],
    )
    click.echo(as_yaml(render_watched(watched, read_suite(file, checkpoints=()))), nl=False)


def _cell(suite: Suite, cell: Cell, name: str, run: str, options: dict[str, Any]) -> Submission:
    """Returns the run of a cell.

    Raises:
        SuiteError: If the cell cannot be submitted; names file, line and key.
    """
    from orchestrator.data import closest
    from orchestrator.suite import CLUSTER

    for key, position in cell.places.items():
        if key in NOT_HERE and key != "model":
            raise suite.file.error(f"{key} is for `orchestrator eval` alone: {NOT_HERE[key]}", *position)
    parsed = as_given(cell.request)
    request = {option.name: parsed[option.name] for option in OPTIONS if option.name}
    known = {param.name: param for param in click.get_current_context().command.params}
    chosen: dict[str, Any] = {"endpoints": parsed["endpoint"]}
    if "model" in cell.places:
        chosen["model"] = cell.request.model.removeprefix("demo:")
    for key, value in cell.cluster.items():
        position = (*cell.model_place, CLUSTER, key)
        if key not in _OF_CLUSTER:
            raise suite.file.error(f"unknown key {key!r}: {closest(key, list(_OF_CLUSTER))}", *position)
        param = known[_OF_CLUSTER[key]]
        if isinstance(value, dict):
            value = [f"{name}={text}" for name, text in value.items()]
        several = (isinstance(param, click.Option) and param.multiple) or param.nargs == -1
        try:
            values = [value] if several and isinstance(value, str) else value
            chosen[_OF_CLUSTER[key]] = param.type_cast_value(click.get_current_context(), values)
        except click.BadParameter as error:
            raise suite.file.error(f"{key}: {error.message}", *position) from error
    try:
        return replace(submission_of(run, {**options, **request, **chosen}), suite=name, cell=cell.name)
    except UserError as error:
        raise suite.error(cell, error, cell.task_place) from error
