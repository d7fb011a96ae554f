"""The steps for Argo and Tekton: what they type is typed here, in a shell, for a server and a scorer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.engine_cluster import Server
from helpers.manifests import DEPLOY

PIPELINES = DEPLOY / "pipelines"


def argo() -> tuple[str, list[Any]]:
    (template,) = yaml.safe_load((PIPELINES / "argo-workflow-template.yaml").read_text())["spec"]["templates"]
    assert template["container"]["command"] == ["sh", "-c"]
    (script,) = template["container"]["args"]
    return script, template["container"]["env"]


def tekton() -> tuple[str, list[Any]]:
    (step,) = yaml.safe_load((PIPELINES / "tekton-task.yaml").read_text())["spec"]["steps"]
    return step["script"], step["env"]


@pytest.mark.parametrize("step", [argo, tekton])
def test_a_step_evaluates_what_is_served(step: Any, demo: Server, shared_scorer: Server, tmp_path: Path) -> None:
    script, variables = step()
    given = {
        "endpoint": demo.address,
        "task": str(tmp_path / "a task.yaml"),
        "run": str(tmp_path / "a run"),
        "data": "",
    }
    values = {}
    for variable in variables:
        name = variable["value"].strip("{}$()").rpartition(".")[2]
        assert variable["value"] in (f"{{{{workflow.parameters.{name}}}}}", f"$(params.{name})")
        values[variable["name"]] = given.pop(name)
    assert not given
    (tmp_path / "rows.csv").write_text("id,question,A,B,answer\n1,Which barks?,cat,dog,B\n2,Which mews?,cat,dog,A\n")
    keys = "data: rows.csv\nid: id\nquestion: question\noptions: [A, B]\nanswer: answer\nanswer_is: letter\n"
    (tmp_path / "a task.yaml").write_text(keys)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = script.replace("127.0.0.1:50052", shared_scorer.address)
    done = subprocess.run(
        ["sh", "-c", script], env={**os.environ, **values, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (task,) = json.loads((tmp_path / "a run" / "results.json").read_text())["tasks"].values()
    assert task["counts"]["planned"] == 2
