"""A system that lacks a layer is found by trying: cells that need it do not run, and media are read with the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import clips
from helpers.engine_cluster import environment

from lyncean.cell import LAYERS, closes, holding

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cells are closed by Linux: run the tests there")
WITHOUT_LANDLOCK = Path(__file__).parents[2] / "helpers" / "without_landlock.py"
_TRIES = """
import sys
from pathlib import Path
from lyncean.cell import Cell, CellError, closes, holding
from lyncean.media import cell
print(closes(), *holding())
print(cell.read_facts("audio", Path(sys.argv[1]).read_bytes()).rate)
try:
    Cell("lyncean.cell.child:nothing").call("nothing")
except CellError as error:
    print(error)
"""


def test_this_system_has_every_layer() -> None:
    assert holding() == LAYERS
    assert closes()


def test_a_kernel_without_landlock_is_said(tmp_path: Path) -> None:
    (tmp_path / "clip.wav").write_bytes(clips.audio())
    command = [sys.executable, str(WITHOUT_LANDLOCK), sys.executable, "-c", _TRIES, str(tmp_path / "clip.wav")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.stdout.splitlines() == [
        "False seccomp rlimits",
        "8000.0",
        "a cell is not closed here: landlock does not hold on this system",
    ], done.stderr
