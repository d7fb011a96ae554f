"""Every command of the page on Kubernetes is one that works."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml
from click.testing import CliRunner
from helpers.manifests import (
    COMPONENTS,
    OVERLAYS,
    REPOSITORY,
    Manifest,
    containers,
    kustomize,
    needs_kubectl,
    of_kind,
    rendered,
    workloads,
)
from helpers.page_commands import commands
from helpers.submitting import submitted

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
    flags = shlex.split(line.partition(">")[0])[1:]
    if "--task" not in flags:
        assert flags[:3] == ["submit", "--run", "first"], "the run that was applied"
        assert flags[3:] in (["--watch"], ["--get", "first"]), "test_submit_watch.py runs these"
        return
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
def test_kubectl_lines_name_what_is_rendered() -> None:
    """No cluster is at hand: what the lines name is looked up in what would be applied (test_pods.py runs it)."""
    lines = [shlex.split(line) for line in COMMANDS if line.startswith("kubectl ")]
    applied: list[Manifest] = []
    for args in lines:
        if args[1] == "apply" and args[2] == "-k":
            applied += kustomize(REPOSITORY / args[3])
        elif args[1] == "apply":
            assert any(line.startswith("orchestrator submit ") and line.endswith(f"> {args[3]}") for line in COMMANDS)
    assert [manifest["metadata"]["name"] for manifest in of_kind(applied, "Namespace")] == ["lyncean"]
    jobs = {f"job/{manifest['metadata']['name']}": manifest for manifest in of_kind(applied, "Job")}
    waiting = [args for args in lines if args[1] in ("wait", "logs")]
    assert len(waiting) == 2
    for args in waiting:
        namespace = args[args.index("-n") + 1]
        (job,) = (word for word in args if word.startswith("job/"))
        assert jobs[job]["metadata"]["namespace"] == namespace


@needs_kubectl
def test_the_demo_needs_the_images_that_are_loaded() -> None:
    (load,) = (shlex.split(line) for line in COMMANDS if line.startswith("kind load"))
    used = {
        container["image"] for workload in workloads(rendered("overlay/cpu-demo")) for container in containers(workload)
    }
    assert used == set(load[3:])


def test_bake_and_compose_build_what_the_manifests_name() -> None:
    bake = (REPOSITORY / "docker/bake.hcl").read_text()
    built = set(re.findall(r"\$\{REGISTRY\}([\w-]+):\$\{TAG\}", bake))
    compose = yaml.safe_load((REPOSITORY / "docker/compose.yaml").read_text())["services"]
    assert {service["image"].partition(":")[0] for service in compose.values()} <= built
    for name in compose.values():
        if "build" in name:
            assert (REPOSITORY / name["build"]["dockerfile"]).exists()


def test_compose_lines_name_what_is_there() -> None:
    up, copy = (shlex.split(line) for line in commands(REPOSITORY / "docs/kubernetes.md") if "docker compose" in line)
    for args in (up, copy):
        services = yaml.safe_load((REPOSITORY / args[args.index("--file") + 1]).read_text())["services"]
        assert {args[-1], args[-2].partition(":")[0]} & services.keys() == {"orchestrator"}


def test_compose_commands_parse() -> None:
    import model_server.cli
    import scorer.cli

    programs = {"orchestrator": orchestrator.cli.main, "scorer": scorer.cli.main, "model-server": model_server.cli.main}
    compose = yaml.safe_load((REPOSITORY / "docker/compose.yaml").read_text())["services"]
    for name, program in programs.items():
        args = compose[name]["command"]
        with program.make_context(name, args[:1]) as context:
            command = program.get_command(context, args[0])
            assert command is not None
            params = command.make_context(args[0], args[1:], parent=context).params
        if name == "orchestrator":
            assert {word.partition(":")[0] for word in (*params["endpoint"], params["scorer"])} < set(compose)


@needs_kubectl
@pytest.mark.parametrize(
    "line",
    [
        line
        for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
        for line in block.replace("\\\n", " ").strip().splitlines()
        if line.startswith("orchestrator submit ") and "--task" in line
    ],
)
def test_further_submit_commands_render(line: str) -> None:
    args = shlex.split(line)[2:]
    name = args[args.index("--run") + 1]
    assert f"orchestrator-{name}" in [one["metadata"]["name"] for one in of_kind(submitted(*args), "Job")]
