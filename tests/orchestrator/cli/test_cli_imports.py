"""Imports of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RAN = """
import sys
from orchestrator.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
used = {"datasets", "httpx", "ijson", "jsonschema", "openai", "pandas", "pyarrow", "pydantic", "scipy", "statsmodels",
        "torch", "yaml"} & sys.modules.keys()
sys.exit(",".join(sorted(used)) or 0)
"""


def test_a_run_of_one_synthetic_item_imports_what_it_uses(tmp_path: Path) -> None:
    arguments = ["eval", "--task", "vstar_bench", "--synthetic", "--limit", "1", "--model", "demo:hash", "--quiet"]
    command = [sys.executable, "-c", RAN, *arguments, "--run", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").exists()
