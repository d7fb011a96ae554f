"""The command `lyncean`: every other command below one name, and no file of the working folder is ever run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.engine_cluster import Server
from helpers.python_path import only_hiding

from orchestrator.cli import COMMANDS, lyncean

SHADOWS = ("scorer", "orchestrator", "model_server", "tool_server", "lyncean", "grpc", "typing")


BELOW = [(name,) for name in COMMANDS if name != "submit"]
BELOW += [("orchestrator", "eval"), ("scorer", "serve"), ("model-server", "serve"), ("tool-server", "serve")]


@pytest.mark.parametrize("arguments", BELOW)
def test_every_command_is_below_it(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(lyncean, [*arguments, "--help"], prog_name="lyncean")
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: lyncean {' '.join(arguments)} ")


@pytest.fixture
def shadowed(tmp_path: Path) -> Path:
    """A working folder whose files bear the names of modules that the commands import."""
    for name in SHADOWS:
        text = f"open({str(tmp_path / 'was-run')!r}, 'a').write({name!r})\nraise SystemExit('the file of a user')\n"
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def script(attribute: str) -> list[str]:
    """The command line of an installed script: its folder, not the working folder, is searched for modules."""
    module, _, name = attribute.partition(":")
    return [sys.executable, "-P", "-c", f"import sys; from {module} import {name}; sys.exit({name}())"]


def test_embedded_servers_run_no_file_of_the_working_folder(shadowed: Path) -> None:
    arguments = ["eval", "--task", "marvel", "--synthetic", "--limit", "1", "--model", "demo:hash", "--run", "run"]
    done = subprocess.run(
        [*script("orchestrator.cli:lyncean"), *arguments],
        cwd=shadowed,
        env=only_hiding(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (shadowed / "run" / "results.json").exists()
    assert not (shadowed / "was-run").exists()


@pytest.mark.parametrize("arguments", [("scorer", "serve"), ("model-server", "serve", "--backend", "demo")])
def test_services_run_no_file_of_the_working_folder(
    shadowed: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(shadowed)
    monkeypatch.setenv("PYTHONPATH", only_hiding().get("PYTHONPATH", ""))
    server = Server(shadowed / "server", [*script("orchestrator.cli:lyncean"), *arguments])
    try:
        server.start()
    finally:
        server.kill()
    assert not (shadowed / "was-run").exists()
