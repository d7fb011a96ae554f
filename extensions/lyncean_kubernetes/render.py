"""A run as manifests: an overlay with the run's own flags, replicas, shards and names, rendered by kubectl."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from lyncean.rpc import shown_place, without_password
from lyncean_kubernetes import tools
from lyncean_kubernetes.engines import NAME
from lyncean_kubernetes.fences import judge_ports, shut
from lyncean_kubernetes.kubectl import SubmitError, kubectl
from lyncean_kubernetes.layers import (
    deploy_folder,
    folder_of,
    merged_map,
    patch_of,
    rename,
    values_of,
    without_present,
    write_layer,
)
from lyncean_kubernetes.objects import Manifest, hash_of, mark, owned, slug, way_out
from lyncean_kubernetes.server import LOADING, Server, merge

IMAGES = (
    "lyncean-orchestrator",
    "lyncean-scorer",
    "lyncean-model-server",
    "lyncean-model-server-slim",
    "lyncean-model-server-cpu",
    tools.IMAGE,
)
ENGINES = ("vllm/vllm-openai", "lmsysorg/sglang")
"""Images of others, which --registry mirrors under their own tags."""
JOB = "orchestrator"
SCORER = "scorer"
_APPLIED = 262_144
"""Bytes of an object that `kubectl apply` can copy into its annotation."""
_JUDGE_KEY = {
    "name": "LYNCEAN_JUDGE_KEY",
    "valueFrom": {"secretKeyRef": {"name": "lyncean-judge", "key": "key", "optional": True}},
}
_QUEUE = "kueue.x-k8s.io/queue-name"
TASKS = "/tasks"
"""Folder of a run's task files in its pods."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One run on a cluster.

    Attributes:
        flags: What `orchestrator eval` is given, without endpoints and run folder.
        name: Name of the run: of its folder under /runs, its Job and the label of all that is its own; empty takes one
            from what is run, so that another run has another name.
        overlay: Name of a folder of `deploy/overlays`, or a path.
        components: Names of folders of `deploy/components`.
        namespace: The Kubernetes namespace.
        out: URL in an object store below which the run's folder is; None puts it on the claim `lyncean-runs`.
        endpoints: What is served already: addresses HOST:PORT of the contract, or one URL of an OpenAI-compatible API;
            empty renders model servers.
        model: What model-server's `--model` gets; None leaves the overlay's.
        weights: REPOSITORY@REVISION that is downloaded into `model`; None leaves the overlay's.
        servers: "run" makes the model servers sidecars of the run's pods; "shared" keeps them for further runs.
        replicas: Model servers that are shared; None leaves the overlay's.
        shards: Parts that the run is made in, each by a pod of its own, and merged; None for one pod.
        registry: What comes before the images' names, for example `registry.example/team`.
        tag: Tag of the images.
        server: What the flags change of the model server.
        pull_secrets: Secrets that pull the images of every pod.
        files: Task files by name, with their contents; the flags name them under `TASKS`.
        judges: Arguments of the scorer that give it judges.
        tool_servers: Commands of `tool-server`, each of which is a sidecar of the run's pods; `files` has theirs.
        queue: Kueue's LocalQueue of the run's Job; None leaves what components set.
        suite: Name of the suite that it is a cell of, "" for none.
        cell: Name of its folder in the suite's.
    """

    flags: tuple[str, ...]
    name: str = ""
    overlay: str = "gpu"
    components: tuple[str, ...] = ()
    namespace: str = "lyncean"
    out: str | None = None
    endpoints: tuple[str, ...] = ()
    model: str | None = None
    weights: str | None = None
    servers: str = "run"
    replicas: int | None = None
    shards: int | None = None
    registry: str | None = None
    tag: str | None = None
    server: Server = field(default_factory=Server)
    pull_secrets: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    judges: tuple[str, ...] = ()
    tool_servers: tuple[str, ...] = ()
    queue: str | None = None
    suite: str = ""
    cell: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            task = next((word.partition("=")[2] for word in self.flags if word.startswith("--task=")), "run")
            words = slug(task.removesuffix(".yaml"), 18), slug(self.serves, 14), hash_of(astuple(self))
            name = "-".join(filter(None, words))
            object.__setattr__(self, "name", name)

    @property
    def serves(self) -> str:
        """What is evaluated, in a word."""
        return self.server.image or self.model or next(iter(self.endpoints), self.overlay)

    @property
    def url(self) -> str | None:
        """The OpenAI-compatible API that is evaluated, if it is one."""
        return next((word for word in self.endpoints if "://" in word), None)

    @property
    def folder(self) -> str:
        """The run's folder, a path in its pods or a URL."""
        place = f"{self.suite}/{self.cell}" if self.suite else self.name
        return f"{(self.out or '/runs').rstrip('/')}/{place}"

    @property
    def job(self) -> str:
        """The name of the run's Job."""
        return f"{JOB}-{self.name}"


