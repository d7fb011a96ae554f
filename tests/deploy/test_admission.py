"""A cluster would admit the rendered objects: alone, over an earlier run, beside another, and under a quota."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers import submitting
from helpers.admission import changed, contended, over_quota, refused, unchangeable
from helpers.manifests import ALL, DEPLOY, Manifest, needs_kubectl, objects, of_kind, rendered

import orchestrator.cli

pytestmark = needs_kubectl
DATA = ("--task=marvel", "--data=/data/marvel")
LONGEST = "a-run-whose-name-is-as-long-as-it-may-be"
SUBMITS: dict[str, tuple[str, ...]] = {
    "a checkpoint": ("--model=/models/a", "--weights=team/a@main", "--shards=8"),
    "a long name": (f"--run={LONGEST}", "--model=/models/a", "--shards=1000", "--component=mtls"),
    "an engine": ("--overlay=vllm", "--model=/models/a", "--component=kueue", "--component=mtls"),
    "several nodes": ("--engine=vllm", "--nodes=4", "--gpus=8", f"--run={LONGEST}", "--component=mtls"),
    "shared": (
        "--servers=shared",
        "--model=/models/Some.Model_with-a-very-long-name-of-many-words",
        "--component=mtls",
    ),
    "shared and scaled": ("--servers=shared", "--model=/models/a", "--component=keda", "--component=monitoring"),
    "an image": ("--image=registry.example:5000/acme/vlm@sha256:00ff", "--gpus=4", "--env=A=b", "--out=s3://b/r"),
    "an API": ("--endpoint=http://there:8000/v1", "--model=team/Model-7B", "--component=network-policies"),
    "what is served": ("--endpoint=a.there:50051,b.there:50052", "--shards=2", "--out=gs://bucket/runs"),
    "a shut cluster": ("--overlay=air-gapped", "--model=/models/a", "--pull-secret=acme", "--registry=r.example/t"),
}


@functools.cache
def submitted(*flags: str) -> list[Manifest]:
    return submitting.submitted(*DATA, *flags)


@pytest.mark.parametrize("name", ALL)
def test_what_is_in_the_folder_is_admitted(name: str) -> None:
    assert refused(rendered(name)) == []


@pytest.mark.parametrize("name", SUBMITS)
def test_what_submit_renders_is_admitted(name: str) -> None:
    assert refused(submitted(*SUBMITS[name])) == []


@pytest.mark.parametrize("flags", [("--model=/models/a",), SUBMITS["shared"], ("--image=r.example/a:1",)])
def test_two_runs_want_nothing_different(flags: tuple[str, ...]) -> None:
    first, other = submitted("--run=one", *flags), submitted("--run=two", *flags, "--limit=3", "--shards=2")
    assert unchangeable(first, other) == contended(first, other) == []
    shared = {(one["kind"], one["metadata"]["name"]) for one in first}
    shared &= {(one["kind"], one["metadata"]["name"]) for one in other}
    assert {kind for kind, _ in shared} >= {"PersistentVolumeClaim", "ServiceAccount"}
    assert not {kind for kind, _ in shared} & ({"Job"} if "--servers=shared" not in flags else set())


def test_another_run_of_one_name_is_refused_by_the_cluster() -> None:
    first, other = submitted("--run=one", "--model=/models/a"), submitted("--run=one", "--model=/models/b")
    assert "Job orchestrator-one: spec.template is immutable" in unchangeable(first, other)


def test_every_container_says_what_a_quota_counts() -> None:
    hard = {"requests.cpu": "1000", "requests.memory": "1000Gi", "limits.memory": "1000Gi"}
    for name in ALL:
        assert over_quota(rendered(name), {**hard, "requests.nvidia.com/gpu": "100"}) == []
    for flags in SUBMITS.values():
        wide = {key: f"{amount[:4]}000Gi" if amount.endswith("Gi") else "1000000" for key, amount in hard.items()}
        assert over_quota(submitted(*flags), wide) == []


def test_a_quota_counts_sidecars() -> None:
    manifests = submitted("--image=r.example/a:1", "--gpus=4", "--shards=3")
    assert over_quota(manifests, {"limits.nvidia.com/gpu": "12"}) == []
    assert over_quota(manifests, {"limits.nvidia.com/gpu": "11"}) == ["limits.nvidia.com/gpu: 12 of 11"]


CHART: dict[str, dict[str, Any]] = {
    "image": {"model": {"image": "r.example/a:1", "gpus": 4}, "shards": 8, "out": "s3://bucket/runs", "queue": "team"},
    "checkpoint": {"model": {"path": "/models/x"}},
    "served": {"model": {"endpoint": "a.there:50051"}, "shards": 2},
}


@pytest.mark.parametrize("name", CHART)
@pytest.mark.parametrize("release", ["night", LONGEST])
def test_what_the_chart_renders_is_admitted(name: str, release: str) -> None:
    helm = pytest.importorskip("helm_python", reason="no Helm: pip install helm-python-sdk brings its engine")
    texts = helm.Chart.load(DEPLOY / "helm/lyncean").render(CHART[name], name=release, namespace="lyncean")
    manifests = objects(*(text for file, text in texts.items() if not file.endswith("NOTES.txt")))
    for one in manifests:
        one["metadata"]["namespace"] = "lyncean"  # Helm's own client sets it
    assert refused(manifests) == []


def test_a_release_whose_jobs_could_not_be_named_is_refused() -> None:
    helm = pytest.importorskip("helm_python", reason="no Helm: pip install helm-python-sdk brings its engine")
    with pytest.raises(helm.HelmError, match="40 characters"):
        helm.Chart.load(DEPLOY / "helm/lyncean").render(CHART["image"], name=f"{LONGEST}x", namespace="lyncean")


def test_task_files_that_an_apply_would_not_take_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        text = f"task: {name}\ndata: rows.csv\nid: id\nquestion: q\noptions: [A, B]\nanswer: a\nanswer_is: letter\n"
        (tmp_path / f"{name}.yaml").write_text(text + "# " + "x" * 2**17)
    tasks = [f"--task={tmp_path}/{name}.yaml" for name in ("one", "two")]
    flags = ["submit", *tasks, "--data=one=/data/a", "--data=two=/data/b", "--model=/models/a"]
    result = CliRunner().invoke(orchestrator.cli.main, flags)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "one.yaml, two.yaml: 262," in result.stderr
    assert "256 KiB" in result.stderr


POD = "spec/template/spec"
RULES = "spec/podFailurePolicy/rules"
MISTAKES: list[tuple[str, str, Any, str]] = [
    ("Job", "metadata/name", "Orchestrator", "RFC 1123"),
    ("Job", "metadata/name", "o" * 62, "63 at most"),
    ("Job", "metadata/labels/a", "-b", "the value '-b'"),
    ("Job", "metadata/labels/a b", "c", "the key 'a b'"),
    ("Job", "metadata/labels/a", "x" * 64, "the value"),
    ("Job", "metadata/namespace", "", "no namespace"),
    ("Job", f"{POD}/restartPolicy", "OnFailure", "podFailurePolicy needs restartPolicy Never"),
    ("Job", "spec/podReplacementPolicy", "TerminatingOrFailed", "podReplacementPolicy Failed"),
    ("Job", "spec/completionMode", "NonIndexed", "backoffLimitPerIndex without completionMode Indexed"),
    ("Job", "spec/backoffLimitPerIndex", None, "FailIndex without backoffLimitPerIndex"),
    ("Job", "spec/completions", None, "Indexed without completions"),
    ("Job", f"{RULES}/1/onExitCodes/containerName", "nobody", "which is not a container"),
    ("Job", f"{RULES}/1/onExitCodes/values", [0, 2], "exit code 0 with In"),
    ("Job", f"{RULES}/1/onExitCodes/values", [2, 1], "in order"),
    ("Job", f"{RULES}/1/onPodConditions", [], "one of onExitCodes and onPodConditions"),
    ("Job", RULES, [{"action": "Ignore", "onPodConditions": []}] * 21, "more than 20 rules"),
    ("Job", "spec/selector", {}, "a selector of its own"),
    ("Job", f"{POD}/volumes/0/name", "other", "which is not a volume"),
    ("Job", f"{POD}/containers/0/name", "wait", "two containers 'wait'"),
    ("Job", f"{POD}/initContainers/0/livenessProbe", {"exec": {}}, "of an init container that ends"),
    ("Job", f"{POD}/securityContext/runAsNonRoot", False, "pod security"),
    ("Deployment", f"{POD}/restartPolicy", "Never", "restart always"),
    ("Deployment", "spec/selector/matchLabels/a", "b", "does not choose"),
    ("Deployment", f"{POD}/containers/0/startupProbe/grpc/port", "grpc", "takes a number"),
    ("Deployment", f"{POD}/containers/0/livenessProbe", {"httpGet": {"port": "web"}}, "no port 'web'"),
    ("Deployment", f"{POD}/containers/0/livenessProbe/successThreshold", 2, "successThreshold is 1"),
    ("Deployment", f"{POD}/containers/0/ports/0/name", "a-name-of-16-chs", "the port"),
    ("Deployment", f"{POD}/containers/0/resources/requests/memory", "999Gi", "requests more memory"),
    ("Deployment", f"{POD}/containers/0/securityContext/capabilities", {}, "capabilities"),
    ("Deployment", "spec/strategy", {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}, "both 0"),
    ("Service", "metadata/name", "1model", "RFC 1035"),
    ("Service", "spec/selector/a", "b c", "the value 'b c'"),
    ("ConfigMap", "data/a", "x" * 2**20, "1 MiB"),
    ("ConfigMap", "data/a", "x" * 2**18, "256 KiB"),
    ("ConfigMap", "data/a b", "x", "the key 'a b'"),
]


@pytest.mark.parametrize(("kind", "path", "value", "says"), MISTAKES)
def test_a_mistake_is_refused(kind: str, path: str, value: Any, says: str) -> None:
    (job,) = (one for one in of_kind(rendered("overlay/sharded"), "Job") if one["metadata"]["name"] == "orchestrator")
    one = job if kind == "Job" else of_kind(rendered("base"), kind)[-1]
    assert refused([one]) == []
    assert any(says in line for line in refused([changed(one, path, value)])), refused([changed(one, path, value)])


def test_a_claim_grows_and_does_not_shrink() -> None:
    (claim,) = of_kind(rendered("overlay/cpu-demo"), "PersistentVolumeClaim")
    larger = changed(claim, "spec/resources/requests/storage", "2Gi")
    assert unchangeable([claim], [larger]) == []
    assert unchangeable([larger], [claim]) == ["PersistentVolumeClaim lyncean-runs: a claim cannot shrink"]
    assert contended([claim], [larger]) == ["PersistentVolumeClaim lyncean-runs: spec.resources.requests.storage"]
    assert refused([claim, json.loads(json.dumps(claim))]) == ["PersistentVolumeClaim lyncean-runs: twice in one apply"]
