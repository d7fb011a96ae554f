"""Overlays of one's own: `submit --eject` writes one that stands alone, and what it has already is not added twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers.manifests import COMPONENTS, DEPLOY, kustomize, needs_kubectl, of_kind
from helpers.submitting import submit, submitted

pytestmark = needs_kubectl
RUN = ("--task=marvel", "--data=/data/marvel", "--run=one", "--model=/models/x")
SERVERS = ("--engine=vllm", "--gpus=4", "--memory=200Gi", "--env=K=V", "--component=network-policies")
LONG = ("--", "--max-model-len=65536")


@pytest.mark.parametrize("servers", ["run", "shared"])
def test_an_ejected_overlay_renders_the_same_run(servers: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    result = submit(*SERVERS, f"--eject={folder}", *LONG)
    assert (result.exit_code, result.stdout) == (0, f"{folder}: give --overlay {folder}\n"), result.stderr
    flags = (*RUN, f"--servers={servers}")
    assert submitted(*flags, f"--overlay={folder}") == submitted(*flags, *SERVERS, *LONG)
    moved = shutil.move(folder, tmp_path / "elsewhere")
    assert of_kind(kustomize(Path(moved)), "Deployment"), "it refers to nothing outside of it"


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    result = submit("--overlay=gpu", f"--eject={tmp_path}")
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: --eject {tmp_path}: the folder is not empty: name another one\n",
    )
    result = submit("--overlay=gpu", f"--eject={tmp_path / 'x'}", "--limit=3")
    assert (result.exit_code, "--limit beside --eject: an overlay holds no run" in result.stderr) == (2, True)


@pytest.mark.parametrize("component", [name for name in COMPONENTS if name not in ("keda", "monitoring", "sharded")])
def test_a_component_that_an_overlay_has_is_added_once(component: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert submit("--overlay=gpu", f"--component={component}", f"--eject={folder}").exit_code == 0
    once = submitted(*RUN, f"--overlay={folder}")
    assert submitted(*RUN, f"--overlay={folder}", f"--component={component}") == once


def test_a_copied_overlay_names_what_it_lost(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(DEPLOY / "overlays" / "vllm", folder)
    result = submit(*RUN, f"--overlay={folder}")
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: {folder} refers to ../gpu, which is not there: `orchestrator submit --overlay NAME --eject FOLDER` "
        "writes an overlay that stands alone\n",
    )


@pytest.mark.parametrize("data", ["./rows.parquet", "marvel=./rows.parquet", "rows.parquet"])
def test_data_on_this_machine_is_refused(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.parquet").touch()
    result = submit("--task=marvel", f"--data={data}", "--run=one")
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: --data {data} is on this machine: copy it to the claim lyncean-data and give /data/...\n",
    )
