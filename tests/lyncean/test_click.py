"""Click stays in the command lines' own folders; everything else raises `lyncean.errors.UserError`."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from helpers.light_commands import ROOT, outside_of_cli, shows_help_lightly

from lyncean.cli import Command

ALLOWED = {"model_server/kit/__init__.py"}
"""The kit makes command lines for the servers of its users."""


@pytest.mark.parametrize("package", ["orchestrator", "scorer", "model_server", "tool_server", "lyncean"])
def test_click_is_imported_in_cli_alone(package: str) -> None:
    outside = outside_of_cli(ROOT / package)
    assert outside <= ALLOWED


@pytest.mark.parametrize(
    "command", ["orchestrator.cli:main", "orchestrator.cli:lyncean", "scorer.cli:main", "tool_server.cli:main"]
)
def test_help_imports_nothing_heavy(command: str) -> None:
    module, _, name = command.partition(":")
    code = f"""
import sys
from {module} import {name}
try:
    {name}(["--help"])
except SystemExit as end:
    assert not end.code
sys.exit(",".join({{"grpc", "numpy", "pydantic", "orjson", "rich"}} & sys.modules.keys()) or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Commands:" in done.stdout


@pytest.mark.parametrize(
    "command", ["orchestrator.cli:main", "scorer.cli:main", "model_server.cli:main", "tool_server.cli:main"]
)
def test_help_of_every_subcommand_imports_nothing_heavy(command: str) -> None:
    shows_help_lightly(command)


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.parametrize("args", [["numbers"], ["model-server", "numbers"]])
def test_a_command_without_a_model_starts_no_threads_for_matrices(args: list[str]) -> None:
    code = """
import os, sys, types
import click
from lyncean.cli.groups import root

@click.command()
def command():
    import numpy
    print(len(os.listdir("/proc/self/task")), "OPENBLAS_NUM_THREADS" in os.environ)

sys.modules["below"] = types.SimpleNamespace(command=command)
server = root({"numbers": ("below", "")}, one_thread=False)(lambda: None)
sys.modules["server"] = types.SimpleNamespace(command=server)
root({"numbers": ("below", ""), "model-server": ("server", "")})(lambda: None)(sys.argv[1:])
"""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, env=environment, check=True
    )
    threads, inherited = done.stdout.split()
    assert inherited == "False", "children would have one thread as well"
    assert (threads == "1") == (args == ["numbers"] or len(os.sched_getaffinity(0)) == 1)


def test_ctrl_c_at_any_moment_of_a_command_is_one_line_and_a_stopped_run() -> None:
    @click.command(cls=Command)
    def importing() -> None:
        raise KeyboardInterrupt

    result = CliRunner().invoke(importing)
    assert (result.exit_code, result.stderr) == (3, "Error: stopped; run the same command again\n")
