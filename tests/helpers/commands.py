"""Commands run in this process, which has loaded everything already; a process of its own takes half a second."""

from __future__ import annotations

import contextlib
import traceback
from pathlib import Path

import click
from click.testing import CliRunner, Result


def run(
    main: click.Command,
    *arguments: str,
    folder: Path | None = None,
    given: str | None = None,
    environment: dict[str, str] | None = None,
) -> Result:
    """Runs a command in a folder; an exception that it lets through is on its stderr, as Python would print it."""
    with contextlib.chdir(folder or Path.cwd()):
        done = CliRunner().invoke(main, arguments, input=given, env=environment)
    if done.exception and not isinstance(done.exception, SystemExit):
        done.stderr_bytes += "".join(traceback.format_exception(done.exception)).encode()
    return done


def orchestrator(
    *arguments: str, folder: Path | None = None, environment: dict[str, str] | None = None, code: int = 0
) -> str:
    """Runs `orchestrator` to an exit code; returns stderr and stdout."""
    from orchestrator.cli import main  # not for tests of a service alone

    done = run(main, *arguments, folder=folder, environment=environment)
    assert done.exit_code == code, f"exit {done.exit_code}\n{done.stderr}\n{done.stdout}"
    return done.stderr + done.stdout
