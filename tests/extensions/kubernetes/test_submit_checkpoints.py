"""`submit --checkpoints`: the CronJob that evaluates a training's checkpoints, and what its pod would run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from helpers import commands
from helpers.engine_cluster import Server

from orchestrator.run import servers

SUITE = "tasks: [letters.yaml]\noptions: {{limit: 4{more}}}\ngate: {{baseline: previous, conditions: [no_fall]}}\n"
TASK = "task: letters\ndata: /data/rows.csv\nid: id\nquestion: question\noptions: [A, B]\nanswer: answer\n"
COMMAND = ["submit", "--suite", "night.yaml", "--checkpoints", "/ckpt/step_*", "--image", "me/train:1"]
MOUNT = ["--mount", "training:/ckpt"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "night.yaml").write_text(SUITE.format(more=""))
    (tmp_path / "letters.yaml").write_text(TASK)
    return tmp_path


def rendered(folder: Path, *args: str) -> tuple[dict[str, Any], dict[str, Any]]:
    configuration, cron = yaml.safe_load_all(commands.orchestrator(*COMMAND, *MOUNT, *args, folder=folder))
    return configuration, cron


def test_the_cron_job_is_what_a_cluster_takes(folder: Path) -> None:
    flags = [
        "--gpus",
        "1",
        "--memory",
        "64Gi",
        "--queue",
        "nightly",
        "--env",
        "A=b",
        "--secret-env",
        "HF_TOKEN=hub:key",
    ]
    flags += ["--toleration", "gpu:NoSchedule", "--node-selector", "kind=h200", "--pull-secret", "registry"]
    configuration, cron = rendered(folder, *flags)
    for one in (configuration, cron):
        kubernetes_validate.validate(one, "1.34", strict=True)
    assert set(configuration["data"]) == {"night.yaml", "letters.yaml"}
    spec = cron["spec"]
    assert spec["concurrencyPolicy"] == "Forbid", "one writes to the suite's folder"
    job = spec["jobTemplate"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "nightly"
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1", "memory": "64Gi"}
    mounts = {one["mountPath"]: one.get("readOnly", False) for one in container["volumeMounts"]}
    assert mounts == {"/suite": True, "/runs": False, "/data": True, "/tmp": False, "/ckpt": True}
    assert (pod["nodeSelector"], pod["imagePullSecrets"]) == ({"kind": "h200"}, [{"name": "registry"}])
    assert {one["name"] for one in container["env"]} >= {"A", "HF_TOKEN"}


def test_its_pod_evaluates_what_is_complete(
    folder: Path, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arguments(model: str, _: Sequence[str] | Mapping[str, object]) -> list[str]:
        return ["--backend", "demo", "--model", "constant:A", "--name", Path(model).name]

    monkeypatch.setattr(servers, "model_arguments", arguments)
    (folder / "night.yaml").write_text(SUITE.format(more=f', scorer: "{shared_scorer.address}"'))
    configuration, cron = rendered(folder)
    for name, text in configuration["data"].items():
        (folder / "suite").mkdir(exist_ok=True)
        (folder / "suite" / name).write_text(text.replace("/data/", f"{folder}/"))
    (folder / "rows.csv").write_text("id,question,A,B,answer\n" + "".join(f"{n},which {n}?,a,b,A\n" for n in range(4)))
    for step in (1, 2):
        (folder / f"ckpt/step_{step}").mkdir(parents=True)
        (folder / f"ckpt/step_{step}/config.json").write_text("{}")
        (folder / f"ckpt/step_{step}/STABLE").touch()
    (container,) = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["orchestrator"]
    args = [word.replace("=/", f"={folder}/") for word in container["args"]]
    assert "no fall beyond chance" in commands.orchestrator(*args)
    assert commands.orchestrator(*args).count("complete already") == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([*COMMAND], "it is on no --mount CLAIM:/PATH"),
        ([*COMMAND[:5], *MOUNT], "--checkpoints: give --image"),
        ([COMMAND[0], *COMMAND[3:], *MOUNT], "--checkpoints needs --suite FILE"),
        ([*COMMAND, *MOUNT, "--limit", "3"], "--limit beside --suite"),
        ([*COMMAND, *MOUNT, "--model", "/models/m"], "--model is for servers of their own"),
        ([*COMMAND, *MOUNT, "--env", "API_KEY=abc"], "put it into a Secret"),
        ([*COMMAND, *MOUNT, "--watch"], "--checkpoints is rendered"),
    ],
)
def test_mistakes_are_named(folder: Path, args: list[str], message: str) -> None:
    assert message in commands.orchestrator(*args, folder=folder, code=2)