def choices(kind: str) -> list[str]:
    """The names of the overlays or components that there are."""
    return sorted(path.name for path in (deploy_folder() / kind).iterdir())


def check_name(run: str) -> None:
    """Makes sure that a run's name can be part of a Job's and a label.

    Raises:
        SubmitError: If it cannot.
    """
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", run):
        raise SubmitError(f"--run {run!r}: a name of a-z, 0-9 and '-', 40 characters at most")


def as_yaml(manifests: Sequence[Manifest]) -> str:
    """Returns manifests as YAML for people: scripts line by line."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, width=1000)


def render(submission: Submission) -> list[Manifest]:
    """Returns the manifests of a run.

    Raises:
        SubmitError: If there is no such overlay or component, if a model's name and its weights would be of two models,
            if a password would stand in the manifests, or if there is no kubectl, or it refuses.
    """
    _check(submission)
    runs_code = bool(_code(submission))
    overlay, components = layers_of(submission, runs_code=runs_code)
    with tempfile.TemporaryDirectory(prefix="lyncean-") as temporary:
        here = Path(temporary).resolve()
        # In layers, since components come before the patches beside them and after the generators: the run's flags
        # replace the overlay's first, then components such as mtls add theirs, then the numbers they brought are set.
        write_layer(here / "run", _run(submission), overlay)
        for name, text in submission.files.items():
            (here / "run" / name).write_text(text, encoding="utf-8")
        write_layer(here / "with", {"namespace": "lyncean"}, here / "run", components)
        content = _all(submission)
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
    if any(one["kind"] == "LeaderWorkerSet" for one in manifests):
        raise SubmitError(
            f"overlay {submission.overlay!r} serves a model beyond one pod, which no run can bring along: apply the "
            "overlay itself, then submit with --endpoint http://vllm.lyncean:8000/v1 and --model"
        )
    manifests = owned(manifests, submission.name, shared=shared, served=served, remote=submission.out is not None)
    # Who names the policies opens ports for judges as well.
    judges = judge_ports(manifests) if submission.judges or runs_code else set()
    manifests += way_out(manifests, submission.name, _ports(submission) | judges)
    if submission.suite:
        mark(manifests, submission.suite)
    return manifests


def layers_of(submission: Submission, *, runs_code: bool) -> tuple[Path, list[Path]]:
    """Returns a run's overlay, and the components that it does not have already.

    Raises:
        SubmitError: If there is none of a name, or one does not go with the rest.
    """
    deploy = deploy_folder()
    overlay = folder_of(deploy / "overlays", submission.overlay)
    # First the one that adds a Job: others change every Job that they find.
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


def _check(submission: Submission) -> None:
    """Refuses what contradicts itself, and what would put a password into the manifests.

    Raises:
        SubmitError: It does.
    """
    check_name(submission.name)
    if submission.server.image and (submission.model or submission.weights):
        raise SubmitError("--image with --model or --weights: an image has its own; give its arguments after `--`")
    _check_endpoints(submission)
    if submission.out and not re.fullmatch(r"(s3|gs|az)://[^\s/?#]+(/[^\s?#]*)?", submission.out):
        raise SubmitError(f"--out {without_password(submission.out)}: give s3://BUCKET/FOLDER, or gs:// or az://")
    if submission.replicas and submission.servers == "run":
        raise SubmitError(
            "--replicas is for --servers shared: each pod of a run has a server of its own; --shards sets the number"
        )
    for word in (
        *submission.flags,
        *submission.endpoints,
        submission.out or "",
        *submission.server.arguments,
        *submission.server.variables,
        *submission.server.options,
        *submission.judges,
        *submission.tool_servers,
        submission.model or "",
    ):
        # A name behind a URL may have a colon and an "@"; a folder or hub id has not both.
        place = word == submission.model and not submission.url
        if (shown := shown_place(word) if place else without_password(word)) != word:
            raise SubmitError(f"{shown}: what is hidden here would stand in the manifests; give it in a Secret")
    size = sum(len(text.encode()) for text in submission.files.values())
    if size > _APPLIED - 4096:
        raise SubmitError(
            f"{', '.join(submission.files)}: {size:,} bytes, more than the 256 KiB that `kubectl apply` takes in one "
            "ConfigMap; put rows and texts into a data file on the volume"
        )


def _ports(submission: Submission) -> set[int]:
    """Ports that the run's pods have to reach outside of what is rendered."""
    stores = ({443} if submission.out else set()) | tools.ports(submission.flags)
    if submission.url:
        url = urlsplit(submission.url)
        return stores | {url.port or (443 if url.scheme == "https" else 80)}
    return stores | {
        int(address.rpartition(":")[2]) for address in ",".join(submission.endpoints).split(",") if address
    }


