"""Network policies that `orchestrator submit` renders are about the run's pods alone, and are deleted with the run."""

from __future__ import annotations

import json

import pytest
from helpers.manifests import Manifest, needs_kubectl, of_kind, rendered, workloads
from helpers.pod_network import selects
from helpers.submitting import submitted

from lyncean_kubernetes.objects import owned

pytestmark = needs_kubectl
DATA = ("--task=marvel", "--data=/data/marvel")
IMAGE = (*DATA, "--image=registry.example/acme/vlm:2.3")
SHARED = (*DATA, "--model=/models/a", "--servers=shared")
RUN = "lyncean.dev/run"
SERVERS = "lyncean.dev/servers"


def policies(manifests: list[Manifest]) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in of_kind(manifests, "NetworkPolicy")}


def labels_of(manifests: list[Manifest]) -> dict[str, dict[str, str]]:
    """The labels of the pods of each workload."""
    return {one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"] for one in workloads(manifests)}


def chosen(policy: Manifest, manifests: list[Manifest]) -> set[str]:
    """The workloads whose pods a policy selects."""
    pods = labels_of(manifests)
    return {name for name, labels in pods.items() if selects(policy["spec"]["podSelector"], labels)}


def test_an_images_policies_select_its_run_and_have_its_label() -> None:
    one, other = (submitted(*IMAGE, f"--run={name}", "--shards=2", "--out=s3://b/r") for name in ("one", "other"))
    served = submitted(*DATA, "--endpoint=there:50051", "--run=served")
    kept = policies(one)
    assert kept.keys() == {"default-deny-one", "orchestrator-one", "names-one", "way-out-one"}
    for policy in kept.values():
        assert policy["metadata"]["labels"][RUN] == "one"
        assert chosen(policy, one) == {"orchestrator-one", "merge-one"}
        assert chosen(policy, [*other, *served]) == set(), "another run is shut"
    assert kept["default-deny-one"]["spec"] == {
        "podSelector": {"matchLabels": {RUN: "one"}},
        "policyTypes": ["Ingress", "Egress"],
    }
    assert not policies(served), "nothing shuts it"


@pytest.mark.parametrize("flags", [IMAGE, (*DATA, "--overlay=air-gapped", "--model=/models/a")])
def test_policies_that_the_overlay_has_are_not_added_twice(flags: tuple[str, ...]) -> None:
    assert submitted(*flags, "--run=one", "--component=network-policies") == submitted(*flags, "--run=one")


def test_weights_are_let_in_where_a_run_loads_them() -> None:
    manifests = submitted(*DATA, "--overlay=air-gapped", "--model=/models/a", "--run=one")
    assert chosen(policies(manifests)["load-weights-one"], manifests) == {"load-weights-one"}
    assert chosen(policies(manifests)["names-one"], manifests) == {"load-weights-one", "orchestrator-one"}
    assert chosen(policies(manifests)["default-deny-one"], manifests) == {"load-weights-one", "orchestrator-one"}


def test_shared_servers_have_policies_of_their_own_which_no_run_takes_along() -> None:
    shut = submitted(*SHARED, "--component=network-policies", "--run=shut")
    free = submitted(*SHARED, "--run=free")
    (deployment,) = of_kind(shut, "Deployment")
    called = deployment["metadata"]["labels"][SERVERS]
    servers = {deployment["metadata"]["name"], f"load-weights-{called}"}
    kept = {name: one for name, one in policies(shut).items() if RUN not in one["metadata"]["labels"]}
    assert kept.keys() == {f"{name}-{called}" for name in ("default-deny", "model-server", "names", "load-weights")}
    for policy in kept.values():
        assert policy["metadata"]["labels"][SERVERS] == called
        assert chosen(policy, [*shut, *free]) <= servers
    assert chosen(kept[f"default-deny-{called}"], shut) == servers
    (callers,) = (
        rule for rule in kept[f"model-server-{called}"]["spec"]["ingress"] if {"port": "grpc"} in rule["ports"]
    )
    peer = callers["from"][0]["podSelector"]
    assert selects(peer, labels_of(free)["orchestrator-free"]), "a run that is not shut reaches the servers"
    assert chosen(policies(shut)["default-deny-shut"], shut) == {"orchestrator-shut"}
    again = submitted(*SHARED, "--component=network-policies", "--run=again")
    assert {name: policies(again)[name] for name in kept} == kept, "runs of one model share them"


@pytest.mark.parametrize(
    ("rule", "is_kept"),
    [
        ({"key": "app.kubernetes.io/name", "operator": "In", "values": ["orchestrator"]}, True),
        ({"key": "app.kubernetes.io/name", "operator": "NotIn", "values": ["orchestrator"]}, False),
        ({"key": "app.kubernetes.io/name", "operator": "Exists"}, True),
        ({"key": "app.kubernetes.io/name", "operator": "DoesNotExist"}, False),
        ({"key": "team", "operator": "DoesNotExist"}, True),
        ({"key": "team", "operator": "NotIn", "values": ["a"]}, True),
    ],
)
def test_a_policy_is_kept_where_its_selector_chooses_pods_of_the_run(rule: Manifest, is_kept: bool) -> None:
    spec = {"podSelector": {"matchExpressions": [rule]}, "policyTypes": ["Egress"]}
    mine = {"kind": "NetworkPolicy", "metadata": {"name": "mine", "namespace": "lyncean"}, "spec": spec}
    manifests = [*json.loads(json.dumps(rendered("overlay/cpu-demo"))), mine]
    kept = policies(owned(manifests, "one", shared=None, served=False, remote=False))
    assert list(kept) == (["mine-one"] if is_kept else [])
    for policy in kept.values():
        assert policy["spec"]["podSelector"] == {"matchExpressions": [rule], "matchLabels": {RUN: "one"}}


SUBMITS = [
    ("--image=a/b:1", "--gpus=4"),
    ("--endpoint=vlm.serving:50051", "--component=network-policies"),
    ("--model=/models/a", "--weights=a/b@c", "--component=network-policies", "--component=mtls", "--shards=2"),
    ("--engine=vllm", "--nodes=2", "--model=/models/a", "--component=network-policies"),
]


def _keys(manifests: list[Manifest]) -> set[tuple[str, str, str]]:
    return {(one["kind"], one["metadata"]["namespace"], one["metadata"]["name"]) for one in manifests}


@pytest.mark.parametrize("first", SUBMITS)
def test_two_runs_and_two_namespaces_never_touch(first: tuple[str, ...]) -> None:
    one, two = submitted(*DATA, "--run=one", *first), submitted(*IMAGE, "--run=two")
    assert {kind for kind, _, _ in _keys(one) & _keys(two)} <= {"PersistentVolumeClaim", "ServiceAccount"}
    for ours, others in ((one, two), (two, one)):
        assert of_kind(ours, "NetworkPolicy")
        for policy in of_kind(ours, "NetworkPolicy"):
            assert chosen(policy, others) == set(), policy["metadata"]["name"]
    elsewhere = submitted(*DATA, "--run=one", "--namespace=team", *first)
    assert {namespace for _, namespace, _ in _keys(elsewhere)} == {"team"}
    assert {(kind, name) for kind, _, name in _keys(elsewhere)} == {(kind, name) for kind, _, name in _keys(one)}
