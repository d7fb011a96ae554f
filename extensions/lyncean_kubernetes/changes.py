"""The changes that a run makes to its overlay, as layers of kustomize."""

from __future__ import annotations

import re
from typing import Any

from lyncean_kubernetes import tools
from lyncean_kubernetes.engines import NAME
from lyncean_kubernetes.kubectl import SubmitError
from lyncean_kubernetes.layers import merged_map, patch_of, rename, values_of
from lyncean_kubernetes.server import LOADING, merge
from lyncean_kubernetes.submission import JOB, TASKS, Submission

IMAGES = (
    "lyncean-orchestrator",
    "lyncean-scorer",
    "lyncean-model-server",
    "lyncean-model-server-slim",
    "lyncean-model-server-cpu",
    tools.IMAGE,
)
ENGINES = ("vllm/vllm-openai", "lmsysorg/sglang")
"""Third-party images, which --registry mirrors under their own tags."""
SCORER = "scorer"
_JUDGE_KEY = {
    "name": "LYNCEAN_JUDGE_KEY",
    "valueFrom": {"secretKeyRef": {"name": "lyncean-judge", "key": "key", "optional": True}},
}
_QUEUE = "kueue.x-k8s.io/queue-name"
_PARTS = ("completions", "parallelism")


def run_layer(submission: Submission) -> dict[str, Any]:
    """Returns the layer of a run's own flags, files, tools and judges."""
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
    scorer_words = [*code_arguments(submission), *submission.judges]
    scorer: list[dict[str, Any]] = []
    scorer += [{"op": "add", "path": f"{pod}/containers/0/args/-", "value": word} for word in scorer_words]
    if submission.judges:
        scorer.append({"op": "add", "path": f"{pod}/containers/0/env/-", "value": _JUDGE_KEY})
    patches = [patch_of("Job", JOB, *changes), *([patch_of("Deployment", SCORER, *scorer)] if scorer else [])]
    return {"namespace": "lyncean", "configMapGenerator": maps, "patches": patches}


def names_layer(submission: Submission) -> dict[str, Any]:
    """Returns the layer, over components, of a run's names, numbers, images and queue."""
    # Kubernetes does not let a Job's template change: each run has Jobs of its own, that of the weights included.
    patches = [rename(JOB, submission.job), rename(LOADING, f"{LOADING}-{submission.name}")]
    content: dict[str, Any] = {"namespace": submission.namespace, "patches": patches, "configMapGenerator": []}
    if submission.replicas is not None:
        content["replicas"] = [{"name": NAME, "count": submission.replicas}]
    if submission.shards:
        parts = [{"op": "replace", "path": f"/spec/{key}", "value": submission.shards} for key in _PARTS]
        patches.insert(0, patch_of("Job", JOB, *parts))
        folders = [f"$(RUN)/shard-{index}" for index in range(submission.shards)]
        path = "/spec/template/spec/containers/0/args"
        # The component has four folders after the argument `merge`.
        drop = [{"op": "remove", "path": f"{path}/1"}] * 4
        add = [{"op": "add", "path": f"{path}/1", "value": folder} for folder in reversed(folders)]
        patches.append(patch_of("Job", "merge", *drop, *add))
        patches.append(rename("merge", f"merge-{submission.name}"))
        content["configMapGenerator"].append(merged_map("lyncean-run", {"SHARDS": str(submission.shards)}))
    content["images"] = images_of(submission)
    if submission.queue:
        # First in the list: the later patches rename the Job. A group of nodes holds the GPUs, so the group waits in
        # the queue: with the Job in the same queue, each could wait for the other.
        queue = {"op": "add", "path": f"/metadata/labels/{_QUEUE.replace('/', '~1')}", "value": submission.queue}
        queued = ("Deployment", NAME) if submission.server.nodes else ("Job", JOB)
        patches.insert(0, patch_of(*queued, queue))
    if submission.pull_secrets:
        secrets = [{"name": name} for name in submission.pull_secrets]
        patches.append(merge("Deployment|Job", {"template": {"spec": {"imagePullSecrets": secrets}}}))
    return content


def images_of(submission: Submission) -> list[dict[str, str]]:
    """Returns the registry and tag of all images; [] leaves those of the overlay."""
    if not (submission.registry or submission.tag):
        return []
    prefix = f"{submission.registry.rstrip('/')}/" if submission.registry else ""
    tag = {"newTag": submission.tag} if submission.tag else {}
    return [
        *({"name": name, "newName": prefix + name, **tag} for name in IMAGES),
        *({"name": name, "newName": prefix + name} for name in ENGINES),
    ]


def model_of(submission: Submission, before: str) -> list[dict[str, Any]]:
    """Returns generators that set MODEL and its download; one alone only if the overlay does not pair them."""
    model, weights = submission.model, submission.weights
    download = values_of(before, "lyncean-weights")
    folder, repository = values_of(before, "lyncean-model").get("MODEL"), download.get("REPOSITORY")
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
    if not download:
        raise SubmitError(f"--weights: overlay {submission.overlay!r} has no load-weights, which downloads them")
    parts = re.fullmatch(r"([\w.-]+/[\w.-]+)@([\w./-]+)", weights)
    if parts is None:
        raise SubmitError(f"--weights {weights!r}: REPO@REVISION, for example team/model@COMMIT")
    if repository and model is None and weights != f"{repository}@{download.get('REVISION')}":
        raise SubmitError(f"--weights {weights}: {folder} is the overlay's folder for {repository}: give --model too")
    return [*merged, merged_map("lyncean-weights", {"REPOSITORY": parts[1], "REVISION": parts[2]})]


def code_arguments(submission: Submission) -> list[str]:
    """Returns the arguments that let a run's scorer execute foreign code; [] for a run without any."""
    from orchestrator.run import scorer_arguments  # loads gRPC, which `--help` does without

    return list(scorer_arguments(submission.flags))