class _Dumper(yaml.SafeDumper):
    """Writes scripts line by line."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _check_endpoints(submission: Submission) -> None:
    """Refuses addresses that are none, and changes to model servers that are not rendered."""
    if not submission.endpoints:
        return
    from orchestrator import ConfigError
    from orchestrator.engine import parse_endpoints

    given: dict[str, object] = {"--image": submission.server.image, "--weights": submission.weights}
    if submission.url is None:
        try:
            parse_endpoints(submission.endpoints)
        except ConfigError as error:
            raise SubmitError(f"--{error}, or http://host/v1 for an OpenAI-compatible API") from error
        given |= {"--model": submission.model, "--replicas": submission.replicas}
        given["--servers shared"] = submission.servers == "shared"
        changed = replace(submission.server, image=None) != Server()
        given["what changes model servers (--gpus, --memory, --env, --mount, arguments after `--`, ...)"] = changed
    elif len(submission.endpoints) > 1:
        raise SubmitError(f"--endpoint {without_password(submission.url)}: one URL alone")
    elif not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", submission.url):
        raise SubmitError(f"--endpoint {without_password(submission.url)}: give http://host/v1 or https://host/v1")
    elif not submission.model:
        raise SubmitError("--endpoint with a URL needs --model, the name that the API has for it")
    for flag, value in given.items():
        if value:
            raise SubmitError(f"{flag} with --endpoint: the servers are there already; leave it out")


def _code(submission: Submission) -> list[str]:
    """Returns the arguments by which a run's scorer runs code of others, none where it runs none."""
    from orchestrator.run import scorer_arguments  # loads gRPC, which `--help` does without

    return list(scorer_arguments(submission.flags))


def _run(submission: Submission) -> dict[str, Any]:
    addresses = ("model:50051",) if submission.url or not submission.endpoints else submission.endpoints
    servers = [*(f"--endpoint={word}" for word in addresses), "--scorer=scorer:50052"]
    beside = tools.addresses(submission.tool_servers)
    arguments = ["eval", *submission.flags, *(f"--tools=grpc:{address}" for address in beside)]
    arguments += ["--run=$(RUN)", *servers, "--patience=3600"]
    servers = [*servers, *(f"--tools={address}" for address in beside)]
    pod = "/spec/template/spec"
    changes: list[dict[str, Any]] = [
        {"op": "replace", "path": f"{pod}/initContainers/0/args", "value": servers},
        {"op": "replace", "path": f"{pod}/containers/0/args", "value": arguments},
    ]
    maps = [merged_map("lyncean-run", {"RUN": submission.folder})]
    if submission.files:
        name = f"tasks-{submission.name}"
        maps.append({"name": name, "namespace": "lyncean", "files": sorted(submission.files)})
        mount = {"name": "tasks", "mountPath": TASKS, "readOnly": True}
        changes.append({"op": "add", "path": f"{pod}/containers/0/volumeMounts/-", "value": mount})
        volume = {"name": "tasks", "configMap": {"name": name}}
        changes.append({"op": "add", "path": f"{pod}/volumes/-", "value": volume})
    changes += tools.patches(submission.tool_servers, TASKS, pod)
    words = [*_code(submission), *submission.judges]
    scorer: list[dict[str, Any]] = []
    scorer += [{"op": "add", "path": f"{pod}/containers/0/args/-", "value": word} for word in words]
    if submission.judges:
        scorer.append({"op": "add", "path": f"{pod}/containers/0/env/-", "value": _JUDGE_KEY})
    patches = [patch_of("Job", JOB, *changes), *([patch_of("Deployment", SCORER, *scorer)] if scorer else [])]
    return {"namespace": "lyncean", "configMapGenerator": maps, "patches": patches}


