"""Every command of the page on Kubernetes is one that works."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml
from click.testing import CliRunner
from manifests import COMPONENTS, OVERLAYS, REPOSITORY, containers, needs_kubectl, rendered, workloads

import orchestrator.cli

PAGE = (REPOSITORY / "docs/kubernetes.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.replace("\\\n", " ").strip().splitlines()
]


def test_a_report_is_ten_commands_away() -> None:
    assert 0 < len(COMMANDS) <= 10


@needs_kubectl
@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("orchestrator submit")])
def test_submit_commands_render(line: str) -> None:
    flags = [word for word in shlex.split(line.partition(">")[0])[1:] if word != "--watch"]
    result = CliRunner().invoke(orchestrator.cli.main, flags)
    assert result.exit_code == 0, result.stderr
    assert "name: orchestrator-first" in result.stdout


def test_folders_jobs_and_images_are_there() -> None:
    folders = [word for line in COMMANDS for word in shlex.split(line) if word.startswith(("deploy/", "docker/"))]
    assert folders
    assert all((REPOSITORY / folder).exists() for folder in folders)
    targets = set(re.findall(r'^target "(.+)"', (REPOSITORY / "docker/bake.hcl").read_text(), re.MULTILINE))
    (bake,) = (shlex.split(line) for line in COMMANDS if "bake" in line)
    assert set(bake[5:]) <= targets
    assert all(f"| `{name}` |" in PAGE for name in OVERLAYS)
    assert all(f"`{name}`" in PAGE for name in COMPONENTS)


@needs_kubectl
def test_the_demo_needs_the_images_that_are_loaded() -> None:
    (load,) = (shlex.split(line) for line in COMMANDS if line.startswith("kind load"))
    used = {found["image"] for workload in workloads(rendered("overlay/cpu-demo")) for found in containers(workload)}
    assert used == set(load[3:])


def test_bake_and_compose_build_what_the_manifests_name() -> None:
    bake = (REPOSITORY / "docker/bake.hcl").read_text()
    made = set(re.findall(r"\$\{REGISTRY\}([\w-]+):\$\{TAG\}", bake))
    compose = yaml.safe_load((REPOSITORY / "docker/compose.yaml").read_text())["services"]
    assert {service["image"].partition(":")[0] for service in compose.values()} <= made
    for name in compose.values():
        if "build" in name:
            assert (REPOSITORY / name["build"]["dockerfile"]).exists()


def test_compose_commands_parse() -> None:
    import model_server.cli
    import scorer.cli

    programs = {"orchestrator": orchestrator.cli.main, "scorer": scorer.cli.main, "model-server": model_server.cli.main}
    compose = yaml.safe_load((REPOSITORY / "docker/compose.yaml").read_text())["services"]
    for name, program in programs.items():
        words = compose[name]["command"]
        with program.make_context(name, words[:1]) as context:
            found = program.get_command(context, words[0])
            assert found is not None
            params = found.make_context(words[0], words[1:], parent=context).params
        if name == "orchestrator":
            assert {word.partition(":")[0] for word in (*params["endpoints"], params["scorer_at"])} < set(compose)
