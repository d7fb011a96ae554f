"""The objects of a run: names, labels and owners for the manifests that kustomize rendered."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lyncean.errors import UserError
from lyncean_kubernetes.engines import NAME
from lyncean_kubernetes.server import LOADING

Manifest = dict[str, Any]

RUN = "lyncean.dev/run"
"""Label of everything that belongs to one run."""
SUITE = "lyncean.dev/suite"
"""Label of everything that belongs to the runs of one suite."""
SERVERS = "lyncean.dev/servers"
"""Label of everything that belongs to model servers which outlive a run."""
PATIENCE = 2700
"""Seconds that a pod waits for the servers in it: a large model loads in half an hour."""
_DOWNLOAD = 21600
"""Seconds that a pod waits for weights, which another Job downloads, before it gives its GPUs back."""
NAME_LABEL = "app.kubernetes.io/name"
"""Label of a pod's role: model-server, scorer, orchestrator, merge, load-weights."""
_SCORER = "scorer"
_CLIENT = "lyncean.dev/client"
_WAIT = "wait"
_WEIGHTS = "wait-for-weights"
_USED = ("ConfigMap", "PersistentVolumeClaim", "ServiceAccount")
"""Kinds that only pods use."""
_STORAGE = "lyncean-storage"
"""Secret with the credentials of an object store, as environment variables."""
_OWN = {"containers", "initContainers", "volumes", "serviceAccountName", "securityContext", "restartPolicy"}
"""Keys of a server's pod that move with its containers, or that the run's pod decides."""
_CONTEXT = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile")
"""Settings of a pod's security context that a container can have as well."""


def owned(
    manifests: Sequence[Manifest], run: str, *, shared: str | None, apart: bool = False, served: bool, remote: bool
) -> list[Manifest]:
    """Returns the objects of one run.

    Args:
        manifests: The manifests that kustomize rendered.
        run: The run's name.
        shared: Name of model servers that outlive the run; None makes them the run's.
        apart: True gives the run's model servers pods of their own; False makes them sidecars of its pods.
        served: True if the model is served elsewhere, so that no model servers are rendered.
        remote: True if run folders are in an object store, so that they need no claim.

    Raises:
        UserError: If a server's pod and the run's cannot be one.
    """
    objects: list[Manifest] = json.loads(json.dumps(manifests))  # a deep copy, in which no two objects share a part
    if served:
        objects = [one for one in objects if not _is_for(one, NAME)]
    servers: list[Manifest] = []
    if shared is not None:
        owner = _shared_name(objects, shared)
        servers = _set_apart(objects, SERVERS, owner)
        _name_maps(objects, SERVERS, owner, servers)
        _own_policies(objects, SERVERS, owner, servers)
    elif apart:
        servers = _set_apart(objects, RUN, run)
    for job in (one for one in objects if one["kind"] == "Job" and _labels(one).get(_CLIENT) == "true"):
        of_run = _labels(job)[NAME_LABEL] == "orchestrator"
        for server in (one for one in objects if one["kind"] == "Deployment"):
            if server["metadata"]["name"] == _SCORER or (of_run and server["metadata"]["name"] == NAME):
                services = [one for one in objects if one["kind"] == "Service" and _selects(one, server)]
                _embed(server, [service["metadata"]["name"] for service in services], job, run)
        if of_run and not servers:
            _give_up(job)
    sidecars = [one for one in objects if _is_for(one, NAME) and one["kind"] != "Job"] if not servers else []
    objects = [one for one in objects if one not in sidecars and not _is_for(one, _SCORER)]
    jobs = [one for one in objects if one["kind"] == "Job" and SERVERS not in _labels(one)]
    users = [*jobs, *(one for one in servers if one["kind"] != "Job" and SERVERS not in _labels(one))]
    _name_maps(objects, RUN, run, users)
    _own_policies(objects, RUN, run, users)
    for job in jobs:
        if remote:
            _store_remotely(pod_of(job))
        _labels(job)[RUN] = _labels(job["spec"]["template"])[RUN] = run
    return _without_unused([one for one in objects if not _is_ownerless_policy(one)])


def way_out(manifests: Sequence[Manifest], run: str, ports: Collection[int]) -> list[Manifest]:
    """Returns the policy that opens the ports of an object store and of servers to a run, if others close them."""
    if not ports or not any(one["kind"] == "NetworkPolicy" for one in manifests):
        return []
    spec = {
        "podSelector": {"matchLabels": {RUN: run}},
        "policyTypes": ["Egress"],
        "egress": [{"ports": [{"port": port} for port in sorted(ports)]}],
    }
    metadata = {"name": f"way-out-{run}", "namespace": manifests[0]["metadata"]["namespace"], "labels": {RUN: run}}
    return [{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}]


