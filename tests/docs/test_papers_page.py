"""The page of the papers' tables has a line for each of them, with the command or the reason of its data file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.engine_cluster import Server
from helpers.page_commands import ROOT, commands

from orchestrator.cli import main
from orchestrator.papers.tables import papers

PAGE = (ROOT / "docs/papers.md").read_text("utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}


@pytest.mark.parametrize("key", list(papers()))
def test_each_table_has_its_line(key: str) -> None:
    paper = papers()[key]
    lines = [line for line in SECTIONS[f"{paper.name}: `{key}`"].splitlines() if line.startswith("- ")]
    assert lines == [
        f"- {table.id}, {table.title}: {table.why}" if table.why else f"- `{table.id}`: {table.title}"
        for table in paper.tables
    ]


@pytest.mark.full
def test_its_commands(tmp_path: Path, demo: Server, shared_scorer: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"synthetic": True, "limit": 17, "scorer": shared_scorer.address}
    models = {"models": {"GPT-4V": {"endpoint": demo.address}}, "options": options}
    Path("models.yaml").write_text(json.dumps(models))
    listing, remade = commands(ROOT / "docs/papers.md")
    assert "knowledge" in CliRunner().invoke(main, shlex.split(listing, comments=True)[1:]).output
    for _ in ("begun", "resumed"):
        args = shlex.split(remade.replace("MODELS", "models.yaml"), comments=True)
        shown = CliRunner().invoke(main, args[1:])
        assert shown.exit_code in (0, 3), shown.output  # 3: a model without weights may have no result
        assert "MARVEL, table 3: AVR by pattern" in shown.output
