"""Every command of ours in README.md and docs/ names a subcommand and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from model_server.cli import main as model_server
from orchestrator.cli import main as orchestrator
from scorer.cli import main as scorer

ROOT = Path(__file__).parents[2]
PROGRAMS = {"orchestrator": orchestrator, "scorer": scorer, "model-server": model_server}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"```(?:sh|bash|console)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [found[0] for line in lines if (found := re.search(rf"(?:^|[|&] *)({'|'.join(PROGRAMS)}) .*", line.strip()))]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_what_is_written_can_be_typed(page: Path) -> None:
    for line in commands(page):
        words = shlex.split(line.lstrip("|& "), comments=True)
        found: click.Command = PROGRAMS[words[0]]
        rest = words[1:]
        while isinstance(found, click.Group) and rest and not rest[0].startswith("-"):
            context = click.Context(found)
            inner = found.get_command(context, rest[0])
            assert inner, f"{line}: there is no {rest[0]}"
            found, rest = inner, rest[1:]
        known = {name for option in found.params for name in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
        ours = rest[: rest.index("|")] if "|" in rest else rest
        unknown = {word.partition("=")[0] for word in ours if word.startswith("--") and word != "--"} - known
        assert not unknown, f"{line}: {unknown}"
