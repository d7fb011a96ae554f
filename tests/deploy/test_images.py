"""The images, built for real and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.builder import SERVICES, build, buildah, command, give_to_user, missing, name_of, run
from helpers.manifests import REPOSITORY
from helpers.same_results import results_of

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(bool(why := missing()), reason=why or "runs"),
]
TORCH = "model-server-cpu"
MODULES = """
import importlib, importlib.util, pkgutil, sys
sys.argv = ["modules"]
failed = []
for name in {packages!r}:
    for found in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        if found.name.endswith("__main__") or found.name.startswith({without!r}):
            continue
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            failed.append(f"{{found.name}}: {{error.name}}")
assert not failed, failed
assert importlib.util.find_spec("pip") is None
assert importlib.util.find_spec("demo_model") is None
print(importlib.util.find_spec("torch") is not None)
"""
EXTENSIONS = {
    "orchestrator": ["lyncean_interop", "lyncean_kubernetes", "lyncean_harnesses.benchmark"],
    "scorer": ["lyncean_harnesses.scoring"],
    "tool-server": ["lyncean_mcp"],
    "model-server-slim": ["lyncean_openai_front"],
    TORCH: ["lyncean_openai_front"],
}
HARNESSES = tuple(f"lyncean_harnesses.library.models.{name}" for name in ("inspect_ai", "lm_eval", "lmms_eval"))
# Modules that need an extra which the image lacks.
_TORCH = "lyncean.transformers_import"
WITHOUT = {
    "orchestrator": ("lyncean_interop.inspect", "lyncean_interop.opentelemetry", _TORCH, *HARNESSES),
    "scorer": ("scorer.testkit", "lyncean.media.decoded_pictures", "lyncean.media.rare_pictures", _TORCH, *HARNESSES),
    "tool-server": ("tool_server.search", _TORCH, *HARNESSES),
    "model-server-slim": ("model_server.hf", _TORCH, *HARNESSES),
    TORCH: HARNESSES,
}
IMAGES = [*SERVICES.values(), "tool-server", TORCH]


@pytest.fixture(scope="module")
def containers() -> Iterator[dict[str, str]]:
    """Image -> a container of it; the one with torch only where it is asked for, since it takes minutes."""
    images = IMAGES if os.environ.get("LYNCEAN_BUILD_IMAGES") == "all" else IMAGES[:-1]
    build(*images)
    started = {image: buildah("from", name_of(image)) for image in images}
    yield started
    for container in started.values():
        buildah("rm", container)


@pytest.fixture
def container(containers: dict[str, str], image: str) -> str:
    if image not in containers:
        pytest.skip("LYNCEAN_BUILD_IMAGES=all builds the image with torch as well")
    return containers[image]


every_image = pytest.mark.parametrize("image", IMAGES)


@every_image
def test_an_image_says_what_it_is(container: str, image: str) -> None:
    service = image.removesuffix("-slim").removesuffix("-cpu")
    config = json.loads(buildah("inspect", "--type", "image", name_of(image)))["OCIv1"]["config"]
    assert config["Entrypoint"] == [service]
    assert config["User"] == "65532:65532"
    assert config["Labels"]["org.opencontainers.image.title"] == f"lyncean-{service}"
    assert config["Labels"]["org.opencontainers.image.revision"]
    assert service in run(container, service, "--help")
    assert run(container, "id", "-u").strip() == "65532"


@every_image
def test_an_image_has_what_its_service_imports_and_no_more(container: str, image: str) -> None:
    packages = [image.removesuffix("-slim").removesuffix("-cpu").replace("-", "_"), "lyncean", *EXTENSIONS[image]]
    code = MODULES.format(packages=packages, without=WITHOUT[image])
    assert run(container, "python", "-c", code).splitlines()[-1] == str(image == TORCH), "torch"
    # Nor anything of the machine it was built on: its package index, its certificates, the sources.
    left = "ls /etc/pip.conf /src /run/secrets/* /root/.config /opt/lyncean/bin/pip 2>/dev/null || true"
    assert run(container, "sh", "-c", left) == ""


def test_the_scorers_image_has_no_orchestrator(containers: dict[str, str]) -> None:
    code = (
        "from importlib.util import find_spec as f; print(f('orchestrator'), f('model_server'), f('lyncean_interop'))"
    )
    assert run(containers["scorer"], "python", "-c", code).split() == ["None"] * 3
    assert "harness_task" in run(containers["scorer"], "scorer", "rules")


@every_image
def test_weights_come_with_the_model_server_alone(container: str, image: str) -> None:
    held = run(container, "find", "/opt/lyncean", "-name", "*.safetensors").split()
    assert [Path(path).parts[-3:] for path in held] == (
        [("demo", "checkpoint", "model.safetensors")] if image.startswith("model-server") else []
    )


@every_image
def test_nothing_of_an_image_can_be_written_by_its_user(container: str, image: str) -> None:
    writable = (
        "find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/sys/*' ! -path '/dev/*' 2>/dev/null || true"
    )
    paths = set(run(container, "sh", "-c", writable).split())
    paths = {path for path in paths if not path.startswith(("/tmp", "/var/tmp", "/run/lock", "/dev"))}
    # /runs is where a volume goes; without one, a run lands in the container and is lost with it.
    assert paths == ({"/runs"} if image == "orchestrator" else set())


def test_code_is_a_layer_of_its_own(containers: dict[str, str]) -> None:
    # Else every change of a line would push all dependencies again.
    history = json.loads(buildah("inspect", "--type", "image", name_of("scorer")))["OCIv1"]["history"]
    copied = [
        step["created_by"] for step in history if "/opt/lyncean" in step["created_by"] and "COPY" in step["created_by"]
    ]
    assert len(copied) == 2


def test_the_orchestrators_image_carries_the_manifests(containers: dict[str, str]) -> None:
    code = "from lyncean_kubernetes.render import deploy_folder as f; print(*f().rglob('*.yaml'), sep='\\n')"
    held = run(containers["orchestrator"], "python", "-c", code).splitlines()
    deploy = REPOSITORY / "deploy"
    wanted = {str(path.relative_to(deploy)) for path in deploy.rglob("*.yaml")}
    assert {path.partition("/lyncean_kubernetes/deploy/")[2] for path in held} == wanted


def test_the_orchestrators_image_knows_s3(containers: dict[str, str]) -> None:
    code = "from orchestrator.run_folder.remote.store import Store; print(Store('s3://bucket/run').url)"
    assert run(containers["orchestrator"], "python", "-c", code).strip() == "s3://bucket/run"


def evaluate(containers: dict[str, str], model: str, folder: Path, serve: list[str], flags: list[str]) -> Any:
    """Joins a model server, a scorer and an orchestrator over loopback, which chroot isolation shares with the host."""
    volumes = (f"{give_to_user(folder)}:/shared",)
    started: dict[str, subprocess.Popen[bytes]] = {}
    ports = {}
    try:
        for image, args in ((model, ["model-server", "serve", *serve]), ("scorer", ["scorer", "serve"])):
            args += ["--host=127.0.0.1", "--port=0", f"--port-file=/shared/{image}"]
            with (folder / f"{image}.log").open("wb") as log:
                line = command(containers[image], *args, volumes=volumes)
                started[image] = subprocess.Popen(line, stdout=log, stderr=log)
        end = time.monotonic() + 300
        for image, server in started.items():
            while not (folder / image).exists():
                assert server.poll() is None, (folder / f"{image}.log").read_text()
                assert time.monotonic() < end
                time.sleep(0.1)
            ports[image] = (folder / image).read_text().strip()
        where = [f"--endpoint=127.0.0.1:{ports[model]}", f"--scorer=127.0.0.1:{ports['scorer']}"]
        args = ["orchestrator", "eval", *flags, "--synthetic", "--quiet", "--run=/shared/run", *where]
        run(containers["orchestrator"], *args, volumes=volumes)
    finally:
        for server in started.values():
            server.terminate()
        for server in started.values():
            server.wait(60)
    assert (folder / "run/report.html").stat().st_uid == 65532
    return json.loads((folder / "run/results.json").read_text())


def test_three_containers_evaluate_the_demo(containers: dict[str, str], tmp_path: Path) -> None:
    results = evaluate(containers, "model-server-slim", tmp_path, [], ["--task=marvel", "--limit=10"])
    counts = results["tasks"]["marvel"]["counts"]
    assert counts["scored"] + counts["unparsed"] == counts["planned"] > 0


@pytest.mark.parametrize("image", [TORCH])
def test_three_containers_evaluate_a_checkpoint_as_this_machine_does(
    containers: dict[str, str], container: str, image: str, tmp_path: Path
) -> None:
    from helpers.tiny import build as make_checkpoint  # loads torch

    shared = tmp_path / "shared"
    shared.mkdir()
    checkpoint = make_checkpoint("llava", shared / "tiny")
    (checkpoint / "model.safetensors").chmod(0o644)
    flags = ["--task=vstar_bench", "--limit=4", "--method=likelihood"]
    serve = ["--backend=transformers", "--model=/shared/tiny", "--device=cpu"]
    results = evaluate(containers, TORCH, shared, serve, flags)
    assert results["tasks"]["vstar_bench"]["counts"]["scored"] == 4
    here = [str(Path(sys.executable).parent / "orchestrator"), "eval", *flags, "--synthetic", "--quiet"]
    subprocess.run([*here, f"--model={checkpoint}", f"--run={tmp_path / 'here'}"], check=True)
    assert json.loads(results_of(tmp_path / "here")) == {k: v for k, v in results.items() if k != "usage"}
