"""A run as manifests: an overlay with the run's own flags, replicas, shards and names, rendered by kubectl."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from lyncean_kubernetes import tools
from lyncean_kubernetes.changes import code_arguments, model_of, names_layer, run_layer
from lyncean_kubernetes.fences import judge_ports, shut
from lyncean_kubernetes.kubectl import SubmitError, kubectl
from lyncean_kubernetes.layers import deploy_folder, folder_of, without_present, write_layer
from lyncean_kubernetes.nodes import spread
from lyncean_kubernetes.objects import Manifest, mark, owned, way_out
from lyncean_kubernetes.server import Server
from lyncean_kubernetes.submission import Submission, check


def as_yaml(manifests: Sequence[Manifest]) -> str:
    """Returns manifests as readable YAML, with scripts as literal blocks."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, width=1000)


def render(submission: Submission) -> list[Manifest]:
    """Returns the manifests of a run.

    Raises:
        SubmitError: If an overlay or component is missing, if a model's name and its weights are of different models,
            if a password would enter the manifests, or if kubectl is missing or fails.
    """
    check(submission)
    runs_code = bool(code_arguments(submission))
    overlay, components = layers_of(submission, runs_code=runs_code)
    with tempfile.TemporaryDirectory(prefix="lyncean-") as temporary:
        here = Path(temporary).resolve()
        # Kustomize applies components before the patches of their layer, hence three layers: the run's flags replace
        # the overlay's, components such as mtls add theirs, and the last layer sets names and numbers.
        write_layer(here / "run", run_layer(submission), overlay)
        for name, text in submission.files.items():
            (here / "run" / name).write_text(text, encoding="utf-8")
        write_layer(here / "with", {"namespace": "lyncean"}, here / "run", components)
        content = names_layer(submission)
        model, server = submission.model is not None or submission.weights is not None, submission.server != Server()
        if model or server:
            before = kubectl("kustomize", str(here / "with"))
            content["configMapGenerator"] += model_of(submission, before) if model else []
            content["patches"] += submission.server.patches(before) if server else []
        write_layer(here / "all", content, here / "with")
        text = kubectl("kustomize", str(here / "all"))
    shared = submission.serves if submission.servers == "shared" else None
    served = bool(submission.endpoints) and submission.url is None
    manifests: list[Manifest] = list(yaml.safe_load_all(text))
    nodes = submission.server.nodes
    remote = submission.out is not None
    manifests = owned(manifests, submission.name, shared=shared, apart=nodes is not None, served=served, remote=remote)
    if nodes is not None:
        manifests = spread(manifests, nodes, submission.replicas)
    # A user who names the component of policies gets the ports of judges opened as well.
    judges = judge_ports(manifests) if submission.judges or runs_code else set()
    manifests += way_out(manifests, submission.name, _ports(submission) | judges)
    if submission.suite:
        mark(manifests, submission.suite)
    return manifests


def layers_of(submission: Submission, *, runs_code: bool) -> tuple[Path, list[Path]]:
    """Returns a run's overlay, and the components that it does not have already.

    Raises:
        SubmitError: If one is missing, or contradicts the other settings.
    """
    deploy = deploy_folder()
    overlay = folder_of(deploy / "overlays", submission.overlay)
    # `sharded` comes first because it adds a Job, and other components patch all Jobs.
    names = [*(["sharded"] if submission.shards else []), *submission.components]
    named = [folder_of(deploy / "components", name) for name in names]
    components = shut(named, deploy / "components", runs_code=runs_code)
    if submission.servers == "run" or submission.endpoints:
        for folder in components:
            if folder.name in ("keda", "monitoring"):
                raise SubmitError(f"--component {folder.name} is for servers that outlive a run: give --servers shared")
    if submission.tool_servers and any(folder.name == "mtls" for folder in components):
        raise SubmitError("--tool-server with --component mtls: it has no certificate; serve it as a Service that has")
    if submission.replicas and any(folder.name == "keda" for folder in components):
        raise SubmitError("--replicas with --component keda: KEDA decides the number, up to its maxReplicaCount")
    return overlay, without_present(components, overlay)


def _ports(submission: Submission) -> set[int]:
    """Returns the ports outside the rendered objects that the run's pods must reach."""
    stores = ({443} if submission.out else set()) | tools.ports(submission.flags)
    if submission.url:
        url = urlsplit(submission.url)
        return stores | {url.port or (443 if url.scheme == "https" else 80)}
    return stores | {
        int(address.rpartition(":")[2]) for address in ",".join(submission.endpoints).split(",") if address
    }


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as literal blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
