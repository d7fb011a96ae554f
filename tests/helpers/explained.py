"""Runs of our own that `explain` compares, and the causes that it finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from helpers.report_runs import Writer
from orchestrator.cli import main


def causes(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["explain", *map(str, arguments), "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    (task,) = json.loads(result.stdout)["tasks"]
    return {(cause["cause"], *cause["also"]): cause for cause in task["causes"]}


def ours(path: Path, answers: list[str], **identity: Any) -> Writer:
    writer = Writer(path, **identity)
    for number, answer in enumerate(answers):
        writer.item(
            f"marvel/{number}", parts=[{"text": f"Which, {number}?\nA. red\nB. blue"}], answer=answer, rule="choice",
            targets=["A"], options=["red", "blue"], score=float(answer == "A"), verdict={"extracted": answer},
        )  # fmt: skip
    return writer
