"""The border between core and extensions: imports across it, and the core without extensions."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.light_commands import outside_of_cli, shows_help_lightly
from helpers.page_commands import make_commands

ROOT = Path(__file__).parents[2]
CORE = ("lyncean", "orchestrator", "scorer", "model_server", "tool_server")
CONTRACTS = {"lyncean.model.v1", "lyncean.scorer.v1", "lyncean.tool.v1"}
EXTENSIONS = [
    *("lyncean_harnesses", "lyncean_interop", "lyncean_kubernetes", "lyncean_mcp", "lyncean_openai_front"),
    "lyncean_trainer",
]
PAGE = ROOT / "docs" / "write-an-extension.md"
HIDING = ROOT / "tests" / "helpers" / "without_extensions"


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yields (module, name) of each import; the name is "" where a whole module is imported."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            yield from ((node.module or "", alias.name) for alias in node.names)


def modules() -> set[str]:
    files = (path for package in CORE for path in (ROOT / package).rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files}


def core_modules(path: Path, known: set[str]) -> Iterator[str]:
    """Yields the modules of the core that a file imports; of the contracts their package."""
    for module, name in imported(path):
        if module.partition(".")[0] in CORE:
            yield f"{module}.{name}" if f"{module}.{name}" in known and module not in CONTRACTS else module


def tests_of_the_core() -> list[str]:
    """Returns the folders of tests that `make` runs with the extensions hidden."""
    core, _ = re.findall(r"\$\(addprefix tests/,(.*)\)", (ROOT / "Makefile").read_text())
    return [f"tests/{name}" for name in core.split()]


@pytest.mark.parametrize("package", CORE)
def test_the_core_imports_no_extension(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        met = {module for module, _ in imported(path) if module.partition(".")[0] in EXTENSIONS}
        assert not met, f"{path.relative_to(ROOT)} imports {met}"


def test_tests_of_the_core_import_no_extension() -> None:
    for folder in tests_of_the_core():
        for path in (ROOT / folder).rglob("*.py"):
            met = {module for module, _ in imported(path) if module.partition(".")[0] in EXTENSIONS}
            assert not met, f"{path.relative_to(ROOT)} imports {met}"


def test_extensions_import_no_other_extension() -> None:
    for name in EXTENSIONS:
        for path in (ROOT / "extensions" / name).rglob("*.py"):
            met = {module for module, _ in imported(path) if module.partition(".")[0] in {*EXTENSIONS} - {name}}
            assert not met, f"{path.relative_to(ROOT)} imports {met}"


def test_extensions_import_what_the_page_declares() -> None:
    declared = PAGE.read_text().partition("## What an extension may import")[2]
    listed = set(re.findall(r"^\| `([\w.]+)` \|", declared, re.MULTILINE))
    known = modules()
    assert listed <= known
    assert len(listed) <= 25
    used: dict[str, str] = {}
    for path in (ROOT / "extensions").rglob("*.py"):
        used |= dict.fromkeys(core_modules(path, known), str(path.relative_to(ROOT)))
    for path in (ROOT / "examples" / "extension").glob("*.py"):
        used |= dict.fromkeys(core_modules(path, known), str(path.relative_to(ROOT)))
    assert not {module: path for module, path in used.items() if module not in listed | CONTRACTS}
    assert listed <= used.keys(), "declared and not needed"


def test_no_room_of_an_extension_imports_two_services() -> None:
    services = {"orchestrator", "scorer", "model_server", "tool_server"}
    rooms: dict[str, set[str]] = {}
    for path in (ROOT / "extensions").rglob("*.py"):
        room = str(path.parent.relative_to(ROOT))
        rooms.setdefault(room, set()).update(module.partition(".")[0] for module, _ in imported(path))
    assert not {room: met for room, packages in rooms.items() if len(met := packages & services) > 1}


def test_faces_hand_on_names_that_are_there() -> None:
    """Each name that a package imports on use exists, and is the one that type checkers see."""
    faces = [path for name in CORE for path in (ROOT / name).rglob("__init__.py") if "face(" in path.read_text()]
    assert len(faces) > 10
    for path in faces:
        package = ".".join(path.parent.relative_to(ROOT).parts)
        table: dict[str, tuple[str, str]] = {}
        seen: dict[str, tuple[str, str]] = {}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "face":
                for module, names in ast.literal_eval(node.args[1]).items():
                    for word in names.split():
                        name, _, public = word.partition(":")
                        table[public or name] = (f"{package}.{module}", name)
            elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                for inner in node.body:
                    if isinstance(inner, ast.ImportFrom) and str(inner.module).startswith(f"{package}."):
                        seen |= {alias.asname or alias.name: (inner.module, alias.name) for alias in inner.names}  # type: ignore[misc]
        assert table == seen, package
        for module, name in table.values():
            assert hasattr(__import__(module, fromlist=[name]), name), f"{module}.{name}"


def test_click_is_imported_in_cli_alone() -> None:
    assert not outside_of_cli(ROOT / "extensions")


@pytest.mark.parametrize(
    "command", ["orchestrator.cli:main", "scorer.cli:main", "model_server.cli:main", "tool_server.cli:main"]
)
def test_help_with_extensions_imports_nothing_heavy(command: str) -> None:
    shows_help_lightly(command)


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize("target", ["test", "test-all", "test-weekly"])
def test_each_test_runs_once_and_those_of_the_core_without_extensions(target: str) -> None:
    core, others = (line.split() for line in make_commands(f"make {target}"))
    folders = [[word for word in args if word.startswith("tests/")] for args in (core, others)]
    tests = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")}
    assert sorted(folders[0] + folders[1]) == sorted(f"tests/{name}" for name in tests)
    assert "tests/extensions" in folders[1]
    assert {f"tests/{name}" for name in CORE} <= set(folders[0])
    hidden = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("test-core: export")]
    assert hidden == ["test-core: export PYTHONPATH := $(CURDIR)/tests/helpers/without_extensions"]


def run(*args: str, hide: bool = True, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    paths = [str(HIDING)] if hide else []
    paths += [str(folder)] if folder else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(ROOT), str(ROOT / "extensions")])}
    return subprocess.run(
        [sys.executable, "-m", *args], env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_a_run_without_extensions(tmp_path: Path) -> None:
    done = run("orchestrator", "eval", "--task", "vstar_bench", "--synthetic", "--limit", "4", "--model", "demo:hash",
               "--run", str(tmp_path / "run"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "4 planned = " in done.stdout
    assert (tmp_path / "run" / "report.html").exists()
    for args in (["compare"], ["report"], ["score"]):
        done = run("orchestrator", *args, *[str(tmp_path / "run")] * (2 if args == ["compare"] else 1))
        assert done.returncode == 0, done.stderr
    shown = run("orchestrator", "--help").stdout
    assert "  submit " not in shown
    assert "  export " in shown
    assert "  items " in run("orchestrator", "export", "--help").stdout
    done = run("orchestrator", "import", "--help")
    assert (done.returncode, "  inspect " in done.stdout) == (0, False)
    assert "harness_task" not in run("scorer", "rules").stdout


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (
            ["orchestrator", "submit", "--task", "marvel"],
            "command 'submit' is of lyncean_kubernetes",
        ),
        (["orchestrator", "eval", "--task", "lmms:mme"], "task 'lmms' is of lyncean_harnesses"),
        (
            ["orchestrator", "import", "inspect", "x.eval"],
            "import 'inspect' is of lyncean_interop",
        ),
        (
            ["orchestrator", "export", ".", "--format", "csv"],
            "export 'csv' is of lyncean_interop",
        ),
        (
            ["model_server", "http", "--endpoint", "127.0.0.1:1"],
            "front 'openai' is of lyncean_openai_front",
        ),
    ],
)
def test_what_an_absent_extension_would_do_is_one_line(args: list[str], error: str) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert error in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
