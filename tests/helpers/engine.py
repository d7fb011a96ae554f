"""A docker engine of a test's own, in a network namespace that its bridges and filters leave with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from helpers import builder


def plugin(name: str) -> bool:
    """Returns True if a docker client with a plugin is installed: "compose" or "buildx"."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", name, "version"], capture_output=True, check=False).returncode == 0


def missing() -> str:
    """Why no engine can be started here; empty if one can."""
    if not plugin("compose"):
        return "no `docker compose`: as root, .ci/tools installs docker and its plugins"
    if shutil.which("dockerd") is None:
        return "no dockerd: apt-get install docker.io iptables"
    return builder.missing()


@contextlib.contextmanager
def engine() -> Iterator[dict[str, str]]:
    """Starts an engine; yields the environment for its clients. All that it held goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="lyncean-"))
    address = f"unix://{folder}/socket"
    command = [
        f"--host={address}",
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/pid",
    ]
    script = 'ip link set lo up && exec dockerd "$@"'
    with (folder / "log").open("wb") as log:
        started = subprocess.Popen(["unshare", "--net", "sh", "-c", script, "sh", *command], stdout=log, stderr=log)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "DOCKER_HOST": address}
    if "DOCKER_CONFIG" in os.environ:  # where plugins may lie
        environment["DOCKER_CONFIG"] = os.environ["DOCKER_CONFIG"]
    try:
        end = time.monotonic() + 300
        while subprocess.run(["docker", "info"], env=environment, capture_output=True, check=False).returncode:
            assert started.poll() is None, (folder / "log").read_text()[-3000:]
            assert time.monotonic() < end, (folder / "log").read_text()[-3000:]
            time.sleep(0.2)
        yield environment
    finally:
        started.terminate()
        started.wait(60)
        shutil.rmtree(folder)


def load(image: str, environment: dict[str, str], name: str) -> None:
    """Takes an image of buildah's into the engine."""
    with tempfile.TemporaryDirectory(prefix="lyncean-") as folder:
        archive = f"{folder}/image.tar"
        builder.buildah("push", "--quiet", image, f"docker-archive:{archive}:{name}")
        subprocess.run(["docker", "load", "--quiet", "--input", archive], env=environment, check=True)
