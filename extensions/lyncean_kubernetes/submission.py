"""A submission: the settings of one run on a cluster, and the check of their contradictions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace

from lyncean.rpc import shown_place, without_password
from lyncean_kubernetes.kubectl import SubmitError
from lyncean_kubernetes.objects import hash_of, slug
from lyncean_kubernetes.server import Server

JOB = "orchestrator"
TASKS = "/tasks"
"""Folder of a run's task files in its pods."""
_APPLIED = 262_144
"""Bytes of an object that `kubectl apply` can copy into its annotation."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One run on a cluster.

    Attributes:
        flags: Flags of `orchestrator eval`, without endpoints and run folder.
        name: Name of the run, of its folder under /runs, its Job and the label of its objects; empty derives one from
            the other settings, so that different runs have different names.
        overlay: Name of a folder of `deploy/overlays`, or a path.
        components: Names of folders of `deploy/components`.
        namespace: The Kubernetes namespace.
        out: URL in an object store below which the run's folder is; None puts it on the claim `lyncean-runs`.
        endpoints: Running servers: addresses HOST:PORT of the contract, or one URL of an OpenAI-compatible API;
            empty renders model servers.
        model: Value of model-server's `--model`; None leaves the overlay's.
        weights: REPOSITORY@REVISION that is downloaded into `model`; None leaves the overlay's.
        servers: "run" makes the model servers sidecars of the run's pods; "shared" keeps them for further runs.
        replicas: Number of shared model servers; None leaves the overlay's.
        shards: Parts of the run, each evaluated by a pod of its own and merged; None for one pod.
        registry: Prefix of the images' names, for example `registry.example/team`.
        tag: Tag of the images.
        server: What the flags change of the model server.
        pull_secrets: Secrets that pull the images of every pod.
        files: Task files by name, with their contents; the flags name them under `TASKS`.
        judges: Arguments of the scorer that give it judges.
        tool_servers: Commands of `tool-server`, each a sidecar of the run's pods; `files` has their files.
        queue: Kueue's LocalQueue of the run's Job; None leaves what components set.
        suite: Name of the suite to which it belongs as a cell, "" for none.
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
            parts = slug(task.removesuffix(".yaml"), 18), slug(self.serves, 14), hash_of(astuple(self))
            name = "-".join(filter(None, parts))
            object.__setattr__(self, "name", name)

    @property
    def serves(self) -> str:
        """The image, model, address or overlay that is evaluated."""
        return self.server.image or self.model or next(iter(self.endpoints), self.overlay)

    @property
    def url(self) -> str | None:
        """The OpenAI-compatible API that is evaluated, if it is one."""
        return next((word for word in self.endpoints if "://" in word), None)

    @property
    def folder(self) -> str:
        """The run's folder, a path in its pods or a URL."""
        path = f"{self.suite}/{self.cell}" if self.suite else self.name
        return f"{(self.out or '/runs').rstrip('/')}/{path}"

    @property
    def job(self) -> str:
        """The name of the run's Job."""
        return f"{JOB}-{self.name}"


def check_name(run: str) -> None:
    """Checks that a run's name can be a label and part of a Job's name.

    Raises:
        SubmitError: If it cannot be.
    """
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", run):
        raise SubmitError(f"--run {run!r}: a name of a-z, 0-9 and '-', 40 characters at most")


def check(submission: Submission) -> None:
    """Refuses contradicting settings, and those that would put a password into the manifests.

    Raises:
        SubmitError: If a setting is refused; names the flag.
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
        # A model name of a URL's server may have a colon and an "@"; a folder or hub id never has both.
        is_model_path = word == submission.model and not submission.url
        if (shown := shown_place(word) if is_model_path else without_password(word)) != word:
            raise SubmitError(f"{shown}: what is hidden here would stand in the manifests; give it in a Secret")
    size = sum(len(text.encode()) for text in submission.files.values())
    if size > _APPLIED - 4096:
        raise SubmitError(
            f"{', '.join(submission.files)}: {size:,} bytes, more than the 256 KiB that `kubectl apply` takes in one "
            "ConfigMap; put rows and texts into a data file on the volume"
        )


def _check_endpoints(submission: Submission) -> None:
    """Refuses malformed addresses, and changes to model servers that are not rendered."""
    if not submission.endpoints:
        return
    from orchestrator import ConfigError
    from orchestrator.engine import parse_endpoints

    rejected: dict[str, object] = {"--image": submission.server.image, "--weights": submission.weights}
    if submission.url is None:
        try:
            parse_endpoints(submission.endpoints)
        except ConfigError as error:
            raise SubmitError(f"--{error}, or http://host/v1 for an OpenAI-compatible API") from error
        rejected |= {"--model": submission.model, "--replicas": submission.replicas}
        rejected["--servers shared"] = submission.servers == "shared"
        changed = replace(submission.server, image=None) != Server()
        rejected["what changes model servers (--gpus, --memory, --env, --mount, arguments after `--`, ...)"] = changed
    elif len(submission.endpoints) > 1:
        raise SubmitError(f"--endpoint {without_password(submission.url)}: one URL alone")
    elif not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", submission.url):
        raise SubmitError(f"--endpoint {without_password(submission.url)}: give http://host/v1 or https://host/v1")
    elif not submission.model:
        raise SubmitError("--endpoint with a URL needs --model, the name that the API has for it")
    for flag, value in rejected.items():
        if value:
            raise SubmitError(f"{flag} with --endpoint: the servers are there already; leave it out")
