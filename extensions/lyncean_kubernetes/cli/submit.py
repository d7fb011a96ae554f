"""`orchestrator submit`: a run rendered for a Kubernetes cluster."""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from lyncean.cli import Command, examples
from lyncean.errors import UserError
from lyncean_kubernetes.engines import OVERLAYS
from lyncean_kubernetes.kubectl import Applied
from lyncean_kubernetes.render import TASKS, Submission, as_yaml, check_name, render
from lyncean_kubernetes.server import Server
from lyncean_kubernetes.tools import read_files
from lyncean_kubernetes.watch import ended, states, watch
from orchestrator.cli import as_given, eval_command as evaluate, refuse
from orchestrator.run import RunRequest

if TYPE_CHECKING:
    from orchestrator.suite import Cell, Suite

_NOT_HERE = {
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
_OPTIONS = [
    copy(param)
    for param in evaluate.params
    if isinstance(param, click.Option) and param.name not in (*_NOT_HERE, "endpoint", "suite", "checkpoints")
]
for _option in _OPTIONS:
    _option.required = False  # --watch --run NAME names no task
SHARED = [option for option in _OPTIONS if option.name not in _OF_SERVERS]


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


class _Submit(Command):
    """Says of an option that only `eval` has what stands in its place."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            for param in evaluate.params:
                if error.option_name in (*param.opts, *param.secondary_opts) and param.name in _NOT_HERE:
                    raise click.UsageError(
                        f"{error.option_name} is an option of `eval` alone: {_NOT_HERE[param.name]}", ctx
                    ) from error
            raise


@click.command(
    "submit",
    cls=_Submit,
    epilog=examples(
        "orchestrator submit --overlay cpu-demo --task marvel --synthetic --run first > run.yaml",
        "kubectl apply -f run.yaml",
        "orchestrator submit --run first --watch",
        "orchestrator submit --engine vllm --gpus 4 --model /models/m --task marvel -- --max-model-len 32768",
        "orchestrator submit --suite night.yaml --component kueue > night-runs.yaml",
        "orchestrator submit --suite night.yaml --checkpoints '/ckpt/step_*' --mount training:/ckpt --image IMAGE",
    ),
)
@click.option(
    "--overlay",
    metavar="NAME|PATH",
    help="Folder of deploy/overlays; default: gpu, proprietary (--image), endpoint (URL).",
)
@click.option("--component", "components", multiple=True, metavar="NAME|PATH", help="Folder of deploy/components.")
@click.option(
    *("--endpoint", "-e", "endpoints"),
    multiple=True,
    metavar="H:P|URL",
    help="What is served already: model servers, or the URL of an OpenAI-compatible API; default: render servers.",
)
@click.option("--model", help="Model to load, for example /models/NAME, or its name behind a URL of --endpoint.")
@click.option(
    "--engine",
    type=click.Choice(list(OVERLAYS)),
    help="Program that runs the model, with the overlay it stands in; its further arguments come after `--`.",
)
@click.option("--image", help="Image of a model server of your own; its arguments come after `--`.")
@click.option("--gpus", type=click.IntRange(0), help="GPUs that each model is spread over; default: the overlay's.")
@click.option("--memory", help="Memory of each model server, for example 64Gi; default: the overlay's.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Environment of what runs the model.")
@click.option(
    *("--secret-env", "secret_variables"),
    multiple=True,
    metavar="NAME=SECRET:KEY",
    help="The same from a key of a Secret.",
)
@click.option("--mount", "mounts", multiple=True, metavar="CLAIM:PATH", help="Claim that it sees, read-only.")
@click.option("--node-selector", "selectors", multiple=True, metavar="KEY=VALUE", help="Nodes of the model servers.")
@click.option("--toleration", "tolerations", multiple=True, metavar="KEY[=VALUE][:EFFECT]", help="Taint they tolerate.")
@click.option("--priority-class", metavar="NAME", help="PriorityClass of the model servers' pods.")
@click.option("--runtime-class", metavar="NAME", help="RuntimeClass of these pods.")
@click.option(
    "--tool-server",
    "tool_servers",
    multiple=True,
    metavar="COMMAND",
    help="Server of tools in the run's pods: `sandbox`, or `serve FILE.py` with a file of this machine.",
)
@click.option("--queue", metavar="NAME", help="Kueue's LocalQueue in which the run waits for its quota.")
@click.option("--pull-secret", "pull_secrets", multiple=True, metavar="NAME", help="Secret that pulls all images.")
@click.option("--weights", metavar="REPO@REVISION", help="Weights to download into --model if missing.")
@click.option(
    "--servers",
    type=click.Choice(["run", "shared"]),
    default="run",
    show_default=True,
    help="Model servers in the run's pods, which end with it, or a Deployment that further runs of the model use.",
)
@click.option("--replicas", type=click.IntRange(1), help="Number of shared model servers; default: the overlay's.")
@click.option("--shards", type=click.IntRange(2), help="Number of shards, run in parallel pods and merged.")
@click.option(
    "--suite",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Submit all cells of a suite; the actions below are then about all of them.",
)
@click.option(
    "--checkpoints",
    metavar="PATTERN",
    help="With --suite: a CronJob that evaluates each checkpoint of a training, on --mount, by --image.",
)
@click.option("--run", "name", help="Name of the run and its folder under /runs; default: from task, model and flags.")
@click.option("--out", metavar="URL", help="Object store for run folders: s3://, gs:// or az://; default: the claim.")
@click.option("--namespace", default="lyncean", show_default=True)
@click.option("--registry", help="Registry prefix of the images, for example registry.example/team.")
@click.option("--tag", help="Tag of the images; default: the overlay's.")
@click.option("--watch", "action", flag_value="watch", help="Show an applied run's shards and pods until it has ended.")
@click.option(
    "--pod-patience",
    type=click.FloatRange(0),
    default=900,
    show_default=True,
    help="Seconds after which --watch gives pods up that do not come up.",
)
@click.option("--status", "action", flag_value="status", help="Show an applied run's shards and pods once.")
@click.option("--resume", "action", flag_value="resume", help="Start an applied run's failed Jobs anew; they go on.")
@click.option("--delete", "action", flag_value="delete", help="Delete an applied run; its folder stays.")
@click.option("--get", "folder", metavar="FOLDER", help="Copy an applied run's folder, with results and report, here.")
@click.option(
    "--eject",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write the overlay, with its components and the flags of model servers, as one of your own.",
)
@click.argument("arguments", nargs=-1, metavar="[-- ENGINE ARGUMENTS]")
def command(
    action: str | None,
    folder: str | None,
    suite: Path | None,
    checkpoints: str | None,
    eject: Path | None,
    name: str | None,
    pod_patience: float,
    **given: Any,
) -> None:
    """Render a run as Kubernetes manifests: pipe the output into `kubectl apply -f -`.

    Takes the options of `orchestrator eval` except those that the cluster decides. --watch, --status, --resume,
    --get and --delete are about an applied run: that of --run, or of the same command. --watch exits as the run does:
    0 complete, 3 failed, or 5 if its pods do not come up.
    """
    if name is not None:
        check_name(name)
    if eject is not None:
        _eject(eject, given)
        return
    if checkpoints is not None:
        _checkpoints(suite, checkpoints, name, action or folder, given)
        return
    if suite is not None:
        _suite(suite, name, action, folder, pod_patience, given)
        return
    if action is None and folder is None:
        click.echo(as_yaml(render(_submission(name, given))), nl=False)
        return
    if name is None or given["tasks"]:
        name = _submission(name, given).name
    applied = Applied(name, given["namespace"])
    if folder is not None:
        applied.get(Path(folder))
        click.echo(f"{folder}/report.html")
    if action is not None:
        sys.exit(_act(action, applied, pod_patience))


def _eject(folder: Path, given: dict[str, Any]) -> None:
    from lyncean_kubernetes.eject import eject

    refuse([option.name for option in SHARED if option.name], "beside --eject: an overlay holds no run")
    wanted = {key: given[key] for key in ("components", "model", "weights", "servers", "registry", "tag")}
    eject(Submission(flags=(), name="overlay", overlay=_overlay(given), server=_server(given), **wanted), folder)
    click.echo(f"{folder}: give --overlay {folder if '/' in str(folder) else f'./{folder}'}")


def _act(action: str, applied: Applied, patience: float) -> int:
    """Does what --watch, --status, --resume or --delete asks of a run or suite; returns the exit code."""
    if action == "watch":
        return watch(applied, patience)
    if action == "status":
        runs = applied.runs()
        click.echo("\n".join(states(runs, applied.namespace)))
        return max(ended(found, applied.namespace) or 0 for found in runs.values())
    if action == "resume":
        jobs = applied.resume()
        click.echo(f"started anew: {', '.join(jobs)}" if jobs else f"no Job of {applied.name} has failed")
        return 0
    applied.delete()
    click.echo(f"{applied.name} is deleted; its folder, and servers that are shared, stay")
    return 0


def _suite(
    file: Path, name: str | None, action: str | None, folder: str | None, patience: float, given: dict[str, Any]
) -> None:
    """Renders a suite, or does what is asked of one that is on the cluster."""
    from lyncean_kubernetes.objects import slug
    from lyncean_kubernetes.suite import fetch, render_suite, run_names
    from orchestrator.report import save_leaderboard
    from orchestrator.run import Terminal
    from orchestrator.suite import board_of, exit_code, read_suite, show_board

    refuse([option.name for option in _OPTIONS if option.name], "beside --suite: write it into the file")
    refuse(["model", "endpoints", "image", "arguments"], "beside --suite: write it into the file, at the model")
    suite = read_suite(file)
    name = name or slug(file.stem, 20)
    check_name(name)
    if action is None and folder is None:
        names = run_names(suite, name)
        cells = [(cell.model, _cell(suite, cell, name, names[cell.name], given)) for cell in suite.cells]
        click.echo(as_yaml(render_suite(cells)), nl=False)
        return
    code, applied = 0, Applied(name, given["namespace"], suite=True)
    if folder is not None:
        record = fetch(suite, applied, Path(folder))
        board = board_of(record, Path(folder))
        page, code = save_leaderboard(board, Path(folder)), exit_code(record, board)
        show_board(board, Terminal(markup=False))
        click.echo(page)
    if action is not None:
        code = _act(action, applied, patience)
    sys.exit(code)


def _checkpoints(file: Path | None, pattern: str, name: str | None, asked: str | None, given: dict[str, Any]) -> None:
    """Renders the CronJob that evaluates a training's checkpoints."""
    from lyncean_kubernetes.checkpoints import Watched, render_watched
    from lyncean_kubernetes.objects import slug
    from orchestrator.suite import read_suite

    if file is None:
        raise click.UsageError("--checkpoints needs --suite FILE: the tasks that each checkpoint is evaluated by")
    if asked is not None:
        raise click.UsageError("--checkpoints is rendered: kubectl get, logs and delete are about its CronJob")
    refuse([option.name for option in _OPTIONS if option.name], "beside --suite: write it into the file")
    other = ("model", "endpoints", "arguments", "overlay", "components", "engine", "weights", "shards", "out")
    refuse(other, "is for servers of their own: a pod of --checkpoints loads each checkpoint by --image")
    watched = Watched(
        name or slug(file.stem, 20),
        pattern,
        _server(given),
        given["namespace"],
        given["queue"],
        given["pull_secrets"],
    )
    click.echo(as_yaml(render_watched(watched, read_suite(file, checkpoints=()))), nl=False)


_SAME = (
    "overlay",
    "engine",
    "model",
    "image",
    "arguments",
    "gpus",
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


def _cell(suite: Suite, cell: Cell, name: str, run: str, given: dict[str, Any]) -> Submission:
    """Returns the run of a cell.

    Raises:
        SuiteError: The cell cannot be submitted; names file, line and key.
    """
    from orchestrator.data import closest
    from orchestrator.suite import CLUSTER

    for key, place in cell.places.items():
        if key in _NOT_HERE and key != "model":
            raise suite.file.error(f"{key} is for `orchestrator eval` alone: {_NOT_HERE[key]}", *place)
    words = as_given(cell.request)
    request = {option.name: words[option.name] for option in _OPTIONS if option.name}
    known = {param.name: param for param in command.params}
    chosen: dict[str, Any] = {"endpoints": words["endpoint"]}
    if "model" in cell.places:
        chosen["model"] = cell.request.model.removeprefix("demo:")
    for key, value in cell.cluster.items():
        place = (*cell.model_place, CLUSTER, key)
        if key not in _OF_CLUSTER:
            raise suite.file.error(f"unknown key {key!r}: {closest(key, list(_OF_CLUSTER))}", *place)
        param = known[_OF_CLUSTER[key]]
        if isinstance(value, dict):
            value = [f"{name}={text}" for name, text in value.items()]
        several = (isinstance(param, click.Option) and param.multiple) or param.nargs == -1
        try:
            given_value = [value] if several and isinstance(value, str) else value
            chosen[_OF_CLUSTER[key]] = param.type_cast_value(click.get_current_context(), given_value)
        except click.BadParameter as error:
            raise suite.file.error(f"{key}: {error.message}", *place) from error
    try:
        return replace(_submission(run, {**given, **request, **chosen}), suite=name, cell=cell.name)
    except UserError as error:
        raise suite.error(cell, error, cell.task_place) from error


def _submission(name: str | None, given: dict[str, Any]) -> Submission:
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
        overlay=_overlay(given),
        server=_server(given),
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


def _server(given: dict[str, Any]) -> Server:
    from orchestrator.run import server_options

    changes: dict[str, Any] = {one.name: given[one.name] for one in fields(Server) if one.name != "options"}
    return Server(**changes, options=tuple(server_options(given["model_options"])))


def _judges(given: dict[str, Any]) -> tuple[str, ...]:
    """Returns the arguments of the scorer that give it judges, as one word each."""
    from orchestrator.run import judge_arguments

    words = judge_arguments(given["judge"], given["judge_cache"], given["judge_reads"], None)
    return tuple(f"{name}={value}" for name, value in zip(words[::2], words[1::2], strict=True))


def _overlay(given: dict[str, Any]) -> str:
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


command.params = [*_OPTIONS, *command.params]
