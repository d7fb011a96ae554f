"""`orchestrator submit --suite`: the matrix as runs of one label, watched, resumed and brought back together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from helpers.kubectl_stages import RUNNING, cluster, ended, pod, waiting
from helpers.manifests import DEPLOY, REPOSITORY, Manifest, command_line, environment, kustomize, needs_kubectl, of_kind
from helpers.submitting import submit, submitted

from orchestrator.cli.eval import command as evaluate

pytestmark = needs_kubectl

SUITE = """\
models:
  qwen: {model: /models/qwen, cluster: {weights: team/qwen@main, memory: 48Gi, env: {MODE: fast}}}
  acme: {cluster: {image: "registry.example/acme/vlm:2.3", gpus: 2, arguments: [--max-batch, "16"], shards: 2}}
tasks:
  marvel: {data: /data/marvel}
  vstar_bench: {data: /data/vstar, generation: {temperature: 0.5, top_k: 3}}
options: {seed: 3, chat_template: {think: true}, max_failed: 0.1}
"""
TASKS = ("marvel", "vstar-bench")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lyncean_kubernetes.watch._POLL", 0.02)


def rendered(file: Path, *flags: str) -> list[Manifest]:
    return submitted("--suite", str(file), *flags)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suite") / "night.yaml"
    path.write_text(SUITE)
    return path


@pytest.fixture(scope="module")
def manifests(file: Path) -> list[Manifest]:
    return rendered(file, "--component=kueue", "--registry=registry.example/team")


def jobs(manifests: list[Manifest], name: str) -> dict[str, Manifest]:
    return {
        one["metadata"]["name"]: one
        for one in of_kind(manifests, "Job")
        if one["metadata"]["labels"]["app.kubernetes.io/name"] == name
    }


def test_each_cell_is_a_run_of_its_own_with_its_own_servers(manifests: list[Manifest]) -> None:
    runs = jobs(manifests, "orchestrator")
    assert list(runs) == [f"orchestrator-night-{model}-{task}" for model in ("qwen", "acme") for task in TASKS]
    for name, job in runs.items():
        run = name.removeprefix("orchestrator-")
        labels = {"lyncean.dev/run": run, "lyncean.dev/suite": "night"}
        for holder in (job, job["spec"]["template"]):
            assert labels.items() <= holder["metadata"]["labels"].items()
        # Gang admission: the servers are in the pods that the queue admits together; none waits for another quota.
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lyncean"
        servers = [one for one in job["spec"]["template"]["spec"]["initContainers"] if one.get("restartPolicy")]
        assert {"model-server", "scorer"} <= {one["name"] for one in servers}
    assert not of_kind(manifests, "Deployment")
    assert list(jobs(manifests, "merge")) == [f"merge-night-acme-{task}" for task in TASKS]
    assert len(jobs(manifests, "load-weights")) == 1, "the weights of a model are loaded once"
    assert [one["metadata"]["name"] for one in of_kind(manifests, "PersistentVolumeClaim")].count("lyncean-runs") == 1
    folders = {one["data"]["RUN"] for one in of_kind(manifests, "ConfigMap") if "RUN" in one["data"]}
    assert folders == {
        f"/runs/night/{model}-{task}" for model in ("qwen", "acme") for task in ("marvel", "vstar_bench")
    }
    keys = [(one["kind"], one["metadata"]["name"]) for one in manifests]
    assert len(keys) == len(set(keys))


def test_what_is_rendered_validates(manifests: list[Manifest]) -> None:
    for one in manifests:
        if "kueue" not in one["apiVersion"]:
            kubernetes_validate.validate(one, "1.34", strict=True)


def test_the_options_of_the_file_come_through_and_mean_the_same(manifests: list[Manifest]) -> None:
    job = jobs(manifests, "orchestrator")["orchestrator-night-qwen-vstar-bench"]
    (main,) = job["spec"]["template"]["spec"]["containers"]
    args = command_line(main, environment(main, manifests, {}))[1]
    params = evaluate.make_context("eval", args[1:]).params
    wanted: dict[str, Any] = {
        "tasks": ("vstar_bench",),
        "data": ("/data/vstar",),
        "generation": ("temperature=0.5", "top_k=3"),
        "chat_template": ("think=true",),
        "seed": 3,
        "max_failed": 0.1,
        "run": "/runs/night/qwen-vstar_bench",
    }
    assert {name: str(value) if name == "run" else value for name, value in params.items() if name in wanted} == wanted
    server = next(one for one in job["spec"]["template"]["spec"]["initContainers"] if one["name"] == "model-server")
    assert server["resources"]["limits"] == {"nvidia.com/gpu": "1", "memory": "48Gi"}
    assert {"name": "MODE", "value": "fast"} in server["env"]
    acme = jobs(manifests, "orchestrator")["orchestrator-night-acme-marvel"]
    server = next(one for one in acme["spec"]["template"]["spec"]["initContainers"] if one["name"] == "model-server")
    assert (server["image"], server["args"]) == ("registry.example/acme/vlm:2.3", ["--max-batch", "16"])
    assert server["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert acme["spec"]["completions"] == 2


def test_servers_that_outlive_a_run_have_a_quota_that_runs_cannot_take(tmp_path: Path) -> None:
    suite = tmp_path / "night.yaml"
    suite.write_text(
        "models: {a: {model: /models/a, cluster: {overlay: vllm}}}\n"
        "tasks: {marvel: {data: /data/m}, vstar_bench: {data: /data/v}}\n"
    )
    manifests = rendered(suite, "--servers=shared", "--component=kueue")
    (deployment,) = of_kind(manifests, "Deployment")
    queues = {one["metadata"]["name"]: one["spec"]["clusterQueue"] for one in of_kind(manifests, "LocalQueue")}
    of_servers = queues[deployment["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]]
    of_runs = {
        queues[job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]]
        for job in jobs(manifests, "orchestrator").values()
    }
    assert of_runs == {"lyncean"}
    quotas = {
        one["metadata"]["name"]: one["spec"] for one in of_kind(kustomize(DEPLOY / "cluster/kueue"), "ClusterQueue")
    }
    assert quotas[of_servers]["cohortName"] == quotas["lyncean"]["cohortName"]
    resources = {
        name: {one["name"]: one for one in spec["resourceGroups"][0]["flavors"][0]["resources"]}
        for name, spec in quotas.items()
    }
    # What a waiting run holds beside no GPU is processors and memory: those of the servers are not lent to it.
    for resource in ("cpu", "memory"):
        assert resources["lyncean"][resource]["borrowingLimit"] == 0
        assert resources[of_servers][resource]["nominalQuota"]


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("gpus: 2", "gpu: 2", 3, "unknown key 'gpu': did you mean gpus?"),
        ("gpus: 2", "gpus: many", 3, "gpus: 'many' is not a valid integer range"),
        ("48Gi", "5 apples", 0, "qwen-marvel: --memory '5 apples': a quantity such as 64Gi"),
        ("48Gi", "48Gi, engine: vllm, gpus: 0", 0, "qwen-marvel: --gpus 0: container vllm runs the model on GPUs"),
        ("seed: 3", "patience: 3", 7, "patience is for `orchestrator eval` alone"),
        ("seed: 3", "prices: p.yaml", 7, "prices is for `orchestrator eval` alone"),
        ("marvel:", "marvle:", 5, "there is no task 'marvle'"),
    ],
)
def test_a_mistake_names_file_line_and_key(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    suite = tmp_path / "night.yaml"
    suite.write_text(SUITE.replace(old, new))
    result = submit("--suite", str(suite))
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    if line:
        assert result.stderr.startswith(f"Error: {suite}, line {line}: ")
    assert len(result.stderr.splitlines()) == 1


def test_flags_of_a_run_stand_in_the_file(file: Path) -> None:
    result = submit("--suite", str(file), "--limit=3")
    assert (result.exit_code, "--limit beside --suite: write it into the file" in result.stderr) == (2, True)


def applied(manifests: list[Manifest]) -> list[Manifest]:
    copy: list[Manifest] = json.loads(json.dumps(manifests))
    for job in of_kind(copy, "Job"):
        job["status"] = {"active": 1}
    return copy


def with_ends(manifests: list[Manifest], **ends: Manifest) -> list[Manifest]:
    """The same objects; Jobs whose names contain a key of `ends` end so, all others complete."""
    copy: list[Manifest] = json.loads(json.dumps(manifests))
    for job in of_kind(copy, "Job"):
        name = job["metadata"]["name"].replace("-", "_")
        job["status"] = next((end for word, end in ends.items() if word in name), ended("Complete", succeeded=1))
    return copy


def test_the_suite_is_watched_resumed_and_deleted_as_one(tmp_path: Path, file: Path, manifests: list[Manifest]) -> None:
    stored = applied(manifests)
    one = pod("o", RUNNING, label="night-qwen-marvel")
    stuck = pod("p", initContainerStatuses=[waiting("model-server", "ErrImagePull")], label="night-acme-marvel")
    for manifest in (one, stuck):
        manifest["metadata"]["labels"]["lyncean.dev/suite"] = "night"
    half = with_ends([*stored, one, stuck], orchestrator_night_acme={"active": 1}, merge={})
    failed = with_ends(stored, orchestrator_night_acme_marvel=ended("Failed", "no luck"), merge_night_acme_marvel={})
    env = cluster(tmp_path, [*stored, one, stuck], half, failed)
    result = submit("--suite", str(file), "--watch", env=env)
    assert result.exit_code == 3
    lines = result.stdout.splitlines()
    assert "night-acme-marvel: p: model-server: ErrImagePull" in lines
    assert "night-qwen-marvel: orchestrator-night-qwen-marvel: 1 of 1 complete" in lines
    assert sum("is complete: the report is /runs/night/" in line for line in lines) == 3
    assert "orchestrator-night-acme-marvel has failed: no luck" in result.stderr
    result = submit("--suite", str(file), "--resume", env=env)
    assert (result.exit_code, result.stdout) == (0, "started anew: orchestrator-night-acme-marvel\n")
    result = submit("--suite", str(file), "--delete", env=env)
    assert result.stdout == "night is deleted; its folder, and servers that are shared, stay\n"
    deleted = [
        f"delete --namespace=lyncean {kinds} --selector=lyncean.dev/suite=night"
        for kinds in ("jobs,pods", "configmaps,networkpolicies")
    ]
    assert (tmp_path / "calls").read_text().splitlines()[-2:] == deleted, "pods end before what shuts them in"
    env = cluster(tmp_path, with_ends(stored))
    assert submit("--suite", str(file), "--status", env=env).exit_code == 0
    result = submit("--suite", str(file), "--run=other", "--status", env=env)
    assert result.stderr == "Error: no suite 'other' in namespace lyncean: was the rendered suite applied?\n"


def test_weights_that_cannot_be_loaded_end_every_cell_of_their_model(
    tmp_path: Path, file: Path, manifests: list[Manifest]
) -> None:
    stored = with_ends(
        applied(manifests), load_weights=ended("Failed", "no space"), orchestrator_night_qwen={"active": 1}
    )
    result = submit("--suite", str(file), "--watch", env=cluster(tmp_path, stored))
    assert result.exit_code == 3
    assert result.stderr.count("load-weights-night-qwen-marvel has failed: no space") == 2
    assert sum("load-weights" in line for line in result.stdout.splitlines()) == 1


def test_get_brings_what_is_complete_and_says_what_is_not(
    tmp_path: Path, file: Path, manifests: list[Manifest]
) -> None:
    states = {"orchestrator_night_acme_marvel": ended("Failed", "no luck"), "merge_night_acme_marvel": {}}
    states |= {"night_qwen_vstar": {"active": 1}}
    env = cluster(tmp_path, with_ends(applied(manifests), **states))
    here = tmp_path / "here"
    result = submit("--suite", str(file), f"--get={here}", env=env)
    assert result.exit_code == 3
    calls = [line.split()[2:4] for line in (tmp_path / "calls").read_text().splitlines() if line.startswith("cp ")]
    assert calls == [
        [f"get-night:/runs/night/{name}", str(here / name.removesuffix("/merged"))]
        for name in ("qwen-marvel", "acme-vstar_bench/merged")
    ]
    (table,) = json.loads((here / "leaderboard.json").read_text())["tables"]
    cells = {cell["run"]: cell for row in table["models"] for cell in row["tasks"].values()}
    assert cells["acme-marvel"]["error"] == "its Job has failed: no luck"
    assert cells["qwen-vstar_bench"]["error"] == "its Job has not ended"
    assert {cells[name]["state"] for name in ("acme-marvel", "qwen-vstar_bench")} == {"incomplete"}
    assert "is there already: give --get a new folder" in submit("--suite", str(file), f"--get={here}", env=env).stderr


def test_the_example_of_the_page_renders(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/kubernetes.md").read_text()
    (example,) = (block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "models:" in block)
    (tmp_path / "night.yaml").write_text(example.replace("  vstar_bench: {data: /data/vstar}\n", ""))
    manifests = rendered(tmp_path / "night.yaml")
    assert list(jobs(manifests, "orchestrator")) == [
        f"orchestrator-night-{name}-marvel" for name in ("qwen", "acme", "served")
    ]
    owners = {one["metadata"]["labels"]["lyncean.dev/run"] for one in of_kind(manifests, "NetworkPolicy")}
    assert owners == {"night-acme-marvel"}, "the other cells are open"
    shut = rendered(tmp_path / "night.yaml", "--component=network-policies")
    (way,) = (one for one in of_kind(shut, "NetworkPolicy") if one["metadata"]["name"].startswith("way-out-"))
    assert way["spec"] == {
        "podSelector": {"matchLabels": {"lyncean.dev/run": "night-served-marvel"}},
        "policyTypes": ["Egress"],
        "egress": [{"ports": [{"port": 50051}]}],
    }
