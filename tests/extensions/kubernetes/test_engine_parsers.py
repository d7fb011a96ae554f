"""The argument lists of engines' containers are what the pinned engines' own parsers take."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_parser import parsed
from helpers.manifests import DEPLOY, command_line, containers_of, environment, group_templates, needs_kubectl, of_kind
from helpers.submitting import submitted

pytest.importorskip("torch", reason="no torch, which the engines' options import: pip install -e '.[transformers]'")
pytestmark = [pytest.mark.weekly, pytest.mark.timeout(900), needs_kubectl]
RUN = ("--task=marvel", "--data=/data/marvel", "--model=/models/m", "--run=one")
LENGTH = {"vllm": "--max-model-len=65536", "sglang": "--context-length=65536"}
ROWS: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    ("vllm", (), {"tensor_parallel_size": 1, "max_model_len": 16384, "model": "/models/m", "port": 8000}),
    ("vllm", ("--gpus=4",), {"tensor_parallel_size": 4}),
    ("vllm", ("--gpus=2", "--servers=shared"), {"tensor_parallel_size": 2}),
    ("vllm", ("--gpus=4", "--", LENGTH["vllm"]), {"tensor_parallel_size": 4, "max_model_len": 65536}),
    ("vllm", ("--gpus=8", "--", "-tp", "4", "-dp", "2"), {"tensor_parallel_size": 4, "data_parallel_size": 2}),
    ("vllm", ("--", "--reasoning-parser=qwen3", "--trust-remote-code"), {"trust_remote_code": True}),
    (
        "vllm",
        ("--gpus=8", "--nodes=2"),
        {"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "nnodes": 2, "node_rank": 1, "headless": True},
    ),
    ("sglang", (), {"tp_size": 1, "model_path": "/models/m", "port": 30000}),
    ("sglang", ("--gpus=4", "--", LENGTH["sglang"]), {"tp_size": 4, "context_length": 65536}),
    ("sglang", ("--gpus=8", "--nodes=2"), {"tp_size": 16, "nnodes": 2, "node_rank": 1}),
]


def unpacked(engine: str, folder: Path) -> Path:
    """Brings the sources of the wheel that has the pinned image's version, without what it depends on."""
    overlay = (DEPLOY / "overlays" / engine / "model-server.yaml").read_text()
    (version,) = re.findall(r"image: (?:vllm/vllm-openai|lmsysorg/sglang):v([\d.]+)", overlay)
    wanted = f"{engine}=={version}"
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", wanted]
    done = subprocess.run([*download, "--dest", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no wheel of {wanted}: `pip install --no-deps {wanted}` needs a package index that has it")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith((".py", ".json", "METADATA"))]
        archive.extractall(folder / "site", names)
    wheel.unlink()
    return folder / "site"


def argv(engine: str, flags: tuple[str, ...]) -> list[str]:
    """The arguments of the engine's container as the kubelet gives them, a worker's where there are several nodes."""
    manifests = submitted(*RUN, f"--engine={engine}", *flags)
    pods = [one["spec"]["template"]["spec"] for one in of_kind(manifests, "Job", "Deployment")]
    pods = [template["spec"] for _, role, template in group_templates(manifests) if role == "worker"] or pods
    (container,) = (one for pod in pods for one in containers_of(pod) if one["name"] == engine)
    group = {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "1", "LWS_LEADER_ADDRESS": "engine-one-0.engine-one.lyncean"}
    return command_line(container, {**environment(container, manifests), **group})[1]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_pinned_engine_takes_every_row(engine: str, tmp_path: Path) -> None:
    rows = [(flags, wanted) for name, flags, wanted in ROWS if name == engine]
    site = unpacked(engine, tmp_path)
    mistaken = [*argv(engine, ()), "--no-such-option=1"]
    *accepted, refused = parsed(str(site), engine, [*(argv(engine, flags) for flags, _ in rows), mistaken])
    assert "--no-such-option" in refused["error"]
    for (flags, wanted), values in zip(rows, accepted, strict=True):
        assert "error" not in values, (flags, values)
        assert {key: values[key] for key in wanted} == wanted, flags
