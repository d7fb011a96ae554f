"""orchestrator explain: causes that an import does not record, and figures that another tool reports."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from helpers.explained import causes, ours

from orchestrator.cli import main


def imported(folder: Path, name: str, answers: list[str], suffix: str = "") -> Path:
    """Samples of lm-evaluation-harness, imported."""
    path = folder / name / "samples_marvel_2026-11-24T00-06-01.436358.jsonl"
    path.parent.mkdir()
    lines = [
        {
            "doc_id": number, "doc": {}, "target": "A", "metrics": ["acc"], "acc": 1.0,
            "arguments": {"gen_args_0": {"arg_0": f"Which, {number}?\nA. red\nB. blue{suffix}", "arg_1": ""}},
            "resps": [[answer]], "filtered_resps": [answer],
        }
        for number, answer in enumerate(answers)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = folder / f"{name}-run"
    result = CliRunner().invoke(main, ["import", "lm-eval", str(path), "--run", str(run)])
    assert result.exit_code == 0, result.output
    return run


def test_what_an_import_does_not_record_is_not_guessed(tmp_path: Path) -> None:
    mine = ours(tmp_path / "ours", ["A", "A", "A", "A"]).close()
    alike = causes(mine, imported(tmp_path, "alike", ["A", "B", "B", "A"]))
    assert list(alike) == [("not recorded", "server")]
    assert alike["not recorded", "server"]["not_recorded"] == ["image", "decoding"]
    other = causes(mine, imported(tmp_path, "other", ["A", "B", "B", "A"], "\nAnswer:"))
    assert list(other) == [("prompt", "server")]
    assert other["prompt", "server"]["example"]["spots"]["prompt"][1].endswith("B. blue⟦ Answer:⟧")


def test_the_figure_that_a_tool_reports_is_explained_by_its_reading(tmp_path: Path) -> None:
    run = imported(tmp_path, "tool", ["A", "B", "B", "A"])  # of which the tool says that all are right
    explained = causes(run / "reported", run)
    assert list(explained) == [("reading",)]
    assert (explained["reading",]["items"], explained["reading",]["points"]) == (2, -50.0)
    assert explained["reading",]["example"]["spots"]["rule"][0] == "lm-evaluation-harness"
    mine = ours(tmp_path / "ours", ["A", "A", "B", "B"]).close()
    assert causes(run / "reported", mine).keys() == {("not recorded", "server", "reading"), ("reading",)}
