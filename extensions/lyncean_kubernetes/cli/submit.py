"""`orchestrator submit`: a run rendered for a Kubernetes cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from lyncean.cli import Command, examples
from lyncean_kubernetes.cli.cells import submit_checkpoints, submit_suite
from lyncean_kubernetes.cli.flags import NOT_HERE, OPTIONS, SHARED, overlay_of, server_of, submission_of
from lyncean_kubernetes.engines import OVERLAYS
from lyncean_kubernetes.kubectl import Applied
from lyncean_kubernetes.render import as_yaml, render
from lyncean_kubernetes.submission import Submission, check_name
from lyncean_kubernetes.watch import act
from orchestrator.cli import eval_command as evaluate, refuse

_NO_NAMES = (
    "--egress: a NetworkPolicy opens addresses and ports, and knows no names: add one of your own with an ipBlock, or "
    "your network plugin's policy by name, to the overlay that --eject FOLDER writes"
)


class _Submit(Command):
    """Names the replacement of an option that only `eval` has."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name == "--egress":
                raise click.UsageError(_NO_NAMES, ctx) from error
            for param in evaluate.params:
                if error.option_name in (*param.opts, *param.secondary_opts) and param.name in NOT_HERE:
                    raise click.UsageError(
                        f"{error.option_name} is an option of `eval` alone: {NOT_HERE[param.name]}", ctx
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
    help="Running model servers, or the URL of an OpenAI-compatible API; default: render servers.",
)
@click.option("--model", help="Model to load, for example /models/NAME, or its name at a URL of --endpoint.")
@click.option(
    "--engine",
    type=click.Choice(list(OVERLAYS)),
    help="Program that runs the model, with its overlay; its further arguments come after `--`.",
)
@click.option("--image", help="Image of a model server of your own; its arguments come after `--`.")
@click.option("--gpus", type=click.IntRange(0), help="GPUs that each model is spread over; default: the overlay's.")
@click.option(
    "--nodes",
    type=click.IntRange(2),
    help="Nodes that each model is spread over, --gpus on each, by a LeaderWorkerSet beside the run; default: one.",
)
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
    **options: Any,
) -> None:
    """Render a run as Kubernetes manifests: pipe the output into `kubectl apply -f -`.

    Takes the options of `orchestrator eval` except those that the cluster decides. --watch, --status, --resume,
    --get and --delete are about an applied run: that of --run, or of the same command. --watch exits as the run does:
    0 complete, 3 failed, or 5 if its pods do not come up.
    """
    if name is not None:
        check_name(name)
    if eject is not None:
        _eject(eject, options)
        return
    if checkpoints is not None:
        submit_checkpoints(suite, checkpoints, name, action or folder, options)
        return
    if suite is not None:
        submit_suite(suite, name, action, folder, pod_patience, options)
        return
    if action is None and folder is None:
        click.echo(as_yaml(render(submission_of(name, options))), nl=False)
        return
    if name is None or options["tasks"]:
        name = submission_of(name, options).name
    applied = Applied(name, options["namespace"])
    if folder is not None:
        applied.get(Path(folder))
        click.echo(f"{folder}/report.html")
    if action is not None:
        sys.exit(act(action, applied, pod_patience))


def _eject(folder: Path, options: dict[str, Any]) -> None:
    from lyncean_kubernetes.eject import eject

    refuse([option.name for option in SHARED if option.name], "beside --eject: an overlay holds no run")
    wanted = {key: options[key] for key in ("components", "model", "weights", "servers", "registry", "tag")}
    refuse(["nodes"], "beside --eject: give it with --overlay FOLDER")
    eject(
        Submission(flags=(), name="overlay", overlay=overlay_of(options), server=server_of(options), **wanted), folder
    )
    click.echo(f"{folder}: give --overlay {folder if '/' in str(folder) else f'./{folder}'}")


command.params = [*OPTIONS, *command.params]
