"""docs/first-steps.md, from the installation to the reports, in an environment of its own.

The commands, the table and the server are taken from the page and used as they stand there. What a reader has and a
test has not is replaced: a checkpoint of the hub by a tiny one, and a port that may be taken by a free one. In CI the
environment holds the wheel, and finds the packages it depends on where the tests have theirs; weekly it is installed
as the page says, with the pinned packages and with the newest that there are, torch's CPU build among them.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.engine_cluster import free_port, wait_for
from helpers.mistakes import listed, playground, wrong
from helpers.page_commands import ROOT, make_commands
from PIL import Image

PAGE = ROOT / "docs" / "first-steps.md"
HUB = "Qwen/Qwen2.5-VL-7B-Instruct"

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800),  # an installation takes minutes where much else runs
    pytest.mark.skipif(not shutil.which("make"), reason="make is not installed"),
]


def section(title: str, language: str = "sh") -> list[str]:
    """Returns the fenced blocks of a language in a section of the page."""
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert match, title
    return re.findall(rf"^```{language}\n(.*?)^```", match[1], re.DOTALL | re.MULTILINE)


class Reader:
    """A reader who follows the page in a folder, with the programs of one environment only."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.port = folder, free_port()
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        self.environment = {**kept, "PATH": f"{programs}{os.pathsep}/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}

    def type(self, block: str) -> str:
        """Types a block as it stands; returns what it printed."""
        command = ["bash", "-euc", block.replace("50051", str(self.port))]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @contextmanager
    def terminal(self, line: str) -> Iterator[subprocess.Popen[bytes]]:
        """Types a line that goes on until it is ended into another terminal."""
        command = ["bash", "-euc", f"exec {line.replace('50051', str(self.port))}"]
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(120)

    def reported(self, run: str, planned: int) -> None:
        """Makes sure that a run is complete, counts each of its items once, and has a report."""
        (task,) = json.loads((self.folder / run / "results.json").read_text())["tasks"].values()
        assert (task["counts"]["planned"], task["counts"]["failed"]) == (planned, 0)
        assert "<html" in (self.folder / run / "report.html").read_text(encoding="utf-8")


WEEKLY = [pytest.param(name, marks=pytest.mark.weekly) for name in ("installed", "newest")]
MOST_BYTES = 1_600_000_000
"""Upper bound of the page's 1.5 GB."""


def cpu_build() -> str:
    """Returns the requirement of torch's CPU build, as the images have it."""
    (requirement,) = set(re.findall(r"torch==[\d.]+\+cpu", (ROOT / "docker" / "model-server.Dockerfile").read_text()))
    return str(requirement)


@pytest.fixture(scope="module", params=["linked", *WEEKLY])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """A reader who has installed Lyncean, and has a table with images."""
    folder = tmp_path_factory.mktemp("journey")
    (block,) = section("Install")
    dist, create, activate, install = block.splitlines()
    (build,) = make_commands(dist)
    wheels = folder / "dist"
    subprocess.run(
        build.replace(".venv/bin/python", sys.executable).replace(" dist ", f" {wheels} ").split(), cwd=ROOT, check=True
    )
    programs = folder / "lyncean" / "bin"
    assert (create, activate) == ("python3 -m venv ~/lyncean", ". ~/lyncean/bin/activate")
    if request.param == "linked":
        (wheel,) = re.findall(r"dist/[\w.-]+\.whl", install)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", programs.parent], check=True)
        args = ["--python", programs / "python", "install", "--quiet", "--no-deps", "--no-index", folder / wheel]
        subprocess.run([sys.executable, "-m", "pip", *map(str, args)], check=True)
        # A path in a .pth file is searched for packages; the links of an editable installation in it are not followed.
        library = Path(sysconfig.get_path("purelib", vars={"base": str(programs.parent)}))
        (library / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    else:
        subprocess.run([sys.executable, "-m", "venv", programs.parent], check=True)
        settings = {"PIP_QUIET": "1", "PATH": f"{programs}{os.pathsep}/usr/bin:/bin"}
        if request.param == "installed":
            settings["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")
        else:  # the one CPU build that every package index of ours has; the page's own line needs torch's index
            install = f"{install} {cpu_build()}"
        started = time.monotonic()
        subprocess.run(["bash", "-euc", install], cwd=folder, env={**os.environ, **settings}, check=True)
        size = sum(file.stat().st_size for file in programs.parent.rglob("*") if file.is_file())
        print(f"{request.param}: {size / 1e9:.2f} GB in {time.monotonic() - started:.0f} s")
        assert request.param != "newest" or size < MOST_BYTES
    (table,) = section("Your questions", "csv")
    (folder / "photos.csv").write_text(table)
    for number, row in enumerate(csv.DictReader(table.splitlines())):
        image = folder / row["image"]
        image.parent.mkdir(exist_ok=True)
        Image.new("RGB", (64, 48), ("red", "blue", "white", "green")[number]).save(image)
    opened = Reader(folder, programs)
    where = opened.type("python -c 'import orchestrator; print(orchestrator.__file__)'")
    assert Path(where.strip()).is_relative_to(programs.parent), "the programs are the wheel's, not the checkout's"
    make, _ = section("Your questions")
    assert "photos.yaml: 4 rows" in opened.type(make)
    return opened


def test_own_questions_a_server_of_ones_own_and_the_look_at_both(reader: Reader) -> None:
    _, bundled = section("Your questions")
    printed = reader.type(bundled)
    assert printed.rstrip().endswith("report: runs/bundled/report.html")
    reader.reported("runs/bundled", 4)
    (server,) = section("A server of your own", "python")
    (reader.folder / "server.py").write_text(server)
    start, evaluate = section("A server of your own")
    with reader.terminal(start.strip()):
        printed = reader.type(evaluate)
    assert re.search(r"\d+ passed, 0 failed", printed)
    assert printed.rstrip().endswith("report: runs/mine/report.html")
    reader.reported("runs/mine", 4)
    (look,) = section("Look and compare")
    compare, view = look.splitlines()
    reader.type(compare)
    assert "<html" in (reader.folder / "compare.html").read_text(encoding="utf-8")
    port = free_port()
    with reader.terminal(f"{view} --port {port}") as process:

        def names() -> set[str]:
            assert process.poll() is None
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/runs", timeout=30) as reply:
                    return {run["name"] for run in json.load(reply)}
            except OSError:
                return set()

        assert wait_for(names) >= {"bundled", "mine"}


@pytest.mark.weekly
def test_typical_mistakes_are_told_as_they_are_here(reader: Reader, tmp_path: Path) -> None:
    """With any packages of the reader: none of them adds lines."""
    folder, outcomes = playground(tmp_path), []
    for mistake in (*listed(extension=False, weekly=True), *listed(extension=True, weekly=True)):
        command = ["bash", "-c", f"exec {mistake['type']}"]
        done = subprocess.run(command, cwd=folder, env=reader.environment, capture_output=True, text=True, check=False)
        outcomes.append((mistake, done.returncode, done.stdout + done.stderr))
    assert not wrong(outcomes), "\n".join(wrong(outcomes))


@pytest.mark.weekly
def test_a_model_from_the_hub(reader: Reader, tmp_path_factory: pytest.TempPathFactory) -> None:
    tiny = pytest.importorskip("helpers.tiny")
    checkpoint = tiny.build("llava", tmp_path_factory.mktemp("checkpoints") / "llava")
    (evaluate,) = section("A model from the hub")
    assert HUB in evaluate
    assert "report: runs/qwen/report.html" in reader.type(evaluate.replace(HUB, f"{checkpoint} --max-unparsed 1"))
    reader.reported("runs/qwen", 4)