def _all(submission: Submission) -> dict[str, Any]:
    # A Job's template is never changed: each run has Jobs of its own, that of the weights too, where there is one.
    patches = [rename(JOB, submission.job), rename(LOADING, f"{LOADING}-{submission.name}")]
    content: dict[str, Any] = {"namespace": submission.namespace, "patches": patches, "configMapGenerator": []}
    if submission.replicas is not None:
        content["replicas"] = [{"name": NAME, "count": submission.replicas}]
    if submission.shards:
        parts = [{"op": "replace", "path": f"/spec/{key}", "value": submission.shards} for key in _PARTS]
        patches.insert(0, patch_of("Job", JOB, *parts))
        folders = [f"$(RUN)/shard-{index}" for index in range(submission.shards)]
        path = "/spec/template/spec/containers/0/args"
        # The component names four folders, after the word `merge`.
        drop = [{"op": "remove", "path": f"{path}/1"}] * 4
        add = [{"op": "add", "path": f"{path}/1", "value": folder} for folder in reversed(folders)]
        patches.append(patch_of("Job", "merge", *drop, *add))
        patches.append(rename("merge", f"merge-{submission.name}"))
        content["configMapGenerator"].append(merged_map("lyncean-run", {"SHARDS": str(submission.shards)}))
    content["images"] = images_of(submission)
    if submission.queue:
        # In front: the Job has its own name only after these patches.
        queue = {"op": "add", "path": f"/metadata/labels/{_QUEUE.replace('/', '~1')}", "value": submission.queue}
        patches.insert(0, patch_of("Job", JOB, queue))
    if submission.pull_secrets:
        secrets = [{"name": name} for name in submission.pull_secrets]
        patches.append(merge("Deployment|Job", {"template": {"spec": {"imagePullSecrets": secrets}}}))
    return content


def images_of(submission: Submission) -> list[dict[str, str]]:
    """Returns where all images are from, if not from where the overlay has them."""
    if not (submission.registry or submission.tag):
        return []
    prefix = f"{submission.registry.rstrip('/')}/" if submission.registry else ""
    tag = {"newTag": submission.tag} if submission.tag else {}
    return [
        *({"name": name, "newName": prefix + name, **tag} for name in IMAGES),
        *({"name": name, "newName": prefix + name} for name in ENGINES),
    ]


_PARTS = ("completions", "parallelism")


def model_of(submission: Submission, before: str) -> list[dict[str, Any]]:
    """Sets MODEL and what is downloaded into it; one of them alone only where the overlay does not pair them."""
    model, weights = submission.model, submission.weights
    own = values_of(before, "lyncean-weights")
    folder, repository = values_of(before, "lyncean-model").get("MODEL"), own.get("REPOSITORY")
    values = {} if model is None else {"MODEL": model}
    values |= {"BASE_URL": submission.url} if submission.url else {}
    merged = [merged_map("lyncean-model", values)] if values else []
    if weights is None:
        if repository and model != folder:
            raise SubmitError(
                f"--model {model}: the overlay would download {repository} into it: give --weights REPO@REVISION, or "
                "leave REPOSITORY empty in the overlay where the folder is on the volume"
            )
        return merged
    if not own:
        raise SubmitError(f"--weights: overlay {submission.overlay!r} has no load-weights, which downloads them")
    parts = re.fullmatch(r"([\w.-]+/[\w.-]+)@([\w./-]+)", weights)
    if parts is None:
        raise SubmitError(f"--weights {weights!r}: REPO@REVISION, for example team/model@COMMIT")
    if repository and model is None and weights != f"{repository}@{own.get('REVISION')}":
        raise SubmitError(f"--weights {weights}: {folder} is the overlay's folder for {repository}: give --model too")
    return [*merged, merged_map("lyncean-weights", {"REPOSITORY": parts[1], "REVISION": parts[2]})]
