"""A run whose scorer runs code of others is fenced in: no way out, no right in the cluster, no secret but its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.manifests import Manifest, containers, needs_kubectl, of_kind, workloads
from helpers.pod_network import selects
from helpers.submitting import submitted

pytestmark = needs_kubectl
RUN = ("--run=one", "--overlay=cpu-demo", "--task=vlmevalkit:any", "--data=/data/any.tsv", "--set=metrics=vlmevalkit")
JUDGE = """
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
  - target: {{kind: Deployment, name: scorer}}
    patch: |-
      - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --judge={judge}}}
      - op: add
        path: /spec/template/spec/containers/0/env/-
        value: {{name: LYNCEAN_JUDGE_KEY, valueFrom: {{secretKeyRef: {{name: judge, key: key}}}}}}
"""


def secrets(container: Manifest) -> set[str]:
    """Returns the secrets that a container gets as variables."""
    sources = [variable["valueFrom"] for variable in container.get("env", ()) if "valueFrom" in variable]
    refs = [source.get("secretKeyRef") for source in sources]
    refs += [source.get("secretRef") for source in container.get("envFrom", ())]
    return {ref["name"] for ref in refs if ref}


def pods(manifests: list[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    for workload in workloads(manifests):
        yield workload, workload["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    folder = tmp_path_factory.mktemp("judge")
    (folder / "kustomization.yaml").write_text(JUDGE.format(judge="openai:MODEL"))
    return submitted(*RUN, "--shards=2", "--out=s3://bucket/runs", f"--component={folder}")


def test_containers_have_the_secrets_that_they_need_and_no_right_in_the_cluster(judged: list[Manifest]) -> None:
    by_container: dict[str, set[str]] = {}
    for workload, pod in pods(judged):
        assert pod["automountServiceAccountToken"] is False
        assert not [volume for volume in pod["volumes"] if volume.keys() & {"secret", "projected", "hostPath"}]
        for container in containers(workload):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            by_container.setdefault(container["name"], set()).update(secrets(container))
    assert by_container == {
        "scorer": {"lyncean-token", "judge"},
        "model-server": {"lyncean-token"},
        "orchestrator": {"lyncean-token", "lyncean-storage"},
        "merge": {"lyncean-token", "lyncean-storage"},
        "wait": {"lyncean-storage"},  # of a merge, which waits for the folders of shards
    }
    assert not {one["kind"] for one in judged} & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Secret"}


def test_the_orchestrator_alone_has_the_token_of_tool_servers(judged: list[Manifest]) -> None:
    with_token = {
        container["name"]
        for workload, _ in pods(judged)
        for container in containers(workload)
        if "LYNCEAN_TOOL_TOKEN" in {one["name"] for one in container.get("env", ())}
    }
    assert with_token == {"orchestrator"}


def test_nothing_is_let_out_but_what_the_run_names(judged: list[Manifest]) -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(judged, "NetworkPolicy")}
    for workload, _ in pods(judged):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert selects(policies["default-deny-one"]["podSelector"], labels)
    assert policies["default-deny-one"]["policyTypes"] == ["Ingress", "Egress"]
    assert policies["default-deny-one"].keys() == {"podSelector", "policyTypes"}
    assert policies["way-out-one"]["egress"] == [{"ports": [{"port": 443}]}]
    assert not any(spec.get("ingress") for name, spec in policies.items() if selects(spec["podSelector"], {}))


@pytest.mark.parametrize(
    ("judge", "ports"),
    [
        ("openai:MODEL@http://judge.team:8000/v1", {8000}), ("openai:MODEL@http://judge.team/v1", {80}),
        ("grpcs:judge.team:50051", {50051}), ("batch:MODEL", {443}), ("", None),
    ],
)  # fmt: skip
def test_a_judge_is_reached(judge: str, ports: set[int] | None, tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(JUDGE.format(judge=judge))
    manifests = submitted(*RUN, *([f"--component={tmp_path}"] if judge else []))
    (way_out,) = [one for one in of_kind(manifests, "NetworkPolicy") if "way-out" in one["metadata"]["name"]] or [None]
    assert (way_out and {port["port"] for port in way_out["spec"]["egress"][0]["ports"]}) == ports


def test_a_run_without_code_of_others_is_as_open_as_its_overlay() -> None:
    manifests = submitted("--run=one", "--overlay=cpu-demo", "--task=marvel", "--data=/data/marvel")
    assert not of_kind(manifests, "NetworkPolicy")
    named = submitted(*RUN, "--component=network-policies")
    assert named == submitted(*RUN)
