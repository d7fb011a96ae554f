"""The example of an extension: one of each kind, used by the commands without a change of the tree."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from helpers.engine_cluster import wait_for

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "extension"
WORDS = ("fetch", "colours")


def installed(folder: Path, groups: Mapping[str, Mapping[str, str]], name: str) -> Path:
    """Writes what a package index's client would: the entry points of a package, beside its modules."""
    about = folder / f"{name}-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    written = configparser.ConfigParser()
    written.optionxform = str  # type: ignore[assignment,method-assign]
    written.read_dict(groups)
    with (about / "entry_points.txt").open("w") as file:
        written.write(file)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    installed(folder, project["entry-points"], project["name"])
    for file in EXAMPLE.glob("*.py"):
        shutil.copy(file, folder)
    return folder


def environment(site: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT), str(ROOT / "extensions")])}


def run(site: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *args], env=environment(site), capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def folder(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of its tasks, scored by its rule and its metric."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    done = run(
        site, "orchestrator", "eval", "--task", "colours:8", "--model", "demo:constant:red", "--run", str(folder)
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_its_task_rule_and_metric(folder: Path) -> None:
    (task,) = json.loads((folder / "results.json").read_text())["tasks"].values()
    assert {metric["name"]: metric["value"] for metric in task["metrics"]} == {"accuracy": 0.25, "share": 0.25}
    assert task["counts"]["scored"] == 8


def test_its_commands(site: Path, folder: Path, tmp_path: Path) -> None:
    assert run(site, "orchestrator", "colours", str(folder)).stdout == "red: 8, green: 0, blue: 0, grey: 0\n"
    shown = run(site, "orchestrator", "export", str(folder), "--format", "colours")
    assert shown.stdout.splitlines()[0] == "colours:8/0\tred"
    (tmp_path / "answers.txt").write_text("red\nblue\n")
    assert run(site, "orchestrator", "import", "colours", str(tmp_path / "answers.txt")).stdout == "2 answers\n"


def test_help_lists_it_after_ours(site: Path) -> None:
    lines = run(site, "orchestrator", "--help").stdout.splitlines()
    ours, others = (
        next(n for n, line in enumerate(lines) if line.startswith(f"  {name} ")) for name in ("fetch", "colours")
    )
    assert others == ours + 1
    assert "Count the colours that a model named." in lines[others]
    assert "a line an item: key and answer" in run(site, "orchestrator", "export", "--help").stdout
    assert "Import a file with one answer per line." in run(site, "orchestrator", "import", "--help").stdout


def test_what_is_wrong_with_its_words_is_one_line(site: Path) -> None:
    done = run(site, "orchestrator", "eval", "--task", "colours:many")
    assert (done.returncode, done.stderr) == (
        2, "Error: task colours:many: give a number of images, for example colours:20\n",
    )  # fmt: skip


def test_its_logs_are_shown_beside_runs(site: Path, tmp_path: Path) -> None:
    (tmp_path / "day.colours").write_text("red\nblue\n")
    port = tmp_path / "port"
    command = [sys.executable, "-c", _VIEW, str(tmp_path)]
    done = subprocess.run(command, env=environment(site), capture_output=True, text=True, check=False, timeout=300)
    assert not port.exists()
    assert done.stdout == "day.colours unreadable day.colours holds 2 answers and no questions\n", done.stderr


_VIEW = """
import sys, time
from pathlib import Path
from orchestrator.report.live.logs import ToolLogs
logs = ToolLogs(Path(sys.argv[1]))
while any(log.state()["state"] == "reading" for log in logs.runs().values()):
    time.sleep(0.01)
for log in logs.runs().values():
    print(log.name, log.state()["state"], log.state()["note"])
"""


@pytest.fixture
def fronts(site: Path, tmp_path: Path) -> Iterator[dict[str, int]]:
    """The ports of its front, beside a model server and before one."""
    ports: dict[str, int] = {}
    begun = []
    common = [sys.executable, "-m", "model_server"]
    log = (tmp_path / "log").open("w+")
    command = [
        *common,
        "serve",
        "--port",
        "0",
        "--port-file",
        str(tmp_path / "grpc"),
        "--http-port",
        "0",
        "--front",
        "colours",
    ]
    begun.append(subprocess.Popen(command, env=environment(site), stderr=log))
    wait_for(lambda: (tmp_path / "grpc").exists() and (tmp_path / "grpc").read_text())
    command = [*common, "http", "--endpoint", f"127.0.0.1:{(tmp_path / 'grpc').read_text()}", "--front", "colours",
             "--port", "0", "--port-file", str(tmp_path / "http")]  # fmt: skip
    begun.append(subprocess.Popen(command, env=environment(site), stderr=log))
    ports["before"] = int(wait_for(lambda: (tmp_path / "http").exists() and (tmp_path / "http").read_text()))
    yield ports
    for process in begun:
        process.kill()
        process.wait()


def test_its_front(fronts: dict[str, int]) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{fronts['before']}/") as response:
        reply = json.load(response)
    assert reply["front"] == "colours"
    assert reply["of"].startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("group", "args", "listing"),
    [
        ("commands", ["orchestrator", "broken"], ["orchestrator", "--help"]),
        ("exports", ["orchestrator", "export", ".", "--format", "broken"], ["orchestrator", "export", "--help"]),
        ("imports", ["orchestrator", "import", "broken"], ["orchestrator", "import", "--help"]),
        ("tasks", ["orchestrator", "prompts", "--task", "broken:x"], None),
        ("fronts", ["model_server", "http", "--endpoint", "127.0.0.1:1", "--front", "broken"], None),
    ],
)
@pytest.mark.parametrize("fault", ["absent", "raises", "other"])
def test_a_broken_entry_is_one_line_with_its_package(
    tmp_path: Path, group: str, args: list[str], listing: list[str] | None, fault: str
) -> None:
    (tmp_path / "broken_one.py").write_text("raise ValueError('surprise')" if fault == "raises" else "THING = 3\n")
    target = "nowhere_at_all:THING" if fault == "absent" else "broken_one:THING"
    site = installed(tmp_path, {f"lyncean.{group}": {"broken": target}}, "broken-package")
    why = {"absent": "No module named 'nowhere_at_all'", "raises": "ValueError: surprise", "other": "is a int, not a"}
    done = run(site, *args)
    assert done.returncode == 2
    assert "of package broken-package" in done.stderr
    assert why[fault] in done.stderr
    assert "Traceback" not in done.stderr
    if listing:
        shown = run(site, *listing)
        assert shown.returncode == 0, shown.stderr
        assert "of package broken-package" in " ".join(shown.stdout.split())


def test_ours_cannot_be_replaced(tmp_path: Path) -> None:
    site = installed(tmp_path, {"lyncean.commands": {"eval": "os:getcwd"}}, "replacing")
    done = run(site, "orchestrator", "no-such-command")
    assert (done.returncode, "'eval' of plugin os:getcwd is defined twice" in done.stderr) == (2, True)
    assert run(site, "orchestrator", "tasks").returncode == 0, "our own commands look for no others"