def mark(manifests: Sequence[Manifest], suite: str) -> None:
    """Labels the objects of a run with the name of its suite."""
    for one in manifests:
        if RUN in _labels(one):
            _labels(one)[SUITE] = suite
            if one["kind"] == "Job":
                _labels(one["spec"]["template"])[SUITE] = suite


def slug(text: str, most: int) -> str:
    """Turns a path, an image or an address into characters that Kubernetes allows in a name."""
    last = re.sub(r"[:@].*", "", text.rstrip("/").rpartition("/")[2]) or text
    return re.sub("[^a-z0-9]+", "-", last.lower())[:most].strip("-")


def hash_of(value: object) -> str:
    """Returns six hexadecimal digits of the SHA-256 of a value's JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()[:6]


def _shared_name(manifests: Sequence[Manifest], shared: str) -> str:
    """Returns the name of shared model servers; identical servers get the same name."""
    server = _server(manifests)
    used = json.dumps(pod_of(server))
    data = [one["data"] for one in manifests if one["kind"] == "ConfigMap" and one["metadata"]["name"] in used]
    return f"{slug(shared, 24)}-{hash_of([server['spec']['template'], data])}"


def _server(manifests: Sequence[Manifest]) -> Manifest:
    (server,) = (one for one in manifests if one["kind"] == "Deployment" and one["metadata"]["name"] == NAME)
    return server


def _set_apart(manifests: list[Manifest], label: str, owner: str) -> list[Manifest]:
    """Names and labels the model servers and their objects by their owner; returns their workloads."""
    server = _server(manifests)
    loaders = [one for one in manifests if one["kind"] == "Job" and one["metadata"]["name"].startswith(LOADING)]
    template = server["spec"]["template"]
    pod = template["spec"]
    for constraint in pod.get("topologySpreadConstraints", ()):
        constraint.setdefault("labelSelector", {}).setdefault("matchLabels", {})[label] = owner
    for one in manifests:
        kind, spec = one["kind"], one.get("spec", {})
        if kind == "Service" and _selects(one, server):
            before, name = one["metadata"]["name"], f"{one['metadata']['name']}-{owner}"
            _dial(manifests, before, name)
            spec["selector"][label] = owner
            one["metadata"]["name"] = name
        elif one in loaders:
            one["metadata"]["name"] = f"{LOADING}-{owner}"
            _labels(spec["template"])[label] = owner
        elif kind == "Certificate" and one["metadata"]["name"] == NAME:
            for volume in pod["volumes"]:
                if volume.get("secret", {}).get("secretName") == spec["secretName"]:
                    volume["secret"]["secretName"] = f"{spec['secretName']}-{owner}"
            spec["secretName"] += f"-{owner}"
            spec["dnsNames"] = [f"{name}-{owner}" for name in spec["dnsNames"]]
            one["metadata"]["name"] = f"{NAME}-{owner}"
        elif kind == "PodDisruptionBudget" and one["metadata"]["name"] == NAME:
            spec["selector"]["matchLabels"][label] = owner
            one["metadata"]["name"] = f"{NAME}-{owner}"
        elif kind == "ScaledObject":
            one["metadata"]["name"] = spec["scaleTargetRef"]["name"] = f"{NAME}-{owner}"
            for trigger in spec["triggers"]:
                _only_of(trigger["metadata"], owner)
        else:
            continue
        _labels(one)[label] = owner
    for job in (one for one in manifests if one["kind"] == "Job" and one not in loaders):
        _labels(job["spec"]["template"])[label] = owner
    server["metadata"]["name"] = f"{NAME}-{owner}"
    for labels in (_labels(server), server["spec"]["selector"]["matchLabels"], _labels(template)):
        labels[label] = owner
    return [server, *loaders]


def _only_of(trigger: dict[str, str], owner: str) -> None:
    """Restricts a trigger of KEDA to the runs and requests of these servers."""
    if "podSelector" in trigger:
        trigger["podSelector"] += f",{SERVERS}={owner}"
    if "query" in trigger:
        trigger["query"] = trigger["query"].replace("{", f'{{pod=~"{NAME}-{owner}-.*",')


def _dial(manifests: Sequence[Manifest], before: str, name: str) -> None:
    for job in (one for one in manifests if one["kind"] == "Job"):
        for container in _containers(pod_of(job)):
            for index, word in enumerate(container.get("args", ())):
                container["args"][index] = re.sub(rf"^(--endpoint=){before}(?=:)", rf"\g<1>{name}", word)


def _embed(server: Manifest, services: Sequence[str], job: Manifest, run: str) -> None:
    """Turns a server's containers into sidecars of a Job's pods that answer to the names of its services."""
    name, theirs, pod = server["metadata"]["name"], pod_of(server), pod_of(job)
    taken = {container["name"] for container in _containers(pod)}
    ports = {port.get("name") for container in _containers(pod) for port in container.get("ports", ())}
    started = []
    for container in _containers(theirs):
        container = json.loads(json.dumps(container))
        if container["name"] in taken:
            raise UserError(f"two containers {container['name']!r} in the run's pods: rename one, or --servers shared")
        if container in theirs["containers"] or container.get("restartPolicy") == "Always":
            _make_sidecar(container)
        elif container["name"] == _WEIGHTS:
            container["command"] = ["timeout", str(_DOWNLOAD), *container["command"]]
        for port in container.get("ports", ()):
            if port.get("name") in ports:
                del port["name"]  # unused, and port names are unique in a pod
        for mount in container.get("volumeMounts", ()):
            mount["name"] = f"{name}-{mount['name']}"
        ours = pod.get("securityContext", {})
        context = {key: value for key, value in theirs.get("securityContext", {}).items() if key in _CONTEXT}
        context = {key: value for key, value in context.items() if ours.get(key) != value}
        container["securityContext"] = {**context, **container.get("securityContext", {})}
        started.append(container)
    (wait,) = (one for one in pod["initContainers"] if one["name"] == _WAIT)
    if any(word.startswith("--shards=") for word in wait["args"]):
        # The merge waits for shards for hours and needs its scorer only then.
        wait["args"] = [word for word in wait["args"] if not word.startswith("--scorer=")]
        pod["initContainers"] += started
    else:
        at = pod["initContainers"].index(wait)
        pod["initContainers"][at:at] = started
    pod["volumes"] += [{**volume, "name": f"{name}-{volume['name']}"} for volume in theirs.get("volumes", ())]
    # Certificates are issued for these names, so they must resolve inside the pod.
    pod.setdefault("hostAliases", [{"ip": "127.0.0.1", "hostnames": []}])[0]["hostnames"] += services
    for constraint in (theirs := json.loads(json.dumps(theirs))).get("topologySpreadConstraints", ()):
        constraint["labelSelector"] = {"matchLabels": {RUN: run}}
    _join(pod, {key: value for key, value in theirs.items() if key not in _OWN}, name)
    target, source = job["spec"]["template"]["metadata"], server["spec"]["template"]["metadata"]
    for key in ("labels", "annotations"):
        if source.get(key):
            target[key] = {**source[key], **target.get(key, {})}


def _join(pod: Manifest, theirs: Mapping[str, Any], name: str) -> None:
    """Adds a server pod's demands on its node to those of a pod."""
    for key, value in theirs.items():
        if key == "terminationGracePeriodSeconds":
            pod[key] = max(pod.get(key, 30), value)
        elif key not in pod or pod[key] == value:
            pod[key] = value
        elif isinstance(value, list):
            pod[key] = [*pod[key], *(item for item in value if item not in pod[key])]
        elif isinstance(value, dict) and all(pod[key].get(part, one) == one for part, one in value.items()):
            pod[key] = {**pod[key], **value}
        else:
            raise UserError(f"{key} of {name} and of the run's pods differ: make them one, or --servers shared")


