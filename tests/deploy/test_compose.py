"""docker/compose.yaml and docker/bake.hcl, as Docker's own tools read and run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import builder, engine
from helpers.builder import SERVICES, TAG
from helpers.manifests import REPOSITORY
from helpers.same_results import results_of

COMPOSE = ["docker", "compose", "--file", "docker/compose.yaml"]
BAKE = ["docker", "buildx", "bake", "--file", "docker/bake.hcl"]
needs_compose = pytest.mark.skipif(
    not engine.plugin("compose"), reason="no `docker compose`: as root, .ci/tools installs it"
)
needs_buildx = pytest.mark.skipif(
    not engine.plugin("buildx"), reason="no `docker buildx`: as root, .ci/tools installs it"
)


def printed(command: list[str], **variables: str) -> Any:
    done = subprocess.run(
        command, env={**os.environ, **variables}, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_compose
def test_compose_reads_its_file() -> None:
    config = printed([*COMPOSE, "config", "--format=json"], TAG="v9", BASE_IMAGE="base")
    services = config["services"]
    assert {name: service["image"] for name, service in services.items()} == {
        service: f"lyncean-{image}:v9" for service, image in SERVICES.items()
    }
    for service in services.values():
        assert service["read_only"] is True
        assert service["user"] == "65532:65532"
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["build"]["args"]["BASE_IMAGE"] == "base"
    assert services["model-server"]["build"]["args"]["VARIANT"] == "none"
    assert set(services["orchestrator"]["depends_on"]) == {"model-server", "scorer"}


@needs_buildx
def test_bake_builds_what_docker_build_does() -> None:
    plan = printed([*BAKE, "--print"], TAG="v9", REGISTRY="registry.example/team/")
    targets = plan["target"]
    assert set(plan["group"]["default"]["targets"]) == set(targets)
    script = (REPOSITORY / "docker/build").read_text()
    for name, target in targets.items():
        assert f" {name}" in script
        assert target["tags"] == [f"registry.example/team/lyncean-{name}:v9"]
        assert (REPOSITORY / target["dockerfile"]).exists()
    variants = {name: target["args"].get("VARIANT") for name, target in targets.items()}
    models = {"model-server": "cuda", "model-server-cpu": "cpu", "model-server-slim": "none"}
    assert variants == {"orchestrator": None, "scorer": None, "tool-server": None, **models}


@pytest.mark.full
@pytest.mark.timeout(2400)
@pytest.mark.skipif(bool(why := engine.missing()), reason=why or "runs")
def test_the_whole_system_on_one_host(tmp_path: Path) -> None:
    builder.build(*SERVICES.values())
    with engine.engine() as variables:
        environment = {**variables, "TAG": TAG}

        def compose(*args: str) -> str:
            done = subprocess.run(
                [*COMPOSE, *args], env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
            return done.stdout

        for image in SERVICES.values():
            engine.load(builder.name_of(image), environment, f"lyncean-{image}:{TAG}")
        try:
            up = ["up", "--no-build", "--exit-code-from", "orchestrator"]
            assert "report: /runs/demo/report.html" in compose(*up)
            compose("cp", "orchestrator:/runs/demo", str(tmp_path / "demo"))
            page = (REPOSITORY / "docs/kubernetes.md").read_text()
            assert f"{' '.join(COMPOSE)} {' '.join(up).replace('--no-build', '--build')}\n" in page
            assert f"{' '.join(COMPOSE)} cp orchestrator:/runs/demo demo\n" in page
            # The same command again resumes: nothing that was answered is asked again.
            compose(*up)
            compose("cp", "orchestrator:/runs/demo/responses.jsonl", str(tmp_path / "again"))
        finally:
            compose("down", "--volumes")
    answers = (tmp_path / "demo/responses.jsonl").read_bytes()
    assert answers.count(b"\n") == 40
    assert (tmp_path / "again").read_bytes() == answers
    assert (tmp_path / "demo/report.html").stat().st_size
    here = [
        str(Path(sys.executable).parent / "orchestrator"),
        "eval",
        "--task=vstar_bench",
        "--synthetic",
        "--model=demo:hash",
        "--limit=40",
    ]
    subprocess.run([*here, "--quiet", f"--run={tmp_path / 'here'}"], check=True)
    assert results_of(tmp_path / "here") == results_of(tmp_path / "demo")
