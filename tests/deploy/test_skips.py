"""A test of pods, images or manifests that skips says what to install or to run."""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import builder, engine, pod_memory, pod_runner

TESTS = Path(__file__).parents[1]
FILES = [
    *sorted((TESTS / "deploy").glob("*.py")),
    *sorted((TESTS / "extensions" / "kubernetes").glob("*.py")),
    *sorted((TESTS / "helpers").glob("pod_*.py")),
    *(TESTS / "helpers" / f"{name}.py" for name in ("builder", "engine", "manifests", "s3_server")),
]
FIXES = ("install", "run pytest as root", ".ci/tools", "LYNCEAN_BUILD_IMAGES", "mount ")


def reasons(path: Path) -> Iterator[str]:
    """Yields the reason of each skip as written; those of `missing()` are `why`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("pytest.skip", "pytest.importorskip"):
            texts = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            texts += node.args if "importorskip" not in ast.unparse(node.func) else []
            yield ast.unparse(texts[0]) if texts else "no reason"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.skipif":
            yield from (ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "reason")


@pytest.mark.parametrize("path", [path for path in FILES if list(reasons(path))], ids=lambda path: path.name)
def test_the_reason_of_a_skip_names_what_to_install(path: Path) -> None:
    for reason in reasons(path):
        assert "why" in reason or any(fix in reason.replace("INSTALL", "install") for fix in FIXES), reason


@pytest.mark.parametrize("program", ["ip", "iptables-restore", "setpriv", "kubectl"])
def test_pods_name_the_program_that_is_absent(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == program else f"/bin/{name}")
    assert pod_runner.missing().startswith(f"no {program}: ")
    assert "install" in pod_runner.missing()


def test_images_and_engines_name_the_program_that_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LYNCEAN_BUILD_IMAGES", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "apt-get install buildah" in builder.missing()
    assert ".ci/tools" in engine.missing()
    monkeypatch.setattr(engine, "plugin", lambda name: True)
    assert "apt-get install docker.io" in engine.missing()


def test_a_machine_that_does_not_allow_it_is_told_from_an_absent_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run pytest as root" in pod_runner.missing()
    monkeypatch.setattr(pod_memory, "_PLACES", (tmp_path / "none",))
    assert "docker run --privileged" in pod_memory.missing()
