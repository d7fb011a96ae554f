"""Packages in images are pinned by hash: the lock files match today's dependencies."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from typing import Any

import pytest
from helpers.manifests import REPOSITORY

DOCKER = REPOSITORY / "docker"
LOCK: dict[str, Any] = runpy.run_path(str(DOCKER / "lock.py"), run_name="lock")


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


CONSTRAINTS = {
    normal(line.partition("==")[0]): line.partition("==")[2].strip()
    for line in (REPOSITORY / "constraints.txt").read_text().splitlines()
    if "==" in line
}


def locked(image: str) -> dict[str, tuple[str, int]]:
    """Returns the packages of a file: version, and number of wheels."""
    entries = (DOCKER / "locked" / f"{image}.txt").read_text().replace("\\\n", " ").splitlines()[1:]
    versions = {}
    for entry in entries:
        name, version, hashes = re.fullmatch(r"([\w.-]+)==(\S+)((?: +--hash=sha256:[0-9a-f]{64})+)", entry).groups()  # type: ignore[union-attr]
        versions[normal(name)] = version, hashes.count("--hash")
    return versions


@pytest.mark.parametrize("image", LOCK["IMAGES"])
def test_an_image_is_pinned_by_hash(image: str) -> None:
    service, extras = image.removesuffix("-slim"), LOCK["IMAGES"][image]
    command = [sys.executable, str(DOCKER / "dependencies.py"), service, str(REPOSITORY / "pyproject.toml"), *extras]
    wanted = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    versions = locked(image)
    assert {normal(re.match(r"[\w.-]+", line).group()) for line in wanted} <= versions.keys(), "run `make lock`"  # type: ignore[union-attr]
    assert {name: CONSTRAINTS[name] for name in versions if name in CONSTRAINTS} == {
        name: version for name, (version, _) in versions.items() if name in CONSTRAINTS
    }, "run `make lock`"
    assert not set(versions) - set(CONSTRAINTS), "constraints.txt pins what is installed"
    assert versions["grpcio"][1] == len(LOCK["PLATFORMS"]), "a wheel for each platform"
    dockerfile = (DOCKER / f"{service}.Dockerfile").read_text()
    assert f"--no-deps --require-hashes --requirement {image}.txt" in dockerfile
    assert "--require-hashes --requirement docker/locked/build.txt" in dockerfile
