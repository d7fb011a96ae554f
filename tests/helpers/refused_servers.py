"""Model servers that refuse to start."""

from __future__ import annotations

from helpers import commands


def refused(*arguments: str) -> str:
    """Runs `model-server serve` in this process, which has loaded torch; returns the one line of its refusal."""
    from model_server.cli import main

    done = commands.run(main, "serve", "--port", "0", *arguments)
    assert done.exit_code == 2, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert done.stderr.strip().endswith(line)
    return line
