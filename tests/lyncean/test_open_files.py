"""The limit of open files: raised where connections need it, and named where it cannot be."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import resource, sys
from lyncean.errors import UserError
from lyncean.rpc.open_files import make_room
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 1000))
try:
    make_room(int(sys.argv[1]))
except UserError as error:
    print(error)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("connections", "warning", "limits"),
    [
        (10, "", "(300, 1000)"),
        (600, "", "(856, 1000)"),
        (1150, "1,150 model servers take about 1,406 open files, and a process may have 1,000 here", "(300, 1000)"),
    ],
)
def test_room_is_made_as_far_as_the_system_allows(connections: int, warning: str, limits: str) -> None:
    command = [sys.executable, "-c", CODE, str(connections)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *lines, last = done.stdout.splitlines()
    assert last == limits
    assert len(lines) == bool(warning)
    assert warning in done.stdout
