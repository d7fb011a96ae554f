"""The Job that loads weights, and the replicas that wait for them: their very scripts, run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.manifests import Manifest, needs_kubectl, rendered, workloads

pytestmark = [pytest.mark.full, needs_kubectl]
HF = """#!/bin/sh
echo "$@" >> {folder}/calls
while [ "$1" != --local-dir ]; do shift; done
mkdir -p "$2" && echo part >> "$2/model.safetensors"
{end}
"""


def container(workload: str, name: str) -> Manifest:
    (manifest,) = (one for one in workloads(rendered("overlay/gpu")) if one["metadata"]["name"] == workload)
    pod = manifest["spec"]["template"]["spec"]
    (one,) = (one for one in [*pod.get("initContainers", ()), *pod["containers"]] if one["name"] == name)
    return one


def load(folder: Path, end: str, **other: str) -> subprocess.CompletedProcess[str]:
    program = folder / "hf"
    program.write_text(HF.format(folder=folder, end=end))
    program.chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "MODEL": str(folder / "models/model")}
    environment |= {"REPOSITORY": "team/model", "REVISION": "abc", **other}
    command = container("load-weights", "load-weights")["command"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_folder_of_the_models_name_is_a_whole_one(tmp_path: Path) -> None:
    model = tmp_path / "models/model"
    assert load(tmp_path, "exit 1").returncode
    assert not model.exists()
    assert load(tmp_path, "exit 0").returncode == 0
    assert (model / "model.safetensors").read_text() == "part\npart\n", "it did not go on where it had ended"
    again = load(tmp_path, "exit 1")
    assert (again.returncode, again.stdout) == (0, f"{model} is there, from team/model@abc\n")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [f"download team/model --revision abc --local-dir {model}.partial"] * 2


def test_a_folder_of_other_weights_is_neither_taken_nor_mixed_with_these(tmp_path: Path) -> None:
    model = tmp_path / "models/model"
    assert load(tmp_path, "exit 1", REVISION="old").returncode
    assert load(tmp_path, "exit 0").returncode == 0
    assert (model / "model.safetensors").read_text() == "part\n", "it went on where other weights had ended"
    other = load(tmp_path, "exit 0", REVISION="new")
    message = f"{model} is from team/model@abc, not team/model@new: give another --model, or delete that folder\n"
    assert (other.returncode, other.stderr) == (2, message)
    assert len((tmp_path / "calls").read_text().splitlines()) == 2
    unnamed = load(tmp_path, "exit 1", REPOSITORY="", REVISION="")
    assert (unnamed.returncode, unnamed.stdout) == (0, f"{model} is there\n")


def test_a_folder_that_came_another_way_is_taken_and_said(tmp_path: Path) -> None:
    model = tmp_path / "models/model"
    model.mkdir(parents=True)
    done = load(tmp_path, "exit 1")
    message = f"{model} is there, not by this Job: it is taken for team/model@abc\n"
    assert (done.returncode, done.stdout) == (0, message)


def test_without_weights_the_folder_is_there_or_it_says_so(tmp_path: Path) -> None:
    model = tmp_path / "models/model"
    missing = load(tmp_path, "exit 0", REPOSITORY="", REVISION="")
    assert (missing.returncode, missing.stderr) == (2, f"{model} is not on the volume and no REPOSITORY is set\n")
    moving = load(tmp_path, "exit 0", REVISION="")
    assert (moving.returncode, moving.stderr) == (2, "REPOSITORY is team/model and no REVISION is set\n")
    assert not (tmp_path / "calls").exists()
    model.mkdir(parents=True)
    assert load(tmp_path, "exit 1", REPOSITORY="", REVISION="").returncode == 0


def test_a_mistake_of_configuration_is_not_tried_again() -> None:
    (job,) = (one for one in workloads(rendered("overlay/gpu")) if one["metadata"]["name"] == "load-weights")
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    codes = {"containerName": "load-weights", "operator": "In", "values": [2]}
    assert rule == {"action": "FailJob", "onExitCodes": codes}
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never", "a policy needs it"


def test_the_hubs_own_program_has_these_flags() -> None:
    program = Path(sys.executable).parent / "hf"
    done = subprocess.run([str(program), "download", "--help"], capture_output=True, text=True, check=True)
    assert {"--revision", "--local-dir"} <= set(done.stdout.split())


def waiting(model: Path, **other: str) -> subprocess.Popen[str]:
    command = container("model-server", "wait-for-weights")["command"]
    environment = {"PATH": "/usr/bin:/bin", "MODEL": str(model), "REPOSITORY": "", "REVISION": "", **other}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_replicas_wait_for_the_whole_folder(tmp_path: Path) -> None:
    model = tmp_path / "model"
    with waiting(model) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"waiting for {model}\n"
            (tmp_path / "model.partial").mkdir()
            (tmp_path / "model.partial").rename(model)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_replicas_do_not_start_with_other_weights(tmp_path: Path) -> None:
    note = tmp_path / "model/.lyncean-weights"
    note.parent.mkdir()
    note.write_text("team/model@old\n")
    with waiting(note.parent, REPOSITORY="team/model", REVISION="abc") as process:
        try:
            assert process.stdout is not None
            message = f"waiting: {note.parent} is from team/model@old, not team/model@abc\n"
            assert process.stdout.readline() == message
            note.write_text("team/model@abc\n")
            assert process.wait(60) == 0
        finally:
            process.kill()
