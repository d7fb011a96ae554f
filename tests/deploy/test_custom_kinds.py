"""Objects of other people's kinds, held strictly to the schemas that packages publish."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from helpers.manifests import ALL, REPOSITORY, Manifest, needs_kubectl, rendered

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
    """Mistakes of an object: a type or value, a missing field, or a field unknown to its kind."""
    try:
        parsed = getattr(MODELS[manifest["apiVersion"]], manifest["kind"]).model_validate(manifest, strict=True)
    except pydantic.ValidationError as error:
        return str(error)
    kept = parsed.model_dump(mode="json", by_alias=True, exclude_unset=True)
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
