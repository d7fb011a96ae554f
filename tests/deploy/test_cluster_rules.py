"""Consistency of the manifests' demands on controllers: scaling, policies, claims, patience."""

from __future__ import annotations

import re
from typing import Any

import pytest
from helpers.manifests import ALL, Manifest, containers, needs_kubectl, of_kind, rendered, workloads

from model_server.metrics import Metrics

pytestmark = needs_kubectl
every = pytest.mark.parametrize("name", ALL)
NAME = "app.kubernetes.io/name"
CALLS = [("orchestrator", "model-server"), ("orchestrator", "scorer"), ("scorer", "model-server"), ("merge", "scorer")]
"""Clients and servers of connections; the scorer dials a judge that is a model server."""


def labels_of(workload: Manifest) -> dict[str, str]:
    labels: dict[str, str] = workload["spec"]["template"]["metadata"]["labels"]
    return labels


def chooses(selector: Manifest, labels: dict[str, str]) -> bool:
    rules = [(rule["key"], rule["values"]) for rule in selector.get("matchExpressions", ())]
    wanted = selector.get("matchLabels", {}).items()
    return wanted <= labels.items() and all(labels.get(key) in values for key, values in rules)


def test_scaling_asks_for_metrics_that_the_server_has() -> None:
    from prometheus_client import generate_latest

    (scaled,) = of_kind(rendered("component/keda"), "ScaledObject")
    query = scaled["spec"]["triggers"][1]["metadata"]["query"]
    exposed = generate_latest(Metrics().registry).decode()
    metrics = re.findall(r"lyncean_\w+", query)
    assert metrics
    assert all(f"# TYPE {metric} gauge" in exposed for metric in metrics)
    assert set(re.findall(r'namespace="(\w+)"', query)) == {scaled["metadata"]["namespace"]}


def test_a_full_replica_asks_for_another() -> None:
    from model_server.hf.settings import Settings

    (scaled,) = of_kind(rendered("component/keda"), "ScaledObject")
    takes = 2 * Settings(model="any").max_batch
    assert int(scaled["spec"]["triggers"][1]["metadata"]["threshold"]) == takes / 2
    assert scaled["spec"]["idleReplicaCount"] < scaled["spec"]["minReplicaCount"] < scaled["spec"]["maxReplicaCount"]


@pytest.mark.parametrize(("source", "target"), CALLS)
def test_policies_let_through_what_is_dialled(source: str, target: str) -> None:
    policies = [manifest["spec"] for manifest in of_kind(rendered("component/network-policies"), "NetworkPolicy")]
    assert {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} in policies, "all is shut first"

    def opened(kind: str, side: str, here: str, there: str) -> bool:
        return any(
            chooses(peer["podSelector"], {NAME: there}) and {"port": "grpc"} in rule["ports"]
            for policy in policies
            if chooses(policy["podSelector"], {NAME: here})
            for rule in policy.get(kind, ())
            for peer in rule.get(side, ())
            if "namespaceSelector" not in peer
        )

    assert opened("egress", "to", source, target)
    assert opened("ingress", "from", target, source)
    asks = [
        port["port"]
        for policy in policies
        if chooses(policy["podSelector"], {NAME: source})
        for rule in policy.get("egress", ())
        for peer in rule.get("to", ())
        if peer.get("podSelector", {}).get("matchLabels") == {"k8s-app": "kube-dns"}
        for port in rule["ports"]
    ]
    assert asks == [53, 53], "it looks the name up"


@every
def test_a_claim_of_one_node_keeps_its_pods_together(name: str) -> None:
    manifests = rendered(name)
    single = {
        claim["metadata"]["name"]
        for claim in of_kind(manifests, "PersistentVolumeClaim")
        if claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    }
    for workload in workloads(manifests):
        pod = workload["spec"]["template"]["spec"]
        used = {volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod["volumes"]}
        if not used & single:
            continue
        assert workload["kind"] == "Job"
        terms: list[Any] = []
        for kind, rules in pod["affinity"]["podAffinity"].items():
            terms += rules if kind.startswith("required") else [one["podAffinityTerm"] for one in rules]
        assert [term["topologyKey"] for term in terms] == ["kubernetes.io/hostname"]
        shards = next(one for one in workloads(manifests) if labels_of(one)[NAME] == "orchestrator")
        assert chooses(terms[0]["labelSelector"], labels_of(shards))


@every
def test_nothing_is_given_up_while_it_may_still_load(name: str) -> None:
    for deployment in of_kind(rendered(name), "Deployment"):
        for container in containers(deployment):
            probe = container.get("startupProbe")
            if probe:
                patience = probe["periodSeconds"] * probe["failureThreshold"]
                assert deployment["spec"].get("progressDeadlineSeconds", 600) > patience
                assert container["livenessProbe"]["timeoutSeconds"] > 1, "a busy server answers late"


@pytest.mark.parametrize("name", ["overlay/gpu", "overlay/air-gapped"])
def test_a_gpus_server_never_falls_back_to_the_cpu(name: str) -> None:
    (deployment,) = (one for one in of_kind(rendered(name), "Deployment") if labels_of(one)[NAME] == "model-server")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "--device=cuda" in container["args"]