def _make_sidecar(container: Manifest) -> None:
    """Turns a container into a sidecar, which runs until the pod's main containers have ended."""
    container["restartPolicy"] = "Always"
    # The kubelet would wait for a failing startup probe for good, and the pod would keep its GPUs. Without it the
    # pod goes on to `wait`, which has a limit. Liveness checks start when the startup probe would have given up.
    startup = container.pop("startupProbe", None)
    if startup and "livenessProbe" in container:
        seconds = startup.get("periodSeconds", 10) * startup.get("failureThreshold", 3)
        container["livenessProbe"]["initialDelaySeconds"] = seconds


def _give_up(job: Manifest) -> None:
    """Ends a run whose own servers do not come up, so that their GPUs are free."""
    pod, spec = pod_of(job), job["spec"]
    action = "FailIndex" if spec.get("completionMode") == "Indexed" else "FailJob"
    for container in pod["initContainers"]:
        if container["name"] == _WAIT:
            container["args"].append(f"--patience={PATIENCE}")
        values = {_WAIT: [3], _WEIGHTS: [124]}.get(container["name"])
        if values:
            codes = {"containerName": container["name"], "operator": "In", "values": values}
            spec["podFailurePolicy"]["rules"].append({"action": action, "onExitCodes": codes})


def _store_remotely(pod: Manifest) -> None:
    """Replaces the claim of run folders by scratch space, and gives their writers an object store's credentials."""
    for volume in pod["volumes"]:
        if volume["name"] == "runs":
            del volume["persistentVolumeClaim"]
            volume["emptyDir"] = {}
    for container in _containers(pod):
        if any(mount["name"] == "runs" for mount in container.get("volumeMounts", ())):
            container.setdefault("envFrom", []).append({"secretRef": {"name": _STORAGE, "optional": True}})


