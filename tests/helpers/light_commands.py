"""Command lines that import little: click in folders of their own, and nothing heavy for a `--help`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = {"grpc", "numpy", "pyarrow", "pydantic", "rich", "PIL", "jinja2", "httpx", "prometheus_client"}


def imports_click(path: Path) -> bool:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if any(name.partition(".")[0] == "click" for name in names):
            return True
    return False


def outside_of_cli(package: Path) -> set[str]:
    """Returns the files of a package that import click outside of its command lines."""
    importing = {path.relative_to(ROOT) for path in package.rglob("*.py") if imports_click(path)}
    assert importing, "the search found nothing"
    return {path.as_posix() for path in importing if not {"cli", "cli.py"} & set(path.parts)}


def shows_help_lightly(command: str) -> None:
    """Makes sure that the help of a group and of all below it imports nothing heavy."""
    module, _, name = command.partition(":")
    code = f"""
import sys
import click
from {module} import {name}

def show(command, words):
    try:
        {name}([*words, "--help"])
    except SystemExit as end:
        assert not end.code
    heavy = {HEAVY} & sys.modules.keys()
    if heavy:
        sys.exit(f"{{' '.join(words)}} --help imports {{', '.join(sorted(heavy))}}")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for sub in command.list_commands(context):
            show(command.get_command(context, sub), [*words, sub])

show({name}, [])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage:") > 1
