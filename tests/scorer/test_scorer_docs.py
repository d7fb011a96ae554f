"""What docs/write-a-rule.md shows is run as it stands there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def blocks(language: str) -> list[str]:
    page = (DOCS / "write-a-rule.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(folder), "PATH": path}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def test_the_yaml_example_scores_its_line(tmp_path: Path) -> None:
    (text,), (command,) = blocks("yaml"), blocks("sh")
    (tmp_path / "my_rules.yaml").write_text(text)
    done = run(tmp_path, "sh", "-c", command)
    assert json.loads(done.stdout)["extracted"] == "C", done.stderr


def test_the_python_examples_work_and_pass_their_tests(tmp_path: Path) -> None:
    for text in blocks("python"):
        name = re.match(r"# (\w+\.py)\n", text)
        assert name is not None
        (tmp_path / name.group(1)).write_text(text)
    done = run(tmp_path, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_rules.py")
    assert done.returncode == 0, done.stdout
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    entries = "[lynceus.rules]\nyes_no = my_rules:RULE\n[lynceus.metrics]\nshare_above = my_metrics:METRIC\n"
    (info / "entry_points.txt").write_text(entries)
    (tmp_path / "specs.json").write_text('[{"name": "share", "metric": "share_above"}]')
    (tmp_path / "items.jsonl").write_text('{"key": "k", "rule": "yes_no", "text": "Yes.", "targets": ["yes"]}\n')
    done = run(tmp_path, "scorer", "score", "items.jsonl", "--metrics", "specs.json")
    verdict, summary = [json.loads(line) for line in done.stdout.splitlines()]
    assert verdict["extracted"] == "yes"
    assert summary["summary"]["figures"][0]["value"] == 1.0
