"""Objects of other people's kinds, held strictly to the schemas that packages publish."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from helpers.manifests import ALL, REPOSITORY, Manifest, group_templates, needs_kubectl, of_kind, rendered

pydantic = pytest.importorskip("pydantic", reason="no pydantic: pip install pydantic")
pytestmark = needs_kubectl
MODELS: dict[str, Any] = {
    version: pytest.importorskip(f"cloudcoil.models.{name}", reason="no schemas: pip install -e '.[test]'")
    for version, name in {
        "cert-manager.io/v1": "cert_manager.v1",
        "keda.sh/v1alpha1": "keda.v1alpha1",
        "monitoring.coreos.com/v1": "prometheus_operator.v1",
    }.items()
}


# Kueue's kinds are in no package: tests/fixtures/kueue_v1beta2.json names where their schemas are from.
KUEUE: dict[str, Any] = json.loads((REPOSITORY / "tests/fixtures/kueue_v1beta2.json").read_text())["kinds"]


def problems(manifest: Manifest) -> str:
    """What is wrong with an object: a type or value, something missing, or a field that its kind does not have."""
    try:
        found = getattr(MODELS[manifest["apiVersion"]], manifest["kind"]).model_validate(manifest, strict=True)
    except pydantic.ValidationError as error:
        return str(error)
    kept = found.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return "" if kept == manifest else f"some fields are unknown: {manifest} became {kept}"


@pytest.mark.parametrize("name", ALL)
def test_objects_keep_their_schemas(name: str) -> None:
    for manifest in rendered(name):
        if manifest["apiVersion"] in MODELS:
            assert not problems(manifest)
        if manifest["apiVersion"].startswith("kueue.x-k8s.io/"):
            assert manifest["apiVersion"] == "kueue.x-k8s.io/v1beta2", "Kueue 0.20 serves no other version"
            jsonschema.validate(manifest, KUEUE[manifest["kind"]])


def test_kueue_no_longer_knows_the_fields_of_v1beta1() -> None:
    queue = next(one for one in rendered("cluster") if one["kind"] == "ClusterQueue")
    with pytest.raises(jsonschema.ValidationError, match="'cohort' was unexpected"):
        jsonschema.validate(changed(queue, ("spec", "cohort"), "lyncean"), KUEUE["ClusterQueue"])


OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": False}
COUNT = {"type": "integer", "minimum": 0}
AMOUNT = {"anyOf": [COUNT, {"type": "string", "pattern": "^[0-9]+%$"}]}
# After the fields that the API reference of LeaderWorkerSet 0.6 to 0.8 documents; pod templates are Kubernetes' own.
LEADER_WORKER_SET: dict[str, Any] = {
    **OBJECT,
    "required": ["leaderWorkerTemplate"],
    "properties": {
        "replicas": COUNT,
        "startupPolicy": {"enum": ["LeaderCreated", "LeaderReady"]},
        "networkConfig": {**OBJECT, "properties": {"subdomainPolicy": {"enum": ["Shared", "UniquePerReplica"]}}},
        "rolloutStrategy": {
            **OBJECT,
            "required": ["type"],
            "properties": {
                "type": {"const": "RollingUpdate"},
                "rollingUpdateConfiguration": {
                    **OBJECT,
                    "properties": {"partition": COUNT, "maxUnavailable": AMOUNT, "maxSurge": AMOUNT},
                },
            },
        },
        "leaderWorkerTemplate": {
            **OBJECT,
            "required": ["workerTemplate"],
            "properties": {
                "leaderTemplate": {"type": "object"},
                "workerTemplate": {"type": "object"},
                "size": {"type": "integer", "minimum": 1},
                "restartPolicy": {"enum": ["RecreateGroupOnPodRestart", "None"]},
                "subGroupPolicy": {
                    **OBJECT,
                    "properties": {"subGroupPolicyType": {"type": "string"}, "subGroupSize": {"minimum": 1}},
                },
                "volumeClaimTemplates": {"type": "array"},
                "persistentVolumeClaimRetentionPolicy": {"type": "object"},
            },
        },
    },
}


def test_groups_keep_the_documented_fields() -> None:
    manifests = rendered("overlay/multi-node")
    (group,) = of_kind(manifests, "LeaderWorkerSet")
    jsonschema.validate(group["spec"], LEADER_WORKER_SET)
    for _, role, template in group_templates(manifests):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role}, "spec": template["spec"]}
        for version in ("1.31", "1.37"):
            kubernetes_validate.validate(pod, version, strict=True)
    for path, value in (
        (("spec", "leaderWorkerTemplate", "size"), "2"),
        (("spec", "leaderWorkerTemplate", "sise"), 2),
        (("spec", "startupPolicy"), "Leader"),
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(changed(group, path, value)["spec"], LEADER_WORKER_SET)


def test_leader_and_workers_start_one_engine() -> None:
    (leader, worker) = (template for _, _, template in group_templates(rendered("overlay/multi-node")))
    (asked,), (other,) = leader["spec"]["containers"], worker["spec"]["containers"]
    assert set(asked["args"]) ^ set(other["args"]) == {"--headless", "--host=0.0.0.0", "--port=8000"}
    gpus = asked["resources"]["limits"]["nvidia.com/gpu"]
    assert other["resources"] == asked["resources"]
    assert f"--tensor-parallel-size={gpus}" in asked["args"]
    assert "--nnodes=$(LWS_GROUP_SIZE)" in asked["args"]
    assert not other.keys() & {"ports", "readinessProbe", "livenessProbe"}


def test_every_schema_is_used() -> None:
    used = {manifest["apiVersion"] for name in ALL for manifest in rendered(name)}
    assert set(MODELS) <= used


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("spec", "pollingIntervall"), 15, "unknown"),
        (("spec", "pollingInterval"), "15", "pollingInterval"),
        (("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleDown", "policy"), "Max", "unknown"),
        (("spec", "triggers"), None, "triggers"),
    ],
)
def test_a_mistake_is_found(path: tuple[str, ...], value: Any, says: str) -> None:
    (scaled,) = (one for one in rendered("component/keda") if one["kind"] == "ScaledObject")
    assert says in problems(changed(scaled, path, value))


def changed(manifest: Manifest, path: tuple[str, ...], value: Any) -> Manifest:
    """The manifest with another value at one path."""
    first, *rest = path
    return {**manifest, first: changed(manifest[first], tuple(rest), value) if rest else value}
