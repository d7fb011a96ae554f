"""The images, built for real and run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from manifests import REPOSITORY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("buildah") is None, reason="no buildah: install it (and debootstrap, to be offline)"
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: buildah's chroot isolation needs it"),
    pytest.mark.skipif(os.environ.get("LYNCEUS_BUILD_IMAGES") == "0", reason="LYNCEUS_BUILD_IMAGES=0"),
]
TAG = "tested"
SERVICES = {
    "orchestrator": "lynceus-orchestrator",
    "scorer": "lynceus-scorer",
    "model-server": "lynceus-model-server-slim",
}
MODULES = """
import importlib, pkgutil, sys
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
assert "torch" not in sys.modules
import importlib.util
assert importlib.util.find_spec("torch") is None
assert importlib.util.find_spec("pip") is None
"""
# What an image does without, since its service imports it only where an extra is installed.
WITHOUT = {
    "orchestrator": ("orchestrator.report.formats.inspect",),
    "scorer": ("scorer.testkit",),
    "model-server": ("model_server.hf",),
}

Run = Callable[..., subprocess.CompletedProcess[str]]


def buildah(*words: str, check: bool = True) -> str:
    done = subprocess.run(["buildah", *words], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def containers() -> Iterator[dict[str, str]]:
    """Builds the three images (the model server without torch) and makes a container of each."""
    environment = {**os.environ, "TAG": TAG, "VARIANT": "none"}
    built = subprocess.run(
        [str(REPOSITORY / "docker/build")], env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr[-3000:]
    made = {service: buildah("from", f"localhost/{image}:{TAG}") for service, image in SERVICES.items()}
    yield made
    for container in made.values():
        buildah("rm", container)


def command(container: str, *words: str, volumes: tuple[str, ...] = ()) -> list[str]:
    mounted = [word for volume in volumes for word in ("--volume", volume)]
    return ["buildah", "run", "--isolation", "chroot", *mounted, container, "--", *words]


def run(container: str, *words: str) -> str:
    done = subprocess.run(command(container, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_says_what_it_is(containers: dict[str, str], service: str) -> None:
    found = json.loads(buildah("inspect", "--type", "image", f"localhost/{SERVICES[service]}:{TAG}"))["OCIv1"]["config"]
    assert found["Entrypoint"] == [service]
    assert found["User"] == "65532:65532"
    assert found["Labels"]["org.opencontainers.image.title"] == f"lynceus-{service}"
    assert found["Labels"]["org.opencontainers.image.revision"]
    assert service in run(containers[service], service, "--help")
    assert run(containers[service], "id", "-u").strip() == "65532"


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_has_what_its_service_imports_and_no_more(containers: dict[str, str], service: str) -> None:
    packages = [service.replace("-", "_"), "lynceus"]
    run(containers[service], "python", "-c", MODULES.format(packages=packages, without=WITHOUT[service]))
    assert run(containers[service], "sh", "-c", "ls /etc/pip.conf /src /root/.config 2>/dev/null || true") == ""


@pytest.mark.parametrize("service", SERVICES)
def test_nothing_of_an_image_can_be_written_by_its_user(containers: dict[str, str], service: str) -> None:
    writable = (
        "find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/sys/*' ! -path '/dev/*' 2>/dev/null || true"
    )
    found = set(run(containers[service], "sh", "-c", writable).split())
    # /runs is where a volume goes; without one, a run lands in the container and is lost with it.
    assert {path for path in found if not path.startswith(("/tmp", "/var/tmp", "/run/lock", "/dev"))} <= {"/runs"}


def test_the_orchestrators_image_carries_the_manifests(containers: dict[str, str]) -> None:
    code = "from orchestrator.submit.render import deploy_folder as f; print(*f().rglob('*.yaml'), sep='\\n')"
    held = run(containers["orchestrator"], "python", "-c", code).splitlines()
    deploy = REPOSITORY / "deploy"
    wanted = {str(path.relative_to(deploy)) for path in deploy.rglob("*.yaml")}
    assert {path.partition("/submit/deploy/")[2] for path in held} == wanted


def test_three_containers_evaluate_the_demo(containers: dict[str, str], tmp_path: Path) -> None:
    # Chroot isolation shares the host's network, so loopback joins the three.
    os.chown(tmp_path, 65532, 65532)
    tmp_path.chmod(0o755)
    volumes = (f"{tmp_path}:/ports",)
    servers, ports = [], {}
    try:
        for service in ("model-server", "scorer"):
            words = (service, "serve", "--host=127.0.0.1", "--port=0", f"--port-file=/ports/{service}")
            log = (tmp_path / f"{service}.log").open("wb")
            servers.append(
                subprocess.Popen(command(containers[service], *words, volumes=volumes), stdout=log, stderr=log)
            )
        end = time.monotonic() + 120
        for service, server in zip(("model-server", "scorer"), servers, strict=True):
            while not (tmp_path / service).exists():
                assert server.poll() is None, (tmp_path / f"{service}.log").read_text()
                assert time.monotonic() < end
                time.sleep(0.1)
            ports[service] = (tmp_path / service).read_text().strip()
        words = ("orchestrator", "eval", "--task=marvel", "--synthetic", "--limit=10", "--run=/ports/run", "--quiet")
        where = (f"--endpoint=127.0.0.1:{ports['model-server']}", f"--scorer=127.0.0.1:{ports['scorer']}")
        done = subprocess.run(
            command(containers["orchestrator"], *words, *where, volumes=volumes),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(60)
    counts = json.loads((tmp_path / "run/results.json").read_text())["tasks"]["marvel"]["counts"]
    assert counts["scored"] + counts["unparsed"] == counts["planned"] > 0
    assert (tmp_path / "run/report.html").stat().st_uid == 65532
