"""The commands of docs/contract.md that generate code from protos/, and that code beside the wheel's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from helpers.page_commands import ROOT, blocks

PAGE = ROOT / "docs" / "contract.md"
PROTO = "lyncean/model/v1/model.proto"
MADE = {
    "Python": ("lyncean/model/v1/model_pb2.py", "lyncean/model/v1/model_pb2.pyi", "lyncean/model/v1/model_pb2_grpc.py"),
    "C++": ("lyncean/model/v1/model.grpc.pb.h", "google/rpc/status.pb.cc"),
    "Go": ("example.org/mine/model/model.pb.go", "example.org/mine/model/model_grpc.pb.go"),
    "TypeScript": ("lyncean/model/v1/model.ts", "google/rpc/status.ts"),
}
PLUGINS = {"C++": ("protoc", "grpc_cpp_plugin"), "Go": ("protoc-gen-go", "protoc-gen-go-grpc"), "TypeScript": ("npm",)}
COMPILER = f"{sys.executable} -m grpc_tools.protoc "
PACKAGES = sysconfig.get_path("purelib")


def generators() -> dict[str, tuple[str, str]]:
    """Returns by language what to install, and the command."""
    (block,) = (text for text in blocks(PAGE) if "protoc" in text)
    matches = re.findall(r"^# ([\w+]+): (.*)\n([^#]+)", block, re.MULTILINE)
    return {language: (needs, command) for language, needs, command in matches}


def generate(folder: Path, command: str) -> None:
    """Runs a command of the page beside protos/, with the compiler of Python if there is no other."""
    folder.mkdir(exist_ok=True)
    if not (folder / "protos").exists():
        (folder / "protos").symlink_to(ROOT / "protos")
    command = command.replace("python -m grpc_tools.protoc ", COMPILER)
    if not shutil.which("protoc"):
        command = re.sub("^protoc ", COMPILER, command)
    done = subprocess.run(["bash", "-euc", command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"


def imported(folder: Path, code: str, *path: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs Python code with modules of `path` first."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def python_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python")
    generate(folder, generators()["Python"][1])
    return folder


def test_every_language_has_files_that_are_looked_for() -> None:
    assert generators().keys() == MADE.keys()


@pytest.mark.parametrize("language", [pytest.param(name, marks=pytest.mark.full) for name in MADE])
def test_the_command_generates(language: str, tmp_path: Path) -> None:
    needs, command = generators()[language]
    missing = [name for name in PLUGINS.get(language, ()) if not shutil.which(name)]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed: {needs}")
    if language == "TypeScript":
        install = ["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0", "ts-proto"]
        if subprocess.run(install, cwd=tmp_path, capture_output=True, check=False).returncode:
            pytest.skip("npm cannot install ts-proto: it needs a package registry")
    generate(tmp_path, command)
    assert all((tmp_path / file).stat().st_size for file in MADE[language])


def test_the_generated_code_works_without_lyncean(python_code: Path) -> None:
    code = (
        "import lyncean.model.v1.model_pb2_grpc as made; print(made.__file__, hasattr(made, 'ModelServiceServicer'))\n"
        "import lyncean; print(getattr(lyncean, '__file__', None))"
    )
    environment = {**os.environ, "PYTHONPATH": f"{python_code}{os.pathsep}{PACKAGES}"}
    command = [sys.executable, "-S", "-P", "-c", code]  # without the paths of an editable installation
    done = subprocess.run(command, cwd=python_code, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == f"{python_code}/lyncean/model/v1/model_pb2_grpc.py True\nNone\n", done.stderr


def test_the_obvious_command_fails_as_the_page_says(tmp_path: Path) -> None:
    command = [*COMPILER.split(), "-I", str(ROOT / "protos"), f"--python_out={tmp_path}", PROTO]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    message = done.stderr.splitlines()[0].rstrip(".")
    assert message == "google/rpc/status.proto: File not found"
    assert f"`{message}`" in PAGE.read_text()


BOTH = """
import importlib.util, lyncean.model.v1.model_pb2 as theirs
spec = importlib.util.spec_from_file_location("own_pb2", {file!r})
own = importlib.util.module_from_spec(spec)
spec.loader.exec_module(own)
print(own.GenerateRequest is theirs.GenerateRequest)
"""


def test_the_wheel_is_preferred_to_a_folder_without_init(python_code: Path) -> None:
    done = imported(
        python_code, "import lyncean.model.v1.model_pb2 as m; import lyncean.rpc; print(m.__file__)", python_code
    )
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).is_relative_to(python_code)


def test_a_package_of_ones_own_hides_the_wheel(python_code: Path, tmp_path: Path) -> None:
    shutil.copytree(python_code / "lyncean", tmp_path / "lyncean")
    (tmp_path / "lyncean" / "__init__.py").touch()
    done = imported(tmp_path, "import lyncean.model.v1.model_pb2; import lyncean.rpc", tmp_path)
    assert "ModuleNotFoundError: No module named 'lyncean.rpc'" in done.stderr
    assert "`ModuleNotFoundError: No module named 'lyncean.rpc'`" in PAGE.read_text()


@pytest.mark.parametrize(("change", "same"), [("", True), ("// a comment", True), ("  bool own_field = 999;", False)])
def test_two_copies_in_one_process(change: str, same: bool, tmp_path: Path) -> None:
    (tmp_path / "protos").mkdir()
    for file in (PROTO, "third_party/google/rpc/status.proto"):
        (tmp_path / "protos" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "protos" / file, tmp_path / "protos" / file)
    changed = (ROOT / "protos" / PROTO).read_text().replace("message RawPrompt {", f"message RawPrompt {{\n{change}", 1)
    (tmp_path / "protos" / PROTO).write_text(changed)
    generate(tmp_path, generators()["Python"][1])
    done = imported(tmp_path, BOTH.format(file=str(tmp_path / "lyncean/model/v1/model_pb2.py")))
    if same:
        assert done.stdout == "True\n", done.stderr
    else:
        last = done.stderr.splitlines()[-1]
        assert last.startswith("TypeError: ")
        assert last.endswith(f"duplicate file name {PROTO}")
        assert f"duplicate file name {PROTO}`" in PAGE.read_text()
