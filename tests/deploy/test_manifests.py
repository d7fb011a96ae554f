"""Manifests render, validate, and fit the programs that they start."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
from helpers.manifests import (
    ALL,
    COMPONENTS,
    DEPLOY,
    REPOSITORY,
    Manifest,
    command_line,
    containers,
    data_of,
    entrypoint,
    environment,
    needs_kubectl,
    of_kind,
    rendered,
    with_components,
    workloads,
)

import lyncean_kubernetes.cli.wait
import model_server.cli
import orchestrator.cli
import scorer.cli
from lyncean.model.v1 import model_pb2
from lyncean.scorer.v1 import scorer_pb2

pytestmark = needs_kubectl
VERSIONS = ("1.31", "1.37")
COMMANDS: dict[str, click.Command] = {
    "orchestrator": orchestrator.cli.main,
    "scorer": scorer.cli.main,
    "model-server": model_server.cli.main,
    "python -m lyncean_kubernetes.cli.wait": lyncean_kubernetes.cli.wait.main,
}
SERVICES = {
    "model-server": model_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name,
    "scorer": scorer_pb2.DESCRIPTOR.services_by_name["ScorerService"].full_name,
}
# What is relied on in others' kinds: a path that has to be there, and its type. test_custom_kinds holds them to their
# schemas.
CUSTOM: dict[str, dict[str, type]] = {
    "cert-manager.io/v1 Certificate": {"spec.secretName": str, "spec.issuerRef.name": str, "spec.issuerRef.kind": str},
    "cert-manager.io/v1 Issuer": {"spec": dict},
    "monitoring.coreos.com/v1 PodMonitor": {"spec.selector.matchLabels": dict, "spec.podMetricsEndpoints": list},
    "keda.sh/v1alpha1 ScaledObject": {"spec.scaleTargetRef.name": str, "spec.triggers": list},
    "kueue.x-k8s.io/v1beta2 LocalQueue": {"spec.clusterQueue": str},
    "kueue.x-k8s.io/v1beta2 ClusterQueue": {"spec.resourceGroups": list},
    "kueue.x-k8s.io/v1beta2 ResourceFlavor": {"metadata.name": str},
}
every = pytest.mark.parametrize("name", ALL)


def at(manifest: Manifest, path: str) -> Any:
    for part in path.split("."):
        manifest = manifest[part]
    return manifest


@pytest.mark.parametrize("version", VERSIONS)
@every
def test_it_validates_strictly(name: str, version: str) -> None:
    for manifest in rendered(name):
        kind = f"{manifest['apiVersion']} {manifest['kind']}"
        if kind in CUSTOM:
            for path, wanted in CUSTOM[kind].items():
                assert isinstance(at(manifest, path), wanted), f"{kind}: {path}"
        else:
            validated(json.dumps(manifest), version)


@functools.cache
def validated(manifest: str, version: str) -> None:
    """Validates it once: most are in many folders."""
    kubernetes_validate.validate(json.loads(manifest), version, strict=True)


def test_the_validation_can_fail() -> None:
    (broken,) = [dict(job) for job in of_kind(rendered("base"), "Job")]
    broken["spec"] = {**broken["spec"], "backOffLimit": 1}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[0], strict=True)


def parse(container: Manifest, manifests: list[Manifest], tls: Path) -> tuple[str, click.Context] | None:
    """Parses a container's words with the command they are for; None for others' programs."""
    command, arguments = command_line(container, environment(container, manifests, {"JOB_COMPLETION_INDEX": "0"}))
    program = " ".join(command or entrypoint(container["image"]))
    if program not in COMMANDS:
        return None
    assert not [word for word in arguments if "$(" in word], f"a variable that is not set: {arguments}"
    arguments = [word.replace("=/tls/", f"={tls}/") for word in arguments]
    cli = COMMANDS[program]
    with cli.make_context(program, arguments) as context:
        if isinstance(cli, click.Group):
            name, sub, rest = cli.resolve_command(context, [*context._protected_args, *context.args])
            assert sub is not None
            assert name is not None
            return f"{program} {name}", sub.make_context(name, rest, parent=context)
        return program, context


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).touch()
    return tmp_path


@every
def test_commands_parse_and_agree_with_ports_probes_and_mounts(name: str, tls: Path) -> None:
    manifests = rendered(name)
    for workload in workloads(manifests):
        for container in containers(workload):
            ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
            probes = [
                container[f"{kind}Probe"]
                for kind in ("startup", "readiness", "liveness")
                if f"{kind}Probe" in container
            ]
            assert len(set(ports.values())) == len(ports)
            parsed = parse(container, manifests, tls)
            if parsed is None:
                known = ("sh", "vllm", "python3", "registry.example/")
                assert (container.get("command") or [container["image"]])[0].startswith(known), container
                for probe in probes:
                    assert probe.get("httpGet", {}).get("port", "grpc") in ports
                continue
            program, context = parsed
            if program in ("model-server serve", "scorer serve"):
                params = context.params
                assert params["host"] == "0.0.0.0"
                assert ports["grpc"] == params["port"]
                assert ports.get("metrics") == params["metrics_port"]
                assert ports.get("health") == params["health_port"]
                assert (params["health_port"] is None) == (params["tls_cert"] is None)
                assert params["grace"] < workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
                services = [probe["grpc"].get("service", "") for probe in probes]
                assert services == [SERVICES[program.split()[0]]] * 2 + [""]
                assert {probe["grpc"]["port"] for probe in probes} == {params["health_port"] or params["port"]}
            mounts = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
            for key in ("run", "data", "model_id", "shards"):
                values = context.params.get(key) or ()
                for value in (
                    [values] if isinstance(values, (str, Path)) else values if isinstance(values, tuple) else ()
                ):
                    if str(value).startswith("/"):
                        assert any(str(value).startswith(f"{mount}/") for mount in mounts), f"{value} is on no volume"


@every
def test_endpoints_are_services_and_their_ports(name: str, tls: Path) -> None:
    manifests = rendered(name)
    services = {service["metadata"]["name"]: service for service in of_kind(manifests, "Service")}
    for workload in workloads(manifests):
        for container in containers(workload):
            parsed = parse(container, manifests, tls)
            params = parsed[1].params if parsed else {}
            where = [
                *params.get("endpoints", ()),
                *params.get("endpoint", ()),
                *params.get("scorers", ()),
                params.get("scorer"),
            ]
            for host, _, port in (word.partition(":") for word in where if word):
                assert [item["port"] for item in services[host]["spec"]["ports"]] == [int(port)]
    assert all(service["spec"].get("clusterIP") == "None" for label, service in services.items() if label == "model"), (
        "behind a virtual address all calls would go to one replica"
    )


@every
def test_names_refer_to_what_is_there(name: str) -> None:
    manifests = rendered(name)
    maps, accounts, claims = (
        {manifest["metadata"]["name"] for manifest in of_kind(manifests, kind)}
        for kind in ("ConfigMap", "ServiceAccount", "PersistentVolumeClaim")
    )
    secrets = {certificate["spec"]["secretName"] for certificate in of_kind(manifests, "Certificate")}
    for workload in workloads(manifests):
        pod = workload["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
        mounted = set()
        assert pod["serviceAccountName"] in accounts
        for container in containers(workload):
            environment(container, manifests)  # refuses a key that is missing and not optional
            mounts = container.get("volumeMounts", [])
            mounted |= {mount["name"] for mount in mounts}
            assert len({mount["mountPath"] for mount in mounts}) == len(mounts)
            for source in container.get("envFrom", ()):
                assert source["configMapRef"]["name"] in maps
        assert mounted == set(volumes), "a volume without a mount, or the other way round"
        for volume in volumes.values():
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims
            if "secret" in volume:
                assert volume["secret"]["secretName"] in secrets


@every
def test_selectors_match_pods(name: str) -> None:
    manifests = rendered(name)
    pods = [
        (workload["spec"]["template"]["metadata"]["labels"], workload["spec"]["template"]["spec"])
        for workload in workloads(manifests)
    ]

    def chosen(selector: dict[str, Any]) -> list[Any]:
        labels = selector.get("matchLabels", {})
        rules = [(rule["key"], rule["values"]) for rule in selector.get("matchExpressions", ())]
        return [
            spec
            for has, spec in pods
            if labels.items() <= has.items() and all(has.get(key) in values for key, values in rules)
        ]

    for workload in of_kind(manifests, "Deployment"):
        assert len(chosen(workload["spec"]["selector"])) == 1
    for service in of_kind(manifests, "Service"):
        (spec,) = chosen({"matchLabels": service["spec"]["selector"]})
        ports = {port["name"] for port in spec["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for manifest in of_kind(manifests, "PodDisruptionBudget", "PodMonitor"):
        assert len(chosen(manifest["spec"]["selector"])) == 1
    for manifest in of_kind(manifests, "PodMonitor"):
        (spec,) = chosen(manifest["spec"]["selector"])
        for end in manifest["spec"]["podMetricsEndpoints"]:
            assert end["port"] in {port["name"] for port in spec["containers"][0]["ports"]}
    for manifest in of_kind(manifests, "NetworkPolicy"):
        if manifest["metadata"]["name"] != "load-weights":
            assert chosen(manifest["spec"]["podSelector"])
    for manifest in of_kind(manifests, "ScaledObject"):
        target = manifest["spec"]["scaleTargetRef"]
        (deployment,) = [one for one in of_kind(manifests, target["kind"]) if one["metadata"]["name"] == target["name"]]
        assert "replicas" not in deployment["spec"]
        label, value = manifest["spec"]["triggers"][0]["metadata"]["podSelector"].split("=")
        assert chosen({"matchLabels": {label: value}})


@every
def test_pods_keep_the_restricted_standard(name: str) -> None:
    for workload in workloads(rendered(name)):
        pod = workload["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 65532
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        assert all(volume.keys() & {"emptyDir", "persistentVolumeClaim", "secret"} for volume in pod["volumes"])
        for container in containers(workload):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


@every
def test_images_are_ours_or_named_exceptions(name: str) -> None:
    for workload in workloads(rendered(name)):
        for container in containers(workload):
            image = container["image"]
            assert ":" in image.rpartition("/")[2], f"{image} has no tag"
            assert entrypoint(image) or image.startswith(
                ("vllm/vllm-openai:", "lmsysorg/sglang:", "registry.example/")
            ), image


@every
def test_variables_are_read_by_someone(name: str) -> None:
    code = "".join(
        path.read_text()
        for folder in ("lyncean", "model_server", "scorer", "tool_server", "orchestrator", "extensions")
        for path in (REPOSITORY / folder).rglob("*.py")
    )
    libraries = {"HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "HF_HOME"}
    libraries |= {"HF_TOKEN", "HF_ENDPOINT", "HOME", "USER", "VLLM_CACHE_ROOT", "VLLM_NO_USAGE_STATS"}
    manifests = rendered(name)
    for workload in workloads(manifests):
        for container in containers(workload):
            text = " ".join([*container.get("command", ()), *container.get("args", ())])
            for item in container.get("env", ()):
                assert item["name"] in libraries or item["name"] in code, item["name"]
            for source in container.get("envFrom", ()):
                held = data_of(manifests, "ConfigMap")[source["configMapRef"]["name"]]
                used = {key for key in held if f"$({key})" in text or f"${key}" in text or key in libraries}
                assert used, f"{container['name']} takes nothing from {source}"


@pytest.mark.parametrize("name", ["base", "overlay/cpu-demo", "overlay/gpu", "overlay/sharded"])
def test_jobs_follow_the_exit_codes(name: str) -> None:
    for job in of_kind(rendered(name), "Job"):
        if job["metadata"]["name"] == "load-weights":
            continue
        rules = job["spec"]["podFailurePolicy"]["rules"]
        assert rules[0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
        names = {container["name"] for container in job["spec"]["template"]["spec"]["containers"]}
        ended = {code for rule in rules[1:] for code in rule["onExitCodes"]["values"]}
        assert {rule["onExitCodes"]["containerName"] for rule in rules[1:]} == names
        assert ended == {1, 2, 4}, "0 is complete; 3, incomplete, is worth another pod"
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_shards_agree(tls: Path) -> None:
    manifests = rendered("overlay/sharded")
    job, merge = (
        next(j for j in of_kind(manifests, "Job") if j["metadata"]["name"] == name)
        for name in ("orchestrator", "merge")
    )
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    assert "backoffLimit" not in spec
    (container,) = spec["template"]["spec"]["containers"]
    folders = []
    for index in range(spec["completions"]):
        variables = environment(container, manifests, {"JOB_COMPLETION_INDEX": str(index)})
        _, arguments = command_line(container, variables)
        assert f"--shard={spec['completions']}" in arguments
        folders.append([word for word in arguments if word.startswith("--run=")][-1].removeprefix("--run="))
    parsed = parse(merge["spec"]["template"]["spec"]["containers"][0], manifests, tls)
    assert parsed is not None
    assert [str(path) for path in parsed[1].params["shards"]] == folders
    waits = parse(merge["spec"]["template"]["spec"]["initContainers"][0], manifests, tls)
    assert waits is not None
    assert [str(waits[1].params["run"] / f"shard-{n}") for n in range(waits[1].params["shards"])] == folders
    assert merge["spec"]["activeDeadlineSeconds"] == 7 * 86400, "the page says a week; it begins with the apply"


def test_kueue_queues_what_the_page_says() -> None:
    manifests = with_components("gpu", "sharded", "kueue")
    queued = {
        one["metadata"]["name"]: "kueue.x-k8s.io/queue-name" in one["metadata"]["labels"]
        for one in workloads(manifests)
    }
    assert queued == {
        "orchestrator": True,
        "model-server": True,
        "scorer": False,
        "merge": False,
        "load-weights": False,
    }


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        ("vllm", {"--model=$(MODEL)", "--generation-config=vllm"}),
        ("sglang", {"--model-path=$(MODEL)", "--sampling-defaults=openai"}),
    ],
)
def test_the_engine_beside_is_where_our_server_looks(engine: str, flags: set[str], tls: Path) -> None:
    manifests = rendered(f"overlay/{engine}")
    (deployment,) = (d for d in of_kind(manifests, "Deployment") if d["metadata"]["name"] == "model-server")
    by_name = {container["name"]: container for container in containers(deployment)}
    assert list(by_name) == ["wait-for-weights", engine, "model-server"]
    assert by_name[engine]["restartPolicy"] == "Always"
    ours = parse(by_name["model-server"], manifests, tls)
    assert ours is not None
    port = by_name[engine]["ports"][0]["containerPort"]
    assert ours[1].params["base_url"] == f"http://127.0.0.1:{port}/v1"
    assert {f"--port={port}", *flags} <= set(by_name[engine]["args"])
    assert "nvidia.com/gpu" not in by_name["model-server"]["resources"]["limits"]


def test_certificates_carry_the_names_that_are_dialled() -> None:
    manifests = rendered("component/mtls")
    names = {
        manifest["metadata"]["name"]: manifest["spec"].get("dnsNames") for manifest in of_kind(manifests, "Certificate")
    }
    assert names["model-server"] == ["model"]
    assert names["scorer"] == ["scorer"]
    assert {"model", "scorer"} == {manifest["metadata"]["name"] for manifest in of_kind(manifests, "Service")}


def test_all_components_go_together() -> None:
    manifests = with_components("gpu", *(name for name in COMPONENTS if name not in ("load-weights", "pdb")))
    for manifest in manifests:
        if f"{manifest['apiVersion']} {manifest['kind']}" not in CUSTOM:
            kubernetes_validate.validate(manifest, VERSIONS[0], strict=True)


def test_every_folder_is_tried() -> None:
    tried = {DEPLOY / "base", DEPLOY / "namespace", DEPLOY / "cluster/kueue"}
    tried |= set((DEPLOY / "overlays").iterdir()) | set((DEPLOY / "components").iterdir())
    assert {path.parent for path in DEPLOY.rglob("kustomization.yaml")} == tried
