"""`orchestrator submit`: a run rendered for a Kubernetes cluster."""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import yaml

from lyncean.cli import Command, examples
from orchestrator.cli.eval import command as evaluate
from orchestrator.run.request import RunRequest
from orchestrator.submit.kubectl import delete, get, objects_of, resume
from orchestrator.submit.render import TASKS, Submission, check_name, render
from orchestrator.submit.server import Server
from orchestrator.submit.watch import ended, state, watch

_NOT_HERE = {
    "scorer": "the cluster's scorer is used",
    "model": "--model is the model servers'",
    "model_options": "the overlay holds the model servers' command",
    "suite": "it runs from here",
    "shard": "--shards N runs all of them",
    "run": "--run is a name, not a folder; --out is where folders are",
    "patience": "it is long enough for a node to be replaced",
    "judge": "it belongs to the scorer's own command, in the overlay or a component of yours",
    "judge_cache": "it belongs to the scorer's own command, in the overlay or a component of yours",
    "judge_reads": "it belongs to the scorer's own command, in the overlay or a component of yours",
    "dry_run": "nothing is sent before `kubectl apply`",
    "as_json": "the log is for people; the results are in the run folder",
    "quiet": "the log is for people",
    **dict.fromkeys(("tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name"), "--component mtls does that"),
    "token_file": "the Secret lyncean-token holds the token",
}
"""Options of `eval` that a cluster's run does not take, and what stands in their place."""

SHARED = [
    copy(param)
    for param in evaluate.params
    if isinstance(param, click.Option) and param.name not in (*_NOT_HERE, "endpoint")
]
for _option in SHARED:
    _option.required = False  # --watch --run NAME names no task


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
@click.option("--image", help="Image of a model server of your own; its arguments come after `--`.")
@click.option("--gpus", type=click.IntRange(0), help="GPUs of each model server; default: the overlay's.")
@click.option("--memory", help="Memory of each model server, for example 64Gi; default: the overlay's.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Environment of the model servers.")
@click.option("--node-selector", "selectors", multiple=True, metavar="KEY=VALUE", help="Nodes of the model servers.")
@click.option("--toleration", "tolerations", multiple=True, metavar="KEY[=VALUE][:EFFECT]", help="Taint they tolerate.")
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
@click.argument("arguments", nargs=-1, metavar="[-- SERVER ARGUMENTS]")
def command(action: str | None, folder: str | None, name: str | None, pod_patience: float, **given: Any) -> None:
    """Render a run as Kubernetes manifests: pipe the output into `kubectl apply -f -`.

    Takes the options of `orchestrator eval` except those that the cluster decides. --watch, --status, --resume,
    --get and --delete are about an applied run: that of --run, or of the same command. --watch exits as the run does:
    0 complete, 3 failed, or 5 if its pods do not come up.
    """
    if name is not None:
        check_name(name)
    if action is None and folder is None:
        click.echo(render(_submission(name, given)), nl=False)
        return
    if name is None or given["tasks"]:
        name = _submission(name, given).name
    if folder is not None:
        get(name, given["namespace"], Path(folder))
        click.echo(f"{folder}/report.html")
    if action is not None:
        sys.exit(_applied(action, name, given["namespace"], pod_patience))


def _applied(action: str, run: str, namespace: str, patience: float) -> int:
    """Does what is asked of a run that is on the cluster; returns the exit code."""
    if action == "watch":
        return watch(run, namespace, patience)
    if action == "status":
        found = objects_of(run, namespace)
        click.echo("\n".join(state(found, run, namespace)))
        return ended(found, namespace) or 0
    if action == "resume":
        jobs = resume(run, namespace)
        click.echo(f"started anew: {', '.join(jobs)}" if jobs else f"no Job of {run} has failed")
        return 0
    delete(run, namespace)
    click.echo(f"{run} is deleted; its folder, and servers that are shared, stay")
    return 0


def _submission(name: str | None, given: dict[str, Any]) -> Submission:
    """Returns the run that the flags describe."""
    if not given["tasks"]:
        raise click.UsageError("Missing option '--task'; or name an applied run with --run.")
    files = _check(given)
    return Submission(
        flags=tuple(flags_of({**given, "tasks": [files.get(word, word) for word in given["tasks"]]})),
        files={Path(path).name: Path(path).read_text(encoding="utf-8") for path in files},
        name=name or "",
        overlay=given["overlay"] or _overlay(given),
        server=Server(**{one.name: given[one.name] for one in fields(Server)}),
        **{
            key: given[key]
            for key in ("components", "out", "endpoints", "model", "weights", "servers", "replicas", "shards")
        },
        **{key: given[key] for key in ("namespace", "registry", "tag", "pull_secrets")},
    )


def _overlay(given: dict[str, Any]) -> str:
    if any("://" in word for word in given["endpoints"]):
        return "endpoint"
    return "proprietary" if given["image"] else "gpu"


def _check(given: dict[str, Any]) -> dict[str, str]:
    """Refuses what would end the run on the cluster, and returns where its task files will be there.

    Raises:
        ConfigError: For an unknown task, a bad setting, or a task file whose data is on this machine alone.
    """
    from orchestrator.benchmarks.registry import TASK_FILES
    from orchestrator.errors import ConfigError
    from orchestrator.run.plan import make, variants

    request = RunRequest(**{option.name: given[option.name] for option in SHARED if option.name})
    # Synthetic rows are made from the seed, here as there; other data is on the cluster.
    (make if request.synthetic else variants)(request)
    files = [word for word in given["tasks"] if word.endswith(TASK_FILES)]
    if len({Path(path).name for path in files}) < len(files):
        raise ConfigError(f"{', '.join(files)}: two task files of one name; rename one")
    for path in files:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))["data"]
        if isinstance(data, str) and not request.data and (Path(path).parent / data).exists():
            raise ConfigError(f"{path}: its data, {data}, is on this machine: give --data its path on the cluster")
    return {path: f"{TASKS}/{Path(path).name}" for path in files}


command.params = [*SHARED, *command.params]