def _name_maps(manifests: list[Manifest], label: str, owner: str, users: Sequence[Manifest]) -> None:
    """Gives some workloads copies of their ConfigMaps that have the owner's name and label."""
    used = json.dumps([pod_of(user) for user in users])
    for one in [one for one in manifests if one["kind"] == "ConfigMap"]:
        if json.dumps(before := one["metadata"]["name"]) in used:
            copy = json.loads(json.dumps(one))
            copy["metadata"]["name"] = f"{before}-{owner}"
            _labels(copy)[label] = owner
            manifests.append(copy)
            for user in users:
                _refer(pod_of(user), before, copy["metadata"]["name"])


def _own_policies(manifests: list[Manifest], label: str, owner: str, users: Sequence[Manifest]) -> None:
    """Gives some workloads copies of the policies that select their pods, for these alone, labelled by the owner.

    A policy of the whole namespace would shut the pods of other runs, and stay when its own run is deleted.
    """
    pods = [_labels(user["spec"]["template"]) for user in users]
    for one in [one for one in manifests if _is_ownerless_policy(one)]:
        if not any(_chooses(one["spec"]["podSelector"], labels) for labels in pods):
            continue
        copy = json.loads(json.dumps(one))
        copy["metadata"]["name"] += f"-{owner}"
        _labels(copy)[label] = owner
        selector = copy["spec"]["podSelector"]
        selector.setdefault("matchLabels", {})[label] = owner
        if label == SERVERS:  # the pods of runs that use these servers have the label as well
            selector.setdefault("matchExpressions", []).append({"key": RUN, "operator": "DoesNotExist"})
        manifests.append(copy)


def _is_ownerless_policy(one: Manifest) -> bool:
    """Returns True if an object is a network policy without a run or servers as its owner."""
    return one["kind"] == "NetworkPolicy" and not {RUN, SERVERS} & one["metadata"].get("labels", {}).keys()


def _chooses(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Returns True if a label selector matches the labels; {} matches all."""
    rules = selector.get("matchExpressions", ())
    return selector.get("matchLabels", {}).items() <= labels.items() and all(_holds(rule, labels) for rule in rules)


def _holds(rule: Manifest, labels: Mapping[str, str]) -> bool:
    """Returns True if the labels satisfy a selector's expression (In, NotIn, Exists, DoesNotExist)."""
    has = labels.get(rule["key"])
    among = has in rule["values"] if "values" in rule else has is not None
    return among == (rule["operator"] in ("In", "Exists"))


def _refer(node: Any, before: str, name: str) -> None:
    if isinstance(node, list):
        for item in node:
            _refer(item, before, name)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in ("configMap", "configMapRef", "configMapKeyRef") and value.get("name") == before:
                value["name"] = name
            _refer(value, before, name)


def _without_unused(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Returns the manifests without the claims, ConfigMaps and accounts that no other object names."""
    named = json.dumps([one for one in manifests if one["kind"] not in _USED])

    def used(one: Manifest) -> bool:
        name = json.dumps(one["metadata"]["name"])
        return (f'"serviceAccountName": {name}' if one["kind"] == "ServiceAccount" else name) in named

    return [one for one in manifests if one["kind"] not in _USED or used(one)]


def pod_of(manifest: Manifest) -> Manifest:
    """Returns the pod spec of a Deployment or Job."""
    spec: Manifest = manifest["spec"]["template"]["spec"]
    return spec


def _labels(holder: Manifest) -> dict[str, str]:
    """Returns the labels of an object or a template, which may have had none."""
    labels: dict[str, str] = holder.setdefault("metadata", {}).setdefault("labels", {})
    return labels


def _containers(pod: Manifest) -> list[Manifest]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def _selects(service: Manifest, server: Manifest) -> bool:
    return bool(service["spec"]["selector"].items() <= _labels(server["spec"]["template"]).items())


def _is_for(manifest: Manifest, server: str) -> bool:
    """Returns True if an object serves one kind of server alone: its workload, weights, Service or budget."""
    kind, name, spec = manifest["kind"], manifest["metadata"]["name"], manifest.get("spec", {})
    if kind in ("Deployment", "Job"):
        return bool(name == server or (server == NAME and name.startswith(LOADING)))
    if kind == "Service":
        return bool(spec["selector"].get(NAME_LABEL) == server)
    if kind in ("PodDisruptionBudget", "PodMonitor"):
        return bool(spec["selector"].get("matchLabels", {}).get(NAME_LABEL) == server)
    return False
