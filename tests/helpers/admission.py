"""Rules of an API server beyond its schema: names, Jobs' policies, probes, immutable fields.

Written after the API reference of Kubernetes 1.31 to 1.37 and the Pod Security Standards ("restricted"). `refused` is
about new objects, `unchangeable` about an apply over existing ones, `contended` about two field managers.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from helpers.manifests import Manifest, containers_of, of_kind
from helpers.pod_network import selects

CLUSTERED = ("Namespace", "ClusterQueue", "ResourceFlavor")
_LABEL, _SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_MILLION, _APPLIED = 2**20, 2**18
_UNITS = {"m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_FROZEN = {
    "Job": ("selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "completions"),
    "Deployment": ("selector",),
    "PersistentVolumeClaim": ("accessModes", "storageClassName", "volumeName", "volumeMode", "selector"),
    "Service": ("clusterIP",),
}
"""Fields of `spec` that no update changes; a claim's request may grow."""


def refused(manifests: Sequence[Manifest]) -> list[str]:
    """Returns what an API server would say to new objects, each beginning with the object's kind and name."""
    problems = []
    names = Counter((one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in manifests)
    problems += [f"{kind} {name}: twice in one apply" for (kind, _, name), count in names.items() if count > 1]
    for one in manifests:
        problems += [f"{one['kind']} {one['metadata']['name']}: {problem}" for problem in _object(one)]
    return problems


def unchangeable(before: Sequence[Manifest], after: Sequence[Manifest]) -> list[str]:
    """Returns what would be refused where `after` is applied over `before`."""
    problems = []
    by_key = {_key(one): one for one in before}
    for one in after:
        if (old := by_key.get(_key(one))) is None:
            continue
        called = f"{one['kind']} {one['metadata']['name']}"
        spec, was = one.get("spec", {}), old.get("spec", {})
        for field in _FROZEN.get(one["kind"], ()):
            if spec.get(field) != was.get(field):
                problems.append(f"{called}: spec.{field} is immutable")
        if one["kind"] == "PersistentVolumeClaim":
            new, past = (quantity(volume["resources"]["requests"]["storage"]) for volume in (spec, was))
            problems += [f"{called}: a claim cannot shrink"] if new < past else []
        if old.get("immutable") and one.get("data") != old.get("data"):
            problems.append(f"{called}: it is immutable")
    return problems


def contended(first: Sequence[Manifest], second: Sequence[Manifest]) -> list[str]:
    """Returns the fields that two field managers would want to be different, in objects of one name."""
    by_key = {_key(one): one for one in first}
    return [
        f"{one['kind']} {one['metadata']['name']}: {path}"
        for one in second
        if _key(one) in by_key
        for path in _differing(by_key[_key(one)], one, "")
    ]


def over_quota(manifests: Sequence[Manifest], hard: Mapping[str, str]) -> list[str]:
    """Returns what a ResourceQuota refuses: a container that does not say what is counted, or a sum that is too large.

    Args:
        manifests: New objects.
        hard: For example `{"requests.cpu": "8", "limits.memory": "64Gi"}`.
    """
    problems = []
    for key, most in hard.items():
        kind, _, resource = key.partition(".")
        total = 0.0
        for owner, pod, count in _pods(manifests):
            for container in containers_of(pod):
                amounts = container.get("resources", {}).get(kind, {})
                if resource not in amounts and "/" not in resource:
                    problems.append(f"{owner}: {container['name']} does not say its {key}")
            total += count * pod_total(pod, kind, resource)
        if total > quantity(most):
            problems.append(f"{key}: {total:g} of {most}")
    return problems


def pod_total(pod: Manifest, kind: str, resource: str) -> float:
    """Returns a pod's resource for scheduler and quota: sidecars plus containers, or the largest init container."""

    def amount(container: Manifest) -> float:
        return quantity(str(container.get("resources", {}).get(kind, {}).get(resource, "0")))

    beside = largest = 0.0
    for container in pod.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            beside += amount(container)
            largest = max(largest, beside)
        else:
            largest = max(largest, beside + amount(container))
    return max(largest, beside + sum(map(amount, pod["containers"])))


def quantity(text: str) -> float:
    """The value of a quantity such as `100m` or `16Gi`.

    Raises:
        ValueError: If it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-zA-Z]*)", text)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{text!r} is not a quantity")
    return float(match[1]) * _UNITS[match[2]]


def _key(one: Manifest) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def _differing(first: Any, second: Any, path: str) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in first.keys() & second.keys():
            yield from _differing(first[key], second[key], f"{path}.{key}")
    elif first != second:
        yield path.removeprefix(".")


def _pods(manifests: Sequence[Manifest]) -> Iterator[tuple[str, Manifest, int]]:
    """Owner, spec and greatest number of the pods that objects make."""
    for one in of_kind(list(manifests), "Deployment", "Job"):
        spec = one["spec"]
        count = spec.get("replicas", 1) if one["kind"] == "Deployment" else spec.get("parallelism", 1)
        yield f"{one['kind']} {one['metadata']['name']}", spec["template"]["spec"], count
    for one in of_kind(list(manifests), "LeaderWorkerSet"):
        group, count = one["spec"]["leaderWorkerTemplate"], one["spec"].get("replicas", 1)
        name = f"LeaderWorkerSet {one['metadata']['name']}"
        worker = group["workerTemplate"]["spec"]
        yield name, group.get("leaderTemplate", group["workerTemplate"])["spec"], count
        yield name, worker, count * (group.get("size", 1) - 1)


def _object(one: Manifest) -> Iterator[str]:
    kind, spec = one["kind"], one.get("spec", {})
    if kind not in CLUSTERED and not one["metadata"].get("namespace"):
        yield "no namespace"
    label = kind in ("Service", "Namespace")
    if not re.fullmatch(_LABEL if label else _SUBDOMAIN, one["metadata"]["name"]):
        yield "the name is neither a label nor a subdomain of RFC 1123"
    if len(one["metadata"]["name"]) > (63 if label else 253):
        yield "the name is too long"
    if kind == "Service" and not one["metadata"]["name"][:1].isalpha():
        yield "a Service's name begins with a letter (RFC 1035)"
    if len(json.dumps(one).encode()) > _APPLIED:
        yield "more than 256 KiB, which `kubectl apply` copies into an annotation"
    yield from _labels(one, "")
    if kind in ("ConfigMap", "Secret"):
        data = {**one.get("data", {}), **one.get("stringData", {}), **one.get("binaryData", {})}
        yield from (f"the key {key!r}" for key in data if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key))
        if sum(len(value.encode()) for value in data.values()) > _MILLION:
            yield "more than 1 MiB of data"
    if kind == "Service":
        names = [port.get("name") for port in spec["ports"]]
        if len(names) > 1 and None in names:
            yield "several ports, and one without a name"
    if kind == "PodDisruptionBudget" and len(spec.keys() & {"minAvailable", "maxUnavailable"}) != 1:
        yield "one of minAvailable and maxUnavailable"
    if kind == "Job":
        yield from _job(one)
    if kind == "Deployment":
        if not selects(spec["selector"], spec["template"]["metadata"].get("labels", {})):
            yield "the selector does not choose the template's labels"
        if spec["template"]["spec"].get("restartPolicy", "Always") != "Always":
            yield "a Deployment's pods restart always"
        update = spec.get("strategy", {}).get("rollingUpdate", {})
        if (update.get("maxSurge", 1), update.get("maxUnavailable", 1)) == (0, 0):
            yield "maxSurge and maxUnavailable are both 0"
        if spec.get("progressDeadlineSeconds", 600) <= spec.get("minReadySeconds", 0):
            yield "progressDeadlineSeconds is not more than minReadySeconds"
    if kind == "LeaderWorkerSet":
        for template in ("leaderTemplate", "workerTemplate"):
            if template in spec["leaderWorkerTemplate"]:
                yield from _pod(spec["leaderWorkerTemplate"][template]["spec"])
        # Workers are of a StatefulSet NAME-GROUP, whose revisions NAME-GROUP-HASH are labels of its pods.
        if len(one["metadata"]["name"]) > 63 - len("-99-0123456789"):
            yield "the pods' names would be too long"
    if "template" in spec:
        yield from _pod(spec["template"]["spec"])


def _labels(node: Any, path: str) -> Iterator[str]:
    """Keys and values of labels and selectors, wherever they are."""
    if isinstance(node, list):
        for item in node:
            yield from _labels(item, path)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        here = f"{path}.{key}".removeprefix(".")
        # A Service's selector is a map of labels; others' are objects of their own.
        is_map = isinstance(value, dict) and all(isinstance(entry, str) for entry in value.values())
        if key in ("labels", "matchLabels", "nodeSelector", "selector") and is_map:
            for name, word in value.items():
                prefix, slash, last = name.rpartition("/")
                if not re.fullmatch(_VALUE, last) or not 0 < len(last) <= 63:
                    yield f"{here}: the key {name!r}"
                if slash and (not re.fullmatch(_SUBDOMAIN, prefix) or len(prefix) > 253):
                    yield f"{here}: the prefix of {name!r}"
                if not re.fullmatch(_VALUE, word) or len(word) > 63:
                    yield f"{here}: the value {word!r}"
        elif key != "data":
            yield from _labels(value, here)


def _job(one: Manifest) -> Iterator[str]:
    name, spec = one["metadata"]["name"], one["spec"]
    pod = spec["template"]["spec"]
    indexed = spec.get("completionMode") == "Indexed"
    # Its pods carry the name as a label, and an indexed pod's host name is NAME-INDEX.
    longest = f"{name}-{spec.get('completions', 1) - 1}" if indexed else name
    if len(longest) > 63:
        yield f"{longest!r} has {len(longest)} characters, 63 at most"
    if "selector" in spec and not spec.get("manualSelector"):
        yield "a selector of its own"
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        yield "restartPolicy is neither Never nor OnFailure"
    if indexed and "completions" not in spec:
        yield "Indexed without completions"
    per_index = "backoffLimitPerIndex" in spec
    if per_index and not indexed:
        yield "backoffLimitPerIndex without completionMode Indexed"
    if per_index and pod.get("restartPolicy") != "Never":
        yield "backoffLimitPerIndex needs restartPolicy Never"
    if "maxFailedIndexes" in spec and not per_index:
        yield "maxFailedIndexes without backoffLimitPerIndex"
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    if pod.get("restartPolicy") != "Never":
        yield "podFailurePolicy needs restartPolicy Never"
    if spec.get("podReplacementPolicy", "Failed") != "Failed":
        yield "podFailurePolicy needs podReplacementPolicy Failed"
    if len(policy["rules"]) > 20:
        yield "more than 20 rules"
    containers = {container["name"] for container in containers_of(pod)}
    for rule in policy["rules"]:
        if rule["action"] not in ("Ignore", "Count", "FailJob", "FailIndex"):
            yield f"no action {rule['action']}"
        if rule["action"] == "FailIndex" and not per_index:
            yield "FailIndex without backoffLimitPerIndex"
        if len(rule.keys() & {"onExitCodes", "onPodConditions"}) != 1:
            yield "a rule has one of onExitCodes and onPodConditions"
        if len(rule.get("onPodConditions", ())) > 20:
            yield "more than 20 conditions"
        if "onExitCodes" in rule:
            codes = rule["onExitCodes"]
            if codes.get("containerName", next(iter(containers))) not in containers:
                yield f"onExitCodes of {codes['containerName']!r}, which is not a container"
            if not 0 < len(codes["values"]) <= 255 or codes["values"] != sorted(set(codes["values"])):
                yield f"exit codes {codes['values']}: 1 to 255 of them, in order, each once"
            if codes["operator"] == "In" and 0 in codes["values"]:
                yield "exit code 0 with In"


def _pod(pod: Manifest) -> Iterator[str]:
    containers = containers_of(pod)
    volumes = [volume["name"] for volume in pod.get("volumes", ())]
    for kind, names in (("container", [one["name"] for one in containers]), ("volume", volumes)):
        yield from (f"two {kind}s {name!r}" for name, count in Counter(names).items() if count > 1)
        yield from (f"the {kind} {name!r}" for name in names if not re.fullmatch(_LABEL, name) or len(name) > 63)
    for alias in pod.get("hostAliases", ()):
        ipaddress.ip_address(alias["ip"])
        yield from (f"the host {name!r}" for name in alias["hostnames"] if not re.fullmatch(_SUBDOMAIN, name))
    for toleration in pod.get("tolerations", ()):
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            yield "a toleration of Exists with a value"
    spread = [(one["topologyKey"], one["whenUnsatisfiable"]) for one in pod.get("topologySpreadConstraints", ())]
    if len(spread) != len(set(spread)):
        yield "two spread constraints of one key"
    for index, container in enumerate(containers):
        once = index < len(pod.get("initContainers", ())) and container.get("restartPolicy") != "Always"
        for problem in _container(container, volumes, once):
            yield f"{container['name']}: {problem}"
    for problem in _restricted(pod):
        yield f"pod security: {problem}"


def _container(container: Manifest, volumes: Sequence[str], once: bool) -> Iterator[str]:
    if not container.get("image", "").strip() or container["image"] != container["image"].strip():
        yield "no image"
    mounts = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
    yield from (f"two mounts at {path}" for path, count in Counter(mounts).items() if count > 1)
    yield from (f"a mount at {path}" for path in mounts if ":" in path)
    unknown = {mount["name"] for mount in container.get("volumeMounts", ())} - set(volumes)
    yield from (f"a mount of {name!r}, which is not a volume" for name in unknown)
    for variable in container.get("env", ()):
        if "=" in variable["name"] or not variable["name"].isprintable():
            yield f"the variable {variable['name']!r}"
        if variable.get("value") and "valueFrom" in variable:
            yield f"{variable['name']} has value and valueFrom"
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", ()) if "name" in port}
    named = [port["name"] for port in container.get("ports", ()) if "name" in port]
    yield from (f"two ports {name!r}" for name, count in Counter(named).items() if count > 1)
    for name in named:
        if not re.fullmatch(_LABEL, name) or len(name) > 15 or "--" in name or not re.search("[a-z]", name):
            yield f"the port {name!r}"
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        if kind not in container:
            continue
        probe = container[kind]
        if once:
            yield f"a {kind} of an init container that ends"
        handlers = probe.keys() & {"grpc", "httpGet", "tcpSocket", "exec"}
        if len(handlers) != 1:
            yield f"{kind}: one way to probe"
            continue
        port = probe[handlers.pop()].get("port")
        if isinstance(port, str) and port not in ports:
            yield f"{kind}: no port {port!r}"
        if "grpc" in probe and not isinstance(port, int):
            yield f"{kind}: a gRPC probe takes a number"
        if kind != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            yield f"{kind}: successThreshold is 1"
    resources = container.get("resources", {})
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, amount in requests.items():
        if name in limits and quantity(str(amount)) > quantity(str(limits[name])):
            yield f"requests more {name} than its limit"
        if "/" in name and amount != limits.get(name):
            yield f"{name}: request and limit differ"
    for name, amount in limits.items():
        if "/" in name and not str(amount).isdigit():
            yield f"{name}: a whole number"


def _restricted(pod: Manifest) -> Iterator[str]:
    """Yields the violations of the standard "restricted"."""
    context = pod.get("securityContext", {})
    if pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}:
        yield "a namespace of the host"
    kinds = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    yield from (f"the volume {one['name']!r}" for one in pod.get("volumes", ()) if not one.keys() & kinds)
    for container in containers_of(pod):
        security = container.get("securityContext", {})
        name = container["name"]
        if not security.get("runAsNonRoot", context.get("runAsNonRoot")):
            yield f"{name}: runAsNonRoot"
        if security.get("runAsUser", context.get("runAsUser")) == 0:
            yield f"{name}: user 0"
        seccomp = security.get("seccompProfile", context.get("seccompProfile", {})).get("type")
        if seccomp not in ("RuntimeDefault", "Localhost"):
            yield f"{name}: seccompProfile"
        if security.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation"
        if "ALL" not in security.get("capabilities", {}).get("drop", ()) or security["capabilities"].get("add"):
            yield f"{name}: capabilities"
        if security.get("privileged"):
            yield f"{name}: privileged"


def changed(manifest: Manifest, path: str, value: Any) -> Manifest:
    """A copy of an object with another value at a path such as `spec/template/spec/volumes/0/name`; None removes it."""
    copy: Manifest = json.loads(json.dumps(manifest))
    node: Any = copy
    *parts, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    for part in parts:
        node = node[part]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return copy
