"""`orchestrator submit --watch`, --status, --resume and --delete, against a stand-in for the cluster behind kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from helpers.kube_api import KubeApi
from helpers.kubectl_stages import RUNNING, cluster, ended, pod, waiting
from helpers.manifests import Manifest, needs_kubectl, of_kind
from helpers.submitting import submit, submitted

pytestmark = needs_kubectl
RUN = ("--overlay=gpu", "--task=marvel", "--data=/data/marvel", "--model=/models/a", "--run=first")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lyncean_kubernetes.watch._POLL", 0.02)


def applied(*flags: str) -> list[Manifest]:
    """Objects that `submit` renders, in the form a cluster stores."""
    manifests = submitted(*RUN, *flags)
    for job in of_kind(manifests, "Job"):
        labels = {"batch.kubernetes.io/controller-uid": "u", "job-name": job["metadata"]["name"]}
        job["metadata"] |= {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
        job["spec"] |= {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}}
        job["spec"]["template"]["metadata"]["labels"] |= labels
        job["status"] = {"active": 1}
    return manifests


def with_status(manifests: list[Manifest], **jobs: Any) -> list[Manifest]:
    """The same objects, Jobs (by the first word of their names) with other states."""
    copy: list[Manifest] = json.loads(json.dumps(manifests))
    for job in of_kind(copy, "Job"):
        job["status"] = jobs.get(job["metadata"]["name"].partition("-")[0], job["status"])
    return copy


def unschedulable(message: str) -> list[Manifest]:
    return [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]


@pytest.mark.parametrize("flags", [("--run=first",), RUN])
def test_watch_shows_every_shard_until_the_report(tmp_path: Path, flags: tuple[str, ...]) -> None:
    manifests = applied("--shards=3")
    starting = [
        pod("o-0", index=0, conditions=unschedulable("0/4 nodes are available: 4 Insufficient nvidia.com/gpu.")),
        pod("o-1", index=1, initContainerStatuses=[waiting("model-server", "ImagePullBackOff", "no\x1b[31m\nimage x")]),
        pod("o-2", waiting("orchestrator", "PodInitializing"), index=2),
    ]
    going = [pod(f"o-{index}", RUNNING, index=index) for index in range(3)]
    end = with_status(manifests, orchestrator={"succeeded": 3}, merge=ended("Complete", succeeded=1))
    logs = "[pod/o-0/orchestrator] 120/500  3.2/s\n[pod/o-2/orchestrator] 7/500  50.0 [1.0, 99.0]\x07\nerror: no pod\n"
    env = cluster(tmp_path, [*manifests, *starting], [*manifests, *going], [*manifests, *going], end, logs=logs)
    result = submit(*flags, "--watch", env=env)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert len(lines) == len(set(lines)), "a line is said once"
    assert "shard 0: unschedulable: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu." in lines
    assert "shard 0: 120/500  3.2/s" in lines
    assert "orchestrator-first: 3 of 3 complete" in lines
    report = "/runs/first/merged/report.html on the claim lyncean-runs, and --get brings it"
    assert lines[-1] == f"merge-first is complete: the report is {report}"
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout
    (image,) = (line for line in lines if line.startswith("shard 1"))
    assert image.startswith("shard 1: model-server: ImagePullBackOff: no")
    assert image.endswith("image x")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == ("get --namespace=lyncean jobs,pods,configmaps --selector=lyncean.dev/run=first --output=json")


@pytest.mark.parametrize(
    ("stuck", "says"),
    [
        (
            pod("o", conditions=unschedulable('pod has unbound immediate PersistentVolumeClaims "lyncean-runs"')),
            "o: claim pending: pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            pod("o", initContainerStatuses=[waiting("model-server", "CrashLoopBackOff", "back-off 5m0s", 2)]),
            "o: model-server: CrashLoopBackOff: back-off 5m0s (exit code 2: kubectl logs o -c model-server --previous)",
        ),
        (
            pod("o", waiting("orchestrator", "CreateContainerConfigError", 'secret "x" not found')),
            'o: orchestrator: CreateContainerConfigError: secret "x" not found',
        ),
    ],
)
def test_pods_that_do_not_come_up_end_the_watch(tmp_path: Path, stuck: Manifest, says: str) -> None:
    env = cluster(tmp_path, [*applied(), stuck])
    result = submit("--run=first", "--watch", "--pod-patience=0.1", env=env)
    assert result.exit_code == 5
    first, second = result.stderr.splitlines()
    assert first.startswith(says)
    assert second == "no pod of first has come up within 0.1 s; --delete takes the run away"


def test_pods_that_wait_for_others_gpus_do_not_end_it(tmp_path: Path) -> None:
    manifests = applied("--shards=2")
    half = [pod("o-0", RUNNING, index=0), pod("o-1", index=1, conditions=unschedulable("no GPU"))]
    end = with_status(manifests, merge=ended("Complete"))
    env = cluster(tmp_path, *[[*manifests, *half]] * 20, end)
    assert submit("--run=first", "--watch", "--pod-patience=0", env=env).exit_code == 0


def test_a_servers_pod_that_is_shared_is_named_too(tmp_path: Path) -> None:
    manifests = applied("--servers=shared")
    (deployment,) = of_kind(manifests, "Deployment")
    server = pod("model-server-x", initContainerStatuses=[waiting("wait", "ErrImagePull")])
    server["metadata"]["labels"] = deployment["spec"]["template"]["metadata"]["labels"]
    env = cluster(tmp_path, [*manifests, server])
    result = submit("--run=first", "--status", env=env)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "model-server-x: wait: ErrImagePull" in result.stdout.splitlines()


def test_a_failed_shard_ends_the_watch_and_one_command_goes_on(tmp_path: Path) -> None:
    manifests = applied("--shards=2")
    failed = ended("Failed", "Job has failed indexes", succeeded=1, failedIndexes="1")
    env = cluster(tmp_path, with_status(manifests, orchestrator=failed))
    result = submit("--run=first", "--watch", env=env)
    assert result.exit_code == 3
    assert "orchestrator-first: 1 of 2 complete, shards 1 failed" in result.stdout
    assert result.stderr.splitlines() == [
        "orchestrator-first has failed: Job has failed indexes",
        "kubectl describe --namespace=lyncean job/orchestrator-first; --resume goes on with it",
    ]
    result = submit("--run=first", "--resume", env=env)
    assert (result.exit_code, result.stdout) == (0, "started anew: orchestrator-first\n"), "the merge waits still"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[-2:] == [
        "delete --namespace=lyncean job/orchestrator-first --cascade=foreground",
        "create --namespace=lyncean --validate=false --filename=-",
    ]
    (rendered,) = (one for one in submitted(*RUN, "--shards=2") if one["metadata"]["name"] == "orchestrator-first")
    assert json.loads((tmp_path / "created").read_text()) == rendered, "as it was applied first"


def test_weights_that_cannot_be_loaded_end_the_watch_unless_they_are_there(tmp_path: Path) -> None:
    manifests = with_status(applied(), load=ended("Failed", "BackoffLimitExceeded"))
    result = submit("--run=first", "--watch", env=cluster(tmp_path, manifests))
    assert result.exit_code == 3
    assert result.stderr.startswith("load-weights-first has failed: BackoffLimitExceeded\n")
    end = with_status(manifests, orchestrator=ended("Complete"))
    env = cluster(tmp_path, [*manifests, pod("o", RUNNING)], end)
    assert submit("--run=first", "--watch", env=env).exit_code == 0


def test_delete_takes_what_has_the_runs_label(tmp_path: Path) -> None:
    env = cluster(tmp_path, applied())
    result = submit("--run=first", "--delete", "--namespace=team", env=env)
    assert (result.exit_code, result.stderr) == (0, "")
    deleted = [
        f"delete --namespace=team {kinds} --selector=lyncean.dev/run=first"
        for kinds in ("jobs,pods", "configmaps,networkpolicies")
    ]
    assert (tmp_path / "calls").read_text().splitlines()[-2:] == deleted, "pods end before what shuts them in"
    maps = [one for one in applied() if one["kind"] == "ConfigMap"]
    env = cluster(tmp_path, maps)
    assert submit("--run=first", "--delete", env=env).exit_code == 0, "a deletion that was interrupted goes on"
    gone = submit("--run=first", "--delete", env=cluster(tmp_path, []))
    assert (gone.exit_code, gone.stderr.count("no run 'first' in namespace lyncean")) == (2, 1)


def test_get_copies_the_folder_of_the_report_and_leaves_no_pod(tmp_path: Path) -> None:
    manifests = applied("--shards=2", "--pull-secret=acme")
    env = cluster(tmp_path, manifests)
    here = tmp_path / "here"
    result = submit("--run=first", f"--get={here}", env=env)
    assert (result.exit_code, result.stderr) == (2, "Error: first is not merged yet: --watch says how it goes\n")
    env = cluster(tmp_path, with_status(manifests, merge=ended("Complete")))
    result = submit("--run=first", f"--get={here}", env=env)
    assert (result.exit_code, result.stdout) == (0, f"{here}/report.html\n")
    calls = (tmp_path / "calls").read_text().splitlines()[-4:]
    assert calls == [
        "create --namespace=lyncean --validate=false --filename=-",
        "wait --namespace=lyncean pod/get-first --for=condition=Ready --timeout=300s",
        f"cp --namespace=lyncean get-first:/runs/first/merged {here} --retries=3",
        "delete --namespace=lyncean pod/get-first --wait=false",
    ]
    created = json.loads((tmp_path / "created").read_text())
    kubernetes_validate.validate(created, "1.34", strict=True)
    assert created["spec"]["imagePullSecrets"] == [{"name": "acme"}]
    (volume,) = created["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == "lyncean-runs"
    assert "is there already: give --get a new folder" in submit("--run=first", f"--get={here}", env=env).stderr
    (tmp_path / "no-pod").touch()
    result = submit("--run=first", f"--get={here}2", env=env)
    assert (result.exit_code, result.stderr) == (2, "Error: kubectl wait: error: timed out waiting for the condition\n")
    assert (tmp_path / "calls").read_text().splitlines()[-1].startswith("delete "), "the pod is not left"
    env = cluster(tmp_path, applied("--out=s3://bucket/runs"))
    result = submit("--run=first", f"--get={here}2", env=env)
    assert result.stderr.startswith("Error: first is in s3://bucket/runs/first: `orchestrator report`")


@pytest.mark.parametrize("action", ["--watch", "--status", "--resume", "--delete", "--get=x"])
def test_a_run_that_is_not_there(tmp_path: Path, action: str) -> None:
    result = submit("--run=other", action, env=cluster(tmp_path, applied()))
    assert result.exit_code == 2
    assert result.stderr == "Error: no run 'other' in namespace lyncean: was the rendered run applied?\n"


def test_the_real_kubectl_is_asked_in_its_own_words(tmp_path: Path) -> None:
    manifests = with_status(
        applied("--shards=2"), orchestrator=ended("Failed", "indexes failed", succeeded=1, failedIndexes="1")
    )
    pods = [
        pod("o-0", RUNNING, index=0, phase="Running"),
        pod("o-1", waiting("orchestrator", "PodInitializing"), index=1),
        pod("merge", waiting("merge", "PodInitializing")),
        other := pod("x", RUNNING, label="other"),
    ]
    for one in pods:
        name = one["status"]["containerStatuses"][0]["name"]
        one |= {"apiVersion": "v1", "spec": {"containers": [{"name": name}]}}
    with KubeApi([*manifests, *pods], {"o-0": "7/9  1.0/s\n", "x": "1/2\n"}) as api:
        env = {"KUBECONFIG": str(api.config(tmp_path / "config")), "HOME": str(tmp_path)}
        result = submit("--run=first", "--status", env=env)
        assert result.exit_code == 3, result.output
        assert {"shard 0: 7/9  1.0/s", "orchestrator-first: 1 of 2 complete, shards 1 failed"} <= set(
            result.stdout.splitlines()
        )
        result = submit("--run=first", "--resume", env=env)
        assert (result.exit_code, result.stdout) == (0, "started anew: orchestrator-first\n"), result.stderr
        (job,) = (one for one in api.objects if one["metadata"]["name"] == "orchestrator-first")
        assert "status" not in job
        result = submit("--run=first", "--delete", env=env)
        assert result.exit_code == 0, result.stderr
        left = [one for one in api.objects if one["kind"] in ("Job", "Pod", "ConfigMap")]
        assert left == [other]
        assert "no run 'first' in namespace lyncean" in submit("--run=first", "--watch", env=env).stderr


def test_a_name_selects_one_run() -> None:
    result = submit("--run=a,b", "--delete")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--run 'a,b': a name of a-z, 0-9 and '-'" in result.stderr


def test_without_a_name_and_a_task_it_says_so() -> None:
    result = submit("--watch")
    assert result.exit_code == 2
    assert "Missing option '--task'; or name an applied run with --run." in result.stderr
