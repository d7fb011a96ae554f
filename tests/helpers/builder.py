"""Images for tests: built by docker/build with buildah, run with chroot isolation."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from helpers.manifests import REPOSITORY

TAG = "tested"
SERVICES = {"orchestrator": "orchestrator", "scorer": "scorer", "model-server": "model-server-slim"}
"""Service -> the image that the tests build of it."""


def missing() -> str:
    """Why images cannot be built here; empty if they can."""
    if os.environ.get("LYNCEAN_BUILD_IMAGES") == "0":
        return "LYNCEAN_BUILD_IMAGES=0: unset it"
    if shutil.which("buildah") is None:
        return "no buildah: apt-get install buildah debootstrap"
    return "" if os.geteuid() == 0 else "not root, which buildah's chroot isolation needs: run pytest as root"


def build(*images: str) -> None:
    """Builds those that this test run has not built, with buildah even where a docker engine is."""
    environment = {**os.environ, "TAG": TAG, "DOCKER_HOST": "unix:///nowhere"}
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()} alone")
    # One build at a time. The file says who has built what last: to find all layers again takes a processor 5 seconds.
    with (Path(tempfile.gettempdir()) / "lyncean-images.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        last, *built = lock.read().split("\n")
        built = built if last == session else []
        if wanted := [image for image in images if image not in built]:
            lock.truncate(0)
            arguments = [str(REPOSITORY / "docker/build"), *wanted]
            done = subprocess.run(
                arguments, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr[-3000:]
            lock.write("\n".join([session, *built, *wanted]))


def name_of(image: str) -> str:
    """An image's full name."""
    return f"localhost/lyncean-{image}:{TAG}"


def buildah(*arguments: str) -> str:
    """Runs buildah; returns what it prints."""
    done = subprocess.run(["buildah", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def command(container: str, *arguments: str, volumes: tuple[str, ...] = ()) -> list[str]:
    """The words that run a program in a container."""
    mounted = [word for volume in volumes for word in ("--volume", volume)]
    return ["buildah", "run", "--isolation", "chroot", *mounted, container, "--", *arguments]


def run(container: str, *arguments: str, volumes: tuple[str, ...] = ()) -> str:
    """Runs a program in a container to its end; returns what it prints."""
    done = subprocess.run(command(container, *arguments, volumes=volumes), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def give_to_user(folder: Path) -> Path:
    """Gives a folder to the images' user."""
    os.chown(folder, 65532, 65532)
    folder.chmod(0o755)
    return folder
