"""`orchestrator submit`, as the tests of what it renders and follows call it."""

from __future__ import annotations

from click.testing import CliRunner, Result

from helpers.manifests import Manifest, objects
from orchestrator.cli import main


def submit(*flags: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["submit", *flags], env=env)


def submitted(*flags: str) -> list[Manifest]:
    """Returns what it renders."""
    result = submit(*flags)
    assert result.exit_code == 0, result.stderr
    return objects(result.stdout)
