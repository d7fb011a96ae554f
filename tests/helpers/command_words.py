"""Commands as their help shows them, and with a standard output that is full."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
from click.testing import CliRunner

from orchestrator.cli import main


def examples_can_be_typed(name: str) -> None:
    """Makes sure that the help of a command ends with examples whose commands and options exist."""
    shown = CliRunner().invoke(main, [name, "--help"]).output
    assert not re.search(r"\d{6}", shown), "an end that concerns nobody"
    lines = shown.partition("Examples:\n")[2].replace("\\\n", "").splitlines()
    ours = [shlex.split(line.partition(">")[0] if " > " in line else line) for line in lines if "orchestrator" in line]
    assert any(args[:2] == ["orchestrator", name] for args in ours), shown
    for args in ours:
        group: click.Command | None = main
        rest = args[1:]
        while isinstance(group, click.Group):
            group = group.get_command(click.Context(group), rest.pop(0))
        assert group is not None, args
        known = {flag for param in group.params for flag in param.opts} | {"--help"}
        arguments = rest[: rest.index("--")] if "--" in rest else rest  # what follows is another program's
        assert {word for word in arguments if word.startswith("-")} <= known, args


def fills_the_disk(*arguments: str) -> None:
    """Makes sure that a command whose standard output cannot be written ends in one line."""
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "orchestrator", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert b"the standard output cannot be written: No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr
