"""The example servers in other languages pass the conformance kit, where their tools are present."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.page_commands import commands

from orchestrator.conformance import CHECKS, Status, judge

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LACKING = {"BATCH", "REASONING", "THINKING", "AUDIO_INPUT", "VIDEO_INPUT", "MEDIA_BY_HASH", "TOOLS"}
LACKING |= {"ANSWER_PREFIX", "ANSWER_CHOICES", "ANSWER_REGEX", "ANSWER_JSON_SCHEMA", "RAW_PROMPT", "RENDERED_PROMPT"}
MOOT = {
    "seed_repeats",
    "logprobs_make_sense",
    "images_are_made",
    "tls_is_demanded",
    "token_is_demanded",
    "refuses_corrupt_audio_and_video",
    "image_limit_is_kept",
    "system_messages_are_as_stated",
    "token_ids_name_tokens",
    "samples_are_bounded",
    "samples_are_separate_outputs",
    *(name for name, check in CHECKS.items() if LACKING & set(check.needs)),
}


@contextmanager
def listening(*command: str | Path, cwd: Path, **environment: str) -> Iterator[tuple[int, int]]:
    """Starts a server that says where it listens; yields port and process."""
    process = subprocess.Popen(
        [str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE, text=True, env=os.environ | environment
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        match = re.search(r"listening on 127\.0\.0\.1:(\d+)", line)
        assert match, line
        yield int(match[1]), process.pid
    finally:
        process.kill()
        process.communicate()


async def judged(port: int, pid: int) -> dict[str, str]:
    """Returns the checks that were not passed."""
    results = [result async for result in judge(f"127.0.0.1:{port}", timeout=30, pid=pid)]
    failures = {result.check.name: result.detail for result in results if result.status is Status.FAILED}
    assert failures == {}
    return {result.check.name: result.detail for result in results if result.status is Status.SKIPPED}


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the Node example and its modules."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    folder = tmp_path_factory.mktemp("node")
    for name in ("server.js", "package.json"):
        shutil.copy(EXAMPLES / "node" / name, folder)
    modules = EXAMPLES / "node" / "node_modules"
    if modules.is_dir():
        (folder / "node_modules").symlink_to(modules)
        return folder
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    try:
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm cannot install the example's modules within two minutes")
    if done.returncode:
        pytest.skip(f"npm cannot install the example's modules: {done.stderr.strip()[:200]}")
    return folder


@pytest.mark.timeout(400)
async def test_node_passes_every_check(node: Path) -> None:
    with listening("node", "server.js", "--port", "0", cwd=node, LYNCEAN_PROTOS=str(ROOT / "protos")) as (port, pid):
        assert (await judged(port, pid)).keys() == MOOT


@pytest.fixture(scope="session")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ example, built."""
    missing = [tool for tool in ("cmake", "g++", "protoc", "grpc_cpp_plugin", "pkg-config") if not shutil.which(tool)]
    if missing or subprocess.run(["pkg-config", "--exists", "grpc++", "protobuf"], check=False).returncode:
        pytest.skip(f"the C++ tools are not installed: {', '.join(missing) or 'grpc++, protobuf'}")
    build = tmp_path_factory.mktemp("cpp")
    for args in (["-S", str(EXAMPLES / "cpp"), "-B", str(build)], ["--build", str(build)]):
        done = subprocess.run(["cmake", *args], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return build / "server"


@pytest.mark.weekly
@pytest.mark.timeout(1200)  # gRPC's headers take a compiler minutes where the machine is busy.
async def test_cpp_passes_every_check(cpp: Path) -> None:
    with listening(cpp, "0", cwd=cpp.parent) as (port, pid):
        assert (await judged(port, pid)).keys() == MOOT


def test_the_page_says_what_is_typed_here() -> None:
    """The fixtures above type the page's commands in folders of their own: here, that they are still those."""
    node, cpp, *_ = commands(ROOT / "docs/other-languages.md")
    assert node == "cd examples/node && npm install && node server.js --port 50051"
    assert cpp == "cmake -S examples/cpp -B build/cpp && cmake --build build/cpp && build/cpp/server 50051"


def test_examples_stay_short() -> None:
    bounds = {"constant_server.py": 60, "node/server.js": 150, "cpp/server.cpp": 152}
    for name, most in bounds.items():
        lines = (EXAMPLES / name).read_text().splitlines()
        assert len(lines) <= most, name
